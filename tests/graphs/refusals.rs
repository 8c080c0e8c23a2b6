//! What a replay could get wrong is refused, by a message that says what and why; the closure goes on without a graph.

use super::{Cell, cell, record, refresh, refusal, replay, tensor, values};
use crate::support::child;
use crate::support::devices::{VARIABLE, current, device, each, name};
use burn::prelude::*;
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Distribution, capture};
use burn_backend::Backend;
use burn_mlir::Mlir;

fn contains(reason: &str, parts: &[&str]) {
    for part in parts {
        assert!(reason.contains(part), "`{part}` is missing in: {reason}");
    }
}

#[test]
fn a_scalar_that_changes_is_named_with_its_operation_and_values() {
    each(|| {
        let x = tensor(&[1.0, 2.0]);
        let mut rate = 0.125f32;
        let (y, reason) = refusal(|| {
            rate *= 0.5;
            x.clone().mul_scalar(rate)
        });
        contains(&reason, &["`mul f32[2]`", "0.015625", "0.0078125", "in a tensor", "slice_assign"]);
        assert_eq!(values(&y), [0.0078125, 0.015625]);

        // Also in the earliest run, and in other types.
        let mut runs = 0;
        let ints = Tensor::<1, Int>::from_data([3, 4], &device());
        let (y, reason) = refusal(|| {
            runs += 1;
            ints.clone().add_scalar(if runs == 1 { -7 } else { 100 })
        });
        contains(&reason, &["`add i32[2]`", "-7", "100"]);
        assert_eq!(y.into_data().try_to_vec::<i32>().unwrap(), [103, 104]);

        let mut value = 0.0;
        let (_, reason) = refusal(|| {
            value += 1.0;
            Tensor::<1>::full([3], value, &device())
        });
        contains(&reason, &["`full f32[3]`", "3.0", "4.0"]);

        let q = Tensor::<4>::ones([1, 1, 2, 4], &device());
        let mut scale = 1.0;
        let (_, reason) = refusal(|| {
            scale *= 0.5;
            let options = AttentionModuleOptions { scale: Some(scale), ..Default::default() };
            attention(q.clone(), q.clone(), q.clone(), None, None, options).reshape([8])
        });
        contains(&reason, &["`attention f32[1, 1, 2, 4]`", "0.125", "0.0625"]);
    });
}

#[test]
fn a_refused_closure_goes_on_without_a_graph() {
    each(|| {
        let x = tensor(&[1.0, 2.0]);
        let mut step = 0.0;
        let mut graph = capture(&device(), || {
            step += 1.0;
            x.clone() * step
        });
        assert!(!graph.is_hardware());
        assert_eq!(values(graph.output()), [4.0, 8.0]);
        // SAFETY: one thread.
        assert_eq!(values(unsafe { graph.replay() }), [5.0, 10.0]);
        assert_eq!(values(unsafe { graph.replay() }), [6.0, 12.0]);
    });
}

#[test]
#[ignore = "run alone by the test that looks at the standard error"]
fn captures_what_is_refused() {
    let x = tensor(&[1.0, 2.0]);
    let mut step = 0.0;
    capture(&device(), || {
        step += 1.0;
        x.clone() * step
    });
}

#[test]
fn a_refusal_is_reported_as_burn_drops_it() {
    each(|| {
        let variables = [(VARIABLE, name(current()))];
        let errors = child::errors("graphs::refusals::captures_what_is_refused", &variables);
        contains(&errors, &["burn-mlir: no graph was captured", "`mul f32[2]`", "3.0", "4.0"]);
    });
}

#[test]
fn random_numbers_are_refused() {
    each(|| {
        let x = tensor(&[1.0, 2.0, 3.0]);
        let (_, reason) = refusal(|| x.clone() * Tensor::<1>::random([3], Distribution::Default, &device()));
        contains(&reason, &["random u32[3]", "random numbers", "slice_assign"]);
        // The same ones in every run are no harm.
        let (y, graph) = record(|| {
            Mlir::seed(&current(), 5);
            x.clone() * Tensor::<1>::random([3], Distribution::Default, &device())
        });
        let once = values(&y);
        replay(&graph.unwrap());
        assert_eq!(values(&y), once);
    });
}

#[test]
fn other_operations_are_refused() {
    each(|| {
        let x = tensor(&[1.0, 2.0, 3.0, 4.0]);
        let mut start = 0;
        let (y, reason) = refusal(|| {
            start = (start + 1) % 3;
            x.clone().slice(s![start..start + 2]) * 2.0
        });
        contains(&reason, &["no run", "slice [1:+2:1]", "slice [0:+2:1]", "sync"]);
        assert_eq!(values(&y), [4.0, 6.0]);

        // No run at all before the capture.
        let device = current();
        Mlir::graph_prepare(&device).unwrap();
        Mlir::graph_start_capture(&device).unwrap();
        let y = x.clone() * 2.0;
        let reason = Mlir::graph_stop_capture(&device).unwrap_err().to_string();
        contains(&reason, &["nothing was run before"]);
        assert_eq!(values(&y), [2.0, 4.0, 6.0, 8.0]);

        let (_, reason) = refusal(|| x.clone());
        contains(&reason, &["computes nothing"]);
    });
}

#[test]
fn a_read_is_refused_and_has_its_value() {
    each(|| {
        let x = tensor(&[1.0, 2.0]);
        let (sum, reason) = refusal(|| (x.clone() * 2.0).sum().into_scalar::<f32>());
        contains(&reason, &["reads a tensor"]);
        assert_eq!(sum, 6.0);
    });
}

#[test]
fn data_from_the_host_must_be_the_same_in_every_run() {
    each(|| {
        let x = cell(tensor(&[1.0, 2.0]));
        let mut runs = 0.0;
        let (y, reason) = refusal(|| {
            runs += 1.0;
            x.borrow().clone() * tensor(&[runs, 1.0])
        });
        contains(&reason, &["f32[2]", "host data", "slice_assign"]);
        assert_eq!(values(&y), [4.0, 2.0]);

        // A table of constants may be made anew in each run.
        let (y, graph) = record(|| x.borrow().clone() + tensor(&[10.0, 20.0]));
        let graph = graph.unwrap();
        for new in [[3.0, 4.0], [5.0, 6.0]] {
            refresh(&x, &new);
            replay(&graph);
            assert_eq!(values(&y), [new[0] + 10.0, new[1] + 20.0]);
        }
    });
}

#[test]
fn a_closure_that_reads_other_tensors_is_refused() {
    each(|| {
        let batches: Vec<Tensor<1>> = (0..9).map(|i| tensor(&[i as f32, 1.0])).collect();
        let mut next = 0;
        let (y, reason) = refusal(|| {
            next += 1;
            batches[next].clone() * 2.0
        });
        contains(&reason, &["another f32[2]", "in place"]);
        assert_eq!(values(&y), [8.0, 2.0]);

        let mut queue = batches;
        let (y, reason) = refusal(|| queue.pop().unwrap() * 2.0);
        contains(&reason, &["another f32[2]"]);
        assert_eq!(values(&y), [10.0, 2.0]);

        // One run does not show what is carried on to the next.
        let device = current();
        let mut state = tensor(&[1.0, 1.0]);
        let mut step = || {
            let next = state.clone().reshape([1, 2]).matmul(Tensor::ones([2, 2], &self::device()));
            state = next.reshape([2]);
        };
        Mlir::graph_prepare(&device).unwrap();
        step();
        Mlir::graph_start_capture(&device).unwrap();
        step();
        let reason = Mlir::graph_stop_capture(&device).unwrap_err().to_string();
        contains(&reason, &["another f32[", "two runs"]);
        assert_eq!(values(&state), [4.0, 4.0]);
    });
}

#[test]
fn a_value_that_state_replaces_must_be_free() {
    each(|| {
        let w = Tensor::<2>::ones([2, 2], &device());
        let mut state = Tensor::<2>::ones([1, 2], &device());
        let (old, reason) = refusal(|| {
            let old = state.clone();
            state = old.clone().matmul(w.clone());
            old
        });
        contains(&reason, &["f32[1, 2]", "still holds"]);
        assert_eq!((values(&old), values(&state)), (vec![8.0; 2], vec![16.0; 2]));

        // A copy is none of its business.
        let (old, graph) = record(|| {
            let old = state.clone() + 0.0;
            state = state.clone().matmul(w.clone());
            old
        });
        replay(&graph.unwrap());
        assert_eq!((values(&old), values(&state)), (vec![256.0; 2], vec![512.0; 2]));
    });
}

#[test]
fn an_input_that_was_replaced_is_not_read_from_before() {
    each(|| {
        let x: Cell<2> = cell(Tensor::from_floats([[1.0, 2.0], [3.0, 4.0]], &device()));
        let (_y, graph) = record(|| x.borrow().clone() * 2.0);
        let graph = graph.unwrap();
        x.borrow_mut().inplace(|x| x.clone().matmul(x));
        device().sync().unwrap();
        // SAFETY: nothing runs.
        let reason = unsafe { Mlir::graph_replay(&current(), &graph) }.unwrap_err().to_string();
        contains(&reason, &["f32[2, 2]", "used up", "slice_assign"]);
    });
}
