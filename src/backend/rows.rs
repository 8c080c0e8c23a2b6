//! Macros for the regular part of Burn's traits: one row a method, expanded inside an `impl`.

/// `method => UnaryOp`.
macro_rules! unary_rows {
    ($($method:ident => $op:ident,)*) => {
        $(fn $method(tensor: MlirTensor) -> MlirTensor {
            tensor.unary(UnaryOp::$op)
        })*
    };
}

/// `method => BinaryOp` of two tensors.
macro_rules! binary_rows {
    ($($method:ident => $op:ident,)*) => {
        $(fn $method(lhs: MlirTensor, rhs: MlirTensor) -> MlirTensor {
            lhs.binary(BinaryOp::$op, &rhs)
        })*
    };
}

/// `method => BinaryOp` of a tensor and a scalar.
macro_rules! scalar_rows {
    ($($method:ident => $op:ident,)*) => {
        $(fn $method(lhs: MlirTensor, rhs: Scalar) -> MlirTensor {
            lhs.binary_scalar(BinaryOp::$op, rhs)
        })*
    };
}

/// `method => CompareOp` of two tensors.
macro_rules! compare_rows {
    ($($method:ident => $op:ident,)*) => {
        $(fn $method(lhs: MlirTensor, rhs: MlirTensor, out_dtype: BoolDType) -> MlirTensor {
            lhs.compare(CompareOp::$op, &rhs).stored(out_dtype)
        })*
    };
}

/// `method => CompareOp` of a tensor and a scalar.
macro_rules! compare_scalar_rows {
    ($($method:ident => $op:ident,)*) => {
        $(fn $method(lhs: MlirTensor, rhs: Scalar, out_dtype: BoolDType) -> MlirTensor {
            lhs.compare_scalar(CompareOp::$op, rhs).stored(out_dtype)
        })*
    };
}

/// `method, method along an axis => ReduceOp`.
macro_rules! reduce_rows {
    ($($method:ident, $along:ident => $op:ident,)*) => {
        $(
            fn $method(tensor: MlirTensor) -> MlirTensor {
                tensor.reduce_all(ReduceOp::$op)
            }

            fn $along(tensor: MlirTensor, dim: usize) -> MlirTensor {
                tensor.reduce(ReduceOp::$op, &[dim])
            }
        )*
    };
}

/// `method, method along an axis => ReduceOp` for the largest and the smallest.
macro_rules! extreme_rows {
    ($($method:ident, $along:ident => $op:ident,)*) => {
        $(
            fn $method(tensor: MlirTensor) -> MlirTensor {
                tensor.extreme_of_all(ReduceOp::$op)
            }

            fn $along(tensor: MlirTensor, dim: usize) -> MlirTensor {
                tensor.extreme(ReduceOp::$op, &[dim])
            }
        )*
    };
}

/// `method => ReduceOp` of prefixes.
macro_rules! scan_rows {
    ($($method:ident => $op:ident,)*) => {
        $(fn $method(tensor: MlirTensor, dim: usize) -> MlirTensor {
            tensor.scan(ReduceOp::$op, dim)
        })*
    };
}

/// `method, method along an axis => ReduceOp` of truth values (`Max` is or, `Min` is and); `$out_dtype`
/// says how the result is stored, where the method is told.
macro_rules! truth_rows {
    ($($method:ident, $along:ident => $op:ident $(, $out_dtype:ident: $dtype:ty)?;)*) => {
        $(
            fn $method(tensor: MlirTensor $(, $out_dtype: $dtype)?) -> MlirTensor {
                tensor.truth().reduce_all(ReduceOp::$op)$(.stored($out_dtype))?
            }

            fn $along(tensor: MlirTensor, dim: usize $(, $out_dtype: $dtype)?) -> MlirTensor {
                tensor.truth().reduce(ReduceOp::$op, &[dim])$(.stored($out_dtype))?
            }
        )*
    };
}

/// What the three kinds of tensors share, by the names of the methods.
macro_rules! common_rows {
    (
        $from_data:ident, $into_data:ident, $to_device:ident, $reshape:ident, $transpose:ident,
        $swap_dims:ident, $permute:ident, $flip:ident, $expand:ident, $slice:ident,
        $slice_assign:ident, $mask_where:ident, $mask_fill:ident, $gather:ident, $select:ident,
        $repeat_dim:ident, $cat:ident, $unfold:ident, $mask_select:ident $(,)?
    ) => {
        fn $from_data(data: TensorData, device: &MlirDevice) -> MlirTensor {
            record::from_data(*device, data)
        }

        fn $into_data(tensor: MlirTensor) -> impl Future<Output = Result<TensorData, ExecutionError>> + Send {
            record::into_data_later(tensor)
        }

        fn $to_device(tensor: MlirTensor, device: &MlirDevice) -> MlirTensor {
            record::to_device(tensor, *device)
        }

        fn $reshape(tensor: MlirTensor, shape: Shape) -> MlirTensor {
            tensor.reshape(&shape[..])
        }

        fn $transpose(tensor: MlirTensor) -> MlirTensor {
            match tensor.shape.len() {
                0 | 1 => tensor,
                rank => tensor.swap_axes(rank - 2, rank - 1),
            }
        }

        fn $swap_dims(tensor: MlirTensor, dim1: usize, dim2: usize) -> MlirTensor {
            tensor.swap_axes(dim1, dim2)
        }

        fn $permute(tensor: MlirTensor, axes: &[usize]) -> MlirTensor {
            tensor.permute(axes)
        }

        fn $flip(tensor: MlirTensor, axes: &[usize]) -> MlirTensor {
            tensor.flip(axes)
        }

        fn $expand(tensor: MlirTensor, shape: Shape) -> MlirTensor {
            tensor.expand(&ir::Shape::from(&shape[..]))
        }

        fn $slice(tensor: MlirTensor, slices: &[Slice]) -> MlirTensor {
            tensor.slices(slices)
        }

        fn $slice_assign(tensor: MlirTensor, slices: &[Slice], value: MlirTensor) -> MlirTensor {
            tensor.slice_assign(slices, &value)
        }

        fn $mask_where(tensor: MlirTensor, mask: MlirTensor, value: MlirTensor) -> MlirTensor {
            mask.select(&value, &tensor)
        }

        fn $mask_fill(tensor: MlirTensor, mask: MlirTensor, value: Scalar) -> MlirTensor {
            mask.select(&tensor.fill_like(value), &tensor)
        }

        async fn $mask_select(tensor: MlirTensor, mask: MlirTensor) -> MlirTensor {
            tensor.mask_select(&mask)
        }

        fn $gather(dim: usize, tensor: MlirTensor, indices: MlirTensor) -> MlirTensor {
            tensor.gather(dim, &indices)
        }

        fn $select(tensor: MlirTensor, dim: usize, indices: MlirTensor) -> MlirTensor {
            tensor.take(dim, &indices)
        }

        fn $repeat_dim(tensor: MlirTensor, dim: usize, times: usize) -> MlirTensor {
            tensor.repeat(dim, times)
        }

        fn $cat(tensors: Vec<MlirTensor>, dim: usize) -> MlirTensor {
            super::concat(&tensors, dim)
        }

        fn $unfold(tensor: MlirTensor, dim: usize, size: usize, step: usize) -> MlirTensor {
            tensor.unfold(dim, size, step, 1)
        }
    };
}

/// What floats and integers share, by the names of the methods.
macro_rules! numeric_rows {
    (
        $scatter:ident, $select_assign:ident, $scatter_nd:ident, $gather_nd:ident, $clamp_min:ident,
        $clamp_max:ident, $clamp:ident, $pad:ident, $sort:ident, $topk:ident, $max_abs:ident,
        $max_abs_dim:ident $(,)?
    ) => {
        fn $scatter(
            dim: usize,
            tensor: MlirTensor,
            indices: MlirTensor,
            value: MlirTensor,
            update: IndexingUpdateOp,
        ) -> MlirTensor {
            tensor.scatter(super::scatter_op(update), dim, &indices, &value)
        }

        fn $select_assign(
            tensor: MlirTensor,
            dim: usize,
            indices: MlirTensor,
            value: MlirTensor,
            update: IndexingUpdateOp,
        ) -> MlirTensor {
            tensor.put(super::scatter_op(update), dim, &indices, &value)
        }

        fn $scatter_nd(
            data: MlirTensor,
            indices: MlirTensor,
            values: MlirTensor,
            reduction: IndexingUpdateOp,
        ) -> MlirTensor {
            data.scatter_nd(super::scatter_op(reduction), &indices, &values)
        }

        fn $gather_nd(data: MlirTensor, indices: MlirTensor) -> MlirTensor {
            data.gather_nd(&indices)
        }

        fn $clamp_min(tensor: MlirTensor, min: Scalar) -> MlirTensor {
            tensor.clamp_min(min)
        }

        fn $clamp_max(tensor: MlirTensor, max: Scalar) -> MlirTensor {
            tensor.clamp_max(max)
        }

        fn $clamp(tensor: MlirTensor, min: Scalar, max: Scalar) -> MlirTensor {
            tensor.clamp(min, max)
        }

        fn $pad(tensor: MlirTensor, padding: &[(usize, usize)], mode: PadMode) -> MlirTensor {
            super::pad(&tensor, padding, mode)
        }

        fn $sort(tensor: MlirTensor, dim: usize, descending: bool) -> MlirTensor {
            tensor.sort(dim, descending)
        }

        fn $topk(tensor: MlirTensor, dim: usize, k: usize) -> MlirTensor {
            tensor.sort(dim, true).first(dim, k)
        }

        fn $max_abs(tensor: MlirTensor) -> MlirTensor {
            tensor.max_abs(&tensor.all_axes()).reshape([1])
        }

        fn $max_abs_dim(tensor: MlirTensor, dim: usize) -> MlirTensor {
            tensor.max_abs(&[dim])
        }
    };
}

pub(super) use {
    binary_rows, common_rows, compare_rows, compare_scalar_rows, extreme_rows, numeric_rows, reduce_rows,
    scalar_rows, scan_rows, truth_rows, unary_rows,
};
