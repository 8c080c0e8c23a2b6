//! Quantised tensors: this version has none, so every way to make one makes a failed tensor.

use super::{Mlir, float_type};
use crate::{MlirDevice, MlirError, MlirTensor, record};
use burn_backend::ops::QTensorOps;
use burn_backend::quantization::{QuantScheme, QuantizationParametersPrimitive};
use burn_backend::{
    DType, DTypeUsageSet, ExecutionError, FloatDType, Shape, Slice, TensorData, TensorMetadata,
};
use burn_mlir_ir as ir;

/// A quantised tensor.
#[derive(Clone, Debug)]
pub struct QuantizedTensor {
    values: MlirTensor,
    scheme: QuantScheme,
}

impl TensorMetadata for QuantizedTensor {
    type Device = MlirDevice;

    fn dtype(&self) -> DType {
        DType::QFloat(self.scheme)
    }

    fn shape(&self) -> Shape {
        self.values.shape()
    }

    fn device(&self) -> MlirDevice {
        self.values.device
    }

    fn can_mut(&self) -> bool {
        self.values.can_mut()
    }
}

/// What tensors of a scheme can be used for.
pub(super) fn usage(_: &QuantScheme) -> DTypeUsageSet {
    DTypeUsageSet::empty()
}

impl QuantizedTensor {
    /// The failed result of quantising a float tensor.
    fn of_float(tensor: &MlirTensor, scheme: &QuantScheme) -> Self {
        let shape = tensor.ir_shape();
        let values = crate::ops::unsupported("quantize", &[tensor], ir::DType::I8, shape);
        Self { values, scheme: *scheme }
    }

    /// The same scheme with other values.
    fn with(&self, f: impl FnOnce(&MlirTensor) -> MlirTensor) -> Self {
        Self { values: f(&self.values), scheme: self.scheme }
    }
}

impl QTensorOps<Mlir> for Mlir {
    fn q_from_data(data: TensorData, device: &MlirDevice) -> QuantizedTensor {
        let scheme = match data.dtype() {
            DType::QFloat(scheme) => scheme,
            _ => QuantScheme::default(),
        };
        let shape = ir::Shape::from(&data.shape()[..]);
        let operands = format!("{:?}{shape}", data.dtype());
        let error = MlirError::Unsupported { op: "q_from_data", operands };
        QuantizedTensor { values: record::failed(*device, error, ir::DType::I8, shape), scheme }
    }

    fn quantize(
        tensor: MlirTensor,
        scheme: &QuantScheme,
        _: QuantizationParametersPrimitive<Self>,
    ) -> QuantizedTensor {
        QuantizedTensor::of_float(&tensor, scheme)
    }

    fn quantize_dynamic(tensor: MlirTensor, scheme: &QuantScheme) -> QuantizedTensor {
        QuantizedTensor::of_float(&tensor, scheme)
    }

    fn dequantize(tensor: QuantizedTensor, dtype: FloatDType) -> MlirTensor {
        tensor.values.cast(float_type(dtype))
    }

    fn q_to_device(tensor: QuantizedTensor, device: &MlirDevice) -> QuantizedTensor {
        tensor.with(|values| record::to_device(values.clone(), *device))
    }

    async fn q_into_data(tensor: QuantizedTensor) -> Result<TensorData, ExecutionError> {
        record::into_data(tensor.values)
    }

    fn q_reshape(tensor: QuantizedTensor, shape: Shape) -> QuantizedTensor {
        tensor.with(|values| values.reshape(&shape[..]))
    }

    fn q_swap_dims(tensor: QuantizedTensor, dim1: usize, dim2: usize) -> QuantizedTensor {
        tensor.with(|values| values.swap_axes(dim1, dim2))
    }

    fn q_permute(tensor: QuantizedTensor, axes: &[usize]) -> QuantizedTensor {
        tensor.with(|values| values.permute(axes))
    }

    fn q_flip(tensor: QuantizedTensor, axes: &[usize]) -> QuantizedTensor {
        tensor.with(|values| values.flip(axes))
    }

    fn q_slice(tensor: QuantizedTensor, slices: &[Slice]) -> QuantizedTensor {
        tensor.with(|values| values.slices(slices))
    }
}
