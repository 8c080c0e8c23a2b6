//! Reductions and prefix combinations.

use super::{apply, invalid};
use crate::MlirTensor;
use burn_mlir_ir::{ArgReduceOp, CompareOp, DType, Op, ReduceOp, Shape};
use smallvec::SmallVec;

impl MlirTensor {
    /// Combines over `axes`, which stay with extent 1.
    pub(crate) fn reduce(&self, op: ReduceOp, axes: &[usize]) -> Self {
        let Some(shape) = self.reduced(axes) else {
            let reason = format!("has no axes {axes:?}");
            return invalid(op.name(), &[self], self.dtype, self.ir_shape(), reason);
        };
        let mut axes: SmallVec<[usize; 6]> = SmallVec::from_slice(axes);
        axes.sort_unstable();
        axes.dedup();
        apply(op.name(), Op::Reduce { op, axes }, &[self], self.dtype, shape)
    }

    /// Combines everything: `[1]`.
    pub(crate) fn reduce_all(&self, op: ReduceOp) -> Self {
        self.reduce(op, &self.all_axes()).reshape([1])
    }

    /// Row-major position within `axes` (which stay with extent 1) of an extreme element.
    pub(crate) fn arg_reduce(&self, op: ArgReduceOp, axes: &[usize], dtype: DType) -> Self {
        let Some(shape) = self.reduced(axes) else {
            let reason = format!("has no axes {axes:?}");
            return invalid(op.name(), &[self], dtype, self.ir_shape(), reason);
        };
        if self.none_along(axes) {
            return invalid(op.name(), &[self], dtype, shape, "there is no position among no elements");
        }
        let axes = SmallVec::from_slice(axes);
        apply(op.name(), Op::ArgReduce { op, axes }, &[self], dtype, shape)
    }

    /// The largest or the smallest over `axes`, which stay with extent 1. Of no elements there is none.
    pub(crate) fn extreme(&self, op: ReduceOp, axes: &[usize]) -> Self {
        let Some(shape) = self.reduced(axes).filter(|_| self.none_along(axes)) else {
            return self.reduce(op, axes);
        };
        invalid(op.name(), &[self], self.dtype, shape, "there is no extreme among no elements")
    }

    /// The largest or the smallest of all: `[1]`.
    pub(crate) fn extreme_of_all(&self, op: ReduceOp) -> Self {
        self.extreme(op, &self.all_axes()).reshape([1])
    }

    /// An extreme element along `axis` and where it is.
    pub(crate) fn reduce_with_indices(&self, op: ReduceOp, axis: usize, dtype: DType) -> (Self, Self) {
        let arg = if op == ReduceOp::Max { ArgReduceOp::ArgMax } else { ArgReduceOp::ArgMin };
        (self.extreme(op, &[axis]), self.arg_reduce(arg, &[axis], dtype))
    }

    /// Sum over `axes`, which stay with extent 1.
    pub(crate) fn sum(&self, axes: &[usize]) -> Self {
        self.reduce(ReduceOp::Sum, axes)
    }

    /// Mean over `axes`, which stay with extent 1. f16 and bf16 divide in f32, so that the sum cannot
    /// overflow; integers sum in i64 and truncate.
    pub(crate) fn mean(&self, axes: &[usize]) -> Self {
        let extent = |&axis: &usize| self.shape.get(axis).copied().unwrap_or(1);
        let count: usize = axes.iter().map(extent).product();
        if self.dtype.is_int() && self.dtype.size() < DType::I64.size() {
            return self.cast(DType::I64).sum(axes).over(count as f64).cast(self.dtype);
        }
        self.in_wide(|x| x.sum(axes).over(count as f64))
    }

    /// Mean of everything: `[1]`.
    pub(crate) fn mean_all(&self) -> Self {
        self.mean(&self.all_axes()).reshape([1])
    }

    /// Whether each element is not 0.
    pub(crate) fn truth(&self) -> Self {
        match self.dtype {
            DType::Bool => self.clone(),
            _ => self.compare_constant(CompareOp::Ne, 0.0),
        }
    }

    /// Inclusive prefix combination along `axis`.
    pub(crate) fn scan(&self, op: ReduceOp, axis: usize) -> Self {
        if axis >= self.shape.len() {
            let reason = format!("has no axis {axis}");
            return invalid(op.name(), &[self], self.dtype, self.ir_shape(), reason);
        }
        apply("scan", Op::Scan { op, axis }, &[self], self.dtype, self.ir_shape())
    }

    /// The largest absolute value over `axes`, which stay with extent 1.
    pub(crate) fn max_abs(&self, axes: &[usize]) -> Self {
        self.abs().extreme(ReduceOp::Max, axes)
    }

    /// Whether one of `axes` has no elements. What is left may have none, either: whether there is an extreme
    /// does not depend on the other axes, as in PyTorch.
    fn none_along(&self, axes: &[usize]) -> bool {
        axes.iter().any(|&axis| self.shape.get(axis) == Some(&0))
    }

    /// Every axis.
    pub(crate) fn all_axes(&self) -> SmallVec<[usize; 8]> {
        (0..self.shape.len()).collect()
    }

    /// The shape with `axes` reduced to 1; `None` if there is no such axis.
    fn reduced(&self, axes: &[usize]) -> Option<Shape> {
        let mut shape = self.ir_shape();
        for &axis in axes {
            *shape.0.get_mut(axis)? = 1;
        }
        Some(shape)
    }
}
