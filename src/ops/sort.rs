//! Sorting.

use super::{apply, invalid};
use crate::MlirTensor;
use burn_mlir_ir::{DType, Op};

impl MlirTensor {
    /// Sorted along `axis`, stable.
    pub(crate) fn sort(&self, axis: usize, descending: bool) -> Self {
        self.sorted(axis, Op::Sort { axis, descending }, self.dtype)
    }

    /// The positions that would sort along `axis`, stable.
    pub(crate) fn argsort(&self, axis: usize, descending: bool, dtype: DType) -> Self {
        self.sorted(axis, Op::ArgSort { axis, descending }, dtype)
    }

    /// Sorted along `axis`, and where each element was.
    pub(crate) fn sort_with_indices(&self, axis: usize, descending: bool, dtype: DType) -> (Self, Self) {
        let positions = self.argsort(axis, descending, dtype);
        (self.gather(axis, &positions), positions)
    }

    /// The first `count` along `axis`, of a sorted tensor the largest or smallest.
    pub(crate) fn first(&self, axis: usize, count: usize) -> Self {
        if self.shape.get(axis).is_none_or(|&extent| count > extent) {
            let reason = format!("has no {count} elements along axis {axis}");
            return invalid("topk", &[self], self.dtype, self.ir_shape(), reason);
        }
        self.narrow(axis, 0, count)
    }

    fn sorted(&self, axis: usize, op: Op, dtype: DType) -> Self {
        if axis >= self.shape.len() {
            let reason = format!("has no axis {axis}");
            return invalid("sort", &[self], dtype, self.ir_shape(), reason);
        }
        apply("sort", op, &[self], dtype, self.ir_shape())
    }
}
