//! Burn's own intermediate representation of programs: what its fusion and its remote server keep tensors as.

use super::Mlir;
use crate::{MlirError, MlirTensor, QuantizedTensor, record};
use burn_backend::TensorMetadata;
use burn_backend::quantization::QuantScheme;
use burn_ir::{BackendIr, TensorHandle};
use burn_mlir_ir as ir;

/// A tensor of any kind. Floats, integers and truth values differ in their type only.
#[derive(Clone, Debug)]
pub enum MlirHandle {
    /// A tensor of numbers or truth values.
    Plain(MlirTensor),
    /// A quantised tensor.
    Quantized(Box<QuantizedTensor>),
}

impl MlirHandle {
    fn plain(handle: TensorHandle<Self>) -> MlirTensor {
        match handle.handle {
            Self::Plain(tensor) => tensor,
            Self::Quantized(tensor) => {
                let error = misplaced("quantised, and used as one that is not");
                record::failed(tensor.device(), error, ir::DType::F32, (&handle.shape[..]).into())
            }
        }
    }

    fn quantized(handle: TensorHandle<Self>) -> QuantizedTensor {
        match handle.handle {
            Self::Quantized(tensor) => *tensor,
            Self::Plain(tensor) => {
                let error = misplaced("not quantised, and used as one that is");
                let shape = (&handle.shape[..]).into();
                QuantizedTensor::failed(tensor.device, error, shape, QuantScheme::default())
            }
        }
    }
}

/// What a program that mixes up kinds of tensors gets.
fn misplaced(how: &str) -> MlirError {
    MlirError::Invalid { op: "handle", reason: format!("the tensor is {how}") }
}

impl BackendIr for Mlir {
    type Handle = MlirHandle;

    fn float_tensor(handle: TensorHandle<MlirHandle>) -> MlirTensor {
        MlirHandle::plain(handle)
    }

    fn int_tensor(handle: TensorHandle<MlirHandle>) -> MlirTensor {
        MlirHandle::plain(handle)
    }

    fn bool_tensor(handle: TensorHandle<MlirHandle>) -> MlirTensor {
        MlirHandle::plain(handle)
    }

    fn quantized_tensor(handle: TensorHandle<MlirHandle>) -> QuantizedTensor {
        MlirHandle::quantized(handle)
    }

    fn float_tensor_handle(tensor: MlirTensor) -> MlirHandle {
        MlirHandle::Plain(tensor)
    }

    fn int_tensor_handle(tensor: MlirTensor) -> MlirHandle {
        MlirHandle::Plain(tensor)
    }

    fn bool_tensor_handle(tensor: MlirTensor) -> MlirHandle {
        MlirHandle::Plain(tensor)
    }

    fn quantized_tensor_handle(tensor: QuantizedTensor) -> MlirHandle {
        MlirHandle::Quantized(Box::new(tensor))
    }
}
