//! The function: where a block of threads is, the loop over the sum, and what it carries.

use super::super::SYMBOL;
use super::super::asm::{commit, multiply, narrowed, shared_address, wait, with_word, word, words};
use super::super::copy::Copies;
use super::super::drain::{Drain, pitch};
use super::super::parts::Parts;
use super::super::place::tile_place;
use super::super::reading::Reading;
use super::element::Element;
use super::fragment::{Fragments, POINTS};
use super::layout::{layout, place};
use super::tile::{Tile, WARP};
use crate::LoweringError;
use crate::contraction::Contraction;
use crate::emit::{Emitter, Value};
use crate::host::tiles::{Carried, index, index_op, open_carrying_for, scaled};
use crate::nvptx::chunk::Evaluator;
use crate::nvptx::writer::WORKGROUP;
use burn_mlir_ir::{Block, Phase, Program};

/// Threads that a multiprocessor is to have registers for, at least; twice as many where each has few accumulators.
const RESIDENT_THREADS: usize = 256;
const FEW_ACCUMULATORS: usize = 32;

/// Points along columns that a warp multiplies at once.
const COLUMNS: usize = 8;

/// The function being written.
pub(super) struct Kernel<'a> {
    contraction: &'a Contraction,
    tile: &'a Tile,
    element: Element,
    readings: [Reading; 2],
    evaluator: Evaluator<'a>,
}

impl<'a> Kernel<'a> {
    pub fn new(
        block: &'a Block,
        contraction: &'a Contraction,
        tile: &'a Tile,
        element: Element,
        readings: [Reading; 2],
    ) -> Self {
        let evaluator = Evaluator::new(block, super::super::lane_dimension(contraction), SYMBOL);
        Self { contraction, tile, element, readings, evaluator }
    }

    /// Writes the function; gives its text and how to launch it.
    pub fn write(mut self) -> Result<(String, Program), LoweringError> {
        let tile = self.tile;
        let thread = self.evaluator.kernel.thread();
        let block = self.evaluator.kernel.block('x');
        let [rows, columns] = &tile.sides;
        let e = self.evaluator.e();
        let tiles = [rows.tiles(), columns.tiles()];
        let [batch, row, column, part] = tile_place(e, &block, tile.batch, tiles, tile.parts);
        let first_row = scaled(e, &row, rows.tile as i64);
        let first_column = scaled(e, &column, columns.tile as i64);
        let first = [&first_row, &first_column];

        let pipeline = tile.stages * tile.stage_bytes();
        let drained = rows.tile * pitch(columns.tile) * size_of::<f32>();
        let memory = self.evaluator.kernel.workgroup(pipeline.max(drained));
        let sums = self.sums(&thread, &batch, first, &part, &memory);
        let parts = Parts { parts: tile.parts, tiles: tile.tiles(), threads: tile.threads(), element: "f32" };
        let sums = parts.open(&mut self.evaluator.kernel, &block, &thread, sums);
        self.park(&thread, &sums, &memory);
        let drain = Drain {
            memory: &memory,
            tile: [rows.tile, columns.tile],
            points: [rows.points, columns.points],
            threads: tile.threads(),
        };
        drain.finish(&mut self.evaluator, self.contraction, &thread, &batch, first)?;
        parts.close(&mut self.evaluator.kernel);
        let grid = (tile.tiles() * tile.parts) as u32;
        let phase = Phase {
            symbol: SYMBOL.into(),
            grid: [grid, 1, 1],
            block: [tile.threads() as u32, 1, 1],
            workgroup_bytes: self.evaluator.kernel.dynamic_bytes(),
            ..Phase::default()
        };
        let shared_bytes = parts.bytes(tile.accumulators()) as u64;
        let program = Program { phases: vec![phase], shared_bytes, worker_bytes: 0 };
        let few =
            tile.accumulators() <= FEW_ACCUMULATORS && self.readings.iter().all(|reading| reading.direct);
        let resident = if few { 2 * RESIDENT_THREADS } else { RESIDENT_THREADS };
        self.evaluator.kernel.keep_resident((resident / tile.threads()).max(1));
        Ok((self.evaluator.kernel.finish(), program))
    }

    /// This thread's accumulators: for each fragment of rows and each eight columns, four.
    fn sums(
        &mut self,
        thread: &Value,
        batch: &Value,
        first: [&Value; 2],
        part: &Value,
        memory: &Value,
    ) -> Vec<Value> {
        let (tile, element) = (self.tile, self.element);
        let writer = &mut self.evaluator.kernel;
        let memory = shared_address(&mut writer.emitter, memory);
        let copies: [Copies; 2] = std::array::from_fn(|side| {
            let at = with_word(&mut writer.emitter, "arith.addi", &memory, side * tile.side_bytes(0));
            let reading = self.readings[side];
            let (layout, extent) = layout(tile, element, side, reading);
            let how = (element, reading.along_sum);
            let from = [thread, batch, first[side]];
            Copies::new(writer, self.contraction, (reading, layout, extent), from, |e, row, column| {
                place(e, how, layout.row_chunks, &at, row, column)
            })
        });
        let e = &mut writer.emitter;
        let warps = warp_place(e, thread, tile);
        let fragments: [Fragments; 2] = std::array::from_fn(|side| {
            let at = with_word(e, "arith.addi", &memory, side * tile.side_bytes(0));
            let how = (side, self.readings[side].along_sum);
            Fragments::new(e, tile, element, how, [&warps[0], &warps[1 + side], &at])
        });
        // The slices of this block.
        let per_part = tile.part_slices();
        let begin = scaled(e, part, (per_part * tile.depth) as i64);
        let mut count = index(e, per_part);
        let exact = tile.slices().is_multiple_of(per_part);
        if !exact {
            let from = scaled(e, part, per_part as i64);
            let all = index(e, tile.slices());
            let left = index_op(e, "arith.subi", &all, &from);
            count = index_op(e, "arith.minui", &count, &left);
        }
        let at_least = if exact { per_part } else { tile.slices() % per_part };

        for stage in 0..tile.stages - 1 {
            let slot = word(&mut writer.emitter, stage * tile.stage_bytes());
            let number = index(&mut writer.emitter, stage);
            let certain = stage < at_least;
            let conditional = (!certain).then_some(&count);
            let values = start(writer, &copies, tile, &begin, &number, conditional, &slot);
            finish(&mut writer.emitter, &copies, &values, &slot);
        }
        let e = &mut writer.emitter;
        wait(e, tile.stages - 2);
        e.line("nvvm.barrier0");

        let float = |value: Value| Carried { value, ty: "f32".into() };
        let slot = |value: Value| Carried { value, ty: "i32".into() };
        let zero = e.op("arith.constant 0.0 : f32");
        let mut initial = vec![float(zero); tile.accumulators()];
        initial.push(slot(word(e, 0)));
        initial.push(slot(word(e, (tile.stages - 1) * tile.stage_bytes())));
        let none = index(e, 0);
        let open = open_carrying_for(e, &none, &count, 1, &initial);
        let (sums, slots) = open.carried.split_at(tile.accumulators());
        let mut sums: Vec<Value> = sums.iter().map(|sum| sum.value.clone()).collect();
        let (read, written) = (slots[0].value.clone(), slots[1].value.clone());
        let ahead = index(e, tile.stages - 1);
        let number = index_op(e, "arith.addi", &open.variable, &ahead);
        let values = start(writer, &copies, tile, &begin, &number, Some(&count), &written);
        let e = &mut writer.emitter;
        products(e, (tile, element), &fragments, &read, &mut sums);
        finish(e, &copies, &values, &written);
        wait(e, tile.stages - 2);
        e.line("nvvm.barrier0");
        let next = next_slot(e, &read, tile);
        let mut carried: Vec<Carried> = sums.into_iter().map(float).collect();
        // What was read last is written next.
        carried.push(slot(next));
        carried.push(slot(read));
        let sums = open.close(e, &carried);
        wait(e, 0);
        sums.into_iter().take(tile.accumulators()).map(|sum| sum.value).collect()
    }

    /// Writes the accumulators to workgroup memory, row by row, where all threads find them.
    fn park(&mut self, thread: &Value, sums: &[Value], memory: &Value) {
        let tile = self.tile;
        let [rows, columns] = &tile.sides;
        let writer = &mut self.evaluator.kernel;
        let e = &mut writer.emitter;
        e.line("nvvm.barrier0");
        let [lane, row_warp, column_warp] = warp_place(e, thread, tile);
        // A lane has two neighbouring columns of a row, and of the row eight on.
        let row = with_word(e, "arith.muli", &row_warp, rows.warp());
        let in_row = with_word(e, "arith.shrui", &lane, 2);
        let row = words(e, "arith.addi", &row, &in_row);
        let column = with_word(e, "arith.muli", &column_warp, columns.warp());
        let in_column = with_word(e, "arith.andi", &lane, 3);
        let in_column = with_word(e, "arith.muli", &in_column, 2);
        let column = words(e, "arith.addi", &column, &in_column);
        let pitch = pitch(columns.tile);
        let row = with_word(e, "arith.muli", &row, pitch);
        let at = words(e, "arith.addi", &row, &column);
        let at =
            e.op(format_args!("llvm.getelementptr {memory}[{at}] : ({WORKGROUP}, i32) -> {WORKGROUP}, f32"));
        let eights = columns.warp() / COLUMNS;
        for (number, pair) in sums.chunks(2).enumerate() {
            let (fragment, half) = (number / 2, number % 2);
            let (row, column) = (fragment / eights * POINTS + half * 8, fragment % eights * COLUMNS);
            let shift = row * pitch + column;
            let at =
                e.op(format_args!("llvm.getelementptr {at}[{shift}] : ({WORKGROUP}) -> {WORKGROUP}, f32"));
            let pair = e.op(format_args!("vector.from_elements {}, {} : vector<2xf32>", pair[0], pair[1]));
            e.line(format_args!(
                "llvm.store {pair}, {at} {{alignment = 8 : i64}} : vector<2xf32>, {WORKGROUP}"
            ));
        }
        e.line("nvvm.barrier0");
    }
}

/// Adds the products of a slice.
fn products(
    e: &mut Emitter,
    (tile, element): (&Tile, Element),
    fragments: &[Fragments; 2],
    slot: &Value,
    sums: &mut [Value],
) {
    let [rows, columns] = tile.sides.map(|side| side.warp() / POINTS);
    let at = fragments.each_ref().map(|side| side.at(e, slot));
    let load = |e: &mut Emitter, step: usize| -> [Vec<Vec<Value>>; 2] {
        let side = |e: &mut Emitter, side: usize, count: usize| -> Vec<Vec<Value>> {
            (0..count).map(|fragment| fragments[side].load(e, &at[side], fragment, step)).collect()
        };
        [side(e, 0, rows), side(e, 1, columns)]
    };
    let steps = tile.depth / (2 * element.chunk());
    let mut next = load(e, 0);
    for step in 0..steps {
        let [left, right] = next;
        next = if step + 1 < steps { load(e, step + 1) } else { [Vec::new(), Vec::new()] };
        for (row, a) in left.iter().enumerate() {
            for column in 0..2 * columns {
                // The same eight columns of both chunks.
                let b = &right[column / 2];
                let b = [b[column % 2].clone(), b[2 + column % 2].clone()];
                let first = 4 * (row * 2 * columns + column);
                multiply(e, element.instruction(), a, &b, &mut sums[first..first + 4]);
            }
        }
    }
}

/// The lane of a thread, and the place of its warp along rows and columns; `i32` each.
fn warp_place(e: &mut Emitter, thread: &Value, tile: &Tile) -> [Value; 3] {
    let thread = narrowed(e, thread);
    let lane = with_word(e, "arith.andi", &thread, WARP - 1);
    let warp = with_word(e, "arith.shrui", &thread, 5);
    let across = tile.sides[1].warps;
    let row = with_word(e, "arith.divui", &warp, across);
    let column = with_word(e, "arith.andi", &warp, across - 1);
    [lane, row, column]
}

/// Starts the copies of slice `number` into the memory `slot` bytes on, if it is one of `count`; reads what passes
/// through registers.
fn start(
    writer: &mut crate::nvptx::writer::KernelWriter,
    copies: &[Copies; 2],
    tile: &Tile,
    begin: &Value,
    number: &Value,
    count: Option<&Value>,
    slot: &Value,
) -> [Option<Vec<Value>>; 2] {
    let mut inside = number.clone();
    let e = &mut writer.emitter;
    if let Some(count) = count
        && copies.iter().any(|copies| !copies.direct())
    {
        // Past the end a slice is read again, and not used.
        let one = index(e, 1);
        let last = index_op(e, "arith.subi", count, &one);
        inside = index_op(e, "arith.minui", number, &last);
    }
    let from = |e: &mut Emitter, number: &Value| {
        let ahead = scaled(e, number, tile.depth as i64);
        index_op(e, "arith.addi", begin, &ahead)
    };
    let read = {
        let from = from(e, &inside);
        copies.each_ref().map(|copies| (!copies.direct()).then(|| copies.read(writer, &from)))
    };
    if copies.iter().any(Copies::direct) {
        let e = &mut writer.emitter;
        if let Some(count) = count {
            let inside = e.op(format_args!("arith.cmpi ult, {number}, {count} : index"));
            e.open(format_args!("scf.if {inside} {{"));
        }
        let from = from(e, number);
        for copies in copies.iter().filter(|copies| copies.direct()) {
            copies.start(writer, &from, slot);
        }
        if count.is_some() {
            writer.emitter.close("}");
        }
    }
    commit(&mut writer.emitter);
    read
}

/// Writes what [`start`] read.
fn finish(e: &mut Emitter, copies: &[Copies; 2], values: &[Option<Vec<Value>>; 2], slot: &Value) {
    for (copies, values) in copies.iter().zip(values) {
        if let Some(values) = values {
            copies.write(e, values, slot);
        }
    }
}

/// The memory of the slice after the one in `slot`.
fn next_slot(e: &mut Emitter, slot: &Value, tile: &Tile) -> Value {
    let next = with_word(e, "arith.addi", slot, tile.stage_bytes());
    let end = word(e, tile.stages * tile.stage_bytes());
    let zero = word(e, 0);
    let over = e.op(format_args!("arith.cmpi eq, {next}, {end} : i32"));
    e.op(format_args!("arith.select {over}, {zero}, {next} : i32"))
}
