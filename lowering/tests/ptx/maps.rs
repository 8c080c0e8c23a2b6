//! Blocks without reductions.

use crate::{check, check_for, count, emit};
use burn_mlir_ir::{BinaryOp, CompareOp, DType, Kernel, UnaryOp};

#[test]
fn contiguous_maps_move_sixteen_bytes_at_a_time() {
    let kernel = |size: usize, dtype: &str| {
        format!(
            "block [p {size}] () {{
  @0 = in {dtype} align 64
  @1 = in {dtype} align 64
  @2 = out {dtype} align 64
  %0 = load @0 [1] : {dtype}
  %1 = load @1 [1] : {dtype}
  %2 = mul %0, %1 : {dtype}
  %3 = add %2, %0 : {dtype}
  store %3 -> @2 [1]
}}"
        )
    };
    // 2^26 elements: 16 a thread.
    let emitted = check(&kernel(1 << 26, "f32"));
    assert_eq!(emitted.program.phases[0].grid, [(1 << 26) / (256 * 16), 1, 1]);
    assert_eq!(count(&emitted.ptx, "ld.global.v4.b32"), 8);
    assert_eq!(count(&emitted.ptx, "st.global.v4.b32"), 4);
    assert_eq!(count(&emitted.ptx, "ld.global"), 8);
    assert_eq!(count(&emitted.ptx, "fma.rn"), 0, "nothing may be contracted");
    for dtype in ["f64", "f16", "bf16", "i64", "i32", "u8"] {
        let emitted = check(&kernel(1 << 26, dtype));
        let wide = count(&emitted.ptx, "ld.global.v4.b32") + count(&emitted.ptx, "ld.global.v2.b64");
        assert_eq!((wide, count(&emitted.ptx, "ld.global")), (wide, wide), "{dtype}\n{}", emitted.ptx);
        assert!(wide >= 2, "{dtype}");
    }
}

/// Sizes that fill no block, no chunk, nothing.
#[test]
fn sizes_that_do_not_divide() {
    for size in [2usize, 3, 5, 1000, 4099, (1 << 22) + 4, (1 << 26) + 1] {
        let emitted = check(&format!(
            "block [p {size}] (f32) {{
  @0 = inout f32 align 16
  %0 = load @0 [1] : f32
  %1 = scalar $0 : f32
  %2 = mul %0, %1 : f32
  store %2 -> @0 [1]
}}"
        ));
        let phase = &emitted.program.phases[0];
        let threads = u64::from(phase.grid[0]) * u64::from(phase.block[0]);
        assert!(threads * 16 + 3 >= size as u64, "{phase:?}");
        let width = if size < 4 { 2 } else { 4 };
        assert!(emitted.ptx.contains(&format!("st.global.v{width}.b32")), "{}", emitted.ptx);
        assert_eq!(emitted.ptx.contains("st.global.b32"), size % width != 0, "{}", emitted.ptx);
    }
}

/// More blocks than one extent of a grid can have.
#[test]
fn a_map_without_end() {
    let emitted = check(&format!(
        "block [p {}] () {{\n  @0 = out f32 align 64\n  %0 = constant 7.0 : f32\n  store %0 -> @0 [1]\n}}",
        (1u64 << 45) + 1
    ));
    let [x, y, _] = emitted.program.phases[0].grid.map(u64::from);
    assert!(x * y * 256 * 16 >= 1 << 45 && y > 1 && y < 1 << 16, "{x} {y}");
}

/// A point: no dimension at all.
#[test]
fn a_single_element() {
    let emitted =
        check("block [] () {\n  @0 = out i32 align 4\n  %0 = constant 7 : i32\n  store %0 -> @0 []\n}");
    assert_eq!(emitted.program.phases[0].grid, [1, 1, 1]);
}

const TABLE: &[(&str, &str)] = &[
    (
        "bias and activation: a broadcast row",
        "block [p 1024, p 512] () {
  @0 = in f32 align 64
  @1 = in f32 align 64
  @2 = out f32 align 64
  %0 = load @0 [512, 1] : f32
  %1 = load @1 [0, 1] : f32
  %2 = add %0, %1 : f32
  %3 = constant 0.0 : f32
  %4 = max %2, %3 : f32
  store %4 -> @2 [512, 1]
}",
    ),
    (
        "a broadcast column, two stores of two types",
        "block [p 1024, p 512] () {
  @0 = in bf16 align 64
  @1 = in bf16 align 2
  @2 = out bf16 align 64
  @3 = out bool align 64
  %0 = load @0 [512, 1] : bf16
  %1 = load @1 [1, 0] : bf16
  %2 = sub %0, %1 : bf16
  %3 = gt %2, %1 : bool
  %4 = exp %2 : bf16
  store %4 -> @2 [512, 1]
  store %3 -> @3 [512, 1]
}",
    ),
    (
        "a transposed operand",
        "block [p 768, p 512] () {
  @0 = in f32 align 64
  @1 = in f32 align 64
  @2 = out f32 align 64
  %0 = load @0 [512, 1] : f32
  %1 = load @1 [1, 768] : f32
  %2 = add %0, %1 : f32
  store %2 -> @2 [512, 1]
}",
    ),
    (
        "flipped and strided",
        "block [p 33, p 65] () {
  @0 = in f16 align 2
  @1 = out f32 align 4
  %0 = load @0 [200, -3] : f16
  %1 = cast %0 : f32
  store %1 -> @1 [65, 1]
}",
    ),
    (
        "an embedding: rows taken at indices",
        "block [p 4096, p 768] () {
  @0 = in bf16 align 64
  @1 = in i64 align 8
  @2 = out bf16 align 64
  %0 = load @1 [1, 0] : i64
  %1 = gather @0 [0, 1] index %0 stride 768 extent 50257 : bf16
  store %1 -> @2 [768, 1]
}",
    ),
    (
        "indices that differ by lane",
        "block [p 1000] () {
  @0 = in f32 align 4
  @1 = in u32 align 64
  @2 = out f32 align 64
  %0 = load @1 [1] : u32
  %1 = gather @0 [0] index %0 stride 3 extent 100 : f32
  store %1 -> @2 [1]
}",
    ),
    (
        "random numbers, positions and scalars",
        "block [p 10, p 1000] (u32, u32, bool, f64, bf16) {
  @0 = out f32 align 64
  @1 = out i64 align 64
  %0 = random key $0 stream $1 [1000, 1] offset 5 : u32
  %1 = cast %0 : f32
  %2 = scalar $2 : bool
  %3 = scalar $3 : f64
  %4 = cast %3 : f32
  %5 = select %2, %1, %4 : f32
  %6 = scalar $4 : bf16
  %7 = cast %6 : f32
  %8 = add %5, %7 : f32
  %9 = index [0, 2] offset -3 : i64
  store %8 -> @0 [1000, 1]
  store %9 -> @1 [1, 10]
}",
    ),
    (
        "nothing is read",
        "block [p 100000] () {
  @0 = out bool align 64
  %0 = constant 1 : bool
  store %0 -> @0 [1]
}",
    ),
];

#[test]
fn table() {
    for (name, text) in TABLE {
        let emitted = check(text);
        assert_eq!(emitted.program.phases.len(), 1, "{name}");
    }
}

#[test]
fn indices_out_of_range_are_reported() {
    let emitted = emit(TABLE[4].1, "sm_80");
    // The status is the last argument: three buffers, the scratch, then it.
    assert!(emitted.ptx.contains("ld.param.b64") && emitted.ptx.contains("map_param_4"), "{}", emitted.ptx);
    let quiet = emit(TABLE[0].1, "sm_80");
    assert!(!quiet.ptx.contains("[map_param_4]"), "{}", quiet.ptx);
}

/// Every conversion between element types.
#[test]
fn all_types() {
    for from in DType::all() {
        let mut text = format!("block [p 100, p 37] () {{\n  @0 = in {from} align 8\n");
        let all: Vec<_> = DType::all().collect();
        for (index, to) in all.iter().enumerate() {
            text += &format!("  @{} = out {to} align 8\n", index + 1);
        }
        text += &format!("  %0 = load @0 [40, 1] : {from}\n");
        for (index, to) in all.iter().enumerate() {
            text += &format!("  %{} = cast %0 : {to}\n", index + 1);
        }
        for index in 1..=all.len() {
            text += &format!("  store %{index} -> @{index} [37, 1]\n");
        }
        check(&(text + "}"));
    }
}

/// Every function of every type it has: the code generator takes it, without a library.
#[test]
fn all_functions() {
    let functions = (UnaryOp::ALL.iter().map(|op| (op.name(), "%0")))
        .chain(BinaryOp::ALL.iter().map(|op| (op.name(), "%0, %1")))
        .chain(CompareOp::ALL.iter().map(|op| (op.name(), "%0, %1")));
    let functions: Vec<_> = functions.collect();
    let mut checked = 0;
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::I64, DType::U8, DType::Bool] {
        for (name, operands) in &functions {
            for result in [dtype, DType::Bool] {
                let text = format!(
                    "block [p 4096] () {{
  @0 = in {dtype} align 64
  @1 = in {dtype} align 64
  @2 = out {result} align 64
  %0 = load @0 [1] : {dtype}
  %1 = load @1 [1] : {dtype}
  %2 = {name} {operands} : {result}
  store %2 -> @2 [1]
}}"
                );
                // Not every function has every type.
                if Kernel::parse(&text).unwrap().verify().is_ok() {
                    check_for(&text, "sm_80");
                    checked += 1;
                    break;
                }
            }
        }
    }
    // Floats have all but the five functions of bits: neg to isinf, add to atan2, eq to ge.
    let floats = 3 * (UnaryOp::ALL.len() - 1 + BinaryOp::ALL.len() - 5 + CompareOp::ALL.len());
    assert!(checked >= floats, "{checked} of {floats}");
}

#[test]
fn a_short_kernel_in_full() {
    let emitted = emit(
        "block [p 1024] () {
  @0 = in f32 align 64
  @1 = out f32 align 64
  %0 = load @0 [1] : f32
  %1 = add %0, %0 : f32
  store %1 -> @1 [1]
}",
        "sm_90a",
    );
    insta::with_settings!({ snapshot_path => "../../../snapshots", prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("ptx_of_a_short_map", emitted.ptx);
    });
}
