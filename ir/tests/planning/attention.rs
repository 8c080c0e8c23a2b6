//! Attention: which views it reads through, and how its result is laid out.

use crate::fusion::{blocks, domain, planned};
use burn_mlir_ir::plan::Plan;
use burn_mlir_ir::{Attention, Kernel};

fn attention(plan: &Plan) -> &Attention {
    let found = plan.kernels.iter().find_map(|kernel| match kernel {
        Kernel::Attention(attention) => Some(attention),
        _ => None,
    });
    found.expect("an attention")
}

/// A projection to queries, keys and values in one tensor, split, attended to, heads merged, projected.
const LAYER: &str = "graph (f32) {
  %0 = input 0 : f32[2, 5, 24]
  %1 = slice [0:+2:1, 0:+5:1, 0:+8:1] %0 : f32[2, 5, 8]
  %2 = slice [0:+2:1, 0:+5:1, 8:+8:1] %0 : f32[2, 5, 8]
  %3 = slice [0:+2:1, 0:+5:1, 16:+8:1] %0 : f32[2, 5, 8]
  %4 = reshape %1 : f32[2, 5, 2, 4]
  %5 = reshape %2 : f32[2, 5, 2, 4]
  %6 = reshape %3 : f32[2, 5, 2, 4]
  %7 = permute [0, 2, 1, 3] %4 : f32[2, 2, 5, 4]
  %8 = permute [0, 2, 1, 3] %5 : f32[2, 2, 5, 4]
  %9 = permute [0, 2, 1, 3] %6 : f32[2, 2, 5, 4]
  %10 = attention scale $0 causal %7, %8, %9 : f32[2, 2, 5, 4]
  %11 = permute [0, 2, 1, 3] %10 : f32[2, 5, 2, 4]
  %12 = reshape %11 : f32[10, 8]
  %13 = input 1 : f32[8, 8]
  %14 = contract \"mk,kn->mn\" %12, %13 : f32[10, 8]
  return %14
}";

#[test]
fn a_layer_copies_nothing_around_its_attention() {
    let plan = planned(LAYER);
    assert_eq!(plan.launches.len(), 2, "{plan}");
    insta::assert_snapshot!(attention(&plan), @r"
    attention f32 causal {
      batch 2 heads 2 kv_heads 2 queries 5 keys 5 width 4 value_width 4
      query [120, 4, 24, 1] align 4
      key [120, 4, 24, 1] align 4
      value [120, 4, 24, 1] align 4
      output [40, 4, 8, 1] align 64
    }
    ");
    assert_eq!(domain(blocks(&plan)[0]), "p 10, p 8, r 8");
}

#[test]
fn masks_and_biases_are_read_where_they_are_broadcast() {
    let plan = planned(
        "graph (f64, f64) {
          %0 = input 0 : f64[2, 4, 3, 2]
          %1 = input 1 : f64[2, 2, 5, 2]
          %2 = input 2 : f64[2, 2, 5, 3]
          %3 = input 3 : bool[2, 1, 1, 5]
          %4 = expand %3 : bool[2, 4, 3, 5]
          %5 = input 4 : f64[1, 4, 3, 5]
          %6 = expand %5 : f64[2, 4, 3, 5]
          %7 = attention scale $0 softcap $1 masked biased %0, %1, %2, %4, %6 : f64[2, 4, 3, 3]
          %8 = neg %7 : f64[2, 4, 3, 3]
          return %7, %8
        }",
    );
    insta::assert_snapshot!(attention(&plan), @r"
    attention f64 softcap {
      batch 2 heads 4 kv_heads 2 queries 3 keys 5 width 2 value_width 3
      query [24, 6, 2, 1] align 8
      key [20, 10, 2, 1] align 8
      value [30, 15, 3, 1] align 8
      mask [5, 0, 0, 1] align 1
      bias [0, 15, 5, 1] align 8
      output [36, 9, 3, 1] align 64
    }
    ");
}

#[test]
fn operands_that_strides_cannot_express_are_stored_first() {
    planned(
        "graph (f32) {
          %0 = input 0 : f32[2, 3, 2, 4]
          %1 = exp %0 : f32[2, 3, 2, 4]
          %2 = slice [0:+2:1, 0:+3:1, 1:+2:-1, 3:+4:-1] %1 : f32[2, 3, 2, 4]
          %3 = reshape %0 : f32[2, 6, 1, 4]
          %4 = permute [0, 2, 1, 3] %3 : f32[2, 1, 6, 4]
          %5 = permute [1, 0, 2, 3] %0 : f32[3, 2, 2, 4]
          %6 = reshape %5 : f32[2, 1, 6, 4]
          %7 = attention scale $0 %2, %4, %6 : f32[2, 3, 2, 4]
          return %7, %1
        }",
    );
}

#[test]
fn an_attention_may_be_updated_in_place() {
    planned(
        "graph (f32) {
          %0 = input 0 : f32[1, 2, 3, 4]
          %1 = attention scale $0 %0, %0, %0 : f32[1, 2, 3, 4]
          %2 = constant 7.0 : f32[1, 2, 1, 4]
          %3 = slice_update [0:+1:1, 0:+2:1, 1:+1:1, 0:+4:1] %1, %2 : f32[1, 2, 3, 4]
          return %3
        }",
    );
}

#[test]
fn attention_to_no_keys_is_zero() {
    let plan = planned(
        "graph (f32) {
          %0 = input 0 : f32[1, 2, 3, 4]
          %1 = input 1 : f32[1, 2, 0, 4]
          %2 = attention scale $0 %0, %1, %1 : f32[1, 2, 3, 4]
          return %2
        }",
    );
    assert!(plan.kernels.iter().all(|kernel| matches!(kernel, Kernel::Block(_))), "{plan}");
}

#[test]
fn queries_without_elements_see_all_keys_alike() {
    let plan = planned(
        "graph (f32) {
          %0 = input 0 : f32[1, 2, 3, 0]
          %1 = input 1 : f32[1, 2, 5, 0]
          %2 = input 2 : f32[1, 2, 5, 4]
          %3 = attention scale $0 causal %0, %1, %2 : f32[1, 2, 3, 4]
          return %3
        }",
    );
    assert_eq!(attention(&plan).sizes.width, 1);
}
