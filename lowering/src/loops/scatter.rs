//! Updates combined into a buffer at indices.

use super::TILE_ELEMENTS;
use super::payload;
use super::vector;
use super::view::View;
use crate::abi::{PhaseWriter, report};
use crate::emit::{Emitter, Value};
use crate::host::tiles::{Range, delinearize, index, index_op, open_for, part_range};
use crate::types::value_type;
use crate::{LoweringError, Payload, scalar};
use burn_mlir_ir::{DType, DTypeKind, HostTarget, ReduceOp, Scatter, ScatterOp};

/// Parts of the inner dimensions, to be updated by different workers.
const PARTS: usize = 16;

/// Inner elements of a part at least.
const PART: usize = 16;

/// Lowers a scatter. Updates that differ in a coordinate other than the axis reach different elements, so
/// tiles cut the dimensions before and after the axis; along the axis a tile goes in order. Within a
/// tile the axis is the outer loop over the inner dimensions, as the memory lies. Where an index is the same
/// for all inner elements, it is read once for them; where they are contiguous, too, they are combined in vectors.
pub(crate) fn scatter(scatter: &Scatter, target: &HostTarget) -> Result<Payload, LoweringError> {
    let (axis, shape) = (scatter.axis, &scatter.shape);
    let (outer, inner) = (&shape[..axis], &shape[axis + 1..]);
    let outer_count: usize = outer.iter().product();
    let inner_count: usize = inner.iter().product();
    let lanes = if runs(scatter) { vector::lanes(scatter.dtype, target) } else { 1 };
    let part = inner_count.div_ceil(PARTS).max(PART).next_multiple_of(lanes).min(inner_count.max(1));
    let parts = inner_count.div_ceil(part);
    let tile_rows = (TILE_ELEMENTS / (part * shape[axis]).max(1)).clamp(1, (outer_count * parts).max(1));
    let tiles = (outer_count * parts).div_ceil(tile_rows);

    let mut phase = PhaseWriter::new("scatter");
    let update = Update::new(scatter, &mut phase);
    let (begin, end) = (phase.begin(), phase.end());
    let e = &mut phase.emitter;
    let zero = index(e, 0);
    let size = index(e, shape[axis]);
    let tile = open_for(e, &begin, &end, 1);
    let rows = part_range(e, &tile, tile_rows, outer_count * parts);
    let row = open_for(e, &rows.from, &rows.to, 1);
    let at = delinearize(e, &row, &[outer_count, parts]);
    let range = part_range(e, &at[1], part, inner_count);
    let mut coordinates = delinearize(e, &at[0], outer);
    let step = open_for(e, &zero, &size, 1);
    coordinates.push(step);
    if is_shared(scatter) {
        coordinates.extend(inner.iter().map(|_| zero.clone()));
        let target = update.target(e, &coordinates);
        if lanes > 1 {
            update.vectors(e, &mut coordinates, &target, &range, lanes, inner_count);
        } else {
            let position = open_for(e, &range.from, &range.to, 1);
            coordinates.truncate(axis + 1);
            coordinates.extend(delinearize(e, &position, inner));
            update.element(e, &mut coordinates, &target);
            e.close("}");
        }
        e.close("}");
    } else {
        let position = open_for(e, &range.from, &range.to, 1);
        coordinates.extend(delinearize(e, &position, inner));
        let target = update.target(e, &coordinates);
        update.element(e, &mut coordinates, &target);
        e.close("}");
        e.close("}");
    }
    for _ in 0..3 {
        e.close("}");
    }
    Ok(payload("scatter", phase, tiles, 0))
}

/// Whether an index is the same for all elements of the inner dimensions.
fn is_shared(scatter: &Scatter) -> bool {
    let inner = scatter.axis + 1..scatter.shape.len();
    inner.into_iter().all(|dim| scatter.shape[dim] == 1 || scatter.accesses[1].strides[dim] == 0)
}

/// Whether an index is the same for all elements of the inner dimensions, which are contiguous in data and updates.
fn runs(scatter: &Scatter) -> bool {
    let contiguous = |access: usize| {
        let mut dense = 1;
        (scatter.axis + 1..scatter.shape.len()).rev().filter(|&dim| scatter.shape[dim] != 1).all(|dim| {
            let fits = scatter.accesses[access].strides[dim] == dense;
            dense *= scatter.shape[dim] as i64;
            fits
        })
    };
    is_shared(scatter) && contiguous(0) && contiguous(2)
}

/// What an update needs to know.
struct Update {
    axis: usize,
    extent: usize,
    index_dtype: DType,
    combination: Option<ReduceOp>,
    dtype: DType,
    /// The type updates are combined in.
    accumulator: DType,
    data: View,
    indices: View,
    updates: View,
}

impl Update {
    fn new(scatter: &Scatter, phase: &mut PhaseWriter) -> Self {
        let shape = &scatter.shape;
        // On the axis the data's coordinate is the index.
        let mut data_shape = shape.clone();
        data_shape[scatter.axis] = scatter.extent;
        let dtype = vector::stored(scatter.dtype);
        Self {
            axis: scatter.axis,
            extent: scatter.extent,
            index_dtype: scatter.index_dtype,
            combination: combination(scatter.op),
            dtype,
            accumulator: scalar::accumulator(dtype),
            data: View::new(phase, 0, dtype, &scatter.accesses[0], &data_shape),
            indices: View::new(phase, 1, scatter.index_dtype, &scatter.accesses[1], shape),
            updates: View::new(phase, 2, dtype, &scatter.accesses[2], shape),
        }
    }

    /// The index at coordinates; opens a conditional on its being in range, and reports it otherwise.
    fn target(&self, e: &mut Emitter, coordinates: &[Value]) -> Value {
        let value = self.indices.load(e, coordinates);
        in_range(e, &value, self.index_dtype, self.extent)
    }

    /// Updates the element at coordinates but `target` on the axis.
    fn element(&self, e: &mut Emitter, coordinates: &mut [Value], target: &Value) {
        let update = self.updates.load(e, coordinates);
        coordinates[self.axis] = target.clone();
        let value = match self.combination {
            None => update,
            Some(op) => {
                let old = self.data.load(e, coordinates);
                let (dtype, kind) = (self.dtype, self.accumulator);
                let widen = |e: &mut Emitter, x: &Value| {
                    if kind == dtype { x.clone() } else { scalar::cast(e, dtype, kind, x) }
                };
                let (old, update) = (widen(e, &old), widen(e, &update));
                let sum = scalar::combine(e, op, kind, &old, &update);
                if kind == dtype { sum } else { scalar::cast(e, kind, dtype, &sum) }
            }
        };
        self.data.store(e, coordinates, &value);
    }

    /// Updates a range of the `count` elements of the inner dimensions, at whose first the coordinates are.
    fn vectors(
        &self,
        e: &mut Emitter,
        coordinates: &mut [Value],
        target: &Value,
        range: &Range,
        lanes: usize,
        count: usize,
    ) {
        let from = self.updates.address(e, coordinates);
        coordinates[self.axis] = target.clone();
        let to = self.data.address(e, coordinates);
        let (whole, rest) = (count / lanes * lanes, count % lanes);
        let limit = index(e, whole);
        let stop = index_op(e, "arith.minui", &range.to, &limit);
        let position = open_for(e, &range.from, &stop, lanes);
        self.run(e, [&from, &to], &position, lanes);
        e.close("}");
        if rest > 0 {
            let count = index(e, count);
            let last = e.op(format_args!("arith.cmpi eq, {}, {count} : index", range.to));
            e.open(format_args!("scf.if {last} {{"));
            self.run(e, [&from, &to], &limit, rest);
            e.close("}");
        }
    }

    /// Updates `width` elements from `position`.
    fn run(&self, e: &mut Emitter, [from, to]: [&Value; 2], position: &Value, width: usize) {
        let (dtype, kind) = (self.dtype, self.accumulator);
        let from = index_op(e, "arith.addi", from, position);
        let to = index_op(e, "arith.addi", to, position);
        let mut value = self.updates.load_vector(e, &from, width);
        if let Some(op) = self.combination {
            let old = self.data.load_vector(e, &to, width);
            let old = vector::convert(e, dtype, kind, &old, width);
            let update = vector::convert(e, dtype, kind, &value, width);
            let sum = vector::combine(e, op, kind, &old, &update, width);
            value = vector::convert(e, kind, dtype, &sum, width);
        }
        self.data.store_vector(e, &to, &value, width);
    }
}

/// Opens a conditional on an index being in range, reporting it otherwise; gives the index.
fn in_range(e: &mut Emitter, value: &Value, dtype: DType, extent: usize) -> Value {
    let cast = if dtype.kind() == DTypeKind::Unsigned { "arith.index_castui" } else { "arith.index_cast" };
    let target = e.op(format_args!("{cast} {value} : {} to index", value_type(dtype)));
    let extent = index(e, extent);
    let outside = e.op(format_args!("arith.cmpi uge, {target}, {extent} : index"));
    report(e, &outside);
    let inside = e.op(format_args!("arith.cmpi ult, {target}, {extent} : index"));
    e.open(format_args!("scf.if {inside} {{"));
    target
}

/// How an update is combined with what was there, if it is.
pub(crate) fn combination(op: ScatterOp) -> Option<ReduceOp> {
    match op {
        ScatterOp::Assign => None,
        ScatterOp::Add => Some(ReduceOp::Sum),
        ScatterOp::Mul => Some(ReduceOp::Prod),
        ScatterOp::Max => Some(ReduceOp::Max),
        ScatterOp::Min => Some(ReduceOp::Min),
    }
}
