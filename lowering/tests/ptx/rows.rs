//! Blocks that reduce.

use crate::check;
use burn_mlir_ir::DType;

/// Softmax over the last axis of `[rows, columns]`.
fn softmax(rows: usize, columns: usize, dtype: &str) -> String {
    format!(
        "block [p {rows}, r {columns}] () {{
  @0 = in {dtype} align 64
  @1 = out {dtype} align 64
  %0 = load @0 [{columns}, 1] : {dtype}
  %1 = cast %0 : f32
  %2 = reduce max %1 : f32
  %3 = sub %1, %2 : f32
  %4 = exp %3 : f32
  %5 = reduce sum %4 : f32
  %6 = div %4, %5 : f32
  %7 = cast %6 : {dtype}
  store %7 -> @1 [{columns}, 1]
}}"
    )
}

#[test]
fn softmax_keeps_rows_in_registers() {
    for (rows, columns) in [(8192, 8192), (100, 1000), (3, 7), (4096, 64)] {
        for dtype in ["f32", "bf16", "f16"] {
            let emitted = check(&softmax(rows, columns, dtype));
            assert_eq!(emitted.program.phases.len(), 1);
            // One read and one write of each element, as wide as it gets.
            let loads = emitted.ptx.matches("ld.global").count();
            let stores = emitted.ptx.matches("st.global").count();
            assert_eq!(loads, stores, "{}", emitted.ptx);
            if columns % 8 == 0 {
                assert_eq!(emitted.ptx.matches("ld.global.v4.b32").count(), loads, "{}", emitted.ptx);
            }
            assert_eq!(emitted.ptx.contains("bar"), columns > 1000 || columns == 1000 && dtype == "f32");
        }
    }
}

#[test]
fn layer_norm_is_one_kernel() {
    let emitted = check(
        "block [p 16384, r 4096] (f32, f32) {
  @0 = in bf16 align 64
  @1 = in bf16 align 64
  @2 = in bf16 align 64
  @3 = out bf16 align 64
  @4 = out f32 align 64
  %0 = load @0 [4096, 1] : bf16
  %1 = cast %0 : f32
  %2 = scalar $0 : f32
  %3 = reduce sum %1 : f32
  %4 = mul %3, %2 : f32
  %5 = sub %1, %4 : f32
  %6 = mul %5, %5 : f32
  %7 = reduce sum %6 : f32
  %8 = mul %7, %2 : f32
  %9 = scalar $1 : f32
  %10 = add %8, %9 : f32
  %11 = rsqrt %10 : f32
  %12 = mul %5, %11 : f32
  %13 = load @1 [0, 1] : bf16
  %14 = cast %13 : f32
  %15 = mul %12, %14 : f32
  %16 = load @2 [0, 1] : bf16
  %17 = cast %16 : f32
  %18 = add %15, %17 : f32
  %19 = cast %18 : bf16
  store %19 -> @3 [4096, 1]
  store %4 -> @4 [1, 0]
}",
    );
    assert_eq!(emitted.program.phases.len(), 1);
    assert_eq!(emitted.program.phases[0].grid, [16384, 1, 1]);
    assert_eq!(emitted.program.shared_bytes, 0);
}

fn reduction(domain: &str, strides: &str, out: &str, op: &str, from: DType, to: DType) -> String {
    format!(
        "block [{domain}] () {{
  @0 = in {from} align 64
  @1 = out {to} align 64
  %0 = load @0 [{strides}] : {from}
  %1 = {op} %0 : {to}
  store %1 -> @1 [{out}]
}}"
    )
}

/// A sum of everything is split over blocks; the last one to come combines their partial results.
#[test]
fn the_last_block_finishes_a_long_sum() {
    for (size, dtype) in
        [(1usize << 28, DType::F32), (1_000_003, DType::F32), (1 << 26, DType::F16), (1 << 22, DType::I64)]
    {
        let emitted = check(&reduction(&format!("r {size}"), "1", "0", "reduce sum", dtype, dtype));
        let phases = &emitted.program.phases;
        assert_eq!(phases.len(), 1, "{phases:?}");
        assert!(phases[0].grid[1] >= 32 && phases[0].grid[0] == 1, "{phases:?}");
        let accumulator = if dtype == DType::I64 { 8 } else { 4 };
        assert!(emitted.program.shared_bytes >= u64::from(phases[0].grid[1]) * accumulator);
        // Sixteen bytes at a time also where the size is odd.
        let wide = emitted.ptx.contains("ld.global.v4.b32") || emitted.ptx.contains("ld.global.v2.b64");
        assert!(wide, "{}", emitted.ptx);
        // What a block has left is seen before it is counted, and counted before it is read.
        let counted = emitted.ptx.find("atom.global.add.u32").unwrap();
        let fences: Vec<_> = emitted.ptx.match_indices("fence.acq_rel.gpu").map(|found| found.0).collect();
        assert_eq!(fences.len(), 2, "{}", emitted.ptx);
        assert!(fences[0] < counted && counted < fences[1]);
    }
}

/// Rows whose length is odd, such as a vocabulary's, are read by aligned chunks all the same.
#[test]
fn rows_of_odd_length_are_wide_between_their_edges() {
    for dtype in ["f32", "bf16"] {
        let emitted = check(&softmax(8192, 50257, dtype));
        assert_eq!(emitted.program.phases.len(), 1);
        assert!(emitted.ptx.contains("ld.global.v4.b32") && emitted.ptx.contains("st.global.v4.b32"));
    }
}

/// Softmax of one long row: each reduction, then the store, over all blocks.
#[test]
fn a_long_row_is_split_at_every_level() {
    let emitted = check(&softmax(2, 1 << 22, "bf16"));
    let symbols: Vec<_> = emitted.program.phases.iter().map(|phase| phase.symbol.as_str()).collect();
    assert_eq!(symbols, ["partial0", "partial1", "row"]);
    assert!(emitted.program.phases.iter().all(|phase| phase.grid[1] == emitted.program.phases[0].grid[1]));
}

/// Over the first axis, neighbouring threads take neighbouring columns.
#[test]
fn sums_of_columns_are_contiguous() {
    for (rows, columns) in [(4096, 4096), (100, 1000), (7, 5), (1 << 20, 32)] {
        let text = reduction(
            &format!("r {rows}, p {columns}"),
            &format!("{columns}, 1"),
            "0, 1",
            "reduce sum",
            DType::F32,
            DType::F32,
        );
        let emitted = check(&text);
        assert_eq!(emitted.ptx.contains("ld.global.v4.b32"), columns % 4 == 0, "{}", emitted.ptx);
    }
}

/// Every operation a type has, all in one kernel.
fn all_reductions(domain: &str, strides: &str, out: &str, dtype: DType) -> String {
    let mut ops = vec![("reduce max", dtype), ("reduce min", dtype)];
    if dtype != DType::Bool {
        ops.extend([
            ("reduce sum", dtype),
            ("reduce prod", dtype),
            ("argmax", DType::I32),
            ("argmin", DType::I64),
        ]);
    }
    let (mut params, mut body, mut stores) = (String::new(), String::new(), String::new());
    for (index, (op, to)) in ops.iter().enumerate() {
        let index = index + 1;
        params += &format!("  @{index} = out {to} align 64\n");
        body += &format!("  %{index} = {op} %0 : {to}\n");
        stores += &format!("  store %{index} -> @{index} [{out}]\n");
    }
    let load = format!("  %0 = load @0 [{strides}] : {dtype}\n");
    format!("block [{domain}] () {{\n  @0 = in {dtype} align 64\n{params}{load}{body}{stores}}}")
}

#[test]
fn every_reduction_of_every_type() {
    for dtype in DType::all() {
        check(&all_reductions("p 70, r 3000", "3000, 1", "1, 0", dtype));
        check(&all_reductions("r 50, p 36", "36, 1", "0, 1", dtype));
        let emitted = check(&all_reductions("r 5000000", "1", "0", dtype));
        assert_eq!(emitted.program.phases.len(), 1);
    }
}

/// Several reduced axes, with a parallel one between them (a mean over batch and space).
#[test]
fn reductions_around_a_parallel_axis() {
    let emitted = check(&reduction(
        "r 32, p 64, r 3136",
        "200704, 3136, 1",
        "0, 1, 0",
        "reduce sum",
        DType::F32,
        DType::F32,
    ));
    assert!(emitted.ptx.contains("ld.global.v4.b32"));
}

/// Nothing is reduced: the identity, and nothing is read.
#[test]
fn an_empty_reduction_reads_nothing() {
    let emitted = check(&reduction("p 10, r 0", "0, 1", "1, 0", "reduce sum", DType::F32, DType::F32));
    assert!(!emitted.ptx.contains("ld.global"), "{}", emitted.ptx);
    let emitted = check(&reduction("r 0", "1", "0", "reduce max", DType::F32, DType::F32));
    assert!(!emitted.ptx.contains("ld.global"), "{}", emitted.ptx);
}

/// An index that is data inside a reduction.
#[test]
fn a_gather_before_a_reduction() {
    let emitted = check(
        "block [p 100, r 77] () {
  @0 = in f32 align 64
  @1 = in i32 align 64
  @2 = out f32 align 64
  %0 = load @1 [77, 1] : i32
  %1 = gather @0 [0, 0] index %0 stride 1 extent 1000 : f32
  %2 = reduce sum %1 : f32
  store %2 -> @2 [1, 0]
}",
    );
    assert!(emitted.ptx.contains("row_param_4"));
}

/// A row's statistic that is replaced while every thread of the row needs the old one.
#[test]
fn row_values_are_stored_in_place_when_all_have_read_them() {
    let kernel = |rows: usize, columns: usize| {
        format!(
            "block [p {rows}, r {columns}] () {{
  @0 = in f32 align 64
  @1 = inout f32 align 64
  @2 = out f32 align 64
  %0 = load @0 [{columns}, 1] : f32
  %1 = load @1 [1, 0] : f32
  %2 = reduce sum %0 : f32
  %3 = add %1, %2 : f32
  %4 = mul %0, %3 : f32
  store %3 -> @1 [1, 0]
  store %4 -> @2 [{columns}, 1]
}}"
        )
    };
    let emitted = check(&kernel(1000, 4096));
    let position = |text: &str| emitted.ptx.rfind(text).unwrap();
    let (barrier, wide, narrow) = (position("bar.sync"), position("st.global.v4"), position("st.global.b32"));
    assert!(wide < barrier && barrier < narrow, "{}", emitted.ptx);
    // Blocks cannot wait for each other: a kernel of its own.
    let emitted = check(&kernel(2, 1 << 22));
    let symbols: Vec<_> = emitted.program.phases.iter().map(|phase| phase.symbol.as_str()).collect();
    assert_eq!(symbols, ["partial0", "row", "results"]);
}
