//! Contractions: epilogues, windows, order of operands.

use crate::fusion::{blocks, count, domain, planned};
use burn_mlir_ir::{DType, Instr};

#[test]
fn a_dense_layer_with_gelu_is_one_kernel() {
    let plan = planned(
        "graph () {
          %0 = input 0 : f32[2, 3, 8]
          %1 = input 1 : f32[8, 5]
          %2 = reshape %0 : f32[6, 8]
          %3 = contract \"mk,kn->mn\" %2, %1 : f32[6, 5]
          %4 = reshape %3 : f32[2, 3, 5]
          %5 = input 2 : f32[5]
          %6 = reshape %5 : f32[1, 1, 5]
          %7 = expand %6 : f32[2, 3, 5]
          %8 = add %4, %7 : f32[2, 3, 5]
          %9 = constant 0.5 : f32[2, 3, 5]
          %10 = mul %8, %9 : f32[2, 3, 5]
          %11 = erf %8 : f32[2, 3, 5]
          %12 = mul %10, %11 : f32[2, 3, 5]
          return %12, %8
        }",
    );
    assert_eq!(plan.launches.len(), 1);
    insta::assert_snapshot!(plan.kernels[0], @r"
    block [p 6, p 5, r 8] () {
      @0 = in f32 align 4
      @1 = in f32 align 4
      @2 = in f32 align 4
      @3 = out f32 align 64
      @4 = out f32 align 64
      %0 = load @0 [8, 0, 1] : f32
      %1 = load @1 [0, 1, 5] : f32
      %2 = contract %0, %1 : f32
      %3 = load @2 [0, 1, 0] : f32
      %4 = add %2, %3 : f32
      %5 = constant 0.5 : f32
      %6 = mul %4, %5 : f32
      %7 = erf %4 : f32
      %8 = mul %6, %7 : f32
      store %4 -> @3 [5, 1, 0]
      store %8 -> @4 [5, 1, 0]
    }
    ");
}

/// Fill the padding, copy into it, contract over windows with bias and activation.
#[test]
fn a_padded_convolution_is_a_contraction_over_windows() {
    let plan = planned(
        "graph () {
          %0 = input 0 : f32[2, 3, 6, 6]
          %1 = constant 0.0 : f32[2, 3, 8, 8]
          %2 = slice_update [0:+2:1, 0:+3:1, 1:+6:1, 1:+6:1] %1, %0 : f32[2, 3, 8, 8]
          %3 = unfold axis 2 size 3 step 1 dilation 1 %2 : f32[2, 3, 6, 8, 3]
          %4 = unfold axis 3 size 3 step 1 dilation 1 %3 : f32[2, 3, 6, 6, 3, 3]
          %5 = input 1 : f32[4, 3, 3, 3]
          %6 = contract \"bchwij,ocij->bohw\" %4, %5 : f32[2, 4, 6, 6]
          %7 = input 2 : f32[4]
          %8 = reshape %7 : f32[1, 4, 1, 1]
          %9 = expand %8 : f32[2, 4, 6, 6]
          %10 = add %6, %9 : f32[2, 4, 6, 6]
          %11 = constant 0.0 : f32[2, 4, 6, 6]
          %12 = max %10, %11 : f32[2, 4, 6, 6]
          return %12
        }",
    );
    assert_eq!(plan.launches.len(), 3);
    let last = blocks(&plan)[2];
    assert_eq!(domain(last), "p 4, p 2, p 6, p 6, r 3, r 3, r 3");
}

#[test]
fn attention_is_three_kernels() {
    let plan = planned(
        "graph (f32) {
          %0 = input 0 : f32[2, 6, 24]
          %1 = slice [0:+2:1, 0:+6:1, 0:+8:1] %0 : f32[2, 6, 8]
          %2 = reshape %1 : f32[2, 6, 2, 4]
          %3 = slice [0:+2:1, 0:+6:1, 8:+8:1] %0 : f32[2, 6, 8]
          %4 = reshape %3 : f32[2, 6, 2, 4]
          %5 = slice [0:+2:1, 0:+6:1, 16:+8:1] %0 : f32[2, 6, 8]
          %6 = reshape %5 : f32[2, 6, 2, 4]
          %7 = contract \"bqhd,bkhd->bhqk\" %2, %4 : f32[2, 2, 6, 6]
          %8 = fill $0 : f32[2, 2, 6, 6]
          %9 = mul %7, %8 : f32[2, 2, 6, 6]
          %10 = iota axis 2 : i64[2, 2, 6, 6]
          %11 = iota axis 3 : i64[2, 2, 6, 6]
          %12 = ge %10, %11 : bool[2, 2, 6, 6]
          %13 = constant -inf : f32[2, 2, 6, 6]
          %14 = select %12, %9, %13 : f32[2, 2, 6, 6]
          %15 = reduce max [3] %14 : f32[2, 2, 6, 1]
          %16 = expand %15 : f32[2, 2, 6, 6]
          %17 = sub %14, %16 : f32[2, 2, 6, 6]
          %18 = exp %17 : f32[2, 2, 6, 6]
          %19 = reduce sum [3] %18 : f32[2, 2, 6, 1]
          %20 = expand %19 : f32[2, 2, 6, 6]
          %21 = div %18, %20 : f32[2, 2, 6, 6]
          %22 = contract \"bhqk,bkhd->bqhd\" %21, %6 : f32[2, 6, 2, 4]
          %23 = reshape %22 : f32[2, 6, 8]
          return %23
        }",
    );
    assert_eq!(plan.launches.len(), 3);
    assert_eq!(domain(blocks(&plan)[0]), "p 2, p 2, p 6, p 6, r 4");
}

#[test]
fn equal_layers_share_a_kernel() {
    let plan = planned(
        "graph () {
          %0 = input 0 : f32[4, 8]
          %1 = input 1 : f32[8, 8]
          %2 = input 2 : f32[8, 8]
          %3 = input 3 : f32[8, 8]
          %4 = contract \"mk,kn->mn\" %0, %1 : f32[4, 8]
          %5 = tanh %4 : f32[4, 8]
          %6 = contract \"mk,kn->mn\" %5, %2 : f32[4, 8]
          %7 = tanh %6 : f32[4, 8]
          %8 = contract \"mk,kn->mn\" %7, %3 : f32[4, 8]
          %9 = tanh %8 : f32[4, 8]
          %10 = contract \"mk,kn->mn\" %9, %1 : f32[4, 8]
          return %10
        }",
    );
    assert_eq!(plan.launches.len(), 4);
    // The first reads an input of unknown alignment, the next two are the same.
    assert_eq!(plan.kernels.len(), 3);
}

/// A transposed result makes the left operand the one that moves along the rows of memory.
#[test]
fn a_contraction_is_turned_so_that_its_right_operand_runs_along_the_result() {
    let plan = planned(
        "graph () {
          %0 = input 0 : f32[4, 8]
          %1 = input 1 : f32[8, 6]
          %2 = contract \"mk,kn->nm\" %0, %1 : f32[6, 4]
          return %2
        }",
    );
    insta::assert_snapshot!(plan.kernels[0], @r"
    block [p 6, p 4, r 8] () {
      @0 = in f32 align 4
      @1 = in f32 align 4
      @2 = out f32 align 64
      %0 = load @0 [0, 8, 1] : f32
      %1 = load @1 [1, 0, 6] : f32
      %2 = contract %1, %0 : f32
      store %2 -> @2 [4, 1, 0]
    }
    ");
}

/// Nothing is summed: an ordinary product, which fuses with anything.
#[test]
fn an_outer_product_is_a_map() {
    let plan = planned(
        "graph () {
          %0 = input 0 : f32[4]
          %1 = input 1 : f32[6]
          %2 = exp %0 : f32[4]
          %3 = contract \"m,n->mn\" %2, %1 : f32[4, 6]
          %4 = input 2 donated : f32[4, 6]
          %5 = sub %4, %3 : f32[4, 6]
          return %5
        }",
    );
    // The exponentials are stored: they would be computed six times each.
    assert_eq!(plan.launches.len(), 2);
    assert_eq!(domain(blocks(&plan)[1]), "p 4, p 6");
    assert_eq!(count(blocks(&plan)[1], |instr| matches!(instr, Instr::Contract(..))), 0);
}

/// A matrix product in half precision of weights kept in single precision.
#[test]
fn a_conversion_before_a_contraction_is_part_of_it() {
    let plan = planned(
        "graph () {
          %0 = input 0 : f32[4, 8]
          %1 = input 1 : f32[8, 6]
          %2 = cast %1 : f64[8, 6]
          %3 = cast %0 : f64[4, 8]
          %4 = contract \"mk,kn->mn\" %3, %2 : f64[4, 6]
          return %4
        }",
    );
    assert_eq!(plan.launches.len(), 1);
}

/// A contraction's result that other contractions read in a narrower type is stored in that.
#[test]
fn what_contractions_read_is_stored_as_they_read_it() {
    let plan = planned(
        "graph () {
          %0 = input 0 : bf16[6, 8]
          %1 = input 1 : bf16[8, 5]
          %2 = contract \"mk,kn->mn\" %0, %1 : bf16[6, 5]
          %3 = cast %2 : f32[6, 5]
          %4 = erf %3 : f32[6, 5]
          %5 = mul %3, %4 : f32[6, 5]
          %6 = cast %5 : bf16[6, 5]
          %7 = contract \"mk,nk->mn\" %6, %1 : bf16[6, 8]
          %8 = contract \"mk,mn->kn\" %6, %0 : bf16[5, 8]
          return %7, %8
        }",
    );
    assert_eq!(plan.launches.len(), 3);
    for block in blocks(&plan) {
        assert!(block.params.iter().all(|param| param.dtype == DType::BF16), "{plan}");
    }
}

/// In whatever order they were recorded: a contraction's epilogue reads no memory at indices that are data.
#[test]
fn a_gather_is_no_epilogue_of_a_contraction() {
    let contract = "contract \"mk,kn->mn\" %0, %1 : f32[6, 5]";
    let gather = "gather axis 0 %2, %3 : f32[6, 5]";
    for [first, second] in [[contract, gather], [gather, contract]] {
        let plan = planned(&format!(
            "graph () {{
              %0 = input 0 : f32[6, 8]
              %1 = input 1 : f32[8, 5]
              %2 = input 2 : f32[9, 5]
              %3 = input 3 : i32[6, 5]
              %4 = {first}
              %5 = {second}
              %6 = add %4, %5 : f32[6, 5]
              return %6
            }}"
        ));
        assert_eq!(plan.launches.len(), 2);
    }
}
