//! NVIDIA GPUs through the CUDA driver, which is loaded at run time.
//!
//! - `driver`: the driver's functions; `context`: a device's context and what becomes of errors.
//! - `ending`: calls at the end of the process.
//! - `device`: what streams share; `properties`: what a device is.
//! - `pool`: device memory in stream order; `block`: a piece of it in use; `pinned`: host memory for copies.
//! - `lane`: a stream of the driver; `stream`, `copy`, `calls`: queueing on it; `event`: places in its order.
//! - `module`: kernels; `tensor_map`, `status`, `launch`: their parameters; `graph`: many launches as one.
//! - `assemble`: PTX to machine code.

mod assemble;
mod block;
mod calls;
mod context;
mod copy;
mod device;
mod driver;
mod ending;
mod event;
mod graph;
mod lane;
mod launch;
mod module;
mod pinned;
mod pool;
mod profile;
mod properties;
mod status;
mod stream;
mod tensor_map;

pub(crate) use block::CudaBlock;
pub use device::CudaConfig;
pub(crate) use device::CudaDevice;
pub use driver::{cuda_device_count, cuda_driver_version};
pub(crate) use event::CudaEvent;
pub(crate) use graph::CudaGraph;
pub use module::{CudaKernel, CudaPhase};
pub use properties::CudaProperties;
pub(crate) use stream::CudaStream;
pub use tensor_map::{CudaMapElement, CudaMapSwizzle, CudaTensorMap};
