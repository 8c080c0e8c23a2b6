//! Convolutions of any number of spatial axes, transposed ones and all gradients: three contractions
//! between a dense side (a convolution's input), a window side (its output) and a weight
//! `[window channels, dense channels / groups, kernel..]`. A transposed convolution has the sides
//! exchanged.

use super::invalid;
use super::window::Window;
use crate::{MlirDevice, MlirTensor};
use burn_backend::ops::{ConvOptions, ConvTransposeOptions};
use burn_mlir_ir::{DType, Shape};
use smallvec::SmallVec;

/// Labels of the windows and of the elements in a window.
const OUTER: &[u8] = b"xyz";
const KERNEL: &[u8] = b"ijk";

/// Bytes a GPU reads at once.
const ACCESS_BYTES: usize = 16;

/// Windows along every spatial axis, and the number of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    windows: SmallVec<[Window; 3]>,
    groups: usize,
}

/// Labels of an operand: named axes, the group's only if there are several.
pub(super) fn labels(groups: usize, parts: &[&[u8]]) -> SmallVec<[u8; 12]> {
    let kept = parts.iter().flat_map(|part| part.iter().copied());
    kept.filter(|&label| label != b'g' || groups > 1).collect()
}

impl Geometry {
    /// Of a convolution `[n, c, s..]` with `[o, c / groups, k..]`.
    pub(crate) fn of_convolution<const N: usize>(
        dense: &[usize],
        weight: &[usize],
        options: &ConvOptions<N>,
    ) -> Option<Self> {
        let groups = options.groups;
        if dense.len() != N + 2 || !weight_fits::<N>(weight, groups) || dense[1] != weight[1] * groups {
            return None;
        }
        let window = |i: usize| {
            let (stride, dilation) = (options.stride[i], options.dilation[i]);
            Window::of_convolution(weight[i + 2], stride, options.padding[i], dilation, dense[i + 2])
        };
        Some(Self { windows: (0..N).map(window).collect::<Option<_>>()?, groups })
    }

    /// Of a transposed convolution `[n, c, s..]` with `[c, o / groups, k..]`.
    pub(crate) fn of_transposed<const N: usize>(
        outer: &[usize],
        weight: &[usize],
        options: &ConvTransposeOptions<N>,
    ) -> Option<Self> {
        let groups = options.groups;
        if outer.len() != N + 2 || !weight_fits::<N>(weight, groups) || outer[1] != weight[0] {
            return None;
        }
        let window = |i: usize| {
            let (size, count) = (weight[i + 2], outer[i + 2]);
            let (stride, dilation, before) = (options.stride[i], options.dilation[i], options.padding[i]);
            let reach = dilation * size.checked_sub(1)?;
            let full = count.checked_sub(1)? * stride + reach + 1 + options.padding_out[i];
            let extent = full.checked_sub(2 * before)?;
            Some(Window { size, stride, dilation, before, extent, count })
        };
        Some(Self { windows: (0..N).map(window).collect::<Option<_>>()?, groups })
    }

    fn rank(&self) -> usize {
        self.windows.len()
    }
}

/// Labels of windows with these channels.
fn window_labels(groups: usize, channels: u8, rank: usize, last: bool) -> SmallVec<[u8; 12]> {
    let (outer, kernel) = (&OUTER[..rank], &KERNEL[..rank]);
    if last {
        labels(groups, &[b"ng", outer, &[channels], kernel])
    } else {
        labels(groups, &[b"ng", &[channels], outer, kernel])
    }
}

/// Whether a weight has the rank of `N` spatial axes and channels for every group.
fn weight_fits<const N: usize>(weight: &[usize], groups: usize) -> bool {
    weight.len() == N + 2 && groups > 0 && weight[0].is_multiple_of(groups)
}

impl MlirTensor {
    /// Convolution: `[n, c, s..]`, `[o, c / groups, k..]`, `[o]` → `[n, o, s'..]`.
    pub(crate) fn conv<const N: usize>(
        &self,
        weight: &Self,
        bias: Option<&Self>,
        options: &ConvOptions<N>,
    ) -> Self {
        match Geometry::of_convolution(&self.shape, &weight.shape, options) {
            Some(geometry) => self.windows_times(weight, &geometry).plus_channels(bias),
            None => self.misfit(weight, options),
        }
    }

    /// Gradient of [`conv`](Self::conv) in its input, of which `shape` is the shape; `self` is the
    /// output's gradient.
    pub(crate) fn conv_input_grad<const N: usize>(
        &self,
        shape: &[usize],
        weight: &Self,
        options: &ConvOptions<N>,
    ) -> Self {
        match Geometry::of_convolution(shape, &weight.shape, options) {
            Some(geometry) => self.spread_times(weight, &geometry),
            None => self.misfit(weight, options),
        }
    }

    /// Gradient of [`conv`](Self::conv) in its weight, of which `shape` is the shape; `self` is the
    /// input.
    pub(crate) fn conv_weight_grad<const N: usize>(
        &self,
        shape: &[usize],
        grad: &Self,
        options: &ConvOptions<N>,
    ) -> Self {
        match Geometry::of_convolution(&self.shape, shape, options) {
            Some(geometry) => self.weight_between(grad, shape, &geometry),
            None => self.misfit(grad, options),
        }
    }

    /// Transposed convolution: `[n, c, s..]`, `[c, o / groups, k..]`, `[o]` → `[n, o, s'..]`.
    pub(crate) fn conv_transpose<const N: usize>(
        &self,
        weight: &Self,
        bias: Option<&Self>,
        options: &ConvTransposeOptions<N>,
    ) -> Self {
        match Geometry::of_transposed(&self.shape, &weight.shape, options) {
            Some(geometry) => self.spread_times(weight, &geometry).plus_channels(bias),
            None => self.misfit(weight, options),
        }
    }

    /// Gradient of [`conv_transpose`](Self::conv_transpose) in its input; `self` is the output's
    /// gradient.
    pub(crate) fn conv_transpose_input_grad<const N: usize>(
        &self,
        weight: &Self,
        options: &ConvTransposeOptions<N>,
    ) -> Self {
        match self.transposed_geometry(&weight.shape, options) {
            Some(geometry) => self.windows_times(weight, &geometry),
            None => self.misfit(weight, options),
        }
    }

    /// Gradient of [`conv_transpose`](Self::conv_transpose) in its weight, of which `shape` is the
    /// shape; `self` is the input.
    pub(crate) fn conv_transpose_weight_grad<const N: usize>(
        &self,
        shape: &[usize],
        grad: &Self,
        options: &ConvTransposeOptions<N>,
    ) -> Self {
        match Geometry::of_transposed(&self.shape, shape, options) {
            Some(geometry) => grad.weight_between(self, shape, &geometry),
            None => self.misfit(grad, options),
        }
    }

    /// Gradient of a bias: `[n, o, s..]` → `[o]`.
    pub(crate) fn conv_bias_grad(&self) -> Self {
        let axes: SmallVec<[usize; 8]> = (0..self.shape.len()).filter(|&axis| axis != 1).collect();
        let Some(&channels) = self.shape.get(1) else {
            return self.clone();
        };
        self.sum(&axes).reshape([channels])
    }

    /// Columns of 2D windows: `[n, c, h, w]` → `[n, c · kh · kw, windows]`.
    pub(crate) fn unfold_2d(
        &self,
        size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
    ) -> Self {
        let window = |i: usize| {
            let extent = *self.shape.get(i + 2)?;
            Window::of_convolution(size[i], stride[i], (padding[i], padding[i]), dilation[i], extent)
        };
        let (Some(y), Some(x)) = (window(0), window(1)) else {
            let reason = format!("no window of {size:?} fits");
            return invalid("unfold4d", &[self], self.dtype, self.ir_shape(), reason);
        };
        let (n, c) = (self.shape[0], self.shape[1]);
        self.windows(2, &[y, x], 0.0).permute(&[0, 1, 4, 5, 2, 3]).reshape([
            n,
            c * y.size * x.size,
            y.count * x.count,
        ])
    }

    /// The transpose of [`unfold_2d`](Self::unfold_2d): columns added to the elements they come from,
    /// `[n, c · kh · kw, windows]` → `[n, c, extents..]`.
    pub(crate) fn fold_2d(
        &self,
        extents: [usize; 2],
        size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
    ) -> Self {
        let window = |i: usize| {
            let around = (padding[i], padding[i]);
            Window::of_convolution(size[i], stride[i], around, dilation[i], extents[i])
        };
        let (windows, taps) = (window(0).zip(window(1)), size[0] * size[1]);
        let fits = |(y, x): &(Window, Window)| match self.shape[..] {
            [_, columns, count] => columns.is_multiple_of(taps) && count == y.count * x.count,
            _ => false,
        };
        let Some((y, x)) = windows.filter(fits) else {
            let reason = format!("the columns are not those of windows of {size:?} over {extents:?}");
            return invalid("fold4d", &[self], self.dtype, self.ir_shape(), reason);
        };
        let (n, c) = (self.shape[0], self.shape[1] / taps);
        self.in_wide(|columns| {
            let apart =
                columns.reshape([n, c, y.size, x.size, y.count, x.count]).permute(&[0, 1, 2, 4, 3, 5]);
            // [n, c, height, kw, columns, kh], then [n, c, height, width, kh, kw].
            let rows = apart.diagonals(2, &y);
            rows.diagonals(3, &x).sum(&[4, 5]).reshape([n, c, y.extent, x.extent])
        })
    }

    /// Dense to window side: `[n, c, extent..]`, `[o, c / g, k..]` → `[n, o, count..]`.
    fn windows_times(&self, weight: &Self, geometry: &Geometry) -> Self {
        let (rank, g) = (geometry.rank(), geometry.groups);
        let last = self.wants_channels_last(weight.shape[1], geometry);
        let (dense, first) = self.grouped(g, last);
        let windows = dense.windows_in(first, &geometry.windows, 0.0, last);
        let shape = self.spatial_shape(weight.shape[0], geometry.windows.iter().map(|w| w.count));
        let (weight, weight_labels) = weight.split_groups(0, g).kernel_of(b'c', g, rank, last);
        let product = weight.contract(
            &windows,
            "conv",
            [&weight_labels, &window_labels(g, b'c', rank, last), &labels(g, &[b"ngo", &OUTER[..rank]])],
        );
        product.reshape(shape)
    }

    /// Window to dense side: `[n, o, count..]`, `[o, c / g, k..]` → `[n, c, extent..]`.
    fn spread_times(&self, weight: &Self, geometry: &Geometry) -> Self {
        let (rank, g) = (geometry.rank(), geometry.groups);
        let last = self.wants_channels_last(weight.shape[0] / g, geometry);
        let (outer, first) = self.grouped(g, last);
        let windows = outer.covering_windows_in(first, &geometry.windows, last);
        let channels = weight.shape[1] * g;
        let shape = self.spatial_shape(channels, geometry.windows.iter().map(|w| w.extent));
        let kernel_axes: SmallVec<[usize; 3]> = (2..2 + rank).collect();
        let weight = weight.flip(&kernel_axes).split_groups(0, g);
        let (weight, weight_labels) = weight.kernel_of(b'o', g, rank, last);
        let product = weight.contract(
            &windows,
            "conv_transpose",
            [&weight_labels, &window_labels(g, b'o', rank, last), &labels(g, &[b"ngc", &OUTER[..rank]])],
        );
        product.reshape(shape)
    }

    /// Both sides to the weight: `[n, c, extent..]`, `[n, o, count..]` → `[o, c / g, k..]`.
    fn weight_between(&self, outer: &Self, shape: &[usize], geometry: &Geometry) -> Self {
        let (rank, g) = (geometry.rank(), geometry.groups);
        let last = self.wants_channels_last(shape[1], geometry);
        let (dense, first) = self.grouped(g, last);
        let windows = dense.windows_in(first, &geometry.windows, 0.0, last);
        let channels: [&[u8]; 2] = if last { [b"", b"c"] } else { [b"c", b""] };
        let product = outer.split_groups(1, g).contract(
            &windows,
            "conv_weight_grad",
            [
                &labels(g, &[b"ngo", &OUTER[..rank]]),
                &window_labels(g, b'c', rank, last),
                &labels(g, &[b"go", channels[0], &KERNEL[..rank], channels[1]]),
            ],
        );
        if !last {
            return product.reshape(shape);
        }
        // The channels back in front of the kernel's axes.
        let ahead = product.shape.len() - rank - 1;
        let order = (0..ahead).chain([ahead + rank]).chain(ahead..ahead + rank);
        product.permute(&order.collect::<SmallVec<[usize; 8]>>()).reshape(shape)
    }

    /// Whether the summed channels, so many a group, are to lie next to each other in memory: a matrix unit
    /// reads whole runs of them, where neighbouring windows would be read element by element.
    fn wants_channels_last(&self, channels: usize, geometry: &Geometry) -> bool {
        let bytes = match self.dtype {
            DType::F16 | DType::BF16 => 2,
            DType::Flex32 => 4,
            _ => return false,
        };
        let points = |w: &Window| w.size == 1 && w.stride == 1 && w.before == 0 && w.count == w.extent;
        matches!(self.device, MlirDevice::Cuda(_))
            && (channels * bytes).is_multiple_of(ACCESS_BYTES)
            && !geometry.windows.iter().all(points)
    }

    /// With the groups apart from the channels, which are behind the spatial axes if `last`; and the first
    /// spatial axis.
    fn grouped(&self, groups: usize, last: bool) -> (Self, usize) {
        let apart = self.split_groups(1, groups);
        let channels = 1 + usize::from(groups > 1);
        if last { (apart.moved_last(channels), channels) } else { (apart, channels + 1) }
    }

    /// A grouped weight with its labels; if `last`, its `summed` channels (b'o' or b'c') are next to each other.
    fn kernel_of(&self, summed: u8, groups: usize, rank: usize, last: bool) -> (Self, SmallVec<[u8; 12]>) {
        if !last {
            return (self.clone(), labels(groups, &[b"goc", &KERNEL[..rank]]));
        }
        let (kept, axis): (&[u8], _) = if summed == b'o' { (b"c", 0) } else { (b"o", 1) };
        let weight = self.moved_last(axis + usize::from(groups > 1)).compact();
        (weight, labels(groups, &[b"g", kept, &KERNEL[..rank], &[summed]]))
    }

    /// With `axis` behind all others.
    fn moved_last(&self, axis: usize) -> Self {
        let others = (0..self.shape.len()).filter(|&other| other != axis);
        self.permute(&others.chain([axis]).collect::<SmallVec<[usize; 8]>>())
    }

    /// `[.., groups · c, ..]` → `[.., groups, c, ..]`; one group stays as it is.
    pub(super) fn split_groups(&self, axis: usize, groups: usize) -> Self {
        if groups == 1 {
            return self.clone();
        }
        let mut shape = self.ir_shape();
        shape.0[axis] /= groups;
        shape.0.insert(axis, groups);
        self.reshape(shape)
    }

    /// `[n, channels, extents..]` for this tensor's `n`.
    fn spatial_shape(&self, channels: usize, extents: impl Iterator<Item = usize>) -> Shape {
        [self.shape[0], channels].into_iter().chain(extents).collect()
    }

    /// `[n, o, s..] + [o]`.
    pub(super) fn plus_channels(&self, bias: Option<&Self>) -> Self {
        let Some(bias) = bias else {
            return self.clone();
        };
        let channels = bias.ir_shape().elements();
        let extent = |axis: usize| if axis == 1 { channels } else { 1 };
        self.add(&bias.reshape((0..self.shape.len()).map(extent).collect::<Shape>()))
    }

    /// The geometry of the transposed convolution whose output has this tensor's shape.
    fn transposed_geometry<const N: usize>(
        &self,
        weight: &[usize],
        options: &ConvTransposeOptions<N>,
    ) -> Option<Geometry> {
        if self.shape.len() != N + 2 || weight.len() != N + 2 {
            return None;
        }
        let mut outer: SmallVec<[usize; 5]> = SmallVec::from_slice(&[self.shape[0], weight[0]]);
        for i in 0..N {
            let reach = options.dilation[i] * weight[i + 2].checked_sub(1)?;
            let padded = self.shape[i + 2] + 2 * options.padding[i];
            let strides = padded.checked_sub(reach + 1 + options.padding_out[i])?;
            outer.push(strides / options.stride[i] + 1);
        }
        Geometry::of_transposed(&outer, weight, options)
    }

    fn misfit(&self, other: &Self, options: &impl std::fmt::Debug) -> Self {
        let reason = format!("the operands do not fit {options:?}");
        invalid("conv", &[self, other], self.dtype, self.ir_shape(), reason)
    }
}
