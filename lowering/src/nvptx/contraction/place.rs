//! Where blocks of threads are, and where points of the contraction lie.

use crate::contraction::Group;
use crate::emit::{Emitter, Value};
use crate::host::tiles::{index, index_op, scaled};
use crate::nvptx::map::coordinates;
use burn_mlir_ir::Access;

/// Tiles of rows that neighbouring blocks go through before the next tile of columns, where that divides them:
/// so that what they read is in the second-level cache.
const GROUP: usize = 8;

/// The batch element, tiles of rows and of columns and part of the sum of block number `at`.
pub(super) fn tile_place(
    e: &mut Emitter,
    at: &Value,
    batch: usize,
    [rows, columns]: [usize; 2],
    parts: usize,
) -> [Value; 4] {
    let group = [GROUP, 4, 2].into_iter().find(|&group| rows.is_multiple_of(group)).unwrap_or(1);
    let mut place = coordinates(e, at, &[batch, rows / group, columns, group, parts]).into_iter();
    let mut next = || place.next().unwrap_or_default();
    let (batch, groups, column, within, part) = (next(), next(), next(), next(), next());
    let row = scaled(e, &groups, group as i64);
    let row = index_op(e, "arith.addi", &row, &within);
    [batch, row, column, part]
}

/// `origin` with the coordinates of a group's `linear`-th point.
pub(super) fn located(e: &mut Emitter, origin: &[Value], group: &Group, linear: &Value) -> Vec<Value> {
    let mut place = origin.to_vec();
    for (&dim, coordinate) in group.dims.iter().zip(coordinates(e, linear, &group.sizes)) {
        place[dim] = coordinate;
    }
    place
}

/// An `index` that is at most `last`.
pub(super) fn clamped(e: &mut Emitter, at: &Value, last: usize) -> Value {
    let last = index(e, last);
    index_op(e, "arith.minui", at, &last)
}

/// Elements from the first to the `linear`-th point of a group.
pub(super) fn offset(e: &mut Emitter, group: &Group, access: &Access, linear: &Value) -> Value {
    let walks = group.walks(access);
    let sizes: Vec<usize> = walks.iter().map(|walk| walk.size as usize).collect();
    let mut sum: Option<Value> = None;
    for (coordinate, walk) in coordinates(e, linear, &sizes).iter().zip(&walks) {
        if walk.stride != 0 {
            let step = scaled(e, coordinate, walk.stride);
            sum = Some(match sum {
                Some(sum) => index_op(e, "arith.addi", &sum, &step),
                None => step,
            });
        }
    }
    sum.unwrap_or_else(|| index(e, 0))
}
