//! The ends of threads and of the process.

use crate::support::child::{self, MARK};
use crate::support::devices::{self, VARIABLE, current, device, each, name};
use burn::prelude::*;
use std::cell::RefCell;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// A tensor that is worked on when it is dropped.
struct Last {
    tensor: Option<Tensor<1>>,
    result: Sender<Tensor<1>>,
}

impl Drop for Last {
    fn drop(&mut self) {
        let Some(tensor) = self.tensor.take() else { return };
        // Burn can neither make nor read one here: what it needs for that is gone, too.
        let sum = (tensor.clone() * tensor.flip([0]) + 1.0).sum();
        // If the receiver is gone, the test has failed already.
        let _ = self.result.send(sum);
    }
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

#[test]
fn destructors_of_a_thread_may_use_tensors() {
    each(|| {
        let current = current();
        for (first, computed) in [(false, false), (false, true), (true, false), (true, true)] {
            let (result, received) = channel();
            let run = move || {
                devices::on(current, || {
                    if first {
                        // Registered before anything of the backend: called after it.
                        LAST.set(Some(Last { tensor: None, result: result.clone() }));
                    }
                    let tensor = Tensor::<1>::ones([5], &device()) * 2.0;
                    if computed {
                        assert_eq!(tensor.clone().sum().into_scalar::<f32>(), 10.0);
                    }
                    LAST.set(Some(Last { tensor: Some(tensor), result }));
                });
            };
            std::thread::spawn(run).join().expect("the thread ends");
            let sum = received.recv().expect("the tensor is dropped");
            assert_eq!(sum.into_scalar::<f32>(), 25.0, "{first} {computed}");
        }
    });
}

#[test]
#[ignore = "run alone by the test that wants to see how it ends"]
fn ends_while_others_compile() {
    for columns in 0..4 {
        let current = current();
        std::thread::spawn(move || {
            devices::on(current, || {
                // Every shape is a kernel or two.
                for rows in 1.. {
                    let x = Tensor::<2>::ones([rows, 1 + columns], &device());
                    x.clone().matmul(x.transpose()).tanh().sum().into_scalar::<f32>();
                }
            })
        });
    }
    // The first job cannot be waited for.
    while burn_mlir::stats().kernels_compiled < 8 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let pause: u64 = std::env::var("BURN_MLIR_TEST_PAUSE").map_or(0, |text| text.parse().unwrap_or(0));
    std::thread::sleep(Duration::from_millis(pause));
    println!("{MARK} over");
    std::process::exit(0);
}

#[test]
fn the_process_may_end_while_kernels_are_compiled() {
    each(|| {
        for pause in ["0", "5", "11", "23"] {
            let variables =
                [("BURN_MLIR_CACHE", "off"), ("BURN_MLIR_TEST_PAUSE", pause), (VARIABLE, name(current()))];
            assert_eq!(child::run("endings::ends_while_others_compile", &variables), ["over"]);
        }
    });
}
