//! Integer tensors. All arithmetic wraps and none traps: a quotient or remainder by 0 is 0, a shift by the width or
//! more, or by a negative count, shifts everything out. Quotients are truncated, remainders have the sign of the
//! divisor.

use super::rows::{
    binary_rows, common_rows, compare_rows, compare_scalar_rows, extreme_rows, numeric_rows, reduce_rows,
    scalar_rows, scan_rows, truth_rows, unary_rows,
};
use super::{Mlir, float_type, int_type};
use crate::{MlirDevice, MlirError, MlirTensor, record};
use burn_backend::ops::{IntTensorOps, PadMode};
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{
    BoolDType, Distribution, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice, TensorData,
};
use burn_mlir_ir as ir;
use burn_mlir_ir::{ArgReduceOp, BinaryOp, CompareOp, ReduceOp, UnaryOp};
use std::ops::Range;

impl IntTensorOps<Mlir> for Mlir {
    common_rows! {
        int_from_data, int_into_data, int_to_device, int_reshape, int_transpose, int_swap_dims,
        int_permute, int_flip, int_expand, int_slice, int_slice_assign, int_mask_where, int_mask_fill,
        int_gather, int_select, int_repeat_dim, int_cat, int_unfold, int_mask_select,
    }

    numeric_rows! {
        int_scatter, int_select_assign, int_scatter_nd, int_gather_nd, int_clamp_min, int_clamp_max,
        int_clamp, int_pad, int_sort, int_topk, int_max_abs, int_max_abs_dim,
    }

    unary_rows! {
        int_neg => Neg, int_abs => Abs, int_sign => Sign, bitwise_not => Not,
    }

    binary_rows! {
        int_add => Add, int_sub => Sub, int_mul => Mul, int_div => Div, int_remainder => Rem,
        bitwise_and => And, bitwise_or => Or, bitwise_xor => Xor, bitwise_left_shift => Shl,
        bitwise_right_shift => Shr,
    }

    scalar_rows! {
        int_add_scalar => Add, int_sub_scalar => Sub, int_mul_scalar => Mul, int_div_scalar => Div,
        int_remainder_scalar => Rem, bitwise_and_scalar => And, bitwise_or_scalar => Or,
        bitwise_xor_scalar => Xor, bitwise_left_shift_scalar => Shl,
        bitwise_right_shift_scalar => Shr,
    }

    compare_rows! {
        int_equal => Eq, int_not_equal => Ne, int_greater => Gt, int_greater_equal => Ge,
        int_lower => Lt, int_lower_equal => Le,
    }

    compare_scalar_rows! {
        int_equal_elem => Eq, int_not_equal_elem => Ne, int_greater_elem => Gt,
        int_greater_equal_elem => Ge, int_lower_elem => Lt, int_lower_equal_elem => Le,
    }

    reduce_rows! {
        int_sum, int_sum_dim => Sum,
        int_prod, int_prod_dim => Prod,
    }

    extreme_rows! {
        int_max, int_max_dim => Max,
        int_min, int_min_dim => Min,
    }

    scan_rows! {
        int_cumsum => Sum, int_cumprod => Prod, int_cummin => Min, int_cummax => Max,
    }

    truth_rows! {
        int_any, int_any_dim => Max, out_dtype: BoolDType;
        int_all, int_all_dim => Min, out_dtype: BoolDType;
    }

    fn int_empty(shape: Shape, device: &MlirDevice, dtype: IntDType) -> MlirTensor {
        Self::int_zeros(shape, device, dtype)
    }

    fn int_zeros(shape: Shape, device: &MlirDevice, dtype: IntDType) -> MlirTensor {
        MlirTensor::constant(*device, 0.0, int_type(dtype), (&shape[..]).into())
    }

    fn int_ones(shape: Shape, device: &MlirDevice, dtype: IntDType) -> MlirTensor {
        MlirTensor::constant(*device, 1.0, int_type(dtype), (&shape[..]).into())
    }

    fn int_full(shape: Shape, fill_value: Scalar, device: &MlirDevice, dtype: IntDType) -> MlirTensor {
        record::fill(*device, fill_value, int_type(dtype), (&shape[..]).into())
    }

    fn int_random(
        shape: Shape,
        distribution: Distribution,
        device: &MlirDevice,
        dtype: IntDType,
    ) -> MlirTensor {
        MlirTensor::random_int(*device, distribution, int_type(dtype), (&shape[..]).into())
    }

    fn int_arange_step(range: Range<i64>, step: usize, device: &MlirDevice, dtype: IntDType) -> MlirTensor {
        let dtype = int_type(dtype);
        if step == 0 {
            let error = MlirError::Invalid { op: "arange", reason: "the step is 0".into() };
            return record::failed(*device, error, dtype, ir::Shape::from([0]));
        }
        let span = if range.is_empty() { 0 } else { range.end.abs_diff(range.start) };
        let count = span.div_ceil(step as u64) as usize;
        MlirTensor::arange(*device, range.start, step as i64, count, dtype)
    }

    fn int_into_float(tensor: MlirTensor, out_dtype: FloatDType) -> MlirTensor {
        tensor.cast(float_type(out_dtype))
    }

    fn int_cast(tensor: MlirTensor, dtype: IntDType) -> MlirTensor {
        tensor.cast(int_type(dtype))
    }

    fn int_matmul(lhs: MlirTensor, rhs: MlirTensor) -> MlirTensor {
        lhs.matmul(&rhs)
    }

    fn int_mean(tensor: MlirTensor) -> MlirTensor {
        tensor.mean_all()
    }

    fn int_mean_dim(tensor: MlirTensor, dim: usize) -> MlirTensor {
        tensor.mean(&[dim])
    }

    fn int_square(tensor: MlirTensor) -> MlirTensor {
        tensor.mul(&tensor)
    }

    fn int_powi(lhs: MlirTensor, rhs: MlirTensor) -> MlirTensor {
        lhs.int_pow(&rhs)
    }

    fn int_powi_scalar(lhs: MlirTensor, rhs: Scalar) -> MlirTensor {
        lhs.int_pow_scalar(whole(rhs))
    }

    fn int_powi_scalar_impl(lhs: MlirTensor, rhs: Scalar) -> MlirTensor {
        lhs.int_pow_scalar(whole(rhs))
    }

    fn int_argmax(tensor: MlirTensor, dim: usize) -> MlirTensor {
        tensor.arg_reduce(ArgReduceOp::ArgMax, &[dim], position_type(&tensor))
    }

    fn int_argmin(tensor: MlirTensor, dim: usize) -> MlirTensor {
        tensor.arg_reduce(ArgReduceOp::ArgMin, &[dim], position_type(&tensor))
    }

    fn int_max_dim_with_indices(tensor: MlirTensor, dim: usize) -> (MlirTensor, MlirTensor) {
        tensor.reduce_with_indices(ReduceOp::Max, dim, position_type(&tensor))
    }

    fn int_min_dim_with_indices(tensor: MlirTensor, dim: usize) -> (MlirTensor, MlirTensor) {
        tensor.reduce_with_indices(ReduceOp::Min, dim, position_type(&tensor))
    }

    fn int_argsort(tensor: MlirTensor, dim: usize, descending: bool) -> MlirTensor {
        tensor.argsort(dim, descending, position_type(&tensor))
    }

    fn int_sort_with_indices(tensor: MlirTensor, dim: usize, descending: bool) -> (MlirTensor, MlirTensor) {
        tensor.sort_with_indices(dim, descending, position_type(&tensor))
    }

    fn int_argtopk(tensor: MlirTensor, dim: usize, k: usize) -> MlirTensor {
        tensor.argsort(dim, true, position_type(&tensor)).first(dim, k)
    }

    fn int_topk_with_indices(tensor: MlirTensor, dim: usize, k: usize) -> (MlirTensor, MlirTensor) {
        let indices = Self::int_argtopk(tensor.clone(), dim, k);
        (tensor.gather(dim, &indices), indices)
    }
}

/// A scalar as an exact integer.
fn whole(value: Scalar) -> i128 {
    match value {
        Scalar::Int(value) => value.into(),
        Scalar::UInt(value) => value.into(),
        Scalar::Float(value) => value as i128,
        Scalar::Bool(value) => value.into(),
    }
}

/// The type of positions in a tensor: Burn expects the tensor's own, which narrow types are too small for.
fn position_type(tensor: &MlirTensor) -> ir::DType {
    if tensor.dtype.size() < 4 { ir::DType::I64 } else { tensor.dtype }
}
