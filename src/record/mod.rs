//! Recording: every operation becomes one node of the calling thread's window.
//!
//! A [`TensorState`] is what a lazy handle points to. Recording an operation appends a node to the
//! thread's [`Window`], or finds it there (see `recording`), and makes a state that names it. A window is flushed — planned,
//! compiled where
//! needed, and given to the device's stream — when a value is read, when another thread or device
//! needs one of its values, on `flush` and `sync`, and when it is long. Values whose last handle was
//! dropped by then are not materialised.

mod cut;
mod lock;
mod memory;
mod read;
mod recording;
mod start;
mod state;
mod window;
mod windows;

pub(crate) use read::{Read, into_data, into_data_later};
use recording::Check;
pub(crate) use recording::{Operand, Operation};
pub use state::TensorState;
pub(crate) use state::{Block, Storage};
pub(crate) use window::{Window, number};
pub(crate) use windows::window;

use crate::engine;
use crate::graph::CaptureError;
use crate::tensor::extents;
use crate::{MlirDevice, MlirError, MlirTensor, dtype};
use burn_backend::{BoolDType, BoolStore, DType as DataType, ExecutionError, Scalar, TensorData};
use burn_mlir_ir::{DType, Graph, Layout, Op, Shape, ValueId};
use burn_mlir_runtime::MemoryUsage;
use smallvec::SmallVec;
use state::Value;
use std::sync::Arc;
use windows::with_window;

/// Gives up the captures of the calling thread, on all devices.
pub(crate) fn fail_captures(error: &CaptureError) {
    windows::for_each(|window| {
        if let Some(session) = &mut *window.session() {
            session.fail(error.clone());
        }
    });
}

/// How far the calling thread has got on its other devices, with nothing left to start there.
pub(crate) fn elsewhere(device: MlirDevice) -> Result<Elsewhere, MlirError> {
    let windows = windows::own();
    let others = windows.iter().filter(|(owner, _)| *owner != device);
    others.map(|(owner, window)| window.flush().map(|()| (*owner, window.progress()))).collect()
}

/// See [`elsewhere`].
pub(crate) type Elsewhere = SmallVec<[(MlirDevice, u64); 1]>;

/// Records one operation on the calling thread's window of `device` and returns its lazy result.
/// A failed operand makes a failed result; nothing is checked here (callers do, see `ops`).
pub(crate) fn record(
    device: MlirDevice,
    op: Op,
    operands: &[&MlirTensor],
    dtype: DType,
    shape: Shape,
) -> MlirTensor {
    let operands: SmallVec<[Operand<'_>; 4]> =
        operands.iter().map(|tensor| Operand::Tensor(tensor)).collect();
    push(device, &Operation { op: &op, operands: &operands, scalars: &[], dtype, shape: &shape }, &|_| Ok(()))
}

/// A tensor whose every element is `value`, a run-time argument: other values recompile nothing.
pub(crate) fn fill(device: MlirDevice, value: Scalar, dtype: DType, shape: Shape) -> MlirTensor {
    source(device, Op::Fill { slot: 0 }, &[(dtype, dtype::scalar_bits(value, dtype))], dtype, &shape)
}

/// 32 random bits an element (u32), from the device's seed and the number of draws since.
pub(crate) fn random_bits(device: MlirDevice, shape: Shape) -> MlirTensor {
    let draw = match engine::engine(device) {
        Ok(engine) => engine.random.draw(),
        Err(error) => return failed(device, error, DType::U32, shape),
    };
    let scalars = [(DType::U32, draw.key as u64), (DType::U32, draw.stream as u64)];
    source(device, Op::Random { key: 0, stream: 1 }, &scalars, DType::U32, &shape)
}

/// Records an operation that only has scalar arguments.
fn source(device: MlirDevice, op: Op, scalars: &[(DType, u64)], dtype: DType, shape: &Shape) -> MlirTensor {
    push(device, &Operation { op: &op, operands: &[], scalars, dtype, shape }, &|_| Ok(()))
}

/// Records an operation. `check` tells whether its operands fit, unless the same operation of such operands was recorded
/// before.
pub(crate) fn push(device: MlirDevice, operation: &Operation<'_>, check: Check<'_>) -> MlirTensor {
    let &Operation { op, operands, dtype, shape, .. } = operation;
    // Of truth values, those that are chosen from say how the result is stored.
    let stored_like = if matches!(op, Op::Select) { operands.last() } else { operands.first() };
    let store = match stored_like {
        Some(Operand::Tensor(operand)) => operand.store,
        _ => BoolStore::Native,
    };
    // Not last: it would be copied right after it was written, which stalls the processor.
    let extents = extents(shape);
    let recorded = with_window(device, |window| {
        for operand in operands {
            if let Operand::Tensor(tensor) = operand {
                tensor.state.leave_other_windows(window)?;
            }
        }
        window.push(operation, check)
    });
    let state = recorded.unwrap_or_else(|error| TensorState::new(Value::Failed(*error)));
    MlirTensor { state, shape: extents, dtype, device, store }
}

fn tensor(device: MlirDevice, state: Arc<TensorState>, dtype: DType, shape: &Shape) -> MlirTensor {
    MlirTensor { state, shape: extents(shape), dtype, device, store: BoolStore::Native }
}

/// Seeds `device`.
pub(crate) fn seed(device: MlirDevice, seed: u64) {
    if let Ok(engine) = engine::engine(device) {
        engine.random.seed(seed);
    }
}

/// A tensor whose reading fails with `error`; operations on it fail likewise.
pub(crate) fn failed(device: MlirDevice, error: MlirError, dtype: DType, shape: Shape) -> MlirTensor {
    tensor(device, TensorState::new(Value::Failed(error)), dtype, &shape)
}

/// A tensor from host data (the dtype of `data`, which must be one of ours, see `dtype::to_ir`).
pub(crate) fn from_data(device: MlirDevice, data: TensorData) -> MlirTensor {
    // Stored as integers, any that is not 0 is true.
    let (integer, stored) = match data.dtype() {
        DataType::Bool(BoolStore::U8) => (DataType::U8, BoolDType::U8),
        DataType::Bool(BoolStore::U32) => (DataType::U32, BoolDType::U32),
        _ => return uploaded(device, data),
    };
    let (bytes, shape, _) = data.into_parts();
    uploaded(device, TensorData::from_bytes(bytes, shape, integer)).truth().stored(stored)
}

fn uploaded(device: MlirDevice, data: TensorData) -> MlirTensor {
    let shape = Shape::from(&data.shape()[..]);
    let Some(dtype) = dtype::to_ir(data.dtype()) else {
        let operands = format!("{:?}{shape}", data.dtype());
        let error = MlirError::Unsupported { op: "from_data", operands };
        return failed(device, error, DType::F32, shape);
    };
    let upload = |window: Arc<Window>| {
        let bytes = data.as_bytes();
        let made = window.session().as_mut().map(|session| session.upload(bytes, dtype, &shape));
        let block = Block::new(window.upload(bytes)?, None, made);
        Ok(Storage { block, layout: Layout::contiguous(&shape) })
    };
    match window(device).and_then(upload) {
        Ok(storage) => tensor(device, TensorState::new(Value::ready(storage)), dtype, &shape),
        Err(error) => failed(device, error, dtype, shape),
    }
}

/// The same tensor on another device.
pub(crate) fn to_device(tensor: MlirTensor, device: MlirDevice) -> MlirTensor {
    if tensor.device == device {
        return tensor;
    }
    let (dtype, shape, store) = (tensor.dtype, tensor.ir_shape(), tensor.store);
    let moved = match into_data(MlirTensor { store: BoolStore::Native, ..tensor }) {
        Ok(data) => from_data(device, data),
        Err(error) => {
            let error = MlirError::Invalid { op: "to_device", reason: error.reason().to_string() };
            failed(device, error, dtype, shape)
        }
    };
    MlirTensor { store, ..moved }
}

/// Starts everything recorded by this thread on `device`.
pub(crate) fn flush(device: MlirDevice) -> Result<(), ExecutionError> {
    Ok(window(device)?.flush()?)
}

/// Starts everything recorded by this thread on `device` and waits for it.
pub(crate) fn sync(device: MlirDevice) -> Result<(), ExecutionError> {
    let window = window(device)?;
    window.flush()?;
    Ok(window.wait()?)
}

/// Gives memory kept for reuse back to the system.
pub(crate) fn memory_cleanup(device: MlirDevice) {
    if let Ok(engine) = engine::engine(device) {
        engine.device.memory_cleanup();
    }
}

/// How much memory is in use and reserved.
pub(crate) fn memory_usage(device: MlirDevice) -> Result<MemoryUsage, MlirError> {
    Ok(engine::engine(device)?.device.memory_usage())
}

/// Runs `compute` on a fresh window and returns the graph it recorded, with what is alive as results.
pub(crate) fn observe<R>(device: MlirDevice, compute: impl FnOnce() -> R) -> Result<(R, Graph), MlirError> {
    let window = window(device)?;
    window.flush()?;
    let result = compute();
    Ok((result, window.graph()))
}

/// A node of the window that is being filled, as seen from a tensor.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Position {
    generation: u64,
    value: ValueId,
}
