//! Graphs and other threads.

use super::{record, refresh, refusal, replay, tensor, values};
use crate::support::devices::{current, each, gpu};
use burn::prelude::*;
use burn_backend::Backend;
use burn_mlir::{Mlir, MlirDevice, MlirGraph};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

fn on(device: MlirDevice, start: f32) -> Tensor<1> {
    Tensor::from_floats([start, start + 1.0], &Device::new(device))
}

#[test]
fn a_capture_leaves_other_threads_alone() {
    each(|| {
        let device = current();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for worker in 0..4 {
                let stop = &stop;
                scope.spawn(move || {
                    let mut round = 0;
                    while !stop.load(Ordering::Relaxed) || round < 10 {
                        round += 1;
                        let x = on(device, (worker * 1000 + round) as f32);
                        let y = (x.clone() * round as f32 + 1.0).sum().into_scalar::<f32>();
                        let start = (worker * 1000 + round) as f32;
                        assert_eq!(y, (2.0 * start + 1.0) * round as f32 + 2.0);
                    }
                });
            }
            for round in 0..20 {
                let x = Rc::new(std::cell::RefCell::new(tensor(&[1.0, 2.0])));
                let (y, graph) = record(|| (x.borrow().clone() * 3.0).exp().log());
                let graph = graph.unwrap();
                let new = [round as f32 * 0.25, 1.0];
                refresh(&x, &new);
                replay(&graph);
                for (value, new) in values(&y).iter().zip(new) {
                    assert!((value - 3.0 * new).abs() < 1e-4, "{value} for {new}");
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn every_thread_has_a_capture_of_its_own() {
    each(|| {
        let device = current();
        thread::scope(|scope| {
            for worker in 0..4 {
                scope.spawn(move || {
                    let mut state = on(device, worker as f32);
                    Mlir::graph_prepare(&device).unwrap();
                    let mut run = || state = state.clone() * 0.5 + 1.0;
                    for _ in 0..2 {
                        run();
                        Mlir::sync(&device).unwrap();
                    }
                    Mlir::graph_start_capture(&device).unwrap();
                    run();
                    let graph = Mlir::graph_stop_capture(&device).unwrap();
                    let mut expected = [worker as f32, worker as f32 + 1.0];
                    for _ in 0..53 {
                        expected = expected.map(|value| value * 0.5 + 1.0);
                    }
                    for _ in 0..50 {
                        // SAFETY: the tensors are this thread's.
                        unsafe { Mlir::graph_replay(&device, &graph) }.unwrap();
                    }
                    assert_eq!(values(&state), expected);
                });
            }
        });
    });
}

/// A replay on another thread comes after what that thread did before, and before what it does later; a graph
/// outlives the thread that captured it.
#[test]
fn a_graph_may_be_replayed_elsewhere() {
    each(|| {
        let device = current();
        let capture = move || {
            let mut state = on(device, 1.0);
            Mlir::graph_prepare(&device).unwrap();
            let mut run = || state = state.clone() * 2.0;
            for _ in 0..2 {
                run();
                Mlir::sync(&device).unwrap();
            }
            Mlir::graph_start_capture(&device).unwrap();
            run();
            let graph: MlirGraph = Mlir::graph_stop_capture(&device).unwrap();
            (state, graph)
        };
        let (state, graph) = thread::spawn(capture).join().unwrap();
        let mut expected = 8.0;
        for _ in 0..10 {
            let before = state.clone() + 1.0;
            replay(&graph);
            assert_eq!(values(&before), [expected + 1.0, 2.0 * expected + 1.0]);
            expected *= 2.0;
            assert_eq!(values(&state), [expected, 2.0 * expected]);
            assert_eq!(values(&(state.clone() + 1.0)), [expected + 1.0, 2.0 * expected + 1.0]);
        }
    });
}

#[test]
fn a_closure_that_works_elsewhere_is_refused() {
    each(|| {
        let x = tensor(&[1.0, 2.0]);
        let (sum, reason) = refusal(|| {
            let y = x.clone() * 2.0;
            thread::scope(|scope| scope.spawn(|| (y.clone() + 1.0).sum()).join().unwrap())
        });
        assert!(reason.contains("another thread"), "{reason}");
        assert_eq!(values(&sum), [8.0]);
        let (read, reason) = refusal(|| {
            let y = x.clone() * 2.0;
            thread::scope(|scope| scope.spawn(|| values(&y)).join().unwrap())
        });
        assert!(reason.contains("another thread"), "{reason}");
        assert_eq!(read, [2.0, 4.0]);
    });
    if let Some(gpu) = gpu() {
        let x = on(gpu, 1.0);
        let host = on(MlirDevice::Cpu, 5.0);
        let run = || (x.clone() * 2.0, host.clone() * 2.0);
        Mlir::graph_prepare(&gpu).unwrap();
        let _ = run();
        Mlir::graph_start_capture(&gpu).unwrap();
        let (y, there) = run();
        let reason = Mlir::graph_stop_capture(&gpu).unwrap_err().to_string();
        assert!(reason.contains("also works on cpu"), "{reason}");
        assert_eq!((values(&y), values(&there)), (vec![2.0, 4.0], vec![10.0, 12.0]));
    }
}
