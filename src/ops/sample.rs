//! Sampling planes at points that are data: weighted sums of the pixels around each point, read by gathers.

use super::resample::cubic;
use super::{invalid, unsupported};
use crate::MlirTensor;
use burn_backend::ops::{GridSampleOptions, GridSamplePaddingMode, InterpolateMode};
use burn_mlir_ir::{CompareOp, DType, ScatterOp, Shape, UnaryOp};

/// The pixels along an axis that points take part of: `[.., taps, points]`.
struct Taps {
    /// Which pixels; whole numbers of a float type.
    index: MlirTensor,
    /// Their parts; none: all.
    weight: Option<MlirTensor>,
}

/// Points on planes of so many pixels.
pub(super) struct Points {
    rows: Taps,
    columns: Taps,
    pixels: usize,
    /// The places in a plane of the pixels around every point, -1 for those that are none: `[.., pixels, points]`,
    /// in memory, as all planes read them.
    places: MlirTensor,
}

/// What of a sample is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The value.
    Value,
    /// Its derivative along the rows' axis; of linear weights.
    AlongRows,
    /// Its derivative along the columns' axis; of linear weights.
    AlongColumns,
}

impl Taps {
    /// `count` pixels from `first` on, which are moved.
    fn from(
        first: &MlirTensor,
        count: usize,
        moved: impl FnOnce(MlirTensor) -> MlirTensor,
        weight: impl FnOnce(&MlirTensor) -> Option<MlirTensor>,
    ) -> Self {
        let mut line = Shape::new(first.shape.iter().map(|_| 1));
        let axis = line.rank().saturating_sub(2);
        line.0[axis] = count;
        let tap = MlirTensor::iota(first.device, DType::I32, line, axis);
        let pixel = first.add(&tap.cast(first.dtype));
        Self { weight: weight(&pixel), index: moved(pixel) }
    }

    /// The two pixels on both sides of a position, `[.., 1, points]`.
    fn linear(position: &MlirTensor) -> Self {
        let weight = |pixel: &MlirTensor| position.sub(pixel).abs().neg().plus(1.0);
        Self::from(&position.floor(), 2, |pixel| pixel, |pixel| Some(weight(pixel)))
    }

    /// `[.., taps, 1, points]`, or `[.., 1, taps, points]` for the second axis.
    fn table(of: &MlirTensor, second: bool) -> MlirTensor {
        let mut shape = of.ir_shape();
        let axis = shape.rank().saturating_sub(if second { 2 } else { 1 });
        shape.0.insert(axis, 1);
        of.reshape(shape)
    }
}

impl Points {
    fn new(rows: Taps, columns: Taps, [height, width]: [usize; 2]) -> Self {
        let pixels = height * width;
        let dtype = if i32::try_from(pixels).is_ok() { DType::I32 } else { DType::I64 };
        let (row, column) = (Taps::table(&rows.index, false), Taps::table(&columns.index, true));
        let inside = |at: &MlirTensor, extent: usize| {
            let after = at.compare_constant(CompareOp::Ge, 0.0);
            after.and(&at.compare_constant(CompareOp::Lt, extent as f64))
        };
        let place = row.cast(dtype).times(width as f64).add(&column.cast(dtype));
        let valid = inside(&row, height).and(&inside(&column, width));
        let places = valid.select(&place, &place.constant_like(-1.0)).joined_taps().compact();
        Self { rows, columns, pixels, places }
    }

    /// Points with bilinear weights at positions in pixels, `[.., 1, points]`; outside are zeros.
    pub(super) fn bilinear(row: &MlirTensor, column: &MlirTensor, extents: [usize; 2]) -> Self {
        Self::new(Taps::linear(row), Taps::linear(column), extents)
    }

    /// The weights of all pixels in `part` of a sample: `[.., pixels, points]`, in memory; none: 1.
    fn weights(&self, part: Part) -> Option<MlirTensor> {
        // The derivative of a linear weight is -1 for the first pixel and 1 for the second.
        let of = |taps: &Taps, slope: Part| {
            if part != slope {
                return taps.weight.clone();
            }
            let line = taps.index.ir_shape();
            let tap =
                MlirTensor::iota(taps.index.device, DType::I32, line.clone(), line.rank().saturating_sub(2));
            Some(tap.cast(taps.index.dtype).times(2.0).plus(-1.0))
        };
        let rows = of(&self.rows, Part::AlongRows).map(|weight| Taps::table(&weight, false));
        let columns = of(&self.columns, Part::AlongColumns).map(|weight| Taps::table(&weight, true));
        match (rows, columns) {
            (Some(rows), Some(columns)) => Some(rows.mul(&columns).joined_taps().compact()),
            (rows, columns) => rows.or(columns).map(|weight| weight.joined_taps()),
        }
    }

    /// What every pixel adds to `part` of the samples of `planes: [.., all pixels]`, in the type of the weights:
    /// `[.., pixels, points]`. To be summed over [`axis`](Self::axis). Leading axes broadcast.
    pub(super) fn shares(&self, planes: &MlirTensor, part: Part) -> MlirTensor {
        let dtype = self.rows.index.dtype;
        let axis = self.axis();
        let mut shape = self.places.ir_shape();
        shape.0[..axis].copy_from_slice(&planes.shape[..axis]);
        if self.pixels == 0 {
            return MlirTensor::constant(planes.device, 0.0, dtype, shape);
        }
        let mut list = planes.ir_shape();
        list.0[axis] = shape[axis] * shape[axis + 1];
        let place = self.places.expand(&shape);
        let value = planes.gather(axis, &place.at_least(0.0).reshape(list)).reshape(shape).cast(dtype);
        let share = match self.weights(part) {
            Some(weight) => value.mul(&weight),
            None => value,
        };
        place.compare_constant(CompareOp::Ge, 0.0).select(&share, &share.constant_like(0.0))
    }

    /// The axis of the pixels around a point.
    pub(super) fn axis(&self) -> usize {
        self.places.shape.len() - 2
    }

    /// The transpose of sampling: values at the points, `[.., 1, points]`, added to the pixels they are samples of:
    /// `[.., all pixels]`. One pixel of every point after the other: all at once would be many times the values.
    pub(super) fn scatter(&self, values: &MlirTensor) -> MlirTensor {
        let axis = self.axis();
        let lead = &values.shape[..axis];
        let list = |extent: usize| lead.iter().copied().chain([extent]).collect::<Shape>();
        let (sums, flat) = (list(self.pixels), list(values.shape[axis + 1]));
        let zeros = MlirTensor::constant(values.device, 0.0, values.dtype, sums.clone());
        if sums.elements() == 0 {
            return zeros;
        }
        let weights = self.weights(Part::Value);
        (0..self.places.shape[axis]).fold(zeros, |sum, pixel| {
            let place = self.places.narrow(axis, pixel, 1);
            let share = match &weights {
                Some(weights) => values.mul(&weights.narrow(axis, pixel, 1)),
                None => values.clone(),
            };
            // What comes from no pixel adds nothing to the first.
            let inside = place.compare_constant(CompareOp::Ge, 0.0);
            let share = inside.select(&share, &share.constant_like(0.0)).reshape(flat.clone());
            let place = place.at_least(0.0).compact().expand(&values.ir_shape()).reshape(flat.clone());
            sum.scatter(ScatterOp::Add, axis, &place, &share)
        })
    }
}

impl MlirTensor {
    /// Samples of `[n, c, h, w]` at `grid: [n, y, x, 2]`, whose coordinates (column, row) go from -1 to 1 over the
    /// planes: `[n, c, y, x]`.
    pub(crate) fn grid_sample(&self, grid: &Self, options: &GridSampleOptions) -> Self {
        let (&[n, c, height, width], &[m, y, x, 2]) = (&self.shape[..], &grid.shape[..]) else {
            let reason = "wants [n, c, h, w] and [n, y, x, 2]";
            return invalid("grid_sample_2d", &[self, grid], self.dtype, self.ir_shape(), reason);
        };
        let shape = Shape::from([n, c, y, x]);
        let fits = n == m && self.dtype == grid.dtype && (height * width > 0 || shape.elements() == 0);
        if !fits {
            let reason = "batch or type differ, or there are no pixels";
            return invalid("grid_sample_2d", &[self, grid], self.dtype, shape, reason);
        }
        if matches!(options.mode, InterpolateMode::Lanczos3) {
            return unsupported("grid_sample_2d by Lanczos3", &[self, grid], self.dtype, shape);
        }
        let position = |i: usize, extent: usize| {
            let given = grid.narrow(3, i, 1).reshape([n, 1, 1, y * x]).widened();
            // As in PyTorch.
            let normal = given.unary(UnaryOp::IsNan).select(&given.constant_like(-1.0), &given);
            let extent = extent as f64;
            match options.align_corners {
                true => normal.plus(1.0).times((extent - 1.0) / 2.0),
                false => normal.plus(1.0).times(extent / 2.0).plus(-0.5),
            }
        };
        let taps = |i: usize, extent: usize| grid_taps(&position(i, extent), extent, options);
        let points = Points::new(taps(1, height), taps(0, width), [height, width]);
        let shares = points.shares(&self.reshape([n, c, height * width]), Part::Value);
        shares.sum(&[points.axis()]).cast(self.dtype).reshape(shape)
    }

    /// `[.., rows, columns, points]` → `[.., rows · columns, points]`.
    fn joined_taps(&self) -> Self {
        let mut shape = self.ir_shape();
        let axis = shape.rank() - 2;
        let inner = shape.0.remove(axis);
        shape.0[axis - 1] *= inner;
        self.reshape(shape)
    }
}

/// The pixels along one axis that samples at `position` take part of.
fn grid_taps(position: &MlirTensor, extent: usize, options: &GridSampleOptions) -> Taps {
    let moved = |at: &MlirTensor| match options.padding_mode {
        GridSamplePaddingMode::Zeros => at.clone(),
        GridSamplePaddingMode::Border => at.at_least(0.0).at_most(extent as f64 - 1.0),
        GridSamplePaddingMode::Reflection => reflected(at, extent, options.align_corners),
    };
    match options.mode {
        InterpolateMode::Nearest | InterpolateMode::NearestExact => {
            Taps { index: moved(position).unary(UnaryOp::Round), weight: None }
        }
        // Weights are those of the point where it is; each pixel is moved.
        InterpolateMode::Bicubic => {
            let weight = |pixel: &MlirTensor| Some(cubic(&position.sub(pixel).abs()));
            Taps::from(&position.floor().plus(-1.0), 4, |pixel| moved(&pixel), weight)
        }
        _ => Taps::linear(&moved(position)),
    }
}

/// A position mirrored at the ends of an axis until it is inside: at the middles of the outermost pixels, or at
/// their edges, and then moved to their middles.
fn reflected(position: &MlirTensor, extent: usize, align_corners: bool) -> MlirTensor {
    let last = extent as f64 - 1.0;
    let (low, span) = if align_corners { (0.0, last) } else { (-0.5, last + 1.0) };
    if span <= 0.0 {
        return position.constant_like(0.0);
    }
    let distance = position.plus(-low).abs();
    let period = distance.over(span).floor();
    let rest = distance.sub(&period.times(span));
    let odd = period.over(2.0).floor().times(2.0).compare(CompareOp::Ne, &period);
    let inside = odd.select(&rest.neg().plus(span + low), &rest.plus(low));
    inside.at_least(0.0).at_most(last)
}
