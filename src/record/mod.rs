//! Recording: every operation becomes one node of the calling thread's window.
//!
//! A [`TensorState`] is what a lazy handle points to. Recording an operation appends a node to the
//! thread's [`Window`] and makes a state that names it. A window is flushed — planned, compiled where
//! needed, and given to the device's stream — when a value is read, when another thread or device
//! needs one of its values, on `flush` and `sync`, and when it is long. Values whose last handle was
//! dropped by then are not materialised.

mod cut;
mod read;
mod state;
mod window;

pub(crate) use read::{Read, into_data, into_data_later};
pub use state::TensorState;
pub(crate) use state::{Block, Storage};
pub(crate) use window::{Window, number};

use crate::engine;
use crate::graph::CaptureError;
use crate::{MlirDevice, MlirError, MlirTensor, dtype};
use burn_backend::{BoolDType, BoolStore, DType as DataType, ExecutionError, Scalar, TensorData};
use burn_mlir_ir::{DType, Graph, Layout, Op, Shape, ValueId};
use burn_mlir_runtime::MemoryUsage;
use smallvec::SmallVec;
use state::Value;
use std::cell::RefCell;
use std::sync::Arc;

/// The windows of a thread, one per device it has used.
type Windows = SmallVec<[(MlirDevice, Arc<Window>); 1]>;

thread_local! {
    static WINDOWS: RefCell<Windows> = const { RefCell::new(SmallVec::new_const()) };
}

/// The calling thread's window of `device`.
pub(crate) fn window(device: MlirDevice) -> Result<Arc<Window>, MlirError> {
    WINDOWS.with(|windows| {
        let mut windows = windows.borrow_mut();
        if let Some((_, window)) = windows.iter().find(|(owner, _)| *owner == device) {
            return Ok(window.clone());
        }
        let window = Arc::new(Window::new(engine::engine(device)?)?);
        windows.push((device, window.clone()));
        Ok(window)
    })
}

/// Gives up the captures of the calling thread, on all devices.
pub(crate) fn fail_captures(error: &CaptureError) {
    WINDOWS.with(|windows| {
        for (_, window) in &*windows.borrow() {
            if let Some(session) = &mut *window.session() {
                session.fail(error.clone());
            }
        }
    });
}

/// How far the calling thread has got on its other devices, with nothing left to start there.
pub(crate) fn elsewhere(device: MlirDevice) -> Result<Elsewhere, MlirError> {
    let windows = WINDOWS.with(|windows| windows.borrow().clone());
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
    push(device, op, operands, &[], dtype, shape)
}

/// A tensor whose every element is `value`, a run-time argument: other values recompile nothing.
pub(crate) fn fill(device: MlirDevice, value: Scalar, dtype: DType, shape: Shape) -> MlirTensor {
    let bits = dtype::scalar_bits(value, dtype);
    push(device, Op::Fill { slot: 0 }, &[], &[(dtype, bits)], dtype, shape)
}

/// 32 random bits an element (u32), from the device's seed and the number of draws since.
pub(crate) fn random_bits(device: MlirDevice, shape: Shape) -> MlirTensor {
    let draw = match engine::engine(device) {
        Ok(engine) => engine.random.draw(),
        Err(error) => return failed(device, error, DType::U32, shape),
    };
    let scalars = [(DType::U32, draw.key as u64), (DType::U32, draw.stream as u64)];
    push(device, Op::Random { key: 0, stream: 1 }, &[], &scalars, DType::U32, shape)
}

/// Records an operation that takes scalar arguments; the slots in `op` count from the first of `scalars`.
pub(crate) fn record_with(
    device: MlirDevice,
    op: Op,
    operands: &[&MlirTensor],
    scalars: &[(DType, Scalar)],
    dtype: DType,
    shape: Shape,
) -> MlirTensor {
    let scalars: SmallVec<[(DType, u64); 2]> =
        scalars.iter().map(|&(dtype, value)| (dtype, dtype::scalar_bits(value, dtype))).collect();
    push(device, op, operands, &scalars, dtype, shape)
}

/// Appends a node with its scalar arguments; the slots in `op` count from the first of `scalars`.
fn push(
    device: MlirDevice,
    op: Op,
    operands: &[&MlirTensor],
    scalars: &[(DType, u64)],
    dtype: DType,
    shape: Shape,
) -> MlirTensor {
    // Of truth values, those that are chosen from say how the result is stored.
    let stored_like = if matches!(op, Op::Select) { operands.last() } else { operands.first() };
    let store = stored_like.map_or(BoolStore::Native, |operand| operand.store);
    let recorded = window(device).and_then(|window| {
        for operand in operands {
            operand.state.leave_other_windows(&window)?;
        }
        Window::push(&window, op, operands, scalars, dtype, shape.clone())
    });
    let result = match recorded {
        Ok(state) => tensor(device, state, dtype, &shape),
        Err(error) => failed(device, error, dtype, shape),
    };
    MlirTensor { store, ..result }
}

fn tensor(device: MlirDevice, state: Arc<TensorState>, dtype: DType, shape: &Shape) -> MlirTensor {
    MlirTensor {
        state,
        shape: burn_backend::Shape::from(shape.to_vec()),
        dtype,
        device,
        store: BoolStore::Native,
    }
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
