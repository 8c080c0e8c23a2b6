//! Updates combined into a buffer at indices.

use super::view::View;
use super::{TILE_ELEMENTS, payload};
use crate::abi::{PhaseWriter, report};
use crate::emit::{Emitter, Value};
use crate::host::tiles::{delinearize, index, open_for, part_range};
use crate::types::value_type;
use crate::{LoweringError, Payload, scalar};
use burn_mlir_ir::{DType, DTypeKind, ReduceOp, Scatter, ScatterOp};

/// Parts of the inner dimensions, to be updated by different workers.
const PARTS: usize = 16;

/// Inner elements of a part at least.
const PART: usize = 16;

/// Lowers a scatter. Updates that differ in a coordinate other than the axis reach different elements, so
/// tiles cut the dimensions before and after the axis; along the axis a tile goes in order. Within a
/// tile the axis is the outer loop over the inner dimensions, as the memory lies.
pub(crate) fn scatter(scatter: &Scatter) -> Result<Payload, LoweringError> {
    let (axis, shape) = (scatter.axis, &scatter.shape);
    let (outer, inner) = (&shape[..axis], &shape[axis + 1..]);
    let outer_count: usize = outer.iter().product();
    let inner_count: usize = inner.iter().product();
    let part = inner_count.div_ceil(PARTS).max(PART).min(inner_count.max(1));
    let parts = inner_count.div_ceil(part);
    let tile_rows = (TILE_ELEMENTS / (part * shape[axis]).max(1)).clamp(1, (outer_count * parts).max(1));
    let tiles = (outer_count * parts).div_ceil(tile_rows);

    let mut phase = PhaseWriter::new("scatter");
    // On the axis the data's coordinate is the index.
    let mut data_shape = shape.clone();
    data_shape[axis] = scatter.extent;
    let data = View::new(&mut phase, 0, scatter.dtype, &scatter.accesses[0], &data_shape);
    let indices = View::new(&mut phase, 1, scatter.index_dtype, &scatter.accesses[1], shape);
    let updates = View::new(&mut phase, 2, scatter.dtype, &scatter.accesses[2], shape);
    let (begin, end) = (phase.begin(), phase.end());
    let e = &mut phase.emitter;
    let zero = index(e, 0);
    let size = index(e, shape[axis]);
    let tile = open_for(e, &begin, &end, 1);
    let rows = part_range(e, &tile, tile_rows, outer_count * parts);
    let row = open_for(e, &rows.from, &rows.to, 1);
    let at = delinearize(e, &row, &[outer_count, parts]);
    let range = part_range(e, &at[1], part, inner_count);
    let outer_coordinates = delinearize(e, &at[0], outer);
    let step = open_for(e, &zero, &size, 1);
    let position = open_for(e, &range.from, &range.to, 1);
    let mut coordinates = outer_coordinates;
    coordinates.push(step);
    coordinates.extend(delinearize(e, &position, inner));

    let target = indices.load(e, &coordinates);
    let target = in_range(e, &target, scatter.index_dtype, scatter.extent);
    let update = updates.load(e, &coordinates);
    coordinates[axis] = target;
    let value = match combination(scatter.op) {
        None => update,
        Some(op) => {
            let old = data.load(e, &coordinates);
            let kind = scalar::accumulator(scatter.dtype);
            let widen = |e: &mut Emitter, x: &Value| {
                if kind == scatter.dtype { x.clone() } else { scalar::cast(e, scatter.dtype, kind, x) }
            };
            let (old, update) = (widen(e, &old), widen(e, &update));
            let sum = scalar::combine(e, op, kind, &old, &update);
            if kind == scatter.dtype { sum } else { scalar::cast(e, kind, scatter.dtype, &sum) }
        }
    };
    data.store(e, &coordinates, &value);
    for _ in 0..5 {
        e.close("}");
    }
    Ok(payload("scatter", phase, tiles, 0))
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

fn combination(op: ScatterOp) -> Option<ReduceOp> {
    match op {
        ScatterOp::Assign => None,
        ScatterOp::Add => Some(ReduceOp::Sum),
        ScatterOp::Mul => Some(ReduceOp::Prod),
        ScatterOp::Max => Some(ReduceOp::Max),
        ScatterOp::Min => Some(ReduceOp::Min),
    }
}
