//! Matrix products with quantised operands.

use super::{QuantizedTensor, codes};
use crate::MlirTensor;
use burn_backend::TensorPrimitive;
use burn_mlir_ir::{DType, Shape};

/// An operand of a product.
pub(crate) type Operand = TensorPrimitive<crate::Mlir>;

/// The product of two matrices or batches of such, in `dtype`.
///
/// A row times a quantised matrix reads nothing but that: it is a sum of products whose terms are dequantised as they
/// are read. So are codes of 8 bits with one scale, which multiplies the result, where products are of f32. Other
/// operands are dequantised first.
pub(crate) fn matmul(lhs: &Operand, rhs: &Operand, dtype: DType) -> MlirTensor {
    if let (TensorPrimitive::Float(row), TensorPrimitive::QFloat(matrix)) = (lhs, rhs)
        && let Some(product) = row_times_matrix(row, matrix, dtype)
    {
        return product;
    }
    let (a, of_a) = factor(lhs, dtype);
    let (b, of_b) = factor(rhs, dtype);
    let product = a.matmul(&b);
    [of_a, of_b].iter().flatten().fold(product, |product, scale| {
        let ones = Shape::new(product.shape.iter().map(|_| 1));
        product.mul(&scale.cast(dtype).reshape(ones))
    })
}

/// An operand as floats, and what the product has to be multiplied with.
fn factor(operand: &Operand, dtype: DType) -> (MlirTensor, Option<MlirTensor>) {
    match operand {
        TensorPrimitive::Float(tensor) => (tensor.clone(), None),
        TensorPrimitive::QFloat(tensor) => {
            let bytes = codes::code_dtype(tensor.scheme.value) == DType::I8;
            if dtype == DType::F32 && bytes && tensor.scheme.block_size().is_none() {
                return (tensor.codes.data.cast(dtype), Some(tensor.steps()));
            }
            (tensor.dequantized(dtype), None)
        }
    }
}

/// `[.., 1, k] · [.., k, n]` without a batch; `None` if it is not that.
fn row_times_matrix(row: &MlirTensor, matrix: &QuantizedTensor, dtype: DType) -> Option<MlirTensor> {
    let (&[.., m, k], &[.., of_matrix, n]) = (&row.shape[..], &matrix.codes.shape[..]) else {
        return None;
    };
    let rank = row.shape.len();
    let alone = m == 1 && row.ir_shape().elements() == k && matrix.codes.shape.elements() == k * n;
    if !alone || k != of_matrix || rank != matrix.codes.shape.rank() || row.dtype != dtype || k * n == 0 {
        return None;
    }
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let terms = row.cast(wide).swap_axes(rank - 2, rank - 1).mul(&matrix.dequantized(wide));
    Some(terms.sum(&[rank - 2]).cast(dtype))
}
