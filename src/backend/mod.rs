//! `Mlir`: Burn's backend traits in terms of [`ops`](crate::ops), one file per trait.

mod activation;
mod boolean;
mod float;
#[cfg(feature = "fusion")]
mod fusion;
mod int;
mod module;
mod quantized;
mod representation;
mod rows;
mod transaction;

#[cfg(feature = "fusion")]
pub use fusion::{MlirFusion, NoOptimization};
pub use representation::MlirHandle;

use crate::ops::Padding;
use crate::{MlirDevice, MlirError, MlirGraph, MlirTensor, QuantizedTensor, dtype, engine, graph, record};
use burn_backend::distributed::{CollectiveTensor, DistributedOps, ReduceOperation};
use burn_backend::ops::PadMode;
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{
    Backend, BackendTypes, DType, DTypeUsage, DTypeUsageSet, DeviceId, ExecutionError, FloatDType, IntDType,
    MemoryPoolUsage, Scalar,
};
use burn_mlir_ir as ir;

/// The backend.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mlir;

impl BackendTypes for Mlir {
    type Device = MlirDevice;
    type FloatTensorPrimitive = MlirTensor;
    type IntTensorPrimitive = MlirTensor;
    type BoolTensorPrimitive = MlirTensor;
    type QuantizedTensorPrimitive = QuantizedTensor;
    type GraphPrimitive = MlirGraph;
}

impl Backend for Mlir {
    fn name(device: &MlirDevice) -> String {
        format!("mlir<{device}>")
    }

    fn seed(device: &MlirDevice, seed: u64) {
        record::seed(*device, seed);
    }

    fn sync(device: &MlirDevice) -> Result<(), ExecutionError> {
        record::sync(*device)
    }

    fn flush(device: &MlirDevice) -> Result<(), ExecutionError> {
        record::flush(*device)
    }

    fn graph_prepare(device: &MlirDevice) -> Result<(), ExecutionError> {
        Ok(graph::prepare(*device)?)
    }

    fn graph_start_capture(device: &MlirDevice) -> Result<(), ExecutionError> {
        Ok(graph::start(*device)?)
    }

    fn graph_stop_capture(device: &MlirDevice) -> Result<MlirGraph, ExecutionError> {
        Ok(graph::stop(*device)?)
    }

    unsafe fn graph_replay(device: &MlirDevice, graph: &MlirGraph) -> Result<(), ExecutionError> {
        Ok(graph::replay(*device, graph)?)
    }

    fn memory_cleanup(device: &MlirDevice) {
        record::memory_cleanup(*device);
    }

    fn memory_pool_usage(device: &MlirDevice) -> Option<MemoryPoolUsage> {
        let usage = record::memory_usage(*device).ok()?;
        Some(MemoryPoolUsage {
            bytes_in_use: usage.in_use as u64,
            bytes_reserved: usage.reserved as u64,
            ..MemoryPoolUsage::default()
        })
    }

    fn dtype_usage(device: &MlirDevice, dtype: DType) -> DTypeUsageSet {
        let Ok(engine) = engine::engine(*device) else { return DTypeUsageSet::empty() };
        match (dtype, dtype::to_ir(dtype)) {
            (DType::QFloat(scheme), _) => quantized::usage(&scheme),
            (_, Some(dtype)) if engine.target().multiplies_matrices_of(dtype) => {
                DTypeUsage::general() | DTypeUsage::Accelerated
            }
            (_, Some(_)) => DTypeUsage::general(),
            (_, None) => DTypeUsageSet::empty(),
        }
    }

    fn device_count(type_id: u16) -> usize {
        MlirDevice::count(type_id)
    }
}

impl DistributedOps<Mlir> for Mlir {
    fn all_reduce(tensor: MlirTensor, _: ReduceOperation, devices: Vec<DeviceId>) -> CollectiveTensor<Self> {
        // The sum and the mean of one tensor are the tensor.
        if devices.len() <= 1 {
            return CollectiveTensor::new(tensor);
        }
        let shape = tensor.ir_shape();
        CollectiveTensor::new(crate::ops::unsupported(
            "all_reduce over several devices",
            &[&tensor],
            tensor.dtype,
            shape,
        ))
    }

    fn sync_collective(_: &MlirDevice) {}
}

/// The compiler's type for one of Burn's floats; all of them exist.
fn float_type(dtype: FloatDType) -> ir::DType {
    dtype::to_ir(dtype.into()).unwrap_or(ir::DType::F32)
}

/// The compiler's type for one of Burn's integers; all of them exist.
fn int_type(dtype: IntDType) -> ir::DType {
    dtype::to_ir(dtype.into()).unwrap_or(ir::DType::I64)
}

/// Tensors one after the other; Burn never gives none.
fn concat(tensors: &[MlirTensor], axis: usize) -> MlirTensor {
    MlirTensor::concat(tensors, axis).unwrap_or_else(|| {
        let error = MlirError::Invalid { op: "cat", reason: "no tensors".into() };
        record::failed(MlirDevice::default(), error, ir::DType::F32, ir::Shape::from([0]))
    })
}

/// What a scatter does for one of Burn's updates.
fn scatter_op(update: IndexingUpdateOp) -> ir::ScatterOp {
    match update {
        IndexingUpdateOp::Assign => ir::ScatterOp::Assign,
        IndexingUpdateOp::Add => ir::ScatterOp::Add,
        IndexingUpdateOp::Mul => ir::ScatterOp::Mul,
        IndexingUpdateOp::Min => ir::ScatterOp::Min,
        IndexingUpdateOp::Max => ir::ScatterOp::Max,
    }
}

/// One of Burn's paddings.
fn pad(tensor: &MlirTensor, pads: &[(usize, usize)], mode: PadMode) -> MlirTensor {
    if pads.len() != tensor.shape.len() {
        let reason = format!("{} paddings for rank {}", pads.len(), tensor.shape.len());
        let error = MlirError::Invalid { op: "pad", reason };
        return record::failed(tensor.device, error, tensor.dtype, tensor.ir_shape());
    }
    match mode {
        PadMode::Constant(value) => {
            let (device, value) = (tensor.device, Scalar::Float(value as f64));
            let one = ir::Shape::new(pads.iter().map(|_| 1));
            tensor.pad_with(pads, &record::fill(device, value, tensor.dtype, one))
        }
        PadMode::Reflect => tensor.pad_from_within(pads, Padding::Reflect),
        PadMode::Edge => tensor.pad_from_within(pads, Padding::Edge),
    }
}
