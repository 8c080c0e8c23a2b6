//! Where in the domain a thread's accumulators are.

use super::super::int::{int, int_by, int_op, split, widened};
use super::super::place::Place;
use super::super::plan::{Plan, ROWS};
use super::super::problem::{Problem, points};
use crate::contraction::Group;
use crate::emit::{Emitter, Value};

/// Coordinates along some dimensions.
pub(super) type Coordinates = Vec<(usize, Value)>;

/// A row, or a pair of columns.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    /// The coordinates of the row twice, or of both columns: of ones in the domain in any case.
    pub coordinates: [Coordinates; 2],
    /// Whether they are where they would be, `i1`s, where that is not certain.
    pub valid: [Option<Value>; 2],
}

/// Coordinates of one point along a group, from an `i32`.
fn along(e: &mut Emitter, group: &Group, at: &Value) -> Coordinates {
    let parts = split(e, at, &group.sizes);
    group.dims.iter().zip(parts).map(|(&dim, part)| (dim, widened(e, &part))).collect()
}

/// The coordinates of a place in the batch.
pub(super) fn batch(e: &mut Emitter, problem: &Problem<'_>, place: &Place) -> Coordinates {
    problem.batch.dims.iter().zip(&place.batch).map(|(&dim, at)| (dim, widened(e, at))).collect()
}

/// The row at `at`, an `i32`.
pub(super) fn row(e: &mut Emitter, problem: &Problem<'_>, plan: &Plan, at: &Value) -> Spot {
    let count = points(&problem.rows);
    let (at, valid) = within(e, at, count, count.is_multiple_of(plan.consumers * ROWS));
    let coordinates = along(e, &problem.rows, &at);
    Spot { coordinates: [coordinates.clone(), coordinates], valid: [valid.clone(), valid] }
}

/// The column `at` (an `i32`, even) + `shift`, and the one after it.
pub(super) fn columns(e: &mut Emitter, problem: &Problem<'_>, plan: &Plan, at: &Value, shift: usize) -> Spot {
    let group = &problem.columns;
    let count = points(group);
    let full = count.is_multiple_of(plan.columns);
    if group.dims.is_empty() {
        let first = int_by(e, "addi", at, shift);
        let (_, valid) = within(e, &first, 1, false);
        let never = e.op("arith.constant false");
        return Spot { coordinates: [vec![], vec![]], valid: [valid, Some(never)] };
    }
    if !adjacent(problem) {
        let [first, second] = [0, 1].map(|lane| {
            let at = int_by(e, "addi", at, shift + lane);
            let (at, valid) = within(e, &at, count, full);
            (along(e, group, &at), valid)
        });
        return Spot { coordinates: [first.0, second.0], valid: [first.1, second.1] };
    }
    let (coordinates, valid) = if full && group.dims.len() == 1 {
        // So that the shift becomes a part of the instruction.
        let at = widened(e, at);
        let shift = e.op(format_args!("arith.constant {shift} : index"));
        (vec![(group.dims[0], e.op(format_args!("arith.addi {at}, {shift} : index")))], None)
    } else {
        let at = int_by(e, "addi", at, shift);
        let mut valid = None;
        let mut at = at;
        if !full {
            let last = int(e, count - 2);
            valid = Some(e.op(format_args!("arith.cmpi ule, {at}, {last} : i32")));
            at = int_op(e, "minui", &at, &last);
        }
        (along(e, group, &at), valid)
    };
    let mut second = coordinates.clone();
    if let Some((_, at)) = second.last_mut() {
        let one = e.op("arith.constant 1 : index");
        *at = e.op(format_args!("arith.addi {at}, {one} : index"));
    }
    Spot { coordinates: [coordinates, second], valid: [valid.clone(), valid] }
}

/// Whether both columns of a pair differ in the innermost dimension only, for all pairs.
pub(super) fn adjacent(problem: &Problem<'_>) -> bool {
    problem.columns.sizes.last().is_some_and(|size| size.is_multiple_of(2))
}

/// A point that is one of `count`, and whether it was.
fn within(e: &mut Emitter, at: &Value, count: usize, certain: bool) -> (Value, Option<Value>) {
    if certain {
        return (at.clone(), None);
    }
    let last = int(e, count - 1);
    let valid = e.op(format_args!("arith.cmpi ule, {at}, {last} : i32"));
    (int_op(e, "minui", at, &last), Some(valid))
}

/// Both conditions, where there are any.
pub(super) fn both(e: &mut Emitter, a: &Option<Value>, b: &Option<Value>) -> Option<Value> {
    match (a, b) {
        (Some(a), Some(b)) => Some(e.op(format_args!("arith.andi {a}, {b} : i1"))),
        (a, b) => a.clone().or(b.clone()),
    }
}
