//! Which tile is computed when.

use super::int::{int, int_by, int_op, split};
use super::plan::{Plan, run_slices, slices};
use super::problem::Problem;
use super::view::{Axis, View};
use crate::emit::{Emitter, Value};

/// A tile, and the part of the sum that is computed.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Coordinates in the batch, an `i32` a dimension.
    pub batch: Vec<Value>,
    /// First row and column.
    pub row: Value,
    pub column: Value,
    /// Position among all tiles.
    pub tile: Value,
    /// Part of the sum.
    pub part: Value,
    /// The first slice of the sum and the one after the last.
    pub slices: [Value; 2],
}

impl Place {
    /// The place of the `number`-th piece of work.
    pub fn new(e: &mut Emitter, problem: &Problem<'_>, plan: &Plan, number: &Value) -> Self {
        let all = slices(problem);
        let (tile, part) = if plan.splits > 1 {
            (int_by(e, "divui", number, plan.splits), int_by(e, "remui", number, plan.splits))
        } else {
            (number.clone(), int(e, 0))
        };
        let first = int_by(e, "muli", &part, plan.slices);
        let mut last = int_by(e, "addi", &first, plan.slices);
        if !all.is_multiple_of(plan.slices) {
            let all = int(e, all);
            last = int_op(e, "minui", &last, &all);
        }
        let (matrix, inside) = if problem.batch.dims.is_empty() {
            (int(e, 0), tile.clone())
        } else {
            let count = plan.matrix_tiles();
            (int_by(e, "divui", &tile, count), int_by(e, "remui", &tile, count))
        };
        let [row, column] = raster(e, plan, &inside);
        Self {
            batch: split(e, &matrix, &problem.batch.sizes),
            row: int_by(e, "muli", &row, plan.rows()),
            column: int_by(e, "muli", &column, plan.columns),
            tile,
            part,
            slices: [first, last],
        }
    }
}

/// Row and column of the `number`-th tile of a matrix: groups of row tiles, in each of which they change first.
fn raster(e: &mut Emitter, plan: &Plan, number: &Value) -> [Value; 2] {
    let ([rows, columns], group) = (plan.tiles, plan.raster);
    if group >= rows {
        return [int_by(e, "remui", number, rows), int_by(e, "divui", number, rows)];
    }
    let of_group = group * columns;
    let first = int_by(e, "divui", number, of_group);
    let first = int_by(e, "muli", &first, group);
    let rest = int_by(e, "remui", number, of_group);
    let here = if rows.is_multiple_of(group) {
        int(e, group)
    } else {
        let rows = int(e, rows);
        let left = int_op(e, "subi", &rows, &first);
        let group = int(e, group);
        int_op(e, "minui", &left, &group)
    };
    let column = int_op(e, "divui", &rest, &here);
    let row = int_op(e, "remui", &rest, &here);
    [int_op(e, "addi", &first, &row), column]
}

/// The coordinates of one slice of the sum: along the summed run, and outside.
#[derive(Clone, Debug)]
pub(super) struct Slice {
    pub along: Value,
    pub outer: Vec<Value>,
}

impl Slice {
    /// Of slice `number`.
    pub fn new(e: &mut Emitter, problem: &Problem<'_>, depth: usize, number: &Value) -> Self {
        let inner = run_slices(problem);
        let (run, outside) = if problem.outer.dims.is_empty() {
            (number.clone(), int(e, 0))
        } else {
            (int_by(e, "remui", number, inner), int_by(e, "divui", number, inner))
        };
        Self { along: int_by(e, "muli", &run, depth), outer: split(e, &outside, &problem.outer.sizes) }
    }
}

/// The coordinates of a box, by what they count.
pub(super) fn coordinates(view: &View, of: impl FnMut(Axis) -> Value) -> String {
    view.axes.iter().copied().map(of).collect::<Vec<_>>().join(", ")
}
