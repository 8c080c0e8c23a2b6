//! The devices that tests run on: the host, and the first GPU where there is one.
//!
//! `BURN_MLIR_TEST_DEVICE` picks `cpu` or `cuda`; without it a test runs on each device present.

use burn::prelude::Device;
use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_backend::Backend;
use burn_flex::Flex;
use burn_mlir::{Mlir, MlirDevice};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The variable that picks a device.
pub const VARIABLE: &str = "BURN_MLIR_TEST_DEVICE";

thread_local! {
    static CURRENT: Cell<Option<MlirDevice>> = const { Cell::new(None) };
}

/// The devices to test.
pub fn tested() -> Vec<MlirDevice> {
    match std::env::var(VARIABLE).as_deref() {
        Ok("cpu") => vec![MlirDevice::Cpu],
        // Also if there is none: who asks for it wants to know.
        Ok("cuda") => vec![MlirDevice::Cuda(0)],
        Ok(other) => panic!("{VARIABLE} is `{other}`, should be `cpu` or `cuda`"),
        Err(_) => {
            let first = [MlirDevice::Cpu, MlirDevice::Cuda(0)];
            MlirDevice::available().into_iter().filter(|device| first.contains(device)).collect()
        }
    }
}

/// The GPU to test, if there is one and it is not excluded.
pub fn gpu() -> Option<MlirDevice> {
    tested().into_iter().find(|device| *device != MlirDevice::Cpu)
}

/// The device of this thread's test: the one [`each`] runs on, or the first of all.
pub fn current() -> MlirDevice {
    CURRENT.get().unwrap_or_else(|| tested()[0])
}

/// [`current`] as Burn's own tensors take it.
pub fn device() -> Device {
    Device::new(current())
}

/// The value of [`VARIABLE`] that makes a child process test `device` alone.
pub fn name(device: MlirDevice) -> &'static str {
    if device == MlirDevice::Cpu { "cpu" } else { "cuda" }
}

/// Runs a test on every device. A failure on one keeps it from none of the others.
pub fn each(test: impl Fn()) {
    let mut failure = None;
    for device in tested() {
        // Shown by the test harness if the test fails.
        println!("on {device}:");
        CURRENT.set(Some(device));
        if let Err(panic) = catch_unwind(AssertUnwindSafe(&test)) {
            failure.get_or_insert(panic);
        }
    }
    CURRENT.set(None);
    if let Some(panic) = failure {
        resume_unwind(panic);
    }
}

/// Runs part of a test on a thread of its own.
pub fn on(device: MlirDevice, part: impl FnOnce()) {
    CURRENT.set(Some(device));
    part();
    CURRENT.set(None);
}

/// A backend and the device that the running test uses of it.
pub trait Tested: Backend {
    /// That device.
    fn current() -> Self::Device;
}

impl Tested for Mlir {
    fn current() -> MlirDevice {
        current()
    }
}

impl<B: Tested, C: CheckpointStrategy> Tested for Autodiff<B, C> {
    fn current() -> B::Device {
        B::current()
    }
}

impl Tested for Flex {
    fn current() -> Self::Device {
        Default::default()
    }
}
