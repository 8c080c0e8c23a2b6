//! Stands in for the crate of the same name: see the README of `burn-mlir`.
pub use burn_mlir::{Mlir as LibTorch, MlirDevice as LibTorchDevice};
