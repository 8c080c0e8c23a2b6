//! Float tensors.

use super::rows::{
    binary_rows, common_rows, compare_rows, compare_scalar_rows, extreme_rows, numeric_rows, reduce_rows,
    scalar_rows, scan_rows, truth_rows, unary_rows,
};
use super::{Mlir, float_type, int_type};
use crate::{MlirDevice, MlirTensor, record};
use burn_backend::ops::{FloatTensorOps, GridSampleOptions, PadMode};
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{
    BoolDType, Distribution, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice, TensorData,
};
use burn_mlir_ir as ir;
use burn_mlir_ir::{ArgReduceOp, BinaryOp, CompareOp, ReduceOp, UnaryOp};

impl FloatTensorOps<Mlir> for Mlir {
    common_rows! {
        float_from_data, float_into_data, float_to_device, float_reshape, float_transpose,
        float_swap_dims, float_permute, float_flip, float_expand, float_slice, float_slice_assign,
        float_mask_where, float_mask_fill, float_gather, float_select, float_repeat_dim, float_cat,
        float_unfold, float_mask_select,
    }

    numeric_rows! {
        float_scatter, float_select_assign, float_scatter_nd, float_gather_nd, float_clamp_min,
        float_clamp_max, float_clamp, float_pad, float_sort, float_topk, float_max_abs,
        float_max_abs_dim,
    }

    unary_rows! {
        float_neg => Neg, float_recip => Recip, float_abs => Abs, float_sign => Sign,
        float_exp => Exp, float_log => Log, float_log1p => Log1p, float_sqrt => Sqrt,
        float_erf => Erf,
        float_cos => Cos, float_sin => Sin, float_tan => Tan,
        float_cosh => Cosh, float_sinh => Sinh, float_tanh => Tanh,
        float_acos => Acos, float_asin => Asin, float_atan => Atan,
        float_acosh => Acosh, float_asinh => Asinh, float_atanh => Atanh,
        float_round => Round, float_floor => Floor, float_ceil => Ceil, float_trunc => Trunc,
    }

    binary_rows! {
        float_add => Add, float_sub => Sub, float_mul => Mul, float_div => Div,
        float_remainder => Rem, float_powf => Pow, float_atan2 => Atan2,
    }

    scalar_rows! {
        float_add_scalar => Add, float_sub_scalar => Sub, float_mul_scalar => Mul,
        float_div_scalar => Div, float_remainder_scalar => Rem,
    }

    compare_rows! {
        float_equal => Eq, float_not_equal => Ne, float_greater => Gt, float_greater_equal => Ge,
        float_lower => Lt, float_lower_equal => Le,
    }

    compare_scalar_rows! {
        float_equal_elem => Eq, float_not_equal_elem => Ne, float_greater_elem => Gt,
        float_greater_equal_elem => Ge, float_lower_elem => Lt, float_lower_equal_elem => Le,
    }

    reduce_rows! {
        float_sum, float_sum_dim => Sum,
        float_prod, float_prod_dim => Prod,
    }

    extreme_rows! {
        float_max, float_max_dim => Max,
        float_min, float_min_dim => Min,
    }

    scan_rows! {
        float_cumsum => Sum, float_cumprod => Prod, float_cummin => Min, float_cummax => Max,
    }

    truth_rows! {
        float_any, float_any_dim => Max, out_dtype: BoolDType;
        float_all, float_all_dim => Min, out_dtype: BoolDType;
    }

    fn float_random(
        shape: Shape,
        distribution: Distribution,
        device: &MlirDevice,
        dtype: FloatDType,
    ) -> MlirTensor {
        MlirTensor::random_float(*device, distribution, float_type(dtype), (&shape[..]).into())
    }

    fn float_zeros(shape: Shape, device: &MlirDevice, dtype: FloatDType) -> MlirTensor {
        MlirTensor::constant(*device, 0.0, float_type(dtype), (&shape[..]).into())
    }

    fn float_ones(shape: Shape, device: &MlirDevice, dtype: FloatDType) -> MlirTensor {
        MlirTensor::constant(*device, 1.0, float_type(dtype), (&shape[..]).into())
    }

    fn float_empty(shape: Shape, device: &MlirDevice, dtype: FloatDType) -> MlirTensor {
        Self::float_zeros(shape, device, dtype)
    }

    fn float_full(shape: Shape, fill_value: Scalar, device: &MlirDevice, dtype: FloatDType) -> MlirTensor {
        record::fill(*device, fill_value, float_type(dtype), (&shape[..]).into())
    }

    fn float_into_int(tensor: MlirTensor, out_dtype: IntDType) -> MlirTensor {
        tensor.cast(int_type(out_dtype))
    }

    fn float_cast(tensor: MlirTensor, dtype: FloatDType) -> MlirTensor {
        tensor.cast(float_type(dtype))
    }

    fn float_matmul(lhs: MlirTensor, rhs: MlirTensor) -> MlirTensor {
        lhs.matmul(&rhs)
    }

    fn float_cross(lhs: MlirTensor, rhs: MlirTensor, dim: usize) -> MlirTensor {
        lhs.cross(&rhs, dim)
    }

    fn float_sum_dims(tensor: MlirTensor, dims: &[usize]) -> MlirTensor {
        tensor.sum(dims)
    }

    fn float_mean(tensor: MlirTensor) -> MlirTensor {
        tensor.mean_all()
    }

    fn float_mean_dim(tensor: MlirTensor, dim: usize) -> MlirTensor {
        tensor.mean(&[dim])
    }

    fn float_powi(lhs: MlirTensor, rhs: MlirTensor) -> MlirTensor {
        lhs.pow(&rhs.cast(lhs.dtype))
    }

    fn float_powi_scalar(lhs: MlirTensor, rhs: Scalar) -> MlirTensor {
        lhs.pow_scalar(rhs)
    }

    fn float_powf_scalar(tensor: MlirTensor, value: Scalar) -> MlirTensor {
        tensor.pow_scalar(value)
    }

    fn float_powf_scalar_impl(tensor: MlirTensor, value: Scalar) -> MlirTensor {
        tensor.pow_scalar(value)
    }

    fn float_hypot(lhs: MlirTensor, rhs: MlirTensor) -> MlirTensor {
        lhs.hypot(&rhs)
    }

    fn float_argmax(tensor: MlirTensor, dim: usize, out_dtype: IntDType) -> MlirTensor {
        tensor.arg_reduce(ArgReduceOp::ArgMax, &[dim], int_type(out_dtype))
    }

    fn float_argmin(tensor: MlirTensor, dim: usize, out_dtype: IntDType) -> MlirTensor {
        tensor.arg_reduce(ArgReduceOp::ArgMin, &[dim], int_type(out_dtype))
    }

    fn float_max_dim_with_indices(
        tensor: MlirTensor,
        dim: usize,
        indices_dtype: IntDType,
    ) -> (MlirTensor, MlirTensor) {
        tensor.reduce_with_indices(ReduceOp::Max, dim, int_type(indices_dtype))
    }

    fn float_min_dim_with_indices(
        tensor: MlirTensor,
        dim: usize,
        indices_dtype: IntDType,
    ) -> (MlirTensor, MlirTensor) {
        tensor.reduce_with_indices(ReduceOp::Min, dim, int_type(indices_dtype))
    }

    fn float_argsort(tensor: MlirTensor, dim: usize, descending: bool, out_dtype: IntDType) -> MlirTensor {
        tensor.argsort(dim, descending, int_type(out_dtype))
    }

    fn float_sort_with_indices(
        tensor: MlirTensor,
        dim: usize,
        descending: bool,
        indices_dtype: IntDType,
    ) -> (MlirTensor, MlirTensor) {
        tensor.sort_with_indices(dim, descending, int_type(indices_dtype))
    }

    fn float_argtopk(tensor: MlirTensor, dim: usize, k: usize, out_dtype: IntDType) -> MlirTensor {
        tensor.argsort(dim, true, int_type(out_dtype)).first(dim, k)
    }

    fn float_topk_with_indices(
        tensor: MlirTensor,
        dim: usize,
        k: usize,
        out_dtype: IntDType,
    ) -> (MlirTensor, MlirTensor) {
        let indices = Self::float_argtopk(tensor.clone(), dim, k, out_dtype);
        (tensor.gather(dim, &indices), indices)
    }

    fn float_grid_sample_2d(tensor: MlirTensor, grid: MlirTensor, options: GridSampleOptions) -> MlirTensor {
        tensor.grid_sample(&grid, &options)
    }

    fn float_is_nan(tensor: MlirTensor, out_dtype: BoolDType) -> MlirTensor {
        tensor.unary(UnaryOp::IsNan).stored(out_dtype)
    }

    fn float_is_inf(tensor: MlirTensor, out_dtype: BoolDType) -> MlirTensor {
        tensor.unary(UnaryOp::IsInf).stored(out_dtype)
    }
}
