//! Loops and index arithmetic, and how an iteration space is cut into tiles.

use super::extent::Extent;
use crate::emit::{Emitter, Value};
use burn_mlir_ir::Factor;
use std::fmt::Display;

/// An `index` constant.
pub(crate) fn index(e: &mut Emitter, value: impl Display) -> Value {
    e.op(format_args!("arith.constant {value} : index"))
}

/// An arithmetic operation on two `index` values, such as `arith.addi`.
pub(crate) fn index_op(e: &mut Emitter, op: &str, a: &Value, b: &Value) -> Value {
    e.op(format_args!("{op} {a}, {b} : index"))
}

/// `a · factor`, an `index`.
pub(crate) fn scaled(e: &mut Emitter, a: &Value, factor: i64) -> Value {
    if factor == 1 {
        return a.clone();
    }
    let factor = index(e, factor);
    index_op(e, "arith.muli", a, &factor)
}

/// Opens `scf.for` over `from..to` and returns the induction variable; close with `e.close("}")`.
pub(crate) fn open_for(e: &mut Emitter, from: &Value, to: &Value, step: usize) -> Value {
    let step = index(e, step);
    let variable = e.fresh();
    e.open(format_args!("scf.for {variable} = {from} to {to} step {step} {{"));
    variable
}

/// A value carried from one iteration to the next.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    /// Name of the value.
    pub value: Value,
    /// Its MLIR type.
    pub ty: String,
}

/// A loop opened by [`open_carrying_for`].
pub(crate) struct CarryingFor {
    /// The induction variable.
    pub variable: Value,
    /// The carried values inside the loop.
    pub carried: Vec<Carried>,
    results: Value,
}

/// Opens `scf.for` over `from..to` with values carried between iterations.
pub(crate) fn open_carrying_for(
    e: &mut Emitter,
    from: &Value,
    to: &Value,
    step: usize,
    initial: &[Carried],
) -> CarryingFor {
    let step = index(e, step);
    let (variable, results) = (e.fresh(), e.fresh());
    let carried: Vec<_> =
        initial.iter().map(|init| Carried { value: e.fresh(), ty: init.ty.clone() }).collect();
    if initial.is_empty() {
        e.open(format_args!("scf.for {variable} = {from} to {to} step {step} {{"));
    } else {
        let pairs: Vec<_> =
            carried.iter().zip(initial).map(|(c, i)| format!("{} = {}", c.value, i.value)).collect();
        let types = types(initial);
        e.open(format_args!(
            "{results}:{} = scf.for {variable} = {from} to {to} step {step} iter_args({}) -> ({types}) {{",
            initial.len(),
            pairs.join(", ")
        ));
    }
    CarryingFor { variable, carried, results }
}

impl CarryingFor {
    /// Closes the loop with the values for the next iteration; returns those after the last one.
    pub fn close(self, e: &mut Emitter, next: &[Carried]) -> Vec<Carried> {
        self.close_with(e, next, "")
    }

    /// The same, for a loop that LLVM must not unroll.
    pub fn close_rolled(self, e: &mut Emitter, next: &[Carried]) -> Vec<Carried> {
        self.close_with(e, next, " {loop_annotation = #llvm.loop_annotation<unroll = <disable = true>>}")
    }

    fn close_with(self, e: &mut Emitter, next: &[Carried], attributes: &str) -> Vec<Carried> {
        yield_carried(e, next);
        e.close(format_args!("}}{attributes}"));
        results(&self.results, next)
    }
}

fn types(carried: &[Carried]) -> String {
    carried.iter().map(|c| c.ty.as_str()).collect::<Vec<_>>().join(", ")
}

fn yield_carried(e: &mut Emitter, carried: &[Carried]) {
    if !carried.is_empty() {
        let values: Vec<_> = carried.iter().map(|c| c.value.as_str()).collect();
        e.line(format_args!("scf.yield {} : {}", values.join(", "), types(carried)));
    }
}

fn results(name: &Value, carried: &[Carried]) -> Vec<Carried> {
    let numbered = |(i, c): (usize, &Carried)| Carried { value: format!("{name}#{i}"), ty: c.ty.clone() };
    carried.iter().enumerate().map(numbered).collect()
}

/// The coordinates of the `linear`-th point, in row-major order, of a box with these extents.
pub(crate) fn delinearize(e: &mut Emitter, linear: &Value, sizes: &[usize]) -> Vec<Value> {
    let sizes: Vec<Extent> = sizes.iter().map(|&size| size.into()).collect();
    delinearize_in(e, linear, &sizes)
}

/// The same in a box whose extents may be numbers of the launch.
pub(crate) fn delinearize_in(e: &mut Emitter, linear: &Value, sizes: &[Extent]) -> Vec<Value> {
    let mut rest = linear.clone();
    let mut coordinates = vec![Value::new(); sizes.len()];
    for (position, size) in sizes.iter().enumerate().rev() {
        if position == 0 {
            coordinates[0] = rest.clone();
            break;
        }
        let size = size.value(e);
        coordinates[position] = index_op(e, "arith.remui", &rest, &size);
        rest = index_op(e, "arith.divui", &rest, &size);
    }
    coordinates
}

/// The coordinates in `shape` of the `line`-th line over all dimensions but `without`, on which they are `zero`.
pub(crate) fn locate_line(
    e: &mut Emitter,
    line: &Value,
    shape: &[usize],
    without: &[usize],
    zero: &Value,
) -> Vec<Value> {
    let others: Vec<usize> = (0..shape.len()).filter(|dim| !without.contains(dim)).collect();
    let sizes: Vec<usize> = others.iter().map(|&dim| shape[dim]).collect();
    let mut coordinates = vec![zero.clone(); shape.len()];
    for (&dim, coordinate) in others.iter().zip(delinearize(e, line, &sizes)) {
        coordinates[dim] = coordinate;
    }
    coordinates
}

/// A range of positions.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    /// The first one.
    pub from: Value,
    /// The one after the last.
    pub to: Value,
}

/// Positions `part · length .. min((part + 1) · length, size)`.
pub(crate) fn part_range(e: &mut Emitter, part: &Value, length: usize, size: impl Into<Extent>) -> Range {
    let size = size.into();
    let from = scaled(e, part, length as i64);
    let length_value = index(e, length);
    let mut to = index_op(e, "arith.addi", &from, &length_value);
    if !(size.is_known() && size.most().is_multiple_of(length)) {
        let size = size.value(e);
        to = index_op(e, "arith.minsi", &to, &size);
    }
    Range { from, to }
}

/// A conditional opened by [`open_carrying_if`].
pub(crate) struct CarryingIf {
    before: Vec<Carried>,
    results: Value,
}

/// Opens `scf.if` whose code may replace carried values.
pub(crate) fn open_carrying_if(e: &mut Emitter, condition: &Value, before: &[Carried]) -> CarryingIf {
    let results = e.fresh();
    if before.is_empty() {
        e.open(format_args!("scf.if {condition} {{"));
    } else {
        e.open(format_args!("{results}:{} = scf.if {condition} -> ({}) {{", before.len(), types(before)));
    }
    CarryingIf { before: before.to_vec(), results }
}

impl CarryingIf {
    /// Closes the conditional with the values if it holds; otherwise they stay as they were.
    pub fn close(self, e: &mut Emitter, next: &[Carried]) -> Vec<Carried> {
        yield_carried(e, next);
        if !next.is_empty() {
            e.close("} else {");
            e.open("// as before");
            yield_carried(e, &self.before);
        }
        e.close("}");
        results(&self.results, next)
    }
}

/// How rows (runs of the lane dimension) are cut into tiles: a tile is some whole rows, or part of one
/// row if rows are long.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    rows: Extent,
    size: Extent,
    /// Lanes of a part of a row, if rows are cut.
    part: Option<usize>,
    per_tile: usize,
}

impl Cut {
    /// Tiles of about `elements` lanes from `rows` rows of `size` lanes; parts are multiples of `width`.
    pub fn new(rows: impl Into<Extent>, size: impl Into<Extent>, elements: usize, width: usize) -> Self {
        let (rows, size) = (rows.into(), size.into());
        if size.most() > elements.next_multiple_of(width) {
            return Self { rows, size, part: Some(elements.max(1).next_multiple_of(width)), per_tile: 1 };
        }
        let per_tile = (elements / size.most().max(1)).clamp(1, rows.most().max(1));
        Self { rows, size, part: None, per_tile }
    }

    /// Tiles of parts of a row, of at most `part` of its `size`.
    pub fn in_parts(rows: impl Into<Extent>, size: impl Into<Extent>, part: usize) -> Self {
        Self { rows: rows.into(), size: size.into(), part: Some(part), per_tile: 1 }
    }

    /// The number of tiles, or the largest it can be.
    pub fn tiles(&self) -> usize {
        match self.part {
            Some(part) => self.rows.most() * self.size.most().div_ceil(part),
            None => self.rows.most().div_ceil(self.per_tile),
        }
    }

    /// Whose product is the number of tiles, if that follows from numbers of the launch.
    pub fn factors(&self) -> Vec<Factor> {
        if self.rows.is_known() && (self.part.is_none() || self.size.is_known()) {
            return Vec::new();
        }
        match self.part {
            Some(part) => vec![self.rows.factor(1), self.size.factor(part)],
            None => vec![self.rows.factor(self.per_tile)],
        }
    }

    /// Opens the loops over the tiles `begin..end` and their rows; gives the row and, if rows are cut, the
    /// range of its lanes.
    pub fn open(&self, e: &mut Emitter, begin: &Value, end: &Value) -> (Value, Option<Range>) {
        let tile = open_for(e, begin, end, 1);
        match self.part {
            Some(part) => {
                let parts = self.size.parts(e, part);
                let (row, nth) =
                    (index_op(e, "arith.divui", &tile, &parts), index_op(e, "arith.remui", &tile, &parts));
                (row, Some(part_range(e, &nth, part, self.size.clone())))
            }
            None if self.per_tile == 1 => (tile, None),
            None => {
                let range = part_range(e, &tile, self.per_tile, self.rows.clone());
                (open_for(e, &range.from, &range.to, 1), None)
            }
        }
    }

    /// Closes what [`open`](Self::open) opened.
    pub fn close(&self, e: &mut Emitter) {
        e.close("}");
        if self.part.is_none() && self.per_tile > 1 {
            e.close("}");
        }
    }
}
