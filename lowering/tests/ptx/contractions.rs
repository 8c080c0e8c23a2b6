//! Blocks with a contraction.

use crate::{Emitted, check as check_all, check_for, count, gelu};
use burn_mlir_ir::DType;

/// Lowers for what has these tiles: all targets, but not Hopper for types its matrix unit takes.
fn check(text: &str) -> Emitted {
    let multiplied =
        ["bf16", "f16", "flex32"].iter().any(|ty| text.contains(&format!("] : {ty}\n  %1 = load")));
    if multiplied { check_for(text, "sm_80") } else { check_all(text) }
}

/// One kernel of this grid and block, its barriers where all threads come by.
fn check_phase(emitted: &Emitted, grid: u32, block: u32) {
    let [phase] = &emitted.program.phases[..] else { panic!("{:?}", emitted.program) };
    assert_eq!(phase.symbol, "contract");
    assert_eq!((phase.grid, phase.block), ([grid, 1, 1], [block, 1, 1]));
    check_barriers(&emitted.payload);
}

/// Barriers are where all threads of a block come by: in no condition, only in loops of bounds all share.
fn check_barriers(payload: &str) {
    let lines: Vec<&str> = payload.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.contains("nvvm.barrier")) {
        let mut inside = indent(line);
        for around in lines[..at].iter().rev() {
            if indent(around) >= inside || around.is_empty() {
                continue;
            }
            inside = indent(around);
            // Bounds depend on the block of threads at most.
            let uniform = around.contains("scf.for") && around.contains("= %c0");
            let uniform = uniform || ["func.func", "module"].iter().any(|op| around.contains(op));
            assert!(uniform, "a barrier inside {around}\n{payload}");
        }
        assert_eq!(inside, 0);
    }
}

/// `out[m, n] = Σ left[..] · right[..]`.
fn product(domain: &str, left: &str, right: &str, out: &str, dtype: DType) -> String {
    format!(
        "block [{domain}] () {{
  @0 = in {dtype} align 64
  @1 = in {dtype} align 64
  @2 = out {dtype} align 64
  %0 = load @0 [{left}] : {dtype}
  %1 = load @1 [{right}] : {dtype}
  %2 = contract %0, %1 : {dtype}
  store %2 -> @2 [{out}]
}}"
    )
}

fn matrix_product(m: usize, n: usize, k: usize, dtype: DType) -> String {
    let (left, right) = (format!("{k}, 0, 1"), format!("0, 1, {n}"));
    product(&format!("p {m}, p {n}, r {k}"), &left, &right, &format!("{n}, 1, 0"), dtype)
}

#[test]
fn every_transposition() {
    let (m, n, k) = (512, 768, 1024);
    let lefts = [format!("{k}, 0, 1"), format!("1, 0, {m}")];
    let rights = [format!("0, 1, {n}"), format!("0, {k}, 1")];
    for left in &lefts {
        for right in &rights {
            for out in [format!("{n}, 1, 0"), format!("1, {m}, 0")] {
                let domain = format!("p {m}, p {n}, r {k}");
                let emitted = check(&product(&domain, left, right, &out, DType::F32));
                let [phase] = &emitted.program.phases[..] else { panic!("{:?}", emitted.program) };
                check_barriers(&emitted.payload);
                // 8 × 4 accumulators or more, 16 summed points; four of a thread's elements by one access.
                let parts = (emitted.program.shared_bytes as usize / (m * n * 4)).max(1);
                let accumulators = m * n * parts / (phase.grid[0] * phase.block[0]) as usize;
                assert!(accumulators >= 32);
                assert_eq!(count(&emitted.ptx, "fma.rn.f32"), 16 * accumulators, "{}", emitted.ptx);
                let shared = count(&emitted.ptx, "ld.shared.v4.b32");
                assert!(shared == 3 * 16 || shared == 4 * 16, "{}", emitted.ptx);
                // Operands go to workgroup memory without a stop: 16 bytes at once if they are adjacent along the
                // rows or columns, else one by one, which transposes them.
                let adjacent = usize::from(left.starts_with("1,")) + usize::from(right.starts_with("0, 1,"));
                assert_eq!(emitted.ptx.contains("cp.async.cg"), adjacent > 0, "{}", emitted.ptx);
                assert_eq!(emitted.ptx.contains("cp.async.ca"), adjacent < 2, "{}", emitted.ptx);
            }
        }
    }
}

/// Where there are enough of them, tiles have 128 × 128 elements.
#[test]
fn large_products_have_large_tiles() {
    let emitted = check(&matrix_product(4096, 4096, 4096, DType::F32));
    check_phase(&emitted, 32 * 32, 256);
    assert_eq!(count(&emitted.ptx, "fma.rn.f32"), 64 * 16, "{}", emitted.ptx);
    let emitted = check(&matrix_product(4096, 4096, 4096, DType::F64));
    check_phase(&emitted, 64 * 32, 256);
}

#[test]
fn batches() {
    let domain = "p 12, p 8, p 64, p 64, r 64";
    let (left, right) = ("32768, 64, 512, 0, 1", "32768, 64, 0, 512, 1");
    let emitted = check(&product(domain, left, right, "32768, 4096, 64, 1, 0", DType::F32));
    check_phase(&emitted, 12 * 8, 128);
}

#[test]
fn a_layer_with_its_activation_is_one_kernel() {
    for (m, n, k) in [(64, 256, 128), (4096, 4096, 1024), (100, 77, 333)] {
        let emitted = check(&gelu([m, n, k], "f32"));
        check_barriers(&emitted.payload);
        assert!(count(&emitted.ptx, "fma.rn.f32") >= 16 * 16);
        // The bias is loaded once a column.
        if n == 4096 {
            assert_eq!(count(&emitted.ptx, "ld.global.v4.b32"), 2, "{}", emitted.ptx);
        }
    }
}

/// A grouped convolution out of an unfolded input: several dimensions on each side.
#[test]
fn an_unfolded_convolution_with_groups() {
    let (batch, groups, filters, channels, size) = (8usize, 4usize, 16usize, 8usize, 30usize);
    let out = size - 2;
    let plane = size * size;
    let domain = format!("p {batch}, p {groups}, p {filters}, p {out}, p {out}, r {channels}, r 3, r 3");
    let input =
        format!("{}, {}, 0, {size}, 1, {plane}, {size}, 1", groups * channels * plane, channels * plane);
    let weights = format!("0, {}, {}, 0, 0, 9, 3, 1", filters * channels * 9, channels * 9);
    let result = format!(
        "{}, {}, {}, {out}, 1, 0, 0, 0",
        groups * filters * out * out,
        filters * out * out,
        out * out
    );
    let emitted = check(&product(&domain, &input, &weights, &result, DType::F32));
    // Filters on one side, batch and pixels on the other: 4 × 32 threads of 4 × 4 elements.
    let columns = batch * out * out;
    check_phase(&emitted, (groups * columns.div_ceil(128)) as u32, 128);
}

#[test]
fn every_type() {
    for dtype in DType::all().filter(|&dtype| dtype != DType::Bool) {
        for (m, n, k) in [(128, 128, 128), (33, 21, 50)] {
            let emitted = check(&matrix_product(m, n, k, dtype));
            let add = match dtype {
                DType::F64 => "fma.rn.f64",
                _ if dtype.is_float() => "fma.rn.f32",
                DType::I64 | DType::U64 => "mad.lo.s64",
                DType::I32 | DType::U32 => "mad.lo.s32",
                _ => "mul.lo.s16",
            };
            if matches!(dtype, DType::F16 | DType::BF16 | DType::Flex32) {
                assert!(emitted.ptx.contains("mma.sync"), "{}", emitted.ptx);
                continue;
            }
            let found = count(&emitted.ptx, add);
            let other = count(&emitted.ptx, "mad.lo.s16") + count(&emitted.ptx, "mul.lo.s64");
            assert!(found + other >= 16 * 8, "{dtype} {found} {other}\n{}", emitted.ptx);
        }
    }
}

/// Operands of one type, a result of another.
#[test]
fn operands_are_cast_before_they_are_summed() {
    let emitted = check(
        "block [p 256, p 256, r 256] () {
  @0 = in bf16 align 64
  @1 = in i8 align 64
  @2 = out f32 align 64
  %0 = load @0 [256, 0, 1] : bf16
  %1 = cast %0 : f32
  %2 = load @1 [0, 1, 256] : i8
  %3 = cast %2 : f32
  %4 = contract %1, %3 : f32
  store %4 -> @2 [256, 1, 0]
}",
    );
    check_phase(&emitted, 16, 256);
    assert!(count(&emitted.ptx, "fma.rn.f32") >= 16 * 16);
}

/// Nothing is summed: the statements after the contraction of 0, and nothing else is read.
#[test]
fn an_empty_sum() {
    for (m, n) in [(100, 64), (5, 7)] {
        let emitted = check(&gelu([m, n, 0], "f32"));
        assert_eq!(emitted.program.phases.len(), 1);
        assert!(!emitted.ptx.contains("bar.sync") && !emitted.ptx.contains(".shared"), "{}", emitted.ptx);
        assert!(emitted.ptx.contains("contract_param_3"), "{}", emitted.ptx);
        assert!(!emitted.ptx.contains("[contract_param_0]"), "{}", emitted.ptx);
    }
    let emitted = check(&product("r 0", "1", "1", "0", DType::F32));
    check_phase(&emitted, 1, 1);
}

/// Single elements, rows, columns, and sizes that fill no tile, for operands of all shapes.
#[test]
fn sizes_that_do_not_divide() {
    // 1 × 1 × 1: no dimension but the sum, and not even that.
    check_phase(&check(&product("r 9", "1", "1", "0", DType::F32)), 1, 1);
    check_phase(&check(&product("", "", "", "", DType::F32)), 1, 1);
    check(&product("p 9", "0", "1", "1", DType::F32));
    // A row and a column: the sum is shared between blocks.
    for (left, right) in [("0, 1", "1, 4000"), ("512, 1", "0, 1")] {
        let emitted = check(&product("p 4000, r 512", left, right, "1, 0", DType::F32));
        let [phase] = &emitted.program.phases[..] else { panic!("{:?}", emitted.program) };
        assert!(phase.grid[0] >= 100, "{phase:?}");
        assert_eq!(count(&emitted.ptx, "atom.acq_rel.gpu.global.inc.u32"), 1, "{}", emitted.ptx);
    }
    let sizes: [(usize, usize, usize); 6] =
        [(65, 63, 17), (1000, 777, 513), (3, 5, 7), (2, 300, 1), (300, 2, 33), (129, 64, 16)];
    for (m, n, k) in sizes {
        for dtype in [DType::F32, DType::BF16, DType::F64] {
            if k == 1 {
                let domain = format!("p {m}, p {n}");
                check(&product(&domain, "1, 0", "0, 1", &format!("{n}, 1"), dtype));
                continue;
            }
            let emitted = check(&matrix_product(m, n, k, dtype));
            check_barriers(&emitted.payload);
        }
    }
}

/// Stores of the sum and of what is computed from it, a row's value, an update in place, a random mask, a
/// transposed copy.
#[test]
fn several_stores() {
    let kernel = |m: usize, n: usize| {
        format!(
            "block [p {m}, p {n}, r 200] (f32, u32, u32) {{
  @0 = in f32 align 64
  @1 = in f32 align 64
  @2 = inout f32 align 64
  @3 = out f16 align 64
  @4 = out bool align 64
  @5 = in f32 align 64
  %0 = load @0 [200, 0, 1] : f32
  %1 = load @1 [0, 1, {n}] : f32
  %2 = contract %0, %1 : f32
  %3 = load @2 [{n}, 1, 0] : f32
  %4 = scalar $0 : f32
  %5 = load @5 [1, 0, 0] : f32
  %6 = mul %2, %4 : f32
  %7 = add %6, %3 : f32
  %8 = add %7, %5 : f32
  %9 = random key $1 stream $2 [{n}, 1, 0] offset 0 : u32
  %10 = cast %9 : f32
  %11 = lt %10, %8 : bool
  %12 = cast %8 : f16
  store %8 -> @2 [{n}, 1, 0]
  store %12 -> @3 [1, {m}, 0]
  store %11 -> @4 [{n}, 1, 0]
}}"
        )
    };
    for (m, n) in [(128, 192), (37, 55)] {
        let emitted = check(&kernel(m, n));
        check_barriers(&emitted.payload);
        assert!(emitted.ptx.contains("st.global.b16") && emitted.ptx.contains("st.global.b8") == (n == 55));
    }
}

/// Zero and negative strides.
#[test]
fn broadcast_and_flipped_operands() {
    let emitted = check(&product("p 64, p 64, r 64", "-64, 0, -1", "0, -1, 64", "64, 1, 0", DType::F32));
    check_phase(&emitted, 2, 128);
    // Dimensions of one side only.
    let emitted = check(&product("p 64, p 64, r 64", "-64, 0, -1", "0, 0, 1", "64, 1, 0", DType::F32));
    check_barriers(&emitted.payload);
}

/// Bytes that become f32 where they are read: the codes of a quantised matrix.
#[test]
fn operands_of_bytes() {
    for (m, n, k) in [(3, 256, 128), (64, 96, 80), (256, 512, 1024)] {
        for (dtype, right) in [("i8", format!("0, 1, {n}")), ("u8", format!("0, {k}, 1"))] {
            let emitted = check(&format!(
                "block [p {m}, p {n}, r {k}] () {{
  @0 = in f32 align 64
  @1 = in {dtype} align 64
  @2 = in f32 align 64
  @3 = out f32 align 64
  %0 = load @0 [{k}, 0, 1] : f32
  %1 = load @1 [{right}] : {dtype}
  %2 = cast %1 : f32
  %3 = contract %0, %2 : f32
  %4 = load @2 [0, 0, 0] : f32
  %5 = mul %3, %4 : f32
  store %5 -> @3 [{n}, 1, 0]
}}"
            ));
            check_barriers(&emitted.payload);
            assert!(
                emitted.ptx.contains("fma.rn.f32") && emitted.ptx.contains("cvt.rn.f32"),
                "{}",
                emitted.ptx
            );
        }
    }
}
