//! Deformable convolution: every element of a window is read where an offset moves it to.

use super::convolution::labels;
use super::invalid;
use super::sample::{Part, Points};
use super::window::Window;
use crate::MlirTensor;
use burn_backend::ops::DeformConvOptions;
use burn_mlir_ir::Shape;

/// Gradients of a deformable convolution.
pub(crate) struct DeformableGrads {
    pub(crate) input: MlirTensor,
    pub(crate) offset: MlirTensor,
    pub(crate) weight: MlirTensor,
    pub(crate) mask: Option<MlirTensor>,
    pub(crate) bias: Option<MlirTensor>,
}

/// The operands of a deformable convolution: `x: [n, c, h, w]`, `offset: [n, groups · kh · kw · 2, y, x]` (row and
/// column of every element), `weight: [o, c / weight groups, kh, kw]`, `mask: [n, groups · kh · kw, y, x]`.
pub(crate) struct Deformable<'a> {
    pub(crate) x: &'a MlirTensor,
    pub(crate) offset: &'a MlirTensor,
    pub(crate) weight: &'a MlirTensor,
    pub(crate) mask: Option<&'a MlirTensor>,
    pub(crate) bias: Option<&'a MlirTensor>,
    pub(crate) options: DeformConvOptions<2>,
}

/// The windows along both axes of operands that fit each other.
struct Fitted<'a> {
    operands: &'a Deformable<'a>,
    windows: [Window; 2],
}

impl Deformable<'_> {
    /// `[n, o, y, x]`.
    pub(crate) fn forward(&self) -> MlirTensor {
        match self.fitted() {
            Some(fitted) => fitted.forward(),
            None => self.misfit("deform_conv2d", self.x),
        }
    }

    /// The gradients for `grad`, that of the output.
    pub(crate) fn backward(&self, grad: &MlirTensor) -> DeformableGrads {
        let fits =
            |fitted: &Fitted<'_>| grad.shape[..] == fitted.output_shape()[..] && grad.dtype == self.x.dtype;
        match self.fitted().filter(fits) {
            Some(fitted) => fitted.backward(grad),
            None => {
                let failed = |like: &MlirTensor| self.misfit("deform_conv2d_backward", like);
                DeformableGrads {
                    input: failed(self.x),
                    offset: failed(self.offset),
                    weight: failed(self.weight),
                    mask: self.mask.map(failed),
                    bias: self.bias.map(failed),
                }
            }
        }
    }

    fn fitted(&self) -> Option<Fitted<'_>> {
        let (&[n, c, height, width], &[o, inner, kh, kw]) = (&self.x.shape[..], &self.weight.shape[..])
        else {
            return None;
        };
        let DeformConvOptions { stride, padding, dilation, weight_groups, offset_groups } = self.options;
        let window = |i: usize, size: usize, extent: usize| {
            let around = (padding[i], padding[i]);
            Window::of_convolution(size, stride[i], around, dilation[i], extent)
        };
        let windows = [window(0, kh, height)?, window(1, kw, width)?];
        let divides = |groups: usize, channels: usize| groups > 0 && channels.is_multiple_of(groups);
        let taps = offset_groups * kh * kw;
        let spatial = [windows[0].count, windows[1].count];
        let is = |t: &MlirTensor, channels: usize| t.shape[..] == [n, channels, spatial[0], spatial[1]];
        let others = [Some(self.offset), Some(self.weight), self.mask, self.bias];
        let fits = divides(weight_groups, o)
            && divides(offset_groups, c)
            && c == inner * weight_groups
            && is(self.offset, 2 * taps)
            && self.mask.is_none_or(|mask| is(mask, taps))
            && self.bias.is_none_or(|bias| bias.shape[..] == [o])
            && others.iter().flatten().all(|t| t.dtype == self.x.dtype);
        fits.then_some(Fitted { operands: self, windows })
    }

    fn misfit(&self, op: &'static str, like: &MlirTensor) -> MlirTensor {
        let operands = [self.x, self.offset, self.weight];
        let reason = format!("the operands do not fit {:?}", self.options);
        invalid(op, &operands, like.dtype, like.ir_shape(), reason)
    }
}

impl Fitted<'_> {
    /// Elements of a window.
    fn taps(&self) -> usize {
        self.windows[0].size * self.windows[1].size
    }

    /// Number of windows.
    fn count(&self) -> usize {
        self.windows[0].count * self.windows[1].count
    }

    fn output_shape(&self) -> Shape {
        let Deformable { x, weight, .. } = self.operands;
        Shape::from([x.shape[0], weight.shape[0], self.windows[0].count, self.windows[1].count])
    }

    /// `[n, groups, 1, taps · windows]`, to broadcast over the channels of a group.
    fn of_points(&self, t: &MlirTensor) -> MlirTensor {
        let n = self.operands.x.shape[0];
        t.reshape([n, self.operands.options.offset_groups, 1, self.taps() * self.count()])
    }

    /// Where elements of windows are read.
    fn points(&self) -> Points {
        let Deformable { x, offset, options, .. } = self.operands;
        let [rows, columns] = &self.windows;
        let (n, groups) = (x.shape[0], options.offset_groups);
        let pairs = offset.reshape([n, groups, self.taps(), 2, self.count()]).widened();
        let position = |i: usize| {
            let w = &self.windows[i];
            // Axes of the element and of the window in [kh, kw, y, x].
            let axis = |axis: usize, extent: usize| {
                let mut line = Shape::from([1, 1, 1, 1]);
                line.0[axis] = extent;
                MlirTensor::iota(x.device, burn_mlir_ir::DType::I32, line, axis)
            };
            let inside = axis(i, w.size).times(w.dilation as f64);
            let start = axis(i + 2, w.count).times(w.stride as f64).plus(-(w.before as f64));
            let all = Shape::from([rows.size, columns.size, rows.count, columns.count]);
            let regular = inside.add(&start).cast(pairs.dtype).expand(&all);
            let moved = pairs.narrow(3, i, 1).reshape([n, groups, 1, 1, self.taps() * self.count()]);
            moved.add(&regular.reshape([1, 1, 1, 1, self.taps() * self.count()]))
        };
        Points::bilinear(&position(0), &position(1), [x.shape[2], x.shape[3]])
    }

    /// `[n, groups, channels of a group, h · w]`.
    fn planes(&self) -> MlirTensor {
        let Deformable { x, options, .. } = self.operands;
        let groups = options.offset_groups;
        x.reshape([x.shape[0], groups, x.shape[1] / groups, x.shape[2] * x.shape[3]])
    }

    /// `[n, groups, channels of a group, taps · windows]`: the part of samples.
    fn samples(&self, points: &Points, part: Part) -> MlirTensor {
        let sum = points.shares(&self.planes(), part).sum(&[points.axis()]);
        let shape = [sum.shape[0], sum.shape[1], sum.shape[2], sum.shape[4]];
        sum.reshape(shape)
    }

    /// The elements of all windows: `[n, weight groups, c / weight groups, taps, windows]`.
    fn columns(&self) -> MlirTensor {
        let Deformable { x, mask, options, .. } = self.operands;
        let samples = self.samples(&self.points(), Part::Value);
        let masked = match mask {
            Some(mask) => samples.mul(&self.of_points(mask).widened()),
            None => samples,
        };
        self.by_weight_groups(&masked.cast(x.dtype), options.weight_groups)
    }

    fn by_weight_groups(&self, t: &MlirTensor, groups: usize) -> MlirTensor {
        let (n, c) = (self.operands.x.shape[0], self.operands.x.shape[1]);
        t.reshape([n, c, self.taps(), self.count()]).split_groups(1, groups)
    }

    /// `[groups, o / groups, c / groups, taps]`.
    fn grouped_weight(&self) -> MlirTensor {
        let Deformable { weight, options, .. } = self.operands;
        weight.reshape([weight.shape[0], weight.shape[1], self.taps()]).split_groups(0, options.weight_groups)
    }

    /// `[n, groups, o / groups, windows]`.
    fn grouped_output(&self, t: &MlirTensor) -> MlirTensor {
        let shape = self.output_shape();
        t.reshape([shape[0], shape[1], self.count()]).split_groups(1, self.operands.options.weight_groups)
    }

    fn forward(&self) -> MlirTensor {
        let g = self.operands.options.weight_groups;
        let (weight, columns, out) = (labels(g, &[b"goci"]), labels(g, &[b"ngcix"]), labels(g, &[b"ngox"]));
        let product =
            self.grouped_weight().contract(&self.columns(), "deform_conv2d", [&weight, &columns, &out]);
        product.reshape(self.output_shape()).plus_channels(self.operands.bias)
    }

    fn backward(&self, grad: &MlirTensor) -> DeformableGrads {
        let Deformable { x, offset, weight, mask, bias, ref options } = *self.operands;
        let g = options.weight_groups;
        let name = "deform_conv2d_backward";
        let [of_weight, of_columns, of_output] =
            [b"goci".as_slice(), b"ngcix", b"ngox"].map(|text| labels(g, &[text]));
        let grouped = self.grouped_output(grad);
        // Gradients of the windows' elements, [n, groups, channels, taps · windows].
        let columns = self.grouped_weight().contract(&grouped, name, [&of_weight, &of_output, &of_columns]);
        let (groups, channels) = (options.offset_groups, x.shape[1] / options.offset_groups);
        let elements = self.taps() * self.count();
        let columns = columns.reshape([x.shape[0], groups, channels, elements]).widened();
        let (points, planes) = (self.points(), self.planes());
        let by_pixels = |t: &MlirTensor| t.reshape([x.shape[0], groups, channels, 1, elements]);
        // Sums over the channels of a group and the pixels around a point.
        let sums = |columns: &MlirTensor, part: Part| {
            by_pixels(columns).mul(&points.shares(&planes, part)).sum(&[2, 3]).cast(x.dtype)
        };
        let mask_grad = mask.map(|mask| sums(&columns, Part::Value).reshape(mask.ir_shape()));
        let masked = match mask {
            Some(mask) => columns.mul(&self.of_points(mask).widened()),
            None => columns,
        };
        let slope = |part: Part| {
            let shape = [x.shape[0], groups, self.taps(), 1, self.count()];
            sums(&masked, part).reshape(shape)
        };
        let pairs = MlirTensor::concat(&[slope(Part::AlongRows), slope(Part::AlongColumns)], 3);
        let weight_grad = grouped.contract(&self.columns(), name, [&of_output, &of_columns, &of_weight]);
        DeformableGrads {
            input: points.scatter(&by_pixels(&masked)).cast(x.dtype).reshape(x.ir_shape()),
            offset: pairs.map_or_else(|| offset.clone(), |pairs| pairs.reshape(offset.ir_shape())),
            weight: weight_grad.reshape(weight.ir_shape()),
            mask: mask_grad,
            bias: bias.map(|_| grad.conv_bias_grad()),
        }
    }
}
