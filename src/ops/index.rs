//! Reading and writing at indices that are data.

use super::{apply, invalid};
use crate::{MlirError, MlirTensor, record};
use burn_backend::Scalar;
use burn_mlir_ir::{CompareOp, DType, Op, ReduceOp, ScatterOp, Shape};
use smallvec::SmallVec;

impl MlirTensor {
    /// `out[i] = self[i with axis replaced by indices[i]]`; `indices` has the shape of the result, not
    /// larger than this tensor but along `axis`.
    pub(crate) fn gather(&self, axis: usize, indices: &Self) -> Self {
        let operands = [self, indices];
        if !self.takes_indices(axis, indices) {
            let reason = format!("the indices do not fit along axis {axis}");
            return invalid("gather", &operands, self.dtype, indices.ir_shape(), reason);
        }
        if self.shape[axis] == 0 && indices.ir_shape().elements() != 0 {
            let reason = format!("there is nothing along axis {axis} that an index could name");
            return invalid("gather", &operands, self.dtype, indices.ir_shape(), reason);
        }
        let mut data = self.clone();
        for other in (0..self.shape.len()).filter(|&other| other != axis) {
            data = data.narrow(other, 0, indices.shape[other]);
        }
        apply("gather", Op::Gather { axis }, &[&data, indices], self.dtype, indices.ir_shape())
    }

    /// This tensor with `values` combined in at `indices` along `axis`; `values` and `indices` have one
    /// shape.
    pub(crate) fn scatter(&self, op: ScatterOp, axis: usize, indices: &Self, values: &Self) -> Self {
        let operands = [self, indices, values];
        let fits = self.takes_indices(axis, indices)
            && values.shape[..] == indices.shape[..]
            && values.dtype == self.dtype;
        if !fits {
            let reason = format!("indices or values do not fit along axis {axis}");
            return invalid("scatter", &operands, self.dtype, self.ir_shape(), reason);
        }
        if indices.ir_shape().elements() == 0 {
            return self.clone();
        }
        apply("scatter", Op::Scatter { op, axis }, &operands, self.dtype, self.ir_shape())
    }

    /// Slices of this tensor at `indices: [n]` along `axis`.
    pub(crate) fn take(&self, axis: usize, indices: &Self) -> Self {
        let mut shape = self.ir_shape();
        match (shape.0.get_mut(axis), &indices.shape[..]) {
            (Some(extent), &[count]) => *extent = count,
            _ => {
                let reason = format!("wants a list of indices along axis {axis}");
                return invalid("select", &[self, indices], self.dtype, shape, reason);
            }
        }
        self.gather(axis, &indices.along(axis, &shape))
    }

    /// This tensor with slices combined in at `indices: [n]` along `axis`; `values` has extent `n`
    /// there.
    pub(crate) fn put(&self, op: ScatterOp, axis: usize, indices: &Self, values: &Self) -> Self {
        let fits = matches!(&indices.shape[..], &[n] if values.shape.get(axis) == Some(&n));
        if !fits {
            let operands = [self, indices, values];
            let reason = format!("wants one slice an index along axis {axis}");
            return invalid("select_assign", &operands, self.dtype, self.ir_shape(), reason);
        }
        self.scatter(op, axis, &indices.along(axis, &values.ir_shape()), values)
    }

    /// Slices at coordinates: `self: [d.., s..]`, `indices: [n.., |d|]` → `[n.., s..]`.
    pub(crate) fn gather_nd(&self, indices: &Self) -> Self {
        let Some(nd) = self.coordinates(indices) else {
            let operands = [self, indices];
            let reason = "more coordinates than axes";
            return invalid("gather_nd", &operands, self.dtype, self.ir_shape(), reason);
        };
        let shape: Shape = nd.lookups.iter().chain(&nd.inner).copied().collect();
        self.reshape(nd.matrix).take(0, &nd.positions).reshape(shape)
    }

    /// Slices combined in at coordinates: `self: [d.., s..]`, `indices: [n.., |d|]`,
    /// `values: [n.., s..]`.
    pub(crate) fn scatter_nd(&self, op: ScatterOp, indices: &Self, values: &Self) -> Self {
        let Some(nd) = self.coordinates(indices) else {
            let operands = [self, indices, values];
            let reason = "more coordinates than axes";
            return invalid("scatter_nd", &operands, self.dtype, self.ir_shape(), reason);
        };
        let values = values.reshape([nd.positions.shape[0], nd.matrix[1]]);
        self.reshape(nd.matrix).put(op, 0, &nd.positions, &values).reshape(self.ir_shape())
    }

    /// The positions of the true elements in row-major order: `[count]`. How many there are is read from the device.
    fn true_positions(&self) -> Result<Self, MlirError> {
        let elements = self.ir_shape().elements();
        if elements == 0 {
            return Ok(Self::constant(self.device, 0.0, DType::I64, Shape::from([0])));
        }
        let mask = self.reshape([elements]);
        let ranks = mask.cast(DType::I64).scan(ReduceOp::Sum, 0);
        let total = record::into_data(ranks.narrow(0, elements - 1, 1))
            .map_err(|error| MlirError::Invalid { op: "argwhere", reason: error.to_string() })?;
        let total = total.iter::<i64>().next().unwrap_or(0);
        let count = total as usize;
        // Every element goes to its place in the result, false ones to one place behind it.
        let behind = ranks.fill_like(Scalar::Int(total));
        let places = mask.select(&ranks.plus(-1.0), &behind);
        let positions = Self::iota(self.device, DType::I64, Shape::from([elements]), 0);
        let all = Self::constant(self.device, 0.0, DType::I64, Shape::from([count + 1]));
        Ok(all.scatter(ScatterOp::Assign, 0, &places, &positions).narrow(0, 0, count))
    }

    /// The elements where `mask`, of the same shape, is true, in row-major order. How many there are is read from the
    /// device.
    pub(crate) fn mask_select(&self, mask: &Self) -> Self {
        let nothing = Shape::from([0]);
        if mask.shape != self.shape || mask.dtype != DType::Bool {
            let reason = "wants a mask of the tensor's shape";
            return invalid("mask_select", &[self, mask], self.dtype, nothing, reason);
        }
        match mask.true_positions() {
            Ok(positions) => self.reshape([self.ir_shape().elements()]).take(0, &positions),
            Err(error) => record::failed(self.device, error, self.dtype, nothing),
        }
    }

    /// The coordinates of the true elements, in row-major order: `[count, rank]`. How many there are
    /// is read from the device.
    pub(crate) fn argwhere(&self, dtype: DType) -> Self {
        let (rank, elements) = (self.shape.len(), self.ir_shape().elements());
        let empty = |count: usize| Shape::from([count, rank]);
        let flat = match self.true_positions() {
            Ok(flat) => flat,
            Err(error) => return record::failed(self.device, error, dtype, empty(0)),
        };
        let count = flat.shape[0];
        if count == 0 {
            return Self::constant(self.device, 0.0, dtype, empty(0));
        }
        let mut inner = elements;
        let columns: SmallVec<[Self; 6]> = (self.shape.iter())
            .map(|&extent| {
                inner /= extent;
                flat.over(inner as f64).rem(&flat.constant_like(extent as f64)).reshape([count, 1])
            })
            .collect();
        match Self::concat(&columns, 1) {
            Some(coordinates) => coordinates.cast(dtype),
            None => Self::constant(self.device, 0.0, dtype, empty(count)),
        }
    }

    /// Whether `indices` are integers of this tensor's rank, within its extents but along `axis`.
    fn takes_indices(&self, axis: usize, indices: &Self) -> bool {
        let rank = self.shape.len();
        axis < rank
            && indices.shape.len() == rank
            && indices.dtype.is_int()
            && (0..rank).all(|d| d == axis || indices.shape[d] <= self.shape[d])
    }

    /// A list laid along `axis` of `shape` and repeated over the others.
    fn along(&self, axis: usize, shape: &Shape) -> Self {
        let mut line = Shape::new(std::iter::repeat_n(1, shape.rank()));
        line.0[axis] = self.shape[0];
        self.reshape(line).expand(shape)
    }

    /// Coordinates `[n.., k]` over the first `k` axes as positions in those axes taken as one. A
    /// coordinate outside its axis makes the position -1, which is outside, too.
    fn coordinates(&self, indices: &Self) -> Option<Coordinates> {
        let (&k, lookups) = indices.shape.split_last()?;
        if k > self.shape.len() || !indices.dtype.is_int() {
            return None;
        }
        let (outer, inner) = self.shape.split_at(k);
        let count = lookups.iter().product();
        let indices = indices.cast(DType::I64).reshape([count, k]);
        let zero = Self::constant(self.device, 0.0, DType::I64, Shape::from([count]));
        let mut flat = zero.clone();
        let mut inside: Option<Self> = None;
        for (axis, &extent) in outer.iter().enumerate() {
            let index = indices.narrow(1, axis, 1).reshape([count]);
            let fits = (index.compare(CompareOp::Ge, &zero))
                .and(&index.compare_constant(CompareOp::Lt, extent as f64));
            inside = Some(inside.map_or_else(|| fits.clone(), |all| all.and(&fits)));
            flat = flat.times(extent as f64).add(&index);
        }
        let positions = match inside {
            Some(inside) => inside.select(&flat, &zero.constant_like(-1.0)),
            None => flat,
        };
        Some(Coordinates {
            positions,
            matrix: [outer.iter().product(), inner.iter().product()],
            lookups: SmallVec::from_slice(lookups),
            inner: SmallVec::from_slice(inner),
        })
    }
}

/// See [`MlirTensor::coordinates`].
struct Coordinates {
    /// One position a lookup.
    positions: MlirTensor,
    /// The shape of the data as (indexed axes, others).
    matrix: [usize; 2],
    /// The shape of the lookups.
    lookups: SmallVec<[usize; 6]>,
    /// The extents of the axes that are not indexed.
    inner: SmallVec<[usize; 6]>,
}
