//! Truth values.

use super::rows::{common_rows, truth_rows, unary_rows};
use super::{Mlir, float_type, int_type};
use crate::{MlirDevice, MlirTensor, record};
use burn_backend::ops::BoolTensorOps;
use burn_backend::{BoolDType, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice, TensorData};
use burn_mlir_ir as ir;
use burn_mlir_ir::{BinaryOp, CompareOp, DType, ReduceOp, ScatterOp, UnaryOp};

impl BoolTensorOps<Mlir> for Mlir {
    common_rows! {
        bool_from_data, bool_into_data, bool_to_device, bool_reshape, bool_transpose, bool_swap_dims,
        bool_permute, bool_flip, bool_expand, bool_slice, bool_slice_assign, bool_mask_where,
        bool_mask_fill, bool_gather, bool_select, bool_repeat_dim, bool_cat, bool_unfold, bool_mask_select,
    }

    unary_rows! {
        bool_not => Not,
    }

    truth_rows! {
        bool_any, bool_any_dim => Max;
        bool_all, bool_all_dim => Min;
    }

    fn bool_empty(shape: Shape, device: &MlirDevice, dtype: BoolDType) -> MlirTensor {
        Self::bool_zeros(shape, device, dtype)
    }

    fn bool_zeros(shape: Shape, device: &MlirDevice, dtype: BoolDType) -> MlirTensor {
        MlirTensor::constant(*device, 0.0, DType::Bool, (&shape[..]).into()).stored(dtype)
    }

    fn bool_ones(shape: Shape, device: &MlirDevice, dtype: BoolDType) -> MlirTensor {
        MlirTensor::constant(*device, 1.0, DType::Bool, (&shape[..]).into()).stored(dtype)
    }

    fn bool_into_int(tensor: MlirTensor, out_dtype: IntDType) -> MlirTensor {
        tensor.cast(int_type(out_dtype))
    }

    fn bool_into_float(tensor: MlirTensor, out_dtype: FloatDType) -> MlirTensor {
        tensor.cast(float_type(out_dtype))
    }

    fn bool_scatter_or(dim: usize, tensor: MlirTensor, indices: MlirTensor, value: MlirTensor) -> MlirTensor {
        tensor.scatter(ScatterOp::Max, dim, &indices, &value)
    }

    fn bool_select_or(tensor: MlirTensor, dim: usize, indices: MlirTensor, value: MlirTensor) -> MlirTensor {
        tensor.put(ScatterOp::Max, dim, &indices, &value)
    }

    fn bool_equal(lhs: MlirTensor, rhs: MlirTensor) -> MlirTensor {
        lhs.compare(CompareOp::Eq, &rhs)
    }

    fn bool_not_equal(lhs: MlirTensor, rhs: MlirTensor) -> MlirTensor {
        lhs.compare(CompareOp::Ne, &rhs)
    }

    fn bool_equal_elem(lhs: MlirTensor, rhs: Scalar) -> MlirTensor {
        lhs.compare_scalar(CompareOp::Eq, rhs)
    }

    fn bool_not_equal_elem(lhs: MlirTensor, rhs: Scalar) -> MlirTensor {
        lhs.compare_scalar(CompareOp::Ne, rhs)
    }

    fn bool_and(lhs: MlirTensor, rhs: MlirTensor) -> MlirTensor {
        lhs.binary(BinaryOp::And, &rhs)
    }

    fn bool_or(lhs: MlirTensor, rhs: MlirTensor) -> MlirTensor {
        lhs.binary(BinaryOp::Or, &rhs)
    }

    fn bool_xor(lhs: MlirTensor, rhs: MlirTensor) -> MlirTensor {
        lhs.binary(BinaryOp::Xor, &rhs)
    }

    async fn bool_argwhere(tensor: MlirTensor, out_dtype: IntDType) -> MlirTensor {
        tensor.argwhere(int_type(out_dtype))
    }
}
