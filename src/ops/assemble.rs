//! Tensors put together from parts: assignment to a box, concatenation, repetition, padding.

use super::view::{slice_dims, whole};
use super::{apply, invalid};
use crate::MlirTensor;
use burn_backend::Slice;
use burn_mlir_ir::{Op, Shape, SliceDim};
use smallvec::SmallVec;

/// What surrounds a padded tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Padding {
    /// The elements mirrored at the edge, which is not repeated.
    Reflect,
    /// The edge repeated.
    Edge,
}

impl MlirTensor {
    /// This tensor with a strided box replaced by `updates`, which has the shape of the box.
    pub(crate) fn slice_update(&self, dims: SmallVec<[SliceDim; 6]>, updates: &Self) -> Self {
        let extents: Shape = dims.iter().map(|dim| dim.size).collect();
        let operands = [self, updates];
        if updates.dtype != self.dtype || updates.shape[..] != extents[..] {
            let reason = format!("the values do not fit a box of {extents}");
            return invalid("slice_assign", &operands, self.dtype, self.ir_shape(), reason);
        }
        if extents.elements() == 0 {
            return self.clone();
        }
        apply("slice_assign", Op::SliceUpdate { dims }, &operands, self.dtype, self.ir_shape())
    }

    /// Burn's slices replaced by `values`.
    pub(crate) fn slice_assign(&self, slices: &[Slice], values: &Self) -> Self {
        self.slice_update(slice_dims(&self.shape, slices), values)
    }

    /// Tensors one after the other along `axis`. An empty list cannot come from Burn; it has no device.
    pub(crate) fn concat(tensors: &[Self], axis: usize) -> Option<Self> {
        let first = tensors.first()?;
        let operands: SmallVec<[&Self; 8]> = tensors.iter().collect();
        let fits = axis < first.shape.len()
            && tensors.iter().all(|t| {
                t.dtype == first.dtype
                    && t.shape.len() == first.shape.len()
                    && (0..t.shape.len()).all(|d| d == axis || t.shape[d] == first.shape[d])
            });
        if !fits {
            let reason = format!("the tensors do not line up along axis {axis}");
            return Some(invalid("cat", &operands, first.dtype, first.ir_shape(), reason));
        }
        let mut shape = first.ir_shape();
        shape.0[axis] = tensors.iter().map(|t| t.shape[axis]).sum();
        let mut parts = operands;
        parts.retain(|t| t.shape[axis] != 0);
        let result = match parts.len() {
            0 => first.clone(),
            1 => parts[0].clone(),
            _ => apply("cat", Op::Concat { axis }, &parts, first.dtype, shape),
        };
        Some(Self { store: first.store, ..result })
    }

    /// The same elements in memory of their own, in the order of the axes.
    pub(super) fn compact(&self) -> Self {
        if self.shape.is_empty() {
            return self.clone();
        }
        apply("compact", Op::Concat { axis: 0 }, &[self], self.dtype, self.ir_shape())
    }

    /// `times` copies one after the other along `axis`.
    pub(crate) fn repeat(&self, axis: usize, times: usize) -> Self {
        if axis >= self.shape.len() {
            let reason = format!("has no axis {axis}");
            return invalid("repeat_dim", &[self], self.dtype, self.ir_shape(), reason);
        }
        let mut shape = self.ir_shape();
        shape.0[axis] *= times;
        let mut split = self.ir_shape();
        split.0.insert(axis, 1);
        let copies = self.reshape(split.clone());
        split.0[axis] = times;
        copies.expand(&split).reshape(shape)
    }

    /// `fill` around this tensor: `pads[axis]` elements before and after. `fill` has one element.
    pub(crate) fn pad_with(&self, pads: &[(usize, usize)], fill: &Self) -> Self {
        if pads.iter().all(|&pad| pad == (0, 0)) {
            return self.clone();
        }
        let mut dims = whole(&self.shape);
        let mut shape = self.ir_shape();
        for (axis, &(before, after)) in pads.iter().enumerate() {
            dims[axis].start = before;
            shape.0[axis] += before + after;
        }
        fill.expand(&shape).slice_update(dims, self)
    }

    /// Elements taken from this tensor around it: `pads[axis]` elements before and after.
    pub(crate) fn pad_from_within(&self, pads: &[(usize, usize)], mode: Padding) -> Self {
        let mut result = self.clone();
        for (axis, &(before, after)) in pads.iter().enumerate() {
            let extent = result.shape[axis];
            let fits = match mode {
                Padding::Reflect => before.max(after) < extent.max(1),
                Padding::Edge => extent > 0,
            };
            if (before, after) == (0, 0) {
                continue;
            }
            if !fits {
                // Burn's own words for it, then the numbers.
                let rule = match mode {
                    Padding::Reflect => "Reflect padding must be less than dimension size",
                    Padding::Edge => "cannot apply edge padding to an empty dimension",
                };
                let reason = format!("{rule}: {before} and {after} at axis {axis}, which has {extent}");
                return invalid("pad", &[self], self.dtype, self.ir_shape(), reason);
            }
            let border = |size: usize, mirrored: usize, edge: usize| match mode {
                Padding::Reflect => result.narrow(axis, mirrored, size).flip(&[axis]),
                Padding::Edge => result.narrow(axis, edge, 1).repeat(axis, size),
            };
            let mut parts: SmallVec<[Self; 3]> = SmallVec::new();
            if before > 0 {
                parts.push(border(before, 1, 0));
            }
            parts.push(result.clone());
            if after > 0 {
                parts.push(border(after, (extent - 1).saturating_sub(after), extent - 1));
            }
            result = Self::concat(&parts, axis).unwrap_or(result);
        }
        result
    }
}
