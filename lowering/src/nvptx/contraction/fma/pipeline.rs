//! The loop over the sum where slices of both operands are copied to workgroup memory as they are, some ahead of the
//! one whose products are summed.

use super::super::asm::{commit, opaque, shared_address, shared_pointer, wait, with_word, word, words};
use super::super::copy::{Copies, Extent, Layout};
use super::super::reading::{CHUNK_BYTES, Reading};
use super::geometry::{Geometry, Side};
use super::kernel::{Kernel, multiply_add};
use crate::emit::{Emitter, Value};
use crate::host::lanes::{vector_type, zero_of};
use crate::host::tiles::{Carried, index, index_op, open_carrying_for, scaled};
use crate::nvptx::ACCESS_BYTES;
use crate::nvptx::writer::{KernelWriter, WORKGROUP};
use crate::types::value_type;
use burn_mlir_ir::DType;

impl Kernel<'_> {
    /// This thread's accumulators after the sum: for each of its rows, a vector a run of columns.
    pub fn pipelined_sums(&mut self) -> Vec<Vec<Value>> {
        let geometry = self.geometry;
        let accumulator = self.contraction.accumulator;
        let (element, bytes) = (value_type(accumulator), accumulator.size());
        let sides = [geometry.rows, geometry.columns];
        let side_bytes = sides.map(|side| geometry.depth * side.pitch() * bytes);
        let stage_bytes: usize = side_bytes.iter().sum();
        let writer = &mut self.evaluator.kernel;
        let memory = writer.workgroup(geometry.stages * stage_bytes);
        let memory = shared_address(&mut writer.emitter, &memory);
        let starts = [memory.clone(), with_word(&mut writer.emitter, "arith.addi", &memory, side_bytes[0])];
        let copies: [Copies; 2] = std::array::from_fn(|number| {
            let side = sides[number];
            let extent = Extent {
                left: number == 0,
                points: side.points,
                tile: side.tile(),
                sum: geometry.sum,
                depth: geometry.depth,
                threads: geometry.threads(),
            };
            let (reading, layout) = layout(geometry, accumulator, self.readings[number], &side);
            let from = [&self.thread, &self.batch, &self.origin[number]];
            let along_sum = reading.along_sum;
            Copies::new(writer, self.contraction, (reading, layout, extent), from, |e, row, column| {
                let pitch = side.pitch() * bytes;
                let (depth, place) = if along_sum { (column, row) } else { (row, column) };
                let place = with_word(e, "arith.muli", place, layout.chunk * bytes);
                let depth = with_word(e, "arith.muli", depth, pitch);
                let to = words(e, "arith.addi", &starts[number], &place);
                words(e, "arith.addi", &to, &depth)
            })
        });
        let e = &mut writer.emitter;
        let mine: [Value; 2] = std::array::from_fn(|side| {
            let place = e.op(format_args!("arith.index_castui {} : index to i32", self.place[side]));
            let place = with_word(e, "arith.muli", &place, bytes);
            words(e, "arith.addi", &starts[side], &place)
        });
        // The slices of this block.
        let per_part = geometry.part_slices();
        let begin = scaled(e, &self.part, (per_part * geometry.depth) as i64);
        // As a constant 1 it would leave no loop, and code that reads a whole slice before it multiplies any.
        let mut count = if per_part == 1 { opaque(e, 1) } else { index(e, per_part) };
        if !geometry.slices().is_multiple_of(per_part) {
            let from = scaled(e, &self.part, per_part as i64);
            let all = index(e, geometry.slices());
            let left = index_op(e, "arith.subi", &all, &from);
            count = index_op(e, "arith.minui", &count, &left);
        }
        let start = |writer: &mut KernelWriter, number: &Value, slot: &Value| {
            let e = &mut writer.emitter;
            let inside = e.op(format_args!("arith.cmpi ult, {number}, {count} : index"));
            e.open(format_args!("scf.if {inside} {{"));
            let ahead = scaled(e, number, geometry.depth as i64);
            let from = index_op(e, "arith.addi", &begin, &ahead);
            for copies in &copies {
                copies.start(writer, &from, slot);
            }
            writer.emitter.close("}");
            commit(&mut writer.emitter);
        };
        for stage in 0..geometry.stages - 1 {
            let slot = word(&mut writer.emitter, stage * stage_bytes);
            let number = index(&mut writer.emitter, stage);
            start(writer, &number, &slot);
        }
        wait(&mut writer.emitter, geometry.stages - 2);
        writer.barrier();

        let e = &mut writer.emitter;
        let zero = e.op(format_args!("arith.constant {} : {element}", zero_of(element)));
        let slot = |value: Value| Carried { value, ty: "i32".into() };
        let mut initial = vec![Carried { value: zero, ty: element.into() }; geometry.accumulators()];
        initial.push(slot(word(e, 0)));
        initial.push(slot(word(e, (geometry.stages - 1) * stage_bytes)));
        let none = index(e, 0);
        let open = open_carrying_for(e, &none, &count, 1, &initial);
        let (sums, slots) = open.carried.split_at(geometry.accumulators());
        let mut sums: Vec<Value> = sums.iter().map(|sum| sum.value.clone()).collect();
        let (read, written) = (slots[0].value.clone(), slots[1].value.clone());
        let ahead = index(e, geometry.stages - 1);
        let number = index_op(e, "arith.addi", &open.variable, &ahead);
        start(writer, &number, &written);
        let e = &mut writer.emitter;
        let mine = mine.map(|place| {
            let place = words(e, "arith.addi", &place, &read);
            shared_pointer(e, &place)
        });
        for depth in 0..geometry.depth {
            let [left, right] = [0, 1].map(|side| elements(e, &mine[side], &sides[side], depth, element));
            for (row, left) in left.iter().enumerate() {
                for (column, right) in right.iter().enumerate() {
                    let sum = &mut sums[row * columns_of(&sides[1]) + column];
                    *sum = multiply_add(e, left, right, sum, element, element);
                }
            }
        }
        wait(e, geometry.stages - 2);
        e.line("nvvm.barrier0");
        let next = with_word(e, "arith.addi", &read, stage_bytes);
        let end = word(e, geometry.stages * stage_bytes);
        let zero = word(e, 0);
        let over = e.op(format_args!("arith.cmpi eq, {next}, {end} : i32"));
        let next = e.op(format_args!("arith.select {over}, {zero}, {next} : i32"));
        let mut carried: Vec<Carried> =
            sums.into_iter().map(|value| Carried { value, ty: element.into() }).collect();
        // What was read last is written next.
        carried.push(slot(next));
        carried.push(slot(read));
        let sums = open.close(e, &carried);
        wait(e, 0);
        let sums: Vec<Value> = sums.into_iter().take(geometry.accumulators()).map(|sum| sum.value).collect();
        self.runs(&sums)
    }
}

/// How slices of a side are copied: rows of summed points. Where the operand is read along the sum, each
/// element is copied on its own.
fn layout(geometry: &Geometry, kept: DType, reading: Reading, side: &Side) -> (Reading, Layout) {
    let pitch = side.pitch() * kept.size();
    if reading.along_sum {
        let row_chunks = geometry.depth;
        let apart = geometry.threads() / row_chunks * kept.size();
        let chunks = side.tile() * row_chunks;
        return (Reading { piece: 1, ..reading }, Layout { kept, chunk: 1, row_chunks, chunks, apart });
    }
    let chunk = (CHUNK_BYTES / kept.size()).min(side.tile());
    let row_chunks = side.tile() / chunk;
    let apart = geometry.threads() / row_chunks * pitch;
    let reading = Reading { piece: reading.piece.min(chunk), ..reading };
    (reading, Layout { kept, chunk, row_chunks, chunks: row_chunks * geometry.depth, apart })
}

/// Columns of a thread.
fn columns_of(side: &Side) -> usize {
    side.lanes * side.runs
}

/// A thread's rows or columns at point `depth` of a slice; `mine` is the address of its first at the first point.
fn elements(e: &mut Emitter, mine: &Value, side: &Side, depth: usize, element: &str) -> Vec<Value> {
    let ty = vector_type(side.lanes, element);
    let alignment = (side.lanes * crate::nvptx::chunk::bytes_of(element)).min(ACCESS_BYTES);
    let mut elements = Vec::new();
    for run in 0..side.runs {
        let shift = depth * side.pitch() + run * side.apart();
        let at = e
            .op(format_args!("llvm.getelementptr {mine}[{shift}] : ({WORKGROUP}) -> {WORKGROUP}, {element}"));
        let vector =
            e.op(format_args!("llvm.load {at} {{alignment = {alignment} : i64}} : {WORKGROUP} -> {ty}"));
        for lane in 0..side.lanes {
            elements.push(e.op(format_args!("vector.extract {vector}[{lane}] : {element} from {ty}")));
        }
    }
    elements
}
