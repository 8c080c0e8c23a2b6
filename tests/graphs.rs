//! Graph capture and replay, through Burn's `capture` and through the backend's own functions. Expected values are closed
//! forms, or what the same program computes without a graph.

mod chance;
mod refusals;
mod state;
mod threads;
mod training;

use crate::support::devices::{current, device, each};
use burn::prelude::*;
use burn::tensor::{TensorData, capture};
use burn_backend::Backend;
use burn_mlir::{Mlir, MlirGraph};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// A tensor that a closure reads and a test writes in place.
type Cell<const D: usize> = Rc<RefCell<Tensor<D>>>;

fn cell<const D: usize>(tensor: Tensor<D>) -> Cell<D> {
    Rc::new(RefCell::new(tensor))
}

/// `[n]` numbers.
fn tensor(values: &[f32]) -> Tensor<1> {
    Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), &device())
}

fn values<const D: usize>(tensor: &Tensor<D>) -> Vec<f32> {
    tensor.clone().into_data().iter::<f32>().collect()
}

/// Writes new values where the cell's tensor lies.
fn refresh(cell: &Cell<1>, new: &[f32]) {
    let new = tensor(new);
    cell.borrow_mut().inplace(|old| old.slice_assign(s![0..new.dims()[0]], new));
}

/// Three runs, then one that is captured.
fn record<T>(mut run: impl FnMut() -> T) -> (T, Result<MlirGraph, String>) {
    let device = current();
    Mlir::graph_prepare(&device).unwrap();
    for _ in 0..3 {
        let output = run();
        Mlir::sync(&device).unwrap();
        drop(output);
    }
    Mlir::graph_start_capture(&device).unwrap();
    let output = run();
    (output, Mlir::graph_stop_capture(&device).map_err(|error| error.to_string()))
}

/// The reason why a capture of `run` is refused; after it, what it computed is there all the same.
fn refusal<T>(run: impl FnMut() -> T) -> (T, String) {
    let (output, graph) = record(run);
    works();
    match graph {
        Ok(graph) => panic!("expected a refusal, captured {graph:?}"),
        Err(reason) => (output, reason),
    }
}

fn replay(graph: &MlirGraph) {
    // SAFETY: the tensors of the graph are used by this thread only.
    unsafe { Mlir::graph_replay(&current(), graph) }.unwrap();
}

/// Operations and captures are possible.
fn works() {
    let x = cell(tensor(&[1.0, 2.0]));
    let (y, graph) = record(|| x.borrow().clone() * 3.0 + 1.0);
    let graph = graph.expect("a plain capture");
    assert_eq!(values(&y), [4.0, 7.0]);
    refresh(&x, &[5.0, 6.0]);
    replay(&graph);
    assert_eq!(values(&y), [16.0, 19.0]);
}

#[test]
fn a_replay_sees_what_was_written_to_its_inputs() {
    each(|| {
        let x = cell(tensor(&[1.0, 2.0, 3.0]));
        let input = x.clone();
        let mut graph = capture(&device(), move || input.borrow().clone() * 2.0 + 1.0);
        assert!(graph.is_hardware());
        assert_eq!(values(graph.output()), [3.0, 5.0, 7.0], "the captured run's own values");
        for round in 0..5 {
            let new = [round as f32, -1.0, 0.5 * round as f32];
            refresh(&x, &new);
            // SAFETY: one thread.
            let output = values(unsafe { graph.replay() });
            assert_eq!(output, new.map(|v| v * 2.0 + 1.0));
        }
        // Part of it, and by other operations that can write where their operand lies.
        x.borrow_mut().inplace(|x| x.slice_assign(s![1..2], tensor(&[9.0])));
        // SAFETY: as above.
        assert_eq!(values(unsafe { graph.replay() }), [9.0, 19.0, 5.0]);
        x.borrow_mut().inplace(|x| x + 1.0);
        assert_eq!(values(unsafe { graph.replay() }), [11.0, 21.0, 7.0]);
        let mask = Tensor::<1>::from_floats([0.0, 1.0, 0.0], &device()).greater_elem(0.5);
        x.borrow_mut().inplace(|x| x.mask_fill(mask, -1.0));
        assert_eq!(values(unsafe { graph.replay() }), [11.0, -1.0, 7.0]);
    });
}

#[test]
fn a_replay_reads_nothing_from_the_closure() {
    each(|| {
        let runs = Rc::new(RefCell::new(0));
        let (x, count) = (tensor(&[1.0, 2.0]), runs.clone());
        let mut graph = capture(&device(), move || {
            *count.borrow_mut() += 1;
            x.clone().exp()
        });
        let before = *runs.borrow();
        for _ in 0..3 {
            // SAFETY: one thread.
            let output = values(unsafe { graph.replay() });
            for (value, x) in output.iter().zip([1.0f64, 2.0]) {
                assert!((*value as f64 - x.exp()).abs() < 1e-6 * x.exp());
            }
        }
        assert_eq!(*runs.borrow(), before);
    });
}

#[test]
fn several_windows_make_one_graph() {
    each(|| {
        let x = cell(tensor(&[1.0, 2.0]));
        let (output, graph) = record(|| {
            let doubled = x.borrow().clone() * 2.0;
            device().sync().unwrap();
            let larger = doubled.clone() + 1.0;
            device().sync().unwrap();
            doubled * larger
        });
        let graph = graph.unwrap();
        assert!(graph.launches() >= 3);
        for new in [[3.0, 4.0], [-1.0, 0.5]] {
            refresh(&x, &new);
            replay(&graph);
            assert_eq!(values(&output), new.map(|v| 2.0 * v * (2.0 * v + 1.0)));
        }
    });
}

#[test]
fn a_run_may_be_longer_than_a_window() {
    each(|| {
        // A quarter turn, so often that the windows end by themselves.
        let turn = Tensor::<2>::from_floats([[0.0, 1.0], [-1.0, 0.0]], &device());
        let x = cell(Tensor::<2>::from_floats([[3.0, 4.0]], &device()));
        let turned = || (0..9001).fold(x.borrow().clone(), |x, _| x.matmul(turn.clone()));
        let (output, graph) = record(turned);
        let graph = graph.unwrap();
        for [a, b] in [[1.0, 2.0], [5.0, -6.0]] {
            let new = Tensor::<2>::from_floats([[a, b]], &device());
            x.borrow_mut().inplace(|x| x.slice_assign([0..1, 0..2], new));
            replay(&graph);
            assert_eq!(values(&output), [-b, a]);
        }
    });
}

#[test]
fn a_graph_keeps_what_it_works_on() {
    each(|| {
        let (x, w) = (tensor(&[1.0, 2.0, 3.0, 4.0]), Tensor::<2>::ones([4, 4], &device()));
        let (output, graph) = record(|| {
            let row = x.clone().reshape([1, 4]).matmul(w.clone());
            device().sync().unwrap();
            row.exp().log()
        });
        let graph = graph.unwrap();
        drop((x, w));
        // Whatever lay free is written to now.
        for round in 0..50 {
            let noise = tensor(&[round as f32; 4]);
            let square = Tensor::<2>::full([4, 4], round as f32, &device());
            let _ = values(&(noise.reshape([1, 4]).matmul(square) + 1.0));
        }
        Mlir::memory_cleanup(&current());
        replay(&graph);
        values(&output).iter().for_each(|value| assert!((value - 10.0).abs() < 1e-4, "{value}"));
        drop(output);
        replay(&graph);
        Mlir::sync(&current()).unwrap();
        let copy = graph.clone();
        drop(graph);
        replay(&copy);
        drop(copy);
        works();
    });
}

#[test]
fn what_is_made_from_an_output_is_safe_from_replays() {
    each(|| {
        let x = cell(tensor(&[1.0, 2.0]));
        let (output, graph) = record(|| x.borrow().clone() * 2.0);
        let graph = graph.unwrap();
        // The last handle: any other tensor would be overwritten in place.
        let more = output + 1.0;
        assert_eq!(values(&more), [3.0, 5.0]);
        refresh(&x, &[10.0, 20.0]);
        replay(&graph);
        assert_eq!(values(&more), [3.0, 5.0]);
    });
}

#[test]
fn work_recorded_before_a_replay_sees_what_was_there_before() {
    each(|| {
        let x = cell(tensor(&[1.0]));
        let (output, graph) = record(|| x.borrow().clone() * 2.0);
        let graph = graph.unwrap();
        refresh(&x, &[5.0]);
        let before = output.clone() + 0.5;
        replay(&graph);
        let after = output.clone() + 0.5;
        refresh(&x, &[6.0]);
        replay(&graph);
        assert_eq!((values(&before), values(&after), values(&output)), (vec![2.5], vec![10.5], vec![12.0]));
    });
}

#[test]
fn an_index_out_of_range_in_a_replay_is_reported() {
    each(|| {
        let device = device();
        let table = tensor(&[10.0, 20.0, 30.0]);
        let indices = Rc::new(RefCell::new(Tensor::<1, Int>::from_data([0, 2], &device)));
        let (output, graph) = record(|| table.clone().select(0, indices.borrow().clone()));
        let graph = graph.unwrap();
        let write = |new: [i32; 2]| {
            let new = Tensor::<1, Int>::from_data(new, &device);
            indices.borrow_mut().inplace(|old| old.slice_assign(s![0..2], new));
        };
        write([1, 1]);
        replay(&graph);
        assert_eq!(values(&output), [20.0, 20.0]);
        write([1, 7]);
        replay(&graph);
        let error = device.sync().expect_err("index 7 of 3").to_string();
        assert!(error.contains("out of range"), "{error}");
        write([2, 0]);
        replay(&graph);
        assert_eq!(values(&output), [30.0, 10.0]);
    });
}

#[test]
fn a_panic_within_a_capture_leaves_everything_usable() {
    each(|| {
        let x = tensor(&[1.0, 2.0]);
        for panicking_run in 0..5 {
            let mut run = 0;
            let result = catch_unwind(AssertUnwindSafe(|| {
                drop(capture(&device(), || {
                    let y = x.clone() + 1.0;
                    assert!(run != panicking_run, "on purpose");
                    run += 1;
                    y
                }));
            }));
            assert_eq!(result.is_err(), panicking_run < 4);
            // Also while the capture is not ended.
            assert_eq!(values(&(x.clone() * 2.0)), [2.0, 4.0]);
            works();
        }
    });
}

#[test]
fn a_capture_within_a_capture_is_an_error_of_the_outer_one() {
    each(|| {
        let device = current();
        let x = tensor(&[1.0, 2.0]);
        assert!(Mlir::graph_start_capture(&device).is_err(), "not prepared");
        assert!(Mlir::graph_stop_capture(&device).is_err(), "not started");
        Mlir::graph_prepare(&device).unwrap();
        assert!(Mlir::graph_stop_capture(&device).is_err(), "not started");
        let _ = values(&(x.clone() * 5.0));
        Mlir::graph_start_capture(&device).unwrap();
        let error = Mlir::graph_start_capture(&device).unwrap_err().to_string();
        assert!(error.contains("do not nest"), "{error}");
        let y = x.clone() * 5.0;
        let graph = Mlir::graph_stop_capture(&device).unwrap();
        replay(&graph);
        assert_eq!(values(&y), [5.0, 10.0]);

        // Through Burn's helper, which then runs the closure instead of replaying.
        let mut graph = capture(&self::device(), || {
            let mut inner = capture(&self::device(), || x.clone() * 2.0);
            // SAFETY: one thread.
            unsafe { inner.replay() }.clone() + 1.0
        });
        assert!(!graph.is_hardware());
        // SAFETY: as above.
        assert_eq!(values(unsafe { graph.replay() }), [3.0, 5.0]);
        works();
    });
}

#[test]
fn the_graph_of_another_device_is_refused() {
    each(|| {
        let x = tensor(&[1.0]);
        let (_y, graph) = record(|| x.clone() * 2.0);
        let other = match current() {
            burn_mlir::MlirDevice::Cpu => burn_mlir::MlirDevice::Cuda(0),
            _ => burn_mlir::MlirDevice::Cpu,
        };
        // SAFETY: nothing runs.
        let error = unsafe { Mlir::graph_replay(&other, &graph.unwrap()) }.unwrap_err().to_string();
        assert!(error.contains("captured on"), "{error}");
    });
}
