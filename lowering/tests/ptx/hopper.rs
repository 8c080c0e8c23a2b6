//! Contractions by warpgroup matrix instructions.

use crate::{Emitted, assemble, check_for, count, emit_for, gelu};
use burn_mlir_ir::{NvptxTarget, Target};
use std::time::Instant;

/// A matrix product; `transposed` says which operands are adjacent along rows (left) and along the sum (right).
fn product([m, n, k]: [usize; 3], [left, right]: [bool; 2], dtype: &str) -> String {
    let left = if left { format!("1, 0, {m}") } else { format!("{k}, 0, 1") };
    let right = if right { format!("0, {k}, 1") } else { format!("0, 1, {n}") };
    format!(
        "block [p {m}, p {n}, r {k}] () {{
  @0 = in {dtype} align 64
  @1 = in {dtype} align 64
  @2 = out {dtype} align 64
  %0 = load @0 [{left}] : {dtype}
  %1 = load @1 [{right}] : {dtype}
  %2 = contract %0, %1 : {dtype}
  store %2 -> @2 [{n}, 1, 0]
}}"
    )
}

/// Lowers and assembles: matrix instructions, which nothing makes wait for each other.
fn check(text: &str) -> Emitted {
    let start = Instant::now();
    let emitted = check_for(text, "sm_90a");
    assert!(emitted.ptx.contains("wgmma.mma_async"), "{text}\n{}", emitted.ptx);
    if let Some(said) = assemble(&emitted.ptx, "sm_90a") {
        assert!(!said.contains("C75") && !said.contains("C76"), "{said}\n{text}");
        assert!(!said.contains("warning"), "{said}\n{text}");
        let used = said.lines().find(|line| line.contains("Used")).unwrap_or_default();
        let [phase] = &emitted.program.phases[..] else { panic!() };
        eprintln!(
            "{:?} grid {:?} memory {} {used} {:?}",
            text.lines().next().unwrap(),
            phase.grid,
            phase.workgroup_bytes,
            start.elapsed()
        );
    }
    emitted
}

/// For a look at a kernel's machine code.
#[test]
#[ignore = "writes the kernel in the file BURN_MLIR_TEST_KERNEL to the dump directory"]
fn dump() {
    let [kernel, directory] =
        ["BURN_MLIR_TEST_KERNEL", "BURN_MLIR_TEST_DUMP"].map(|v| std::env::var(v).unwrap());
    let multiprocessors = std::env::var("BURN_MLIR_TEST_MULTIPROCESSORS").ok().and_then(|v| v.parse().ok());
    let target = Target::Nvptx(NvptxTarget::new("sm_90a", multiprocessors));
    let emitted = emit_for(&std::fs::read_to_string(kernel).unwrap(), &target);
    std::fs::write(format!("{directory}/program"), format!("{:?}", emitted.program)).unwrap();
}

#[test]
fn every_transposition() {
    for shape in [[8192; 3], [4096; 3], [1024; 3]] {
        for left in [false, true] {
            for right in [false, true] {
                let emitted = check(&product(shape, [left, right], "bf16"));
                let flags = format!("p, 1,  1, {},  {};", u8::from(left), u8::from(!right));
                assert!(count(&emitted.ptx, &flags) > 0, "{flags}\n{}", emitted.ptx);
            }
        }
    }
}

/// TF32: the operand that is adjacent along rows or columns goes through registers; only one can.
#[test]
fn single_precision() {
    for shape in [[4096; 3], [1024; 3], [256, 136, 520]] {
        for (forms, registers) in [([false, true], false), ([false, false], true), ([true, true], true)] {
            let emitted = check(&product(shape, forms, "flex32"));
            assert!(emitted.ptx.contains(".tf32.tf32"), "{}", emitted.ptx);
            assert_eq!(emitted.ptx.contains("ld.shared.b32"), registers, "{}", emitted.ptx);
        }
    }
}

/// Sizes that fill no tile, with the largest and the smallest tiles.
#[test]
fn sizes_that_do_not_divide() {
    for shape in [[1000, 1096, 520], [129, 72, 8], [7, 65, 1000], [300, 1000, 72]] {
        for right in [false, true] {
            if right || shape[1] % 8 == 0 {
                check(&product(shape, [false, right], "f16"));
            }
        }
    }
}

#[test]
fn a_layer_with_its_activation() {
    // With several tiles for each block, one is finished while the next is multiplied.
    for (shape, deferred) in
        [([8192, 16384, 4096], true), ([1024; 3], false), ([4096, 3000, 1096], true), ([100, 200, 64], false)]
    {
        let emitted = check(&gelu(shape, "bf16"));
        assert_eq!(emitted.ptx.contains("ldmatrix"), deferred, "{shape:?}\n{}", emitted.ptx);
        assert!(emitted.ptx.contains("cp.async.bulk.tensor.2d.global.shared::cta"), "{}", emitted.ptx);
        // Both halves of a pair at once.
        assert!(emitted.ptx.contains("add.rn.bf16x2") && emitted.ptx.contains("cvt.rn.bf16x2.f32"));
    }
}

/// Few tiles and a long sum: parts of it are added by the last to finish, in a fixed order.
#[test]
fn sums_are_cut_where_tiles_are_few() {
    for (shape, dtype) in [
        ([768, 768, 8192], "bf16"),
        ([64, 128, 4096], "f16"),
        ([64, 40, 3000], "bf16"),
        ([256, 256, 4096], "flex32"),
    ] {
        for forms in [[false, true], [true, false]] {
            if forms[0] && dtype == "flex32" {
                continue;
            }
            let emitted = check(&product(shape, forms, dtype));
            assert!(emitted.ptx.contains("atom.acq_rel.gpu.global.inc.u32"), "{}", emitted.ptx);
            assert!(emitted.program.shared_bytes > 0 && emitted.program.phases[0].grid[0] <= 132);
        }
    }
    let emitted = check(&product([4096; 3], [false; 2], "bf16"));
    assert_eq!(emitted.program.shared_bytes, 0);
}

/// Attention's products, of interleaved heads, and a matrix for many.
#[test]
fn batches() {
    for (domain, left, right, out) in [
        // Scores, and values weighted by them: 8 sequences of 1024, 12 heads of 64.
        (
            "p 8, p 12, p 1024, p 1024, r 64",
            "786432, 64, 768, 0, 1",
            "786432, 64, 0, 768, 1",
            "12582912, 1048576, 1024, 1, 0",
        ),
        (
            "p 8, p 12, p 1024, p 64, r 1024",
            "12582912, 1048576, 1024, 0, 1",
            "786432, 64, 0, 1, 768",
            "786432, 64, 768, 1, 0",
        ),
        // Rows of several sequences, results in heads.
        (
            "p 8, p 1024, p 12, p 64, r 768",
            "786432, 768, 0, 0, 1",
            "0, 0, 64, 1, 768",
            "786432, 64, 65536, 1, 0",
        ),
        // Gradient of weights: both operands along their sides.
        ("p 768, p 3072, r 8192", "1, 0, 768", "0, 1, 3072", "3072, 1, 0"),
    ] {
        let emitted = check(&format!(
            "block [{domain}] () {{
  @0 = in bf16 align 64
  @1 = in bf16 align 64
  @2 = out bf16 align 64
  %0 = load @0 [{left}] : bf16
  %1 = load @1 [{right}] : bf16
  %2 = contract %0, %1 : bf16
  store %2 -> @2 [{out}]
}}"
        ));
        assert!(emitted.ptx.contains("global.shared::cta"), "{}", emitted.ptx);
    }
}

/// Operands whose rows begin anywhere are copied to scratch first, where that is worth it.
#[test]
fn operands_in_rows_of_odd_length() {
    for (shape, forms, copies) in [
        ([8192, 50257, 768], [false, false], vec!["copy_right"]),
        ([768, 50257, 8192], [true, false], vec!["copy_right"]),
        ([8192, 768, 50257], [false, true], vec!["copy_left", "copy_right"]),
    ] {
        let emitted = check_for(&product(shape, forms, "bf16"), "sm_90a");
        let symbols: Vec<_> = emitted.program.phases.iter().map(|phase| phase.symbol.as_str()).collect();
        assert_eq!(symbols, [copies, vec!["contract"]].concat());
        assert!(emitted.ptx.contains("wgmma.mma_async"));
        let scratch = emitted.program.phases.last().unwrap().tensor_maps.iter().filter(|map| map.param == 3);
        assert!(scratch.count() > 0 && emitted.program.shared_bytes > 0);
    }
    // Not for a few rows.
    let emitted = check_for(&product([16, 50257, 768], [false, false], "bf16"), "sm_90a");
    assert!(!emitted.ptx.contains("wgmma"), "{}", emitted.ptx);
    // TF32 of which both operands are adjacent along their sides.
    let emitted = check_for(&product([768, 3072, 8192], [true, false], "flex32"), "sm_90a");
    assert!(emitted.ptx.contains("entry copy_right") && emitted.ptx.contains("wgmma"), "{}", emitted.ptx);
}

/// A residual that is updated in place, values of rows and columns, a scalar, and results of other types, some of
/// them transposed.
#[test]
fn several_results() {
    let kernel = |m: usize, n: usize, k: usize| {
        format!(
            "block [p {m}, p {n}, r {k}] (f32) {{
  @0 = in bf16 align 64
  @1 = in bf16 align 64
  @2 = in f32 align 64
  @3 = in bf16 align 2
  @4 = inout bf16 align 64
  @5 = out f32 align 64
  @6 = out bool align 64
  @7 = out f16 align 64
  %0 = load @0 [{k}, 0, 1] : bf16
  %1 = load @1 [0, {k}, 1] : bf16
  %2 = contract %0, %1 : bf16
  %3 = cast %2 : f32
  %4 = scalar $0 : f32
  %5 = mul %3, %4 : f32
  %6 = load @2 [1, 0, 0] : f32
  %7 = add %5, %6 : f32
  %8 = load @3 [0, 1, 0] : bf16
  %9 = cast %8 : f32
  %10 = mul %7, %9 : f32
  %11 = load @4 [{n}, 1, 0] : bf16
  %12 = cast %10 : bf16
  %13 = add %11, %12 : bf16
  %14 = lt %7, %10 : bool
  %15 = tanh %13 : bf16
  %16 = select %14, %15, %13 : bf16
  %17 = cast %16 : f16
  store %16 -> @4 [{n}, 1, 0]
  store %10 -> @5 [{n}, 1, 0]
  store %14 -> @6 [{n}, 1, 0]
  store %17 -> @7 [1, {m}, 0]
}}"
        )
    };
    for (m, n, k) in
        [(128, 256, 512), (4096, 4096, 2048), (1000, 1111, 520), (4096, 2050, 1032), (256, 128, 8192)]
    {
        check(&kernel(m, n, k));
    }
}

/// Both operands are copied to scratch first.
#[test]
fn odd_extents_of_every_transposition() {
    for left in [false, true] {
        for right in [false, true] {
            let emitted = check_for(&product([300, 257, 75], [left, right], "bf16"), "sm_90a");
            let symbols: Vec<_> = emitted.program.phases.iter().map(|phase| phase.symbol.as_str()).collect();
            assert_eq!(symbols, ["copy_left", "copy_right", "contract"]);
        }
    }
}
