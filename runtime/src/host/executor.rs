//! Runs the launches of a batch, one after the other.

use std::cell::UnsafeCell;
use std::sync::atomic::AtomicU64;

use super::HostDevice;
use super::region::Region;
use super::scratch::Scratch;
use crate::launch::Ready;
use crate::{Batch, DeviceId, HostKernel, Kernel, RuntimeError};

/// What a stream needs to run launches. Whoever runs them holds it exclusively.
pub(super) struct Executor {
    shared: Scratch,
    worker: Scratch,
}

impl Executor {
    pub(super) fn new(device: &HostDevice) -> Self {
        Self { shared: Scratch::new(device.memory.clone()), worker: Scratch::new(device.memory.clone()) }
    }

    /// Runs all launches; returns the first error, which keeps no other launch from running.
    pub(super) fn run(&mut self, device: &HostDevice, batch: &Batch) -> Result<(), RuntimeError> {
        let mut result = Ok(());
        for ready in batch.ready() {
            let this = match ready.kernel {
                Kernel::Host(kernel) => self.launch(device, kernel, &ready),
                other => {
                    Err(RuntimeError::WrongKernel { kernel: other.label().clone(), device: DeviceId::Host })
                }
            };
            result = result.and(this);
        }
        result
    }

    fn launch(
        &mut self,
        device: &HostDevice,
        kernel: &HostKernel,
        ready: &Ready<'_>,
    ) -> Result<(), RuntimeError> {
        let shared = self.shared.reserve(kernel.shared_bytes())?;
        let worker = self.worker.reserve(kernel.worker_bytes())?;
        let status = UnsafeCell::new(0_u32);
        for phase in kernel.phases() {
            let mut region = Region {
                function: phase.function,
                addresses: ready.addresses.as_ptr().cast(),
                scalars: ready.scalars.as_ptr(),
                shared,
                status: status.get(),
                worker_bytes: kernel.worker_bytes(),
                tiles: phase.tiles,
                chunk: 1,
                next: AtomicU64::new(0).into(),
            };
            // SAFETY: whoever added the launch vouched for its arguments, the batch keeps them alive, and
            // the scratch is this executor's.
            unsafe { device.threads.run(phase, &mut region, worker) };
        }
        match status.into_inner() {
            0 => Ok(()),
            _ => Err(RuntimeError::IndexOutOfRange { kernel: kernel.label().clone() }),
        }
    }
}
