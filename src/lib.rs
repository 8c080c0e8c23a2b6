//! burn-mlir: a tensor compiler that plugs into Burn as a backend.

mod backend;
mod device;
mod dtype;
mod engine;
mod error;
pub mod inspect;
mod ops;
mod record;
mod tensor;

pub use backend::Mlir;
pub use device::MlirDevice;
pub use engine::{Stats, stats};
pub use error::MlirError;
pub use tensor::MlirTensor;

pub use burn_mlir_ir as ir;
