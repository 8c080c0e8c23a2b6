//! Pooling: reductions over windows.

use super::invalid;
use super::window::Window;
use crate::MlirTensor;
use burn_mlir_ir::{ArgReduceOp, BinaryOp, CompareOp, DType, ReduceOp, ScatterOp, Shape};

/// Windows along the two spatial axes of `[n, c, h, w]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolGeometry {
    pub(crate) size: [usize; 2],
    pub(crate) stride: [usize; 2],
    pub(crate) padding: [usize; 2],
    pub(crate) dilation: [usize; 2],
    pub(crate) ceil_mode: bool,
}

impl PoolGeometry {
    fn windows(&self, shape: &[usize]) -> Option<[Window; 2]> {
        let &[_, _, height, width] = shape else {
            return None;
        };
        let window = |i: usize, extent: usize| {
            let (size, stride) = (self.size[i], self.stride[i]);
            let (padding, dilation) = (self.padding[i], self.dilation[i]);
            Window::of_pool(size, stride, padding, dilation, extent, self.ceil_mode)
        };
        Some([window(0, height)?, window(1, width)?])
    }
}

/// Axes of the elements in a window: the last two of `[n, c, y, x, kh, kw]`.
const INSIDE: [usize; 2] = [4, 5];

impl MlirTensor {
    /// Maximum over windows: `[n, c, h, w]` → `[n, c, y, x]`. NaN wins.
    pub(crate) fn max_pool(&self, geometry: &PoolGeometry) -> Self {
        let Some(windows) = geometry.windows(&self.shape) else {
            return self.no_window(geometry);
        };
        let inside = self.windows(2, &windows, f64::NEG_INFINITY);
        inside.reduce(ReduceOp::Max, &INSIDE).reshape(self.pooled(&windows))
    }

    /// Maximum over windows and its position `h · width + w` in the input; the first on a tie.
    pub(crate) fn max_pool_with_indices(&self, geometry: &PoolGeometry, dtype: DType) -> (Self, Self) {
        let Some(windows) = geometry.windows(&self.shape) else {
            let failed = self.no_window(geometry);
            return (failed.clone(), failed.cast(dtype));
        };
        let shape = self.pooled(&windows);
        let inside = self.windows(2, &windows, f64::NEG_INFINITY);
        let values = inside.reduce(ReduceOp::Max, &INSIDE).reshape(shape.clone());
        let work = DType::I32;
        let place = inside.arg_reduce(ArgReduceOp::ArgMax, &INSIDE, work).reshape(shape.clone());
        let columns = windows[1].size as f64;
        let row = place.over(columns);
        let column = place.binary_constant(BinaryOp::Rem, columns);
        // A window of nothing but -∞ points at its first element, which may be padding; the first that is none is meant.
        let coordinate = |inside: &Self, axis: usize| {
            let w = &windows[axis];
            let start = Self::iota(self.device, work, shape.clone(), axis + 2).times(w.stride as f64);
            let at = start.add(&inside.times(w.dilation as f64)).plus(-(w.before as f64));
            let first = at.binary_constant(BinaryOp::Rem, w.dilation as f64);
            let at = at.compare_constant(CompareOp::Lt, 0.0).select(&first, &at);
            at.at_most(w.extent.saturating_sub(1) as f64)
        };
        let width = windows[1].extent as f64;
        let flat = coordinate(&row, 0).times(width).add(&coordinate(&column, 1));
        (values, flat.cast(dtype))
    }

    /// Gradient of max pooling in its input, of which `shape` is the shape: each gradient at the
    /// position of the maximum. `self` is the output's gradient.
    pub(crate) fn max_pool_grad(&self, shape: &[usize], indices: &Self) -> Self {
        let &[n, c, height, width] = shape else {
            let reason = "wants [n, c, h, w]";
            return invalid("max_pool2d", &[self, indices], self.dtype, self.ir_shape(), reason);
        };
        let planes = n * c;
        let positions: usize = self.shape.iter().skip(2).product();
        let zeros = Self::constant(self.device, 0.0, self.dtype, Shape::from([planes, height * width]));
        let flat = |t: &Self| t.reshape([planes, positions]);
        zeros.scatter(ScatterOp::Add, 1, &flat(indices), &flat(self)).reshape(shape)
    }

    /// Mean over windows: `[n, c, h, w]` → `[n, c, y, x]`.
    pub(crate) fn avg_pool(&self, geometry: &PoolGeometry, count_include_pad: bool) -> Self {
        let Some(windows) = geometry.windows(&self.shape) else {
            return self.no_window(geometry);
        };
        self.in_wide(|x| {
            let sum = x.windows(2, &windows, 0.0).sum(&INSIDE).reshape(self.pooled(&windows));
            sum.divide_by_counts(&windows, count_include_pad)
        })
    }

    /// Gradient of average pooling in its input, of which `shape` is the shape; `self` is the output's
    /// gradient.
    pub(crate) fn avg_pool_grad(
        &self,
        shape: &[usize],
        geometry: &PoolGeometry,
        count_include_pad: bool,
    ) -> Self {
        let Some(windows) = geometry.windows(shape) else {
            return self.no_window(geometry);
        };
        self.in_wide(|grad| {
            let shares = grad.divide_by_counts(&windows, count_include_pad);
            shares.covering_windows(2, &windows).sum(&INSIDE).reshape(shape)
        })
    }

    /// `[n, c, y, x]` over the number of elements in each window: those inside the input, or inside its
    /// padding.
    fn divide_by_counts(&self, windows: &[Window; 2], include_padding: bool) -> Self {
        let uniform = |w: &Window| {
            let margin = if include_padding { w.before } else { 0 };
            let last = w.count.saturating_sub(1) * w.stride + w.size;
            w.before <= margin && last <= w.before + w.extent + margin
        };
        if windows.iter().all(uniform) {
            return self.over((windows[0].size * windows[1].size) as f64);
        }
        let count = |axis: usize| {
            let w = &windows[axis];
            let margin = if include_padding { w.before as f64 } else { 0.0 };
            let mut line = Shape::from([1, 1, 1, 1]);
            line.0[axis + 2] = w.count;
            let index = Self::iota(self.device, DType::I32, line, axis + 2);
            let start = index.times(w.stride as f64).plus(-(w.before as f64));
            let end = start.plus(w.size as f64).at_most(w.extent as f64 + margin);
            end.sub(&start.at_least(-margin)).at_least(1.0)
        };
        self.div(&count(0).mul(&count(1)).cast(self.dtype))
    }

    /// `[n, c, windows..]`.
    fn pooled(&self, windows: &[Window; 2]) -> Shape {
        Shape::from([self.shape[0], self.shape[1], windows[0].count, windows[1].count])
    }

    fn no_window(&self, geometry: &PoolGeometry) -> Self {
        let reason = format!("no window of {geometry:?} fits");
        invalid("pool", &[self], self.dtype, self.ir_shape(), reason)
    }
}
