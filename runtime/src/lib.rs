//! Runs machine code on devices: memory, streams, events and kernel launches.
//!
//! This crate knows nothing of tensors or compilers. A newcomer's tour:
//!
//! - A [`Device`] has memory and runs work. [`Device::host`] is this process: its memory and threads.
//!   [`Device::cuda`] is an NVIDIA GPU; its driver is loaded when first asked for.
//! - A [`Buffer`] is a piece of device memory. Dropping it gives it back, after the last work that uses it.
//! - A [`HostKernel`] is loaded machine code: functions that compute ranges of tiles, see [`PhaseFn`]. A
//!   [`CudaKernel`] is code for GPUs: functions launched on grids of threads.
//! - A [`Stream`] is an ordered queue. [`Launch`]es, or [`Batch`]es of them, run in order while the thread
//!   that submits goes on. Errors come out of [`Stream::synchronize`].
//! - A [`Graph`] is a list of batches that is replayed as one item of a stream.
//! - An [`Event`] is a place in a stream's order, for other streams and threads to wait for.
//!
//! All of it may be used from any thread, and dropped at any time.
//!
//! ```
//! use std::sync::Arc;
//!
//! use burn_mlir_runtime::{Batch, Device, HostConfig, HostKernel};
//!
//! /// Adds scalar 0 to the 32-bit numbers `begin..end` of buffer 0.
//! unsafe extern "C" fn add(
//!     buffers: *const *mut u8, scalars: *const u64,
//!     _: *mut u8, _: *mut u8, _: *mut u32, begin: i64, end: i64,
//! ) {
//!     for i in begin..end {
//!         unsafe { *(*buffers).cast::<u32>().add(i as usize) += *scalars as u32 };
//!     }
//! }
//!
//! let device = Device::host(HostConfig::default());
//! let stream = device.stream()?;
//! let buffer = stream.upload(&[1, 0, 0, 0, 2, 0, 0, 0])?;
//! // SAFETY: `add` follows the signature and needs no scratch.
//! let kernel = unsafe { HostKernel::new("add", [(add as _, 2)], 0, 0, Arc::new(())) };
//! let mut batch = Batch::new();
//! let slot = batch.bind(buffer.clone());
//! // SAFETY: two tiles of four bytes each, and no other stream uses the buffer.
//! unsafe { batch.launch(kernel, [(slot, 0)], [10])? };
//! stream.submit(batch)?;
//! let mut result = [0; 8];
//! // SAFETY: as above.
//! unsafe { stream.copy_out(&buffer, 0, &mut result)? };
//! assert_eq!(result, [11, 0, 0, 0, 12, 0, 0, 0]);
//! # Ok::<(), burn_mlir_runtime::RuntimeError>(())
//! ```

mod cuda;
mod device;
mod error;
mod event;
mod graph;
mod host;
mod kernel;
mod launch;
mod memory;
mod stream;
mod waits;
mod warn;

pub use cuda::{
    CudaConfig, CudaKernel, CudaMapElement, CudaMapSwizzle, CudaPhase, CudaProperties, CudaTensorMap,
    cuda_device_count, cuda_driver_version,
};
pub use device::{Device, DeviceId};
pub use error::RuntimeError;
pub use event::Event;
pub use graph::Graph;
pub use host::HostConfig;
pub use kernel::{HostKernel, Kernel, PhaseFn};
pub use launch::{Batch, Launch, Slot};
pub use memory::{ALIGNMENT, Backing, Buffer, MemoryPool, MemoryUsage, PoolConfig};
pub use stream::{CopyOut, Stream};
pub use waits::waits;
