//! Reading: values of tensors as data on the host.

use super::{Storage, TensorState, Window, fail_captures, record, window};
use crate::graph::CaptureError;
use crate::{MlirDevice, MlirError, MlirTensor};
use burn_backend::{BoolStore, DType as DataType, ExecutionError, TensorData, TensorMetadata};
use burn_mlir_ir::{DType, Op, Shape};
use burn_std::{RuntimeKind, runtime_kind};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Tensors to be read together: what is recorded is started once, and each device is waited for once.
///
/// Begun by the thread that works on the tensors and finished by the one that waits, which may be another: Burn's
/// fusion has a thread for the former. Errors of the first one's work are found by the read.
pub(crate) struct Read {
    tensors: SmallVec<[MlirTensor; 1]>,
    /// What they are read as.
    types: SmallVec<[DataType; 1]>,
    /// The beginning thread's, of every device that is read from.
    windows: SmallVec<[(MlirDevice, Opened); 1]>,
}

/// A window, unless its device is not available.
type Opened = Result<Arc<Window>, MlirError>;

impl Read {
    pub(crate) fn begin(mut tensors: SmallVec<[MlirTensor; 1]>) -> Self {
        fail_captures(&CaptureError::Read);
        let mut windows = SmallVec::new();
        let types: SmallVec<[_; 1]> = tensors.iter().map(|tensor| tensor.dtype()).collect();
        for (tensor, dtype) in tensors.iter_mut().zip(&types) {
            if *dtype == DataType::Bool(BoolStore::U32) {
                *tensor = tensor.cast(DType::U32);
            }
            if !windows.iter().any(|(device, _)| *device == tensor.device) {
                windows.push((tensor.device, window(tensor.device)));
            }
        }
        Self { tensors, types, windows }
    }

    /// What `finish` makes of the read, when it is waited for; but at once if the program says that those who wait are
    /// threads of an asynchronous runtime, which must not be blocked.
    pub(crate) fn later<T: Send>(
        self,
        finish: impl FnOnce(Self) -> T + Send,
    ) -> impl Future<Output = T> + Send {
        let step = match runtime_kind() {
            RuntimeKind::Async => Step::Done(finish(self)),
            _ => Step::Begun(self, finish),
        };
        async move {
            match step {
                Step::Begun(read, finish) => finish(read),
                Step::Done(result) => result,
            }
        }
    }

    /// Computes the tensors and copies them to the host, in their order. Fails if one of them does.
    pub(crate) fn finish(self) -> Result<SmallVec<[TensorData; 1]>, ExecutionError> {
        let Self { mut tensors, types, windows } = self;
        let shapes: SmallVec<[_; 1]> = tensors.iter().map(TensorMetadata::shape).collect();
        let mut in_rows = false;
        let compute = match tensors.len() {
            1 => TensorState::compute,
            // The wait is below, for all of them.
            _ => TensorState::start,
        };
        let mut storages: SmallVec<[Storage; 1]> = SmallVec::new();
        for tensor in &mut tensors {
            let storage = compute(&tensor.state)?;
            if !storage.layout.is_contiguous() {
                *tensor = in_a_row(tensor);
                in_rows = true;
            }
            storages.push(storage);
        }
        if in_rows {
            for (tensor, storage) in tensors.iter().zip(&mut storages) {
                *storage = compute(&tensor.state)?;
            }
        }
        let bytes = |tensor: &MlirTensor| tensor.shape.iter().product::<usize>() * tensor.dtype.size();
        let mut values: SmallVec<[Vec<u8>; 1]> =
            tensors.iter().map(|tensor| vec![0; bytes(tensor)]).collect();
        for (device, window) in windows {
            let members = tensors.iter().zip(&storages).zip(&mut values);
            let members = members.filter(|((tensor, _), _)| tensor.device == device);
            let copies = members.map(|((tensor, storage), values)| {
                (&*storage.block, storage.layout.offset as usize * tensor.dtype.size(), &mut values[..])
            });
            window?.download(copies)?;
        }
        let read = values.into_iter().zip(shapes).zip(types);
        Ok(read.map(|((values, shape), dtype)| TensorData::from_bytes_vec(values, shape, dtype)).collect())
    }
}

#[allow(clippy::large_enum_variant)] // One lives as long as a future.
enum Step<T, F> {
    Begun(Read, F),
    Done(T),
}

/// The elements one after the other.
fn in_a_row(tensor: &MlirTensor) -> MlirTensor {
    let row = Shape::from([tensor.shape.iter().product::<usize>()]);
    let flat = record(tensor.device, Op::Reshape, &[tensor], tensor.dtype, row.clone());
    // A cast to its own type is a computation, whose result has no gaps if it is one row.
    record(tensor.device, Op::Cast, &[&flat], tensor.dtype, row)
}

/// Computes a tensor and copies it to the host.
pub(crate) fn into_data(tensor: MlirTensor) -> Result<TensorData, ExecutionError> {
    one(Read::begin(smallvec![tensor]))
}

/// As [`into_data`], when the future is waited for.
pub(crate) fn into_data_later(
    tensor: MlirTensor,
) -> impl Future<Output = Result<TensorData, ExecutionError>> + Send {
    Read::begin(smallvec![tensor]).later(one)
}

fn one(read: Read) -> Result<TensorData, ExecutionError> {
    let data = read.finish()?.pop();
    data.ok_or_else(|| ExecutionError::with_context("a read of one tensor has no data"))
}
