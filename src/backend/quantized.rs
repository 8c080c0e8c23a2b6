//! Quantised tensors. What is not here is Burn's own composition: dequantise, compute, and where the
//! device's settings ask for it, quantise again. All of it is recorded and fuses.

use super::{Mlir, float_type, int_type};
use crate::quantized::{self, product};
use crate::record::Read;
use crate::{MlirDevice, MlirError, MlirTensor, QuantizedTensor};
use burn_backend::ops::QTensorOps;
use burn_backend::quantization::{QuantPropagation, QuantScheme, QuantizationParametersPrimitive};
use burn_backend::{
    DTypeUsage, DTypeUsageSet, ExecutionError, FloatDType, IntDType, Shape, Slice, TensorData,
    TensorMetadata, TensorPrimitive, get_or_init_device_settings,
};
use burn_mlir_ir::{self as ir, ArgReduceOp, ReduceOp};

/// What tensors of a scheme can be used for.
pub(super) fn usage(scheme: &QuantScheme) -> DTypeUsageSet {
    if quantized::supports(scheme) { DTypeUsage::general() } else { DTypeUsageSet::empty() }
}

impl QTensorOps<Mlir> for Mlir {
    fn q_from_data(data: TensorData, device: &MlirDevice) -> QuantizedTensor {
        QuantizedTensor::from_data(data, *device)
    }

    fn quantize(
        tensor: MlirTensor,
        scheme: &QuantScheme,
        qparams: QuantizationParametersPrimitive<Self>,
    ) -> QuantizedTensor {
        QuantizedTensor::with_scales(&tensor, scheme, &qparams.scales, qparams.global.as_ref())
    }

    fn quantize_dynamic(tensor: MlirTensor, scheme: &QuantScheme) -> QuantizedTensor {
        QuantizedTensor::dynamic(&tensor, scheme)
    }

    fn dequantize(tensor: QuantizedTensor, dtype: FloatDType) -> MlirTensor {
        tensor.dequantized(float_type(dtype))
    }

    fn q_to_device(tensor: QuantizedTensor, device: &MlirDevice) -> QuantizedTensor {
        tensor.to_device(*device)
    }

    fn q_into_data(
        tensor: QuantizedTensor,
    ) -> impl Future<Output = Result<TensorData, ExecutionError>> + Send {
        let (parts, outline) = tensor.into_parts();
        Read::begin(parts).later(move |read| Ok(outline.filled(read.finish()?)))
    }

    fn q_reshape(tensor: QuantizedTensor, shape: Shape) -> QuantizedTensor {
        tensor.reshape(&ir::Shape::from(&shape[..]))
    }

    fn q_expand(tensor: QuantizedTensor, shape: Shape) -> QuantizedTensor {
        tensor.expand(&ir::Shape::from(&shape[..]))
    }

    fn q_swap_dims(tensor: QuantizedTensor, dim1: usize, dim2: usize) -> QuantizedTensor {
        tensor.swap_axes(dim1, dim2)
    }

    fn q_permute(tensor: QuantizedTensor, axes: &[usize]) -> QuantizedTensor {
        tensor.permute(axes)
    }

    fn q_flip(tensor: QuantizedTensor, axes: &[usize]) -> QuantizedTensor {
        tensor.flip(axes)
    }

    fn q_slice(tensor: QuantizedTensor, slices: &[Slice]) -> QuantizedTensor {
        tensor.slices(slices)
    }

    fn q_select(tensor: QuantizedTensor, dim: usize, indices: MlirTensor) -> QuantizedTensor {
        tensor.select(dim, &indices)
    }

    fn q_gather(dim: usize, tensor: QuantizedTensor, indices: MlirTensor) -> QuantizedTensor {
        tensor.gather(dim, &indices)
    }

    fn q_repeat_dim(tensor: QuantizedTensor, dim: usize, times: usize) -> QuantizedTensor {
        tensor.repeat(dim, times)
    }

    fn q_cat(tensors: Vec<QuantizedTensor>, dim: usize) -> QuantizedTensor {
        QuantizedTensor::concat(&tensors, dim).unwrap_or_else(|| {
            let error = MlirError::Invalid { op: "q_cat", reason: "no tensors".into() };
            let shape = ir::Shape::from([0]);
            QuantizedTensor::failed(MlirDevice::default(), error, shape, QuantScheme::default())
        })
    }

    fn q_matmul(lhs: TensorPrimitive<Self>, rhs: TensorPrimitive<Self>) -> TensorPrimitive<Self> {
        // As in Burn, the scheme of the last quantised operand is that of the result.
        let (mut given, mut float, mut propagated) = (None, None, None);
        for operand in [&lhs, &rhs] {
            match operand {
                TensorPrimitive::Float(tensor) => given = given.or(Some(tensor.dtype)),
                TensorPrimitive::QFloat(tensor) => {
                    let settings = get_or_init_device_settings::<Self>(&tensor.device());
                    let propagates = settings.quantization.propagation == QuantPropagation::Propagate;
                    propagated = propagates.then(|| tensor.scheme());
                    float = Some(float_type(settings.float_dtype));
                }
            }
        }
        let dtype = given.or(float).unwrap_or(ir::DType::F32);
        let product = product::matmul(&lhs, &rhs, dtype);
        match propagated {
            Some(scheme) => TensorPrimitive::QFloat(QuantizedTensor::dynamic(&product, &scheme)),
            None => TensorPrimitive::Float(product),
        }
    }

    fn q_abs(tensor: QuantizedTensor) -> QuantizedTensor {
        tensor.abs()
    }

    fn q_argmax(tensor: QuantizedTensor, dim: usize, out_dtype: IntDType) -> MlirTensor {
        tensor.arg_reduce(ArgReduceOp::ArgMax, dim, int_type(out_dtype))
    }

    fn q_argmin(tensor: QuantizedTensor, dim: usize, out_dtype: IntDType) -> MlirTensor {
        tensor.arg_reduce(ArgReduceOp::ArgMin, dim, int_type(out_dtype))
    }

    fn q_max(tensor: QuantizedTensor) -> QuantizedTensor {
        tensor.extreme_of_all(ReduceOp::Max)
    }

    fn q_max_dim(tensor: QuantizedTensor, dim: usize) -> QuantizedTensor {
        tensor.extreme(ReduceOp::Max, dim)
    }

    fn q_max_dim_with_indices(
        tensor: QuantizedTensor,
        dim: usize,
        out_dtype: IntDType,
    ) -> (QuantizedTensor, MlirTensor) {
        let positions = tensor.arg_reduce(ArgReduceOp::ArgMax, dim, int_type(out_dtype));
        (tensor.extreme(ReduceOp::Max, dim), positions)
    }

    fn q_min(tensor: QuantizedTensor) -> QuantizedTensor {
        tensor.extreme_of_all(ReduceOp::Min)
    }

    fn q_min_dim(tensor: QuantizedTensor, dim: usize) -> QuantizedTensor {
        tensor.extreme(ReduceOp::Min, dim)
    }

    fn q_min_dim_with_indices(
        tensor: QuantizedTensor,
        dim: usize,
        out_dtype: IntDType,
    ) -> (QuantizedTensor, MlirTensor) {
        let positions = tensor.arg_reduce(ArgReduceOp::ArgMin, dim, int_type(out_dtype));
        (tensor.extreme(ReduceOp::Min, dim), positions)
    }

    // Burn's default gives the element itself, sign included, unlike the operation on floats.
    fn q_max_abs(tensor: QuantizedTensor) -> QuantizedTensor {
        tensor.abs().extreme_of_all(ReduceOp::Max)
    }

    fn q_max_abs_dim(tensor: QuantizedTensor, dim: usize) -> QuantizedTensor {
        tensor.abs().extreme(ReduceOp::Max, dim)
    }

    fn q_sort(tensor: QuantizedTensor, dim: usize, descending: bool) -> QuantizedTensor {
        tensor.sort(dim, descending)
    }

    fn q_sort_with_indices(
        tensor: QuantizedTensor,
        dim: usize,
        descending: bool,
        out_dtype: IntDType,
    ) -> (QuantizedTensor, MlirTensor) {
        let positions = tensor.argsort(dim, descending, int_type(out_dtype));
        (tensor.gather(dim, &positions), positions)
    }

    fn q_argsort(tensor: QuantizedTensor, dim: usize, descending: bool, out_dtype: IntDType) -> MlirTensor {
        tensor.argsort(dim, descending, int_type(out_dtype))
    }

    fn q_argtopk(tensor: QuantizedTensor, dim: usize, k: usize, out_dtype: IntDType) -> MlirTensor {
        tensor.argsort(dim, true, int_type(out_dtype)).first(dim, k)
    }

    fn q_topk(tensor: QuantizedTensor, dim: usize, k: usize) -> QuantizedTensor {
        tensor.topk(dim, k)
    }

    fn q_topk_with_indices(
        tensor: QuantizedTensor,
        dim: usize,
        k: usize,
        out_dtype: IntDType,
    ) -> (QuantizedTensor, MlirTensor) {
        let positions = tensor.argsort(dim, true, int_type(out_dtype)).first(dim, k);
        (tensor.gather(dim, &positions), positions)
    }
}
