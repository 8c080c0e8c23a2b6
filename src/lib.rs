//! burn-mlir: a tensor compiler that plugs into Burn as a backend.

mod device;
mod dtype;
mod error;
mod ops;
mod backend;
mod record;
mod tensor;

pub use backend::Mlir;
pub use device::MlirDevice;
pub use error::MlirError;
pub use tensor::MlirTensor;
