//! A tensor compiler that plugs into [Burn](https://burn.dev) 0.22 as a backend.
//!
//! [`Mlir`] implements `burn_backend::Backend`: every tensor operation is recorded as one operation of
//! a small intermediate representation ([`ir`]); when a value is needed, what was recorded is fused into
//! kernels, compiled through MLIR and LLVM where that has not been done before, and launched.
//!
//! With Burn's own `Tensor`, give it this crate's device:
//!
//! ```no_run
//! use burn::tensor::{Device, Tensor};
//! use burn_mlir::MlirDevice;
//!
//! let device = Device::new(MlirDevice::Cpu);
//! let x = Tensor::<2>::ones([64, 256], &device);
//! let y = (x.clone() * 1.5 + 0.3).tanh() * x;
//! println!("{}", y.sum()); // computed here, by one kernel
//! ```
//!
//! That needs the entry in `[patch.crates-io]` which the README explains. Code that is generic over
//! `Backend` needs nothing but `Mlir`.
//!
//! - [`inspect`] shows what operations become, for any target;
//! - Burn's `capture` and the `graph_` functions of `Backend` record a closure and replay it ([`MlirGraph`]); what a replay
//!   could get wrong is refused ([`CaptureError`]);
//! - [`stats`] counts what was planned, compiled and found;
//! - errors are [`MlirError`]s that travel with a tensor and surface when it is read.

mod backend;
mod device;
mod dtype;
mod engine;
mod error;
mod graph;
pub mod inspect;
mod ops;
mod quantized;
mod record;
mod tensor;

pub use backend::{Mlir, MlirHandle};
#[cfg(feature = "fusion")]
pub use backend::{MlirFusion, NoOptimization};
pub use device::MlirDevice;
pub use engine::{Stats, stats};
pub use error::MlirError;
pub use graph::{CaptureError, MlirGraph};
pub use quantized::QuantizedTensor;
pub use tensor::MlirTensor;

pub use burn_mlir_ir as ir;

/// Compiles the programs in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
