//! Views composed onto a [`Layout`]: no element is touched.

use crate::{Layout, Shape, SliceDim, Strides};
use smallvec::SmallVec;

impl Layout {
    /// Axis `i` of the result is axis `axes[i]`.
    pub fn permute(&self, axes: &[usize]) -> Self {
        Self {
            shape: axes.iter().map(|&axis| self.shape[axis]).collect(),
            strides: axes.iter().map(|&axis| self.strides[axis]).collect(),
            offset: self.offset,
        }
    }

    /// Extents of 1 repeated to the extents of `shape` (of the same rank).
    pub fn expand(&self, shape: &Shape) -> Self {
        let repeat = |axis: usize| if self.shape[axis] == shape[axis] { self.strides[axis] } else { 0 };
        Self { shape: shape.clone(), strides: (0..shape.rank()).map(repeat).collect(), offset: self.offset }
    }

    /// A strided box.
    pub fn slice(&self, dims: &[SliceDim]) -> Self {
        let start =
            |(dim, &stride): (&SliceDim, &i64)| if dim.size == 0 { 0 } else { dim.start as i64 * stride };
        Self {
            shape: dims.iter().map(|dim| dim.size).collect(),
            strides: dims.iter().zip(&self.strides).map(|(dim, stride)| dim.step * stride).collect(),
            offset: self.offset + dims.iter().zip(&self.strides).map(start).sum::<i64>(),
        }
    }

    /// Windows of `size` along `axis`, `step` apart, elements `dilation` apart; the window's axis
    /// becomes the last one.
    pub fn unfold(&self, axis: usize, size: usize, step: usize, dilation: usize) -> Self {
        let mut result = self.clone();
        let reach = size.saturating_sub(1) * dilation;
        result.shape.0[axis] = self.shape[axis].saturating_sub(reach).div_ceil(step.max(1));
        result.shape.0.push(size);
        result.strides[axis] = self.strides[axis] * step as i64;
        result.strides.push(self.strides[axis] * dilation as i64);
        result
    }

    /// The same elements in row-major order with another shape; `None` if no strides express it.
    pub fn reshape(&self, shape: &Shape) -> Option<Self> {
        if shape.elements() != self.shape.elements() {
            return None;
        }
        if shape.elements() == 0 || self.is_contiguous() {
            return Some(Self { offset: self.offset, ..Self::contiguous(shape) });
        }
        // Runs of axes that step as one, innermost last: (elements, innermost stride).
        let mut runs: SmallVec<[(usize, i64); 6]> = SmallVec::new();
        for (&extent, &stride) in self.shape.iter().zip(&self.strides).filter(|(extent, _)| **extent != 1) {
            match runs.last_mut() {
                Some((count, step)) if *step == stride * extent as i64 => {
                    (*count, *step) = (*count * extent, stride)
                }
                _ => runs.push((extent, stride)),
            }
        }
        let mut strides = Strides::from_elem(0, shape.rank());
        let mut run = runs.pop();
        let mut taken = 1;
        for axis in (0..shape.rank()).rev().filter(|&axis| shape[axis] != 1) {
            let (count, stride) = run?;
            strides[axis] = stride * taken as i64;
            taken *= shape[axis];
            if count % taken != 0 {
                return None;
            }
            if count == taken {
                (run, taken) = (runs.pop(), 1);
            }
        }
        Some(Self { shape: shape.clone(), strides, offset: self.offset })
    }

    /// Whether no two indices lie at the same element (sufficient, not necessary).
    pub fn is_injective(&self) -> bool {
        let mut axes: SmallVec<[(u64, usize); 6]> = (self.strides.iter().zip(self.shape.iter()))
            .filter(|(_, extent)| **extent > 1)
            .map(|(stride, &extent)| (stride.unsigned_abs(), extent))
            .collect();
        axes.sort_unstable();
        let mut reach = 0u64;
        axes.into_iter().all(|(stride, extent)| {
            let beyond = stride > reach;
            reach += stride * (extent as u64 - 1);
            beyond
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(shape: &[usize], strides: &[i64]) -> Layout {
        Layout { shape: shape.into(), strides: Strides::from_slice(strides), offset: 0 }
    }

    #[test]
    fn reshape_splits_and_merges_what_steps_as_one() {
        let dense = layout(&[2, 6, 5], &[100, 10, 2]);
        let split = dense.reshape(&Shape::from([2, 3, 1, 2, 5])).unwrap();
        assert_eq!(split.strides.as_slice(), [100, 20, 0, 10, 2]);
        let merged = dense.reshape(&Shape::from([2, 30])).unwrap();
        assert_eq!(merged.strides.as_slice(), [100, 2]);
        assert_eq!(layout(&[4, 3], &[1, 4]).reshape(&Shape::from([12])), None);
        assert_eq!(layout(&[4, 3], &[1, 4]).reshape(&Shape::from([6, 2])), None);
        assert_eq!(layout(&[3, 4], &[0, 0]).reshape(&Shape::from([12])).unwrap().strides.as_slice(), [0]);
    }

    #[test]
    fn a_flipped_slice_starts_at_its_last_element() {
        let flipped = layout(&[5], &[2]).slice(&[SliceDim { start: 4, size: 5, step: -1 }]);
        assert_eq!((flipped.offset, flipped.strides[0]), (8, -2));
    }

    #[test]
    fn overlapping_layouts_are_not_injective() {
        assert!(layout(&[4, 3], &[3, -1]).is_injective());
        assert!(!layout(&[4, 3], &[1, 1]).is_injective());
        assert!(!layout(&[4, 3], &[0, 1]).is_injective());
    }
}
