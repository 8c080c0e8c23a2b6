//! Activation functions.

use super::Mlir;
use crate::MlirTensor;
use burn_backend::Scalar;
use burn_backend::ops::ActivationOps;

/// `method => method of the tensor`.
macro_rules! rows {
    ($($method:ident => $name:ident,)*) => {
        $(fn $method(tensor: MlirTensor) -> MlirTensor {
            tensor.$name()
        })*
    };
}

/// `method => method of the tensor` with the gradient of the result.
macro_rules! gradient_rows {
    ($($method:ident => $name:ident,)*) => {
        $(fn $method(at: MlirTensor, grad: MlirTensor) -> MlirTensor {
            at.$name(&grad)
        })*
    };
}

impl ActivationOps<Mlir> for Mlir {
    rows! {
        relu => relu, gelu => gelu, sigmoid => sigmoid, log_sigmoid => log_sigmoid,
    }

    gradient_rows! {
        relu_backward => relu_grad, gelu_backward => gelu_grad, sigmoid_backward => sigmoid_grad,
        log_sigmoid_backward => log_sigmoid_grad,
    }

    fn leaky_relu(tensor: MlirTensor, negative_slope: Scalar) -> MlirTensor {
        tensor.leaky_relu(negative_slope)
    }

    fn prelu(tensor: MlirTensor, alpha: MlirTensor) -> MlirTensor {
        tensor.prelu(&alpha)
    }

    fn hard_sigmoid(tensor: MlirTensor, alpha: Scalar, beta: Scalar) -> MlirTensor {
        tensor.hard_sigmoid(alpha, beta)
    }

    fn softmax(tensor: MlirTensor, dim: usize) -> MlirTensor {
        tensor.softmax(dim)
    }

    fn log_softmax(tensor: MlirTensor, dim: usize) -> MlirTensor {
        tensor.log_softmax(dim)
    }

    fn softmin(tensor: MlirTensor, dim: usize) -> MlirTensor {
        tensor.neg().softmax(dim)
    }
}
