//! Recording: every operation becomes one node of the calling thread's window.

use crate::{MlirDevice, MlirError, MlirTensor};
use burn_backend::{ExecutionError, Scalar, TensorData};
use burn_mlir_ir::{DType, Op, Shape};

/// The value of a tensor: recorded, computed, or failed.
pub struct TensorState {}

/// Records one operation on the calling thread's window of `device` and returns its lazy result.
/// A failed operand makes a failed result; nothing is checked here (callers do, see `ops`).
pub(crate) fn record(
    device: MlirDevice,
    op: Op,
    operands: &[&MlirTensor],
    dtype: DType,
    shape: Shape,
) -> MlirTensor {
    todo!()
}

/// A tensor whose every element is `value`, a run-time argument: other values recompile nothing.
pub(crate) fn fill(device: MlirDevice, value: Scalar, dtype: DType, shape: Shape) -> MlirTensor {
    todo!()
}

/// 32 random bits an element (u32), from the device's seed and the number of draws since.
pub(crate) fn random_bits(device: MlirDevice, shape: Shape) -> MlirTensor {
    todo!()
}

/// Seeds `device`.
pub(crate) fn seed(device: MlirDevice, seed: u64) {
    todo!()
}

/// A tensor whose reading fails with `error`; operations on it fail likewise.
pub(crate) fn failed(device: MlirDevice, error: MlirError, dtype: DType, shape: Shape) -> MlirTensor {
    todo!()
}

/// A tensor from host data (the dtype of `data`, which must be one of ours, see `dtype::to_ir`).
pub(crate) fn from_data(device: MlirDevice, data: TensorData) -> MlirTensor {
    todo!()
}

/// Computes a tensor and copies it to the host.
pub(crate) fn into_data(tensor: MlirTensor) -> Result<TensorData, ExecutionError> {
    todo!()
}

/// The same tensor on another device.
pub(crate) fn to_device(tensor: MlirTensor, device: MlirDevice) -> MlirTensor {
    todo!()
}

/// Starts everything recorded by this thread on `device`.
pub(crate) fn flush(device: MlirDevice) -> Result<(), ExecutionError> {
    todo!()
}

/// Starts everything recorded by this thread on `device` and waits for it.
pub(crate) fn sync(device: MlirDevice) -> Result<(), ExecutionError> {
    todo!()
}
