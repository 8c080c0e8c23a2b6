//! The function: where a block of threads is, and the loop over the sum.

use super::SYMBOL;
use super::geometry::{Geometry, Side};
use super::operand::Source;
use crate::LoweringError;
use crate::contraction::{Contraction, Group};
use crate::emit::{Emitter, Value};
use crate::host::lanes::vector_type;
use crate::host::tiles::{Carried, index, index_op, open_carrying_for, scaled};
use crate::nvptx::chunk::Evaluator;
use crate::nvptx::map::coordinates;
use crate::nvptx::writer::WORKGROUP;
use crate::types::value_type;
use burn_mlir_ir::{Access, Block};

/// The function being written.
pub(super) struct Kernel<'a> {
    pub contraction: &'a Contraction,
    pub geometry: &'a Geometry,
    pub evaluator: Evaluator<'a>,
    /// Element of the batch.
    pub batch: Value,
    /// First row and column of this thread.
    pub first: [Value; 2],
    /// First row and column of the tile.
    origin: [Value; 2],
    /// Position in the block of threads, and there along rows and columns.
    thread: Value,
    place: [Value; 2],
}

impl<'a> Kernel<'a> {
    pub fn new(block: &'a Block, contraction: &'a Contraction, geometry: &'a Geometry) -> Self {
        let mut evaluator = Evaluator::new(block, super::lane_dimension(contraction), SYMBOL);
        let (thread, at) = (evaluator.kernel.thread(), evaluator.kernel.block('x'));
        let (rows, columns) = (&geometry.rows, &geometry.columns);
        let e = evaluator.e();
        // Neighbouring blocks share rows, neighbouring threads have neighbouring columns.
        let mut tile = coordinates(e, &at, &[geometry.batch, rows.tiles(), columns.tiles()]).into_iter();
        let mut next = || tile.next().unwrap_or_default();
        let (batch, row_tile, column_tile) = (next(), next(), next());
        let across = index(e, columns.threads);
        let row = index_op(e, "arith.divui", &thread, &across);
        let column = index_op(e, "arith.remui", &thread, &across);
        let mut start = |tile: &Value, side: &Side, place: &Value| {
            let origin = scaled(e, tile, side.tile() as i64);
            let place = scaled(e, place, side.lanes as i64);
            let first = index_op(e, "arith.addi", &origin, &place);
            (origin, place, first)
        };
        let (row_origin, row_place, first_row) = start(&row_tile, rows, &row);
        let (column_origin, column_place, first_column) = start(&column_tile, columns, &column);
        Self {
            contraction,
            geometry,
            evaluator,
            batch,
            first: [first_row, first_column],
            origin: [row_origin, column_origin],
            thread,
            place: [row_place, column_place],
        }
    }

    /// Writes the function and returns its text.
    pub fn write(mut self) -> Result<String, LoweringError> {
        let sums = self.sums();
        self.finish_rows(&sums)?;
        Ok(self.evaluator.kernel.finish())
    }

    /// This thread's accumulators after the sum: for each of its rows, a vector a run of columns.
    fn sums(&mut self) -> Vec<Vec<Value>> {
        let geometry = self.geometry;
        let (rows, columns) = (&geometry.rows, &geometry.columns);
        let element = value_type(self.contraction.accumulator);
        let ty = vector_type(columns.lanes, element);
        let zero = if self.contraction.accumulator.is_float() { "0.0" } else { "0" };
        let e = self.evaluator.e();
        let zero = Carried { value: e.op(format_args!("arith.constant dense<{zero}> : {ty}")), ty };
        let initial = vec![zero; rows.runs * rows.lanes * columns.runs];
        let per_row = |sums: Vec<Carried>| -> Vec<Vec<Value>> {
            let values: Vec<Value> = sums.into_iter().map(|carried| carried.value).collect();
            values.chunks(columns.runs).map(<[Value]>::to_vec).collect()
        };
        if geometry.sum == 0 {
            return per_row(initial);
        }
        let sources = [true, false].map(|left| {
            let first = &self.origin[usize::from(!left)];
            let place = [&self.thread, &self.batch, first];
            Source::new(&mut self.evaluator.kernel, self.contraction, geometry, left, place)
        });
        let writer = &mut self.evaluator.kernel;
        let mine = [0, 1].map(|s| writer.element(&sources[s].memory, WORKGROUP, &self.place[s], element));
        let from = index(&mut writer.emitter, 0);
        let to = index(&mut writer.emitter, geometry.sum);
        let open = open_carrying_for(&mut writer.emitter, &from, &to, geometry.depth, &initial);
        let slices = sources.each_ref().map(|source| source.read(writer, &open.variable));
        // All threads take the same turns, so that all meet at each barrier: here, where the slice before
        // was used by all, and there, where this one is complete.
        writer.barrier();
        for (source, slice) in sources.iter().zip(&slices) {
            source.write(writer, slice);
        }
        writer.barrier();
        let mut sums = open.carried.clone();
        for depth in 0..geometry.depth {
            let e = &mut writer.emitter;
            let left = sources[0].runs(e, &mine[0], depth);
            let right = sources[1].runs(e, &mine[1], depth);
            let left = left.iter().flat_map(|run| (0..rows.lanes).map(move |lane| (run, lane)));
            for (row, (run, lane)) in left.enumerate() {
                let run_type = vector_type(rows.lanes, element);
                let factor = e.op(format_args!("vector.extract {run}[{lane}] : {element} from {run_type}"));
                let ty = &initial[0].ty;
                let factor = e.op(format_args!("vector.broadcast {factor} : {element} to {ty}"));
                for (column, right) in right.iter().enumerate() {
                    let sum = &mut sums[row * columns.runs + column].value;
                    *sum = multiply_add(e, &factor, right, sum, ty, element);
                }
            }
        }
        per_row(open.close(&mut writer.emitter, &sums))
    }
}

/// `a · b + sum`, rounded once.
fn multiply_add(e: &mut Emitter, a: &Value, b: &Value, sum: &Value, ty: &str, element: &str) -> Value {
    if element.starts_with('i') {
        let product = e.op(format_args!("arith.muli {a}, {b} : {ty}"));
        return e.op(format_args!("arith.addi {sum}, {product} : {ty}"));
    }
    e.op(format_args!("math.fma {a}, {b}, {sum} : {ty}"))
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
