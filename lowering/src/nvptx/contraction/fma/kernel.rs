//! The function: where a block of threads is, and the loop over the sum.

use super::super::SYMBOL;
use super::super::parts::Parts;
use super::super::place::tile_place;
use super::super::reading::Reading;
use super::geometry::{Geometry, Side};
use super::operand::Source;
use crate::LoweringError;
use crate::contraction::Contraction;
use crate::emit::{Emitter, Value};
use crate::host::lanes::vector_type;
use crate::host::tiles::{Carried, index, index_op, open_carrying_for, scaled};
use crate::nvptx::chunk::Evaluator;
use crate::nvptx::map::coordinates;
use crate::nvptx::writer::WORKGROUP;
use crate::types::value_type;
use burn_mlir_ir::{Block, Phase, Program};

/// Threads that a multiprocessor is to have registers for, 128 each.
const RESIDENT_THREADS: usize = 512;

/// The same where tiles are cut: addresses of single rows and columns take registers.
const RESIDENT_THREADS_RAGGED: usize = 384;

/// And of 8-byte elements.
const RESIDENT_THREADS_WIDE: usize = 256;

/// Threads of a warp.
const WARP: usize = 32;

/// Columns of a warp's threads, where there are so many.
const WARP_COLUMNS: usize = 8;

/// The function being written.
pub(super) struct Kernel<'a> {
    pub contraction: &'a Contraction,
    pub geometry: &'a Geometry,
    pub readings: [Reading; 2],
    pub evaluator: Evaluator<'a>,
    /// Element of the batch.
    pub batch: Value,
    /// First row and column of this thread.
    pub first: [Value; 2],
    /// First row and column of the tile.
    pub origin: [Value; 2],
    /// Part of the sum.
    pub part: Value,
    /// Position in the block of threads, and there along rows and columns.
    pub thread: Value,
    pub place: [Value; 2],
    /// Position in the grid.
    block: Value,
}

impl<'a> Kernel<'a> {
    pub fn new(
        block: &'a Block,
        contraction: &'a Contraction,
        geometry: &'a Geometry,
        readings: [Reading; 2],
    ) -> Self {
        let mut evaluator = Evaluator::new(block, super::super::lane_dimension(contraction), SYMBOL);
        let (thread, at) = (evaluator.kernel.thread(), evaluator.kernel.block('x'));
        let (rows, columns) = (&geometry.rows, &geometry.columns);
        let e = evaluator.e();
        let [batch, row_tile, column_tile, part] =
            tile_place(e, &at, geometry.batch, [rows.tiles(), columns.tiles()], geometry.parts);
        let [row, column] = thread_place(e, &thread, rows.threads, columns.threads);
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
            readings,
            evaluator,
            batch,
            first: [first_row, first_column],
            origin: [row_origin, column_origin],
            part,
            thread,
            place: [row_place, column_place],
            block: at,
        }
    }

    /// Writes the function; gives its text and how to launch it.
    pub fn write(mut self) -> Result<(String, Program), LoweringError> {
        let geometry = self.geometry;
        let sums = if geometry.stages > 1 { self.pipelined_sums() } else { self.sums() };
        let element = value_type(self.contraction.accumulator);
        let (tiles, threads) = (geometry.tiles(), geometry.threads());
        let parts = Parts { parts: geometry.parts, tiles, threads, element };
        let shared_bytes = parts.bytes(geometry.accumulators()) as u64;
        if geometry.parts > 1 {
            let sums = self.flat(sums);
            let sums = parts.open(&mut self.evaluator.kernel, &self.block, &self.thread, sums);
            let sums = self.runs(&sums);
            self.finish_rows(&sums)?;
            parts.close(&mut self.evaluator.kernel);
        } else {
            self.finish_rows(&sums)?;
        }
        let phase = Phase {
            symbol: SYMBOL.into(),
            grid: [(tiles * geometry.parts) as u32, 1, 1],
            block: [threads as u32, 1, 1],
            workgroup_bytes: self.evaluator.kernel.dynamic_bytes(),
            ..Phase::default()
        };
        let program = Program { phases: vec![phase], shared_bytes, worker_bytes: 0 };
        // The assembler would rather have more blocks and fewer registers.
        let exact = !geometry.rows.ragged() && !geometry.columns.ragged();
        let resident = match (exact, self.contraction.accumulator.size()) {
            (true, _) => RESIDENT_THREADS,
            (_, 8) => RESIDENT_THREADS_WIDE,
            _ => RESIDENT_THREADS_RAGGED,
        };
        self.evaluator.kernel.keep_resident((resident / threads).max(1));
        Ok((self.evaluator.kernel.finish(), program))
    }

    /// Accumulators one by one.
    fn flat(&mut self, sums: Vec<Vec<Value>>) -> Vec<Value> {
        let lanes = self.geometry.columns.lanes;
        let element = value_type(self.contraction.accumulator);
        let ty = vector_type(lanes, element);
        let e = self.evaluator.e();
        let mut flat = Vec::new();
        for run in sums.iter().flatten() {
            for lane in 0..lanes {
                flat.push(e.op(format_args!("vector.extract {run}[{lane}] : {element} from {ty}")));
            }
        }
        flat
    }

    /// Accumulators as vectors: for each of this thread's rows, one a run of columns.
    pub fn runs(&mut self, flat: &[Value]) -> Vec<Vec<Value>> {
        let Side { lanes, runs, .. } = self.geometry.columns;
        let ty = vector_type(lanes, value_type(self.contraction.accumulator));
        let e = self.evaluator.e();
        let mut vector =
            |sums: &[Value]| e.op(format_args!("vector.from_elements {} : {ty}", sums.join(", ")));
        flat.chunks(lanes * runs).map(|row| row.chunks(lanes).map(&mut vector).collect()).collect()
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
pub(super) fn multiply_add(
    e: &mut Emitter,
    a: &Value,
    b: &Value,
    sum: &Value,
    ty: &str,
    element: &str,
) -> Value {
    if element.starts_with('i') {
        let product = e.op(format_args!("arith.muli {a}, {b} : {ty}"));
        return e.op(format_args!("arith.addi {sum}, {product} : {ty}"));
    }
    e.op(format_args!("math.fma {a}, {b}, {sum} : {ty}"))
}

/// Where a thread is along rows and columns. Warps are as square as they can be, and of two neighbouring threads one
/// has the next row: so that what a quarter of a warp reads of both sides is little.
fn thread_place(e: &mut Emitter, thread: &Value, rows: usize, columns: usize) -> [Value; 2] {
    let warp_columns = columns.min(WARP_COLUMNS.max(WARP / rows));
    let warp_rows = WARP / warp_columns;
    let whole = rows.is_multiple_of(warp_rows) && columns.is_multiple_of(warp_columns);
    if !whole || !(rows * columns).is_multiple_of(WARP) {
        let across = index(e, columns);
        let row = index_op(e, "arith.divui", thread, &across);
        return [row, index_op(e, "arith.remui", thread, &across)];
    }
    let pair = warp_rows.min(2);
    let sizes = [rows / warp_rows, columns / warp_columns, warp_rows / pair, warp_columns, pair];
    let place = coordinates(e, thread, &sizes);
    let row = scaled(e, &place[0], warp_rows as i64);
    let above = scaled(e, &place[2], pair as i64);
    let row = index_op(e, "arith.addi", &row, &above);
    let row = index_op(e, "arith.addi", &row, &place[4]);
    let column = scaled(e, &place[1], warp_columns as i64);
    [row, index_op(e, "arith.addi", &column, &place[3])]
}
