//! Resampling along an axis: every output is a weighted sum of a few inputs. Adaptive average pooling
//! and interpolation are this, their gradients its transpose.

use super::invalid;
use crate::{MlirDevice, MlirTensor};
use burn_backend::ops::{InterpolateMode, InterpolateOptions};
use burn_mlir_ir::{BinaryOp, CompareOp, DType, ScatterOp, Shape};
use smallvec::SmallVec;
use std::f64::consts::PI;

/// Which inputs an output is made of.
struct Taps {
    /// Positions, i32: `[outputs, taps]`.
    index: MlirTensor,
    /// Weights: `[outputs, taps]`; none: 1.
    weight: Option<MlirTensor>,
    /// Which taps count: `[outputs, taps]`; none: all.
    valid: Option<MlirTensor>,
}

/// Coefficient of the cubic convolution, as in PyTorch and OpenCV.
const CUBIC: f64 = -0.75;

/// Coordinates of a table `[outputs, taps]`.
struct Grid {
    /// Index of the output, i32.
    output: MlirTensor,
    /// Index of the tap, i32.
    tap: MlirTensor,
}

impl Grid {
    fn new(device: MlirDevice, outputs: usize, taps: usize) -> Self {
        let line = |axis| MlirTensor::iota(device, DType::I32, Shape::from([outputs, taps]), axis);
        Self { output: line(0), tap: line(1) }
    }
}

impl Taps {
    /// Means over `outputs` windows that cover the axis as evenly as possible: window `o` is from
    /// `⌊o·inputs/outputs⌋` to `⌈(o+1)·inputs/outputs⌉`.
    fn adaptive(device: MlirDevice, inputs: usize, outputs: usize, dtype: DType) -> Self {
        let bounds = |o: usize| (o * inputs / outputs, ((o + 1) * inputs).div_ceil(outputs));
        let longest = (0..outputs).map(|o| bounds(o).1 - bounds(o).0).max().unwrap_or(0);
        let grid = Grid::new(device, outputs, longest);
        let (all, n) = (inputs as f64, outputs as f64);
        let start = grid.output.times(all).over(n);
        let end = grid.output.plus(1.0).times(all).plus(n - 1.0).over(n);
        let length = end.sub(&start);
        Self {
            index: start.add(&grid.tap).at_most(all - 1.0),
            weight: Some(length.cast(dtype).recip()),
            valid: Some(grid.tap.compare(CompareOp::Lt, &length)),
        }
    }

    /// One input an output: `⌊(2o + shift)·inputs / (2·outputs)⌋`.
    fn nearest(device: MlirDevice, inputs: usize, outputs: usize, shift: f64) -> Self {
        let double = Grid::new(device, outputs, 1).output.times(2.0).plus(shift);
        let index = double.times(inputs as f64).over(2.0 * outputs as f64);
        Self { index: index.at_most(inputs as f64 - 1.0), weight: None, valid: None }
    }

    /// Taps of an interpolation of a mode with weights of `dtype`.
    fn interpolation(
        device: MlirDevice,
        inputs: usize,
        outputs: usize,
        options: &InterpolateOptions,
        dtype: DType,
    ) -> Self {
        let (count, lead) = match options.mode {
            InterpolateMode::Nearest => return Self::nearest(device, inputs, outputs, 0.0),
            InterpolateMode::NearestExact => return Self::nearest(device, inputs, outputs, 1.0),
            InterpolateMode::Bilinear => (2, 0.0),
            InterpolateMode::Bicubic => (4, 1.0),
            InterpolateMode::Lanczos3 => (6, 2.0),
        };
        let last = inputs as f64 - 1.0;
        let grid = Grid::new(device, outputs, count);
        let output = grid.output.cast(dtype);
        let position = if options.align_corners {
            output.times(last / outputs.saturating_sub(1).max(1) as f64)
        } else {
            output.plus(0.5).times(inputs as f64 / outputs as f64).plus(-0.5)
        };
        let position = match options.mode {
            InterpolateMode::Bilinear => position.at_least(0.0),
            _ => position,
        };
        let base = position.floor();
        let tap = base.add(&grid.tap.cast(dtype)).plus(-lead);
        let distance = position.sub(&tap);
        let index = tap.at_least(0.0).at_most(last).cast(DType::I32);
        match options.mode {
            InterpolateMode::Bicubic => Self { index, weight: Some(cubic(&distance.abs())), valid: None },
            InterpolateMode::Lanczos3 => {
                let inside = (tap.compare_constant(CompareOp::Ge, 0.0))
                    .and(&tap.compare_constant(CompareOp::Le, last));
                let raw = lanczos3(&distance);
                let raw = inside.select(&raw, &raw.constant_like(0.0));
                let weight = Some(raw.div(&raw.sum(&[1])));
                Self { index, weight, valid: Some(inside) }
            }
            _ => {
                let weight = distance.abs().neg().plus(1.0);
                Self { index, weight: Some(weight), valid: None }
            }
        }
    }
}

/// Weight of the cubic convolution at a distance ≥ 0.
pub(super) fn cubic(d: &MlirTensor) -> MlirTensor {
    let a = CUBIC;
    let near = d.times(a + 2.0).plus(-(a + 3.0)).mul(d).mul(d).plus(1.0);
    let far = d.times(a).plus(-5.0 * a).mul(d).plus(8.0 * a).mul(d).plus(-4.0 * a);
    let far = d.compare_constant(CompareOp::Lt, 2.0).select(&far, &d.constant_like(0.0));
    d.compare_constant(CompareOp::Le, 1.0).select(&near, &far)
}

/// Weight of the Lanczos filter of three lobes: `sinc(d) sinc(d/3)`.
fn lanczos3(d: &MlirTensor) -> MlirTensor {
    let (angle, third) = (d.times(PI), d.times(PI / 3.0));
    let value = angle.sin().mul(&third.sin()).div(&angle.mul(&third));
    let inside = d.abs().compare_constant(CompareOp::Lt, 3.0);
    let value = inside.select(&value, &d.constant_like(0.0));
    d.compare_constant(CompareOp::Eq, 0.0).select(&d.constant_like(1.0), &value)
}

impl MlirTensor {
    /// Means over windows that cover the last axes evenly: `[n, c, s..]` → `[n, c, sizes..]`.
    pub(crate) fn adaptive_avg_pool(&self, sizes: &[usize]) -> Self {
        if let Some(failed) = self.cannot_resample("adaptive_avg_pool", &self.shape, sizes) {
            return failed;
        }
        self.in_wide(|x| {
            // Axes that divide evenly are split into windows, and reduced together.
            let divides = |axis: usize| x.shape[axis].is_multiple_of(sizes[axis - 2]);
            let mut t = x.clone();
            let mut inner: SmallVec<[usize; 3]> = SmallVec::new();
            for axis in (2..x.shape.len()).rev().filter(|&axis| divides(axis)) {
                t = t.split_axis(axis, sizes[axis - 2]);
                inner.iter_mut().for_each(|a| *a += 1);
                inner.push(axis + 1);
            }
            if !inner.is_empty() {
                let shape = (0..x.shape.len())
                    .map(|axis| if axis >= 2 && divides(axis) { sizes[axis - 2] } else { x.shape[axis] });
                t = t.mean(&inner).reshape(shape.collect::<Shape>());
            }
            (2..x.shape.len()).filter(|&axis| !divides(axis)).fold(t, |t, axis| {
                let taps = Taps::adaptive(t.device, t.shape[axis], sizes[axis - 2], t.dtype);
                t.resample(axis, &taps)
            })
        })
    }

    /// Gradient of [`adaptive_avg_pool`](Self::adaptive_avg_pool) in its input, of which `shape` is the
    /// shape; `self` is the output's gradient.
    pub(crate) fn adaptive_avg_pool_grad(&self, shape: &[usize]) -> Self {
        if let Some(failed) = self.cannot_resample("adaptive_avg_pool", shape, &self.shape[2..]) {
            return failed;
        }
        self.in_wide(|grad| {
            (shape.iter().enumerate().skip(2)).fold(grad.clone(), |t, (axis, &inputs)| {
                let outputs = t.shape[axis];
                if inputs == outputs {
                    t
                } else if inputs.is_multiple_of(outputs) {
                    let share = t.over((inputs / outputs) as f64);
                    let mut wide = share.ir_shape();
                    wide.0.insert(axis + 1, inputs / outputs);
                    share.split_axis(axis, outputs).expand(&wide).join_axis(axis)
                } else {
                    t.scatter_back(axis, inputs, &Taps::adaptive(t.device, inputs, outputs, t.dtype))
                }
            })
        })
    }

    /// Another resolution: `[n, c, h, w]` → `[n, c, sizes..]`.
    pub(crate) fn interpolate(&self, sizes: [usize; 2], options: &InterpolateOptions) -> Self {
        if let Some(failed) = self.cannot_resample("interpolate", &self.shape, &sizes) {
            return failed;
        }
        self.in_wide(|x| {
            (sizes.iter().enumerate()).fold(x.clone(), |t, (i, &outputs)| {
                let inputs = t.shape[i + 2];
                let taps = Taps::interpolation(t.device, inputs, outputs, options, t.dtype);
                t.resample(i + 2, &taps)
            })
        })
    }

    /// Gradient of [`interpolate`](Self::interpolate) in its input, of which `shape` is the shape;
    /// `self` is the output's gradient.
    pub(crate) fn interpolate_grad(&self, shape: &[usize], options: &InterpolateOptions) -> Self {
        if let Some(failed) = self.cannot_resample("interpolate", shape, &self.shape[2..]) {
            return failed;
        }
        self.in_wide(|grad| {
            (shape.iter().enumerate().skip(2)).fold(grad.clone(), |t, (axis, &inputs)| {
                let taps = Taps::interpolation(t.device, inputs, t.shape[axis], options, t.dtype);
                t.scatter_back(axis, inputs, &taps)
            })
        })
    }

    /// `out[.., o, ..] = Σ_t weight[o, t] · self[.., index[o, t], ..]`.
    fn resample(&self, axis: usize, taps: &Taps) -> Self {
        let &[outputs, count] = &taps.index.shape[..] else {
            return self.clone();
        };
        let parts = self.take(axis, &taps.index.reshape([outputs * count])).split_axis(axis, outputs);
        let weighted = parts.weighted(axis, taps);
        if count == 1 { weighted.join_axis(axis) } else { weighted.sum(&[axis + 1]).join_axis(axis) }
    }

    /// The transpose of [`resample`](Self::resample) for an axis of `inputs` elements.
    fn scatter_back(&self, axis: usize, inputs: usize, taps: &Taps) -> Self {
        let &[outputs, count] = &taps.index.shape[..] else {
            return self.clone();
        };
        let mut wide = self.ir_shape();
        wide.0.insert(axis + 1, count);
        let parts = self.split_axis(axis, outputs).expand(&wide).weighted(axis, taps);
        let mut shape = self.ir_shape();
        shape.0[axis] = inputs;
        Self::constant(self.device, 0.0, self.dtype, shape).put(
            ScatterOp::Add,
            axis,
            &taps.index.reshape([outputs * count]),
            &parts.join_axis(axis),
        )
    }

    /// `[.., outputs, taps, ..]` times the weights, 0 where a tap does not count.
    fn weighted(&self, axis: usize, taps: &Taps) -> Self {
        let along = |table: &Self| {
            let extent = |a: usize| if a == axis || a == axis + 1 { self.shape[a] } else { 1 };
            table.reshape((0..self.shape.len()).map(extent).collect::<Shape>())
        };
        let product = match &taps.weight {
            Some(weight) => self.binary(BinaryOp::Mul, &along(weight)),
            None => self.clone(),
        };
        match &taps.valid {
            Some(valid) => along(valid).select(&product, &product.constant_like(0.0)),
            None => product,
        }
    }

    /// `[.., outer · inner, ..]` → `[.., outer, inner, ..]`.
    fn split_axis(&self, axis: usize, outer: usize) -> Self {
        let mut shape = self.ir_shape();
        let inner = shape[axis] / outer.max(1);
        shape.0[axis] = outer;
        shape.0.insert(axis + 1, inner);
        self.reshape(shape)
    }

    /// `[.., outer, inner, ..]` → `[.., outer · inner, ..]`.
    fn join_axis(&self, axis: usize) -> Self {
        let mut shape = self.ir_shape();
        let inner = shape.0.remove(axis + 1);
        shape.0[axis] *= inner;
        self.reshape(shape)
    }

    /// A failed tensor if `[n, c, s..]` cannot become `[n, c, sizes..]`.
    fn cannot_resample(&self, op: &'static str, shape: &[usize], sizes: &[usize]) -> Option<Self> {
        let fits = shape.len() == sizes.len() + 2 && !shape[2..].contains(&0) && !sizes.contains(&0);
        let reason = || format!("{shape:?} cannot be resampled to {sizes:?}");
        (!fits).then(|| invalid(op, &[self], self.dtype, self.ir_shape(), reason()))
    }
}
