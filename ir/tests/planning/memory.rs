//! Views, results and storage: what costs no kernel, and what shares a buffer.

use crate::fusion::{case_of, planned};
use crate::properties::check_plan;
use burn_mlir_ir::plan::plan_for;
use burn_mlir_ir::{BufferSource, Kernel, ParamMode, Target};

#[test]
fn views_of_inputs_are_results_without_kernels() {
    let plan = planned(
        "graph () {
          %0 = input 0 : f32[4, 6]
          %1 = permute [1, 0] %0 : f32[6, 4]
          %2 = slice [5:+6:-1, 1:+2:2] %1 : f32[6, 2]
          %3 = reshape %2 : f32[2, 3, 2]
          %4 = unfold axis 1 size 2 step 1 dilation 1 %3 : f32[2, 2, 2, 2]
          return %4, %0, %2
        }",
    );
    assert!(plan.launches.is_empty());
    assert!(plan.buffers.iter().all(|buffer| buffer.source == BufferSource::Input(0)));
    let layout = &plan.results[0].layout;
    // Element [0, 0, 0, 0] is [1, 5] of the input.
    assert_eq!((layout.offset, layout.strides.as_slice()), (11, &[-3, -1, 12, -1][..]));
}

#[test]
fn a_reshape_that_no_strides_express_is_a_copy() {
    let plan = planned(
        "graph () {
          %0 = input 0 : f32[4, 6]
          %1 = permute [1, 0] %0 : f32[6, 4]
          %2 = reshape %1 : f32[24]
          return %2
        }",
    );
    assert_eq!(plan.launches.len(), 1);
    let Kernel::Block(block) = &plan.kernels[0] else { panic!() };
    assert_eq!(block.domain.len(), 2);
    assert_eq!(block.body.len(), 1);
}

#[test]
fn a_slice_update_of_a_donated_input_only_writes_the_slice() {
    let plan = planned(
        "graph () {
          %0 = input 0 donated : f32[8, 4]
          %1 = input 1 : f32[1, 4]
          %2 = neg %1 : f32[1, 4]
          %3 = slice_update [3:+1:1, 0:+4:1] %0, %2 : f32[8, 4]
          %4 = slice_update [5:+1:1, 0:+4:1] %3, %1 : f32[8, 4]
          return %4
        }",
    );
    assert_eq!(plan.launches.len(), 2);
    assert_eq!(plan.buffers[plan.results[0].buffer as usize].source, BufferSource::Input(0));
    assert_eq!(plan.arena_bytes, 0);
}

#[test]
fn a_slice_update_of_data_needed_later_copies_it() {
    let plan = planned(
        "graph () {
          %0 = input 0 : f32[8, 4]
          %1 = input 1 : f32[1, 4]
          %2 = slice_update [3:+1:1, 0:+4:1] %0, %1 : f32[8, 4]
          return %2
        }",
    );
    assert_eq!(plan.launches.len(), 2);
    assert_eq!(plan.buffers[plan.results[0].buffer as usize].source, BufferSource::Fresh);
}

#[test]
fn a_dying_temporary_becomes_the_result() {
    let plan = planned(
        "graph () {
          %0 = input 0 : f32[4, 4]
          %1 = scan sum axis 1 %0 : f32[4, 4]
          %2 = neg %1 : f32[4, 4]
          return %2
        }",
    );
    assert_eq!(plan.launches.len(), 2);
    assert_eq!(plan.arena_bytes, 0);
    let Kernel::Block(block) = &plan.kernels[1] else { panic!() };
    assert_eq!(block.params.len(), 1);
    assert_eq!(block.params[0].mode, ParamMode::InOut);
}

#[test]
fn temporaries_share_the_arena_once_they_are_dead() {
    let mut text = String::from("graph () {\n%0 = input 0 : f32[16, 16]\n");
    for id in 1..9 {
        text += &format!("%{id} = scan sum axis 1 %{} : f32[16, 16]\n", id - 1);
    }
    let plan = planned(&(text + "return %8 }"));
    assert_eq!(plan.launches.len(), 8);
    assert_eq!(plan.arena_bytes, 2 * 16 * 16 * 4);
}

#[test]
fn an_empty_result_costs_nothing_and_an_empty_sum_is_zero() {
    let plan = planned(
        "graph () {
          %0 = input 0 : f32[0, 3]
          %1 = neg %0 : f32[0, 3]
          %2 = reduce sum [0] %0 : f32[1, 3]
          return %1, %2
        }",
    );
    assert_eq!(plan.launches.len(), 1);
    assert_eq!(plan.buffers[plan.results[0].buffer as usize].bytes, 0);
}

#[test]
fn generators_are_stored_only_as_results() {
    let plan = planned(
        "graph (u32, u32, f32) {
          %0 = random key $0 stream $1 : u32[3, 4]
          %1 = cast %0 : f32[3, 4]
          %2 = fill $2 : f32[3, 4]
          %3 = lt %1, %2 : bool[3, 4]
          %4 = input 0 : f32[3, 4]
          %5 = constant 0.0 : f32[3, 4]
          %6 = select %3, %4, %5 : f32[3, 4]
          %7 = exp %4 : f32[3, 4]
          %8 = scan sum axis 1 %7 : f32[3, 4]
          %9 = select %3, %8, %5 : f32[3, 4]
          return %6, %9, %2
        }",
    );
    assert_eq!(plan.launches.len(), 5);
    assert!(plan.arena_bytes <= 2 * 64);
}

/// What contractions, transposed reads and a result in another shape see of rows with a gap behind them; the scan
/// gets its operand without.
#[test]
fn long_odd_rows_start_at_multiples_of_an_access_on_gpus() {
    let case = case_of(
        "graph () {
          %0 = input 0 : bf16[20, 3]
          %1 = input 1 : bf16[3, 515]
          %2 = contract \"mk,kn->mn\" %0, %1 : bf16[20, 515]
          %3 = reduce max [1] %2 : bf16[20, 1]
          %4 = expand %3 : bf16[20, 515]
          %5 = sub %2, %4 : bf16[20, 515]
          %6 = contract \"mn,kn->mk\" %5, %1 : bf16[20, 3]
          %7 = permute [1, 0] %5 : bf16[515, 20]
          %8 = contract \"nm,mk->nk\" %7, %0 : bf16[515, 3]
          %9 = input 2 : bf16[20, 2051]
          %10 = neg %9 : bf16[20, 2051]
          %11 = abs %2 : bf16[20, 515]
          %12 = scan sum axis 1 %11 : bf16[20, 515]
          %13 = reshape %10 : bf16[4, 5, 2051]
          %14 = neg %13 : bf16[4, 5, 2051]
          return %6, %8, %10, %12, %14
        }",
    );
    let gpu = plan_for(&case.graph, &Target::named("sm_90a").unwrap()).unwrap();
    check_plan(&case, &gpu);
    assert_eq!(gpu.results[2].layout.strides.as_slice(), [2056, 1], "{gpu}");
    assert!(gpu.to_string().contains("[520, 1]"), "{gpu}");
    let host = plan_for(&case.graph, &Target::named("x86-64-v3").unwrap()).unwrap();
    check_plan(&case, &host);
    assert!(host.results.iter().all(|place| place.layout.is_contiguous()), "{host}");
}

#[test]
fn paths_read_through_views_and_skips_once() {
    let plan = planned(
        "graph (f32) {
          %0 = input 0 : f32[2, 5, 3]
          %1 = permute [1, 2, 0] %0 : f32[5, 3, 2]
          %2 = input 1 : f32[3, 2]
          %3 = constant 1.0 : f32[3, 2]
          %4 = lt %2, %3 : bool[3, 2]
          %5 = reshape %4 : bool[1, 3, 2]
          %6 = expand %5 : bool[5, 3, 2]
          %7 = paths %1, %6 : f32[5, 3, 2]
          %8 = fill $0 : f32[5, 3, 2]
          %9 = mul %7, %8 : f32[5, 3, 2]
          %10 = paths %9, %6 : f32[5, 3, 2]
          return %10
        }",
    );
    assert_eq!(plan.launches.len(), 4, "{plan}");
}
