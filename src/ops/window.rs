//! Sliding windows: what convolution and pooling share.

use super::view::whole;
use crate::MlirTensor;
use burn_backend::ops::conv::calculate_pool_output_size;
use burn_mlir_ir::SliceDim;
use smallvec::SmallVec;

/// Windows sliding along one axis. Element `t` of window `w` is at `w·stride + t·dilation - before` of
/// the axis, which has `extent` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Elements in a window.
    pub(crate) size: usize,
    /// Elements between two windows.
    pub(crate) stride: usize,
    /// Elements between two elements of a window.
    pub(crate) dilation: usize,
    /// Padding in front of the axis.
    pub(crate) before: usize,
    /// Elements of the axis.
    pub(crate) extent: usize,
    /// Windows.
    pub(crate) count: usize,
}

impl Window {
    /// From the first to the last element of a window, without the first.
    pub(crate) fn reach(&self) -> usize {
        self.dilation * (self.size - 1)
    }

    /// Elements from the start of the first window to the end of the last.
    fn length(&self) -> usize {
        if self.count == 0 { 0 } else { (self.count - 1) * self.stride + self.reach() + 1 }
    }

    /// The windows of a pool; `None` if none of the given kind fits.
    pub(crate) fn of_pool(
        size: usize,
        stride: usize,
        padding: usize,
        dilation: usize,
        extent: usize,
        ceil_mode: bool,
    ) -> Option<Self> {
        if size == 0 || stride == 0 || dilation == 0 {
            return None;
        }
        let room = extent + 2 * padding + if ceil_mode { stride - 1 } else { 0 };
        if room < dilation * (size - 1) + 1 {
            return None;
        }
        let count = calculate_pool_output_size(size, stride, padding, dilation, extent, ceil_mode);
        Some(Self { size, stride, dilation, before: padding, extent, count })
    }

    /// Windows of a convolution with padding at both ends; `None` if none fits.
    pub(crate) fn of_convolution(
        size: usize,
        stride: usize,
        padding: (usize, usize),
        dilation: usize,
        extent: usize,
    ) -> Option<Self> {
        if size == 0 || stride == 0 || dilation == 0 {
            return None;
        }
        let room = (extent + padding.0 + padding.1).checked_sub(dilation * (size - 1) + 1)?;
        let (before, count) = (padding.0, room / stride + 1);
        Some(Self { size, stride, dilation, before, extent, count })
    }
}

/// Where the elements of an axis go in a longer or shorter one: element `j` to `first + j·step`,
/// dropped if that is outside.
#[derive(Clone, Copy, Debug)]
struct Spread {
    first: i64,
    step: usize,
    length: usize,
}

impl MlirTensor {
    /// The windows along the axes from `first` on, what is outside being `fill`:
    /// `[.., extent.., ]` → `[.., count.., size..]`.
    pub(super) fn windows(&self, first: usize, windows: &[Window], fill: f64) -> Self {
        self.windows_in(first, windows, fill, false)
    }

    /// [`windows`](Self::windows); if `row_major`, into memory in which the axes lie in this order.
    pub(super) fn windows_in(&self, first: usize, windows: &[Window], fill: f64, row_major: bool) -> Self {
        let spread = |w: &Window| Spread { first: w.before as i64, step: 1, length: w.length() };
        let padded = self.spread(first, windows.iter().map(spread), fill, row_major);
        (windows.iter().enumerate())
            .fold(padded, |t, (i, w)| t.unfold(first + i, w.size, w.stride, w.dilation))
    }

    /// The transpose of [`windows`](Self::windows), up to the sum: for every element of the axes from
    /// `first` on, the window elements that come from it, last first (0 where there is none):
    /// `[.., count..]` → `[.., extent.., size..]`.
    pub(super) fn covering_windows(&self, first: usize, windows: &[Window]) -> Self {
        self.covering_windows_in(first, windows, false)
    }

    /// [`covering_windows`](Self::covering_windows); if `row_major`, into memory in which the axes lie in this order.
    pub(super) fn covering_windows_in(&self, first: usize, windows: &[Window], row_major: bool) -> Self {
        let spread = |w: &Window| Spread {
            first: w.reach() as i64 - w.before as i64,
            step: w.stride,
            length: w.extent + w.reach(),
        };
        let padded = self.spread(first, windows.iter().map(spread), 0.0, row_major);
        (windows.iter().enumerate()).fold(padded, |t, (i, w)| t.unfold(first + i, w.size, 1, w.dilation))
    }

    /// Sums of window elements that come from one element of the axes, where every element of a window has a tensor of its
    /// own: `[.., size, count]` for the axis `axis + 1` of windows and its elements before it → `[.., extent]`, as elements
    /// yet to be summed: `[.., extent, .., size]`.
    ///
    /// Every tensor is spread over the axis as its windows lie. What comes from one element then lies on a diagonal of
    /// tensor and position, which is a window along both taken as one axis.
    pub(super) fn diagonals(&self, axis: usize, window: &Window) -> Self {
        let reach = window.reach();
        let length = window.extent + reach;
        let place = Spread { first: reach as i64 - window.before as i64, step: window.stride, length };
        let spread = self.spread(axis + 1, [place].into_iter(), 0.0, true);
        let mut joined = spread.ir_shape();
        joined.0.remove(axis + 1);
        joined.0[axis] = window.size * length;
        let apart = if window.size == 1 { 1 } else { length - window.dilation };
        let kept = spread.reshape(joined).unfold(axis, window.size, 1, apart);
        kept.narrow(axis, reach, window.extent)
    }

    /// Elements spread along the axes from `first` on, `fill` between and around them; in memory of its own in the
    /// order of the axes if there is anything to fill, or if `row_major`.
    fn spread(
        &self,
        first: usize,
        spreads: impl Iterator<Item = Spread>,
        fill: f64,
        row_major: bool,
    ) -> Self {
        let mut kept = whole(&self.shape);
        let mut places: SmallVec<[SliceDim; 6]> = whole(&self.shape);
        let mut shape = self.ir_shape();
        for (i, Spread { first: place, step, length }) in spreads.enumerate() {
            let axis = first + i;
            let pitch = step as i64;
            let begin = (-place).max(0).unsigned_abs() as usize;
            let begin = begin.div_ceil(step).min(self.shape[axis]);
            let fitting = (length as i64 - place + pitch - 1).div_euclid(pitch).max(0) as usize;
            let size = fitting.min(self.shape[axis]).saturating_sub(begin);
            kept[axis] = SliceDim { start: begin, size, step: 1 };
            let start = (place + begin as i64 * pitch).max(0) as usize;
            places[axis] = SliceDim { start, size, step: pitch };
            shape.0[axis] = length;
        }
        let kept = self.slice(kept);
        if kept.shape[..] == shape[..] {
            return if row_major { kept.compact() } else { kept };
        }
        Self::constant(self.device, fill, self.dtype, shape).slice_update(places, &kept)
    }
}
