//! Views: other indices for the same elements.

use super::{apply, invalid};
use crate::MlirTensor;
use burn_backend::Slice;
use burn_mlir_ir::{Op, Shape, SliceDim};
use smallvec::SmallVec;

/// Burn's slices of a shape in the IR's terms; axes without a slice are taken whole. A negative step
/// walks the range from its end.
pub(crate) fn slice_dims(shape: &[usize], slices: &[Slice]) -> SmallVec<[SliceDim; 6]> {
    let whole = Slice::full();
    (shape.iter().enumerate())
        .map(|(axis, &extent)| {
            let slice = slices.get(axis).unwrap_or(&whole);
            let range = slice.to_range(extent);
            let size = slice.output_size(extent);
            let start = if slice.step < 0 && size > 0 { range.end - 1 } else { range.start };
            SliceDim { start, size, step: slice.step as i64 }
        })
        .collect()
}

/// All of every axis.
pub(super) fn whole(shape: &[usize]) -> SmallVec<[SliceDim; 6]> {
    shape.iter().map(|&size| SliceDim { start: 0, size, step: 1 }).collect()
}

impl MlirTensor {
    /// The same elements in row-major order as another shape.
    pub(crate) fn reshape(&self, shape: impl Into<Shape>) -> Self {
        let shape = shape.into();
        if shape[..] == self.shape[..] {
            return self.clone();
        }
        if shape.elements() != self.shape.iter().product::<usize>() {
            let reason = format!("cannot become {shape}: another number of elements");
            return invalid("reshape", &[self], self.dtype, shape, reason);
        }
        apply("reshape", Op::Reshape, &[self], self.dtype, shape)
    }

    /// Result axis `i` is axis `axes[i]`.
    pub(crate) fn permute(&self, axes: &[usize]) -> Self {
        let rank = self.shape.len();
        let mut seen: SmallVec<[bool; 8]> = SmallVec::from_elem(false, rank);
        let fits = axes.len() == rank
            && axes.iter().all(|&axis| axis < rank && !std::mem::replace(&mut seen[axis], true));
        if !fits {
            let reason = format!("{axes:?} is no permutation of the axes");
            return invalid("permute", &[self], self.dtype, self.ir_shape(), reason);
        }
        if axes.iter().enumerate().all(|(to, &from)| to == from) {
            return self.clone();
        }
        let shape = axes.iter().map(|&axis| self.shape[axis]).collect();
        apply("permute", Op::Permute { axes: SmallVec::from_slice(axes) }, &[self], self.dtype, shape)
    }

    /// Two axes exchanged.
    pub(crate) fn swap_axes(&self, a: usize, b: usize) -> Self {
        let mut axes: SmallVec<[usize; 8]> = (0..self.shape.len()).collect();
        if a.max(b) >= axes.len() {
            let reason = format!("has no axes {a} and {b}");
            return invalid("swap_dims", &[self], self.dtype, self.ir_shape(), reason);
        }
        axes.swap(a, b);
        self.permute(&axes)
    }

    /// Broadcast to `shape`: extents of 1 are repeated, leading axes added.
    pub(crate) fn expand(&self, shape: &Shape) -> Self {
        if shape[..] == self.shape[..] {
            return self.clone();
        }
        let fits = shape.rank() >= self.shape.len()
            && (self.shape.iter().rev().zip(shape.iter().rev())).all(|(&a, &b)| a == b || a == 1);
        if !fits {
            let reason = format!("does not broadcast to {shape}");
            return invalid("expand", &[self], self.dtype, shape.clone(), reason);
        }
        let lead = shape.rank() - self.shape.len();
        let ones = std::iter::repeat_n(1, lead);
        let aligned = self.reshape(ones.chain(self.shape.iter().copied()).collect::<Shape>());
        if shape[..] == aligned.shape[..] {
            return aligned;
        }
        apply("expand", Op::Expand, &[&aligned], self.dtype, shape.clone())
    }

    /// A strided box. The caller made sure that it lies inside.
    pub(crate) fn slice(&self, dims: SmallVec<[SliceDim; 6]>) -> Self {
        if dims == whole(&self.shape) {
            return self.clone();
        }
        let shape = dims.iter().map(|dim| dim.size).collect();
        apply("slice", Op::Slice { dims }, &[self], self.dtype, shape)
    }

    /// Burn's slices.
    pub(crate) fn slices(&self, slices: &[Slice]) -> Self {
        self.slice(slice_dims(&self.shape, slices))
    }

    /// `size` elements from `start` along one axis, inside the tensor.
    pub(crate) fn narrow(&self, axis: usize, start: usize, size: usize) -> Self {
        let mut dims = whole(&self.shape);
        dims[axis] = SliceDim { start, size, step: 1 };
        self.slice(dims)
    }

    /// Some axes backwards.
    pub(crate) fn flip(&self, axes: &[usize]) -> Self {
        let mut dims = whole(&self.shape);
        for &axis in axes {
            if axis >= dims.len() {
                let reason = format!("has no axis {axis}");
                return invalid("flip", &[self], self.dtype, self.ir_shape(), reason);
            }
            let size = dims[axis].size;
            dims[axis] = SliceDim { start: size.saturating_sub(1), size, step: -1 };
        }
        self.slice(dims)
    }

    /// Complete windows of `size` along `axis`, `step` apart, elements `dilation` apart in a window:
    /// `[.., n, ..]` becomes `[.., windows, .., size]`.
    pub(crate) fn unfold(&self, axis: usize, size: usize, step: usize, dilation: usize) -> Self {
        if axis >= self.shape.len() || step == 0 {
            let reason = format!("cannot take windows along axis {axis} in steps of {step}");
            return invalid("unfold", &[self], self.dtype, self.ir_shape(), reason);
        }
        let extent = dilation * size.saturating_sub(1) + usize::from(size > 0);
        let length = self.shape[axis];
        let windows = if length < extent { 0 } else { (length - extent) / step + 1 };
        let mut shape = self.ir_shape();
        shape.0[axis] = windows;
        shape.0.push(size);
        if windows == 0 || size == 0 {
            // Nothing to view: an empty tensor of the right shape.
            return self.constant_of(0.0, shape);
        }
        let op = Op::Unfold { axis, size, step, dilation };
        apply("unfold", op, &[self], self.dtype, shape)
    }
}
