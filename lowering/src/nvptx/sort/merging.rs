//! Sorting rows of entries by merging: tiles in workgroup memory, then merges of neighbouring runs until a row
//! is one.

use super::Ends;
use super::entry::{Entries, Entry, Place};
use super::merge::{ITEMS, Runs, merge, merge_tile, sort_items, split, store_items};
use crate::LoweringError;
use crate::emit::Value;
use crate::nvptx::code::Code;
use crate::nvptx::writer::KernelWriter;
use crate::nvptx::{WARP, grid};
use burn_mlir_ir::Phase;

/// Threads of a block.
const THREADS: usize = 256;

/// Blocks that a multiprocessor is to have registers for.
const RESIDENT: usize = 4;

/// Entries of a block.
const TILE: usize = THREADS * ITEMS;

/// Rows to be sorted.
pub(in crate::nvptx) struct Merging {
    entries: Entries,
    rows: usize,
    size: usize,
    /// Tiles of a row; 1 if rows share tiles.
    row_tiles: usize,
    /// Entries of a row in a tile.
    run: usize,
    scratch: usize,
}

impl Merging {
    /// `rows` rows of `size` entries; scratch memory is used from byte `scratch` on.
    pub fn new(entries: Entries, rows: usize, size: usize, scratch: usize) -> Self {
        let run = size.next_power_of_two().clamp(ITEMS, TILE);
        Self { entries, rows, size, row_tiles: size.div_ceil(TILE), run, scratch }
    }

    /// How often a row of `size` entries is merged outside of tiles.
    pub fn merges(size: usize) -> usize {
        size.div_ceil(TILE).max(1).next_power_of_two().trailing_zeros() as usize
    }

    /// Entries of a row in scratch memory.
    fn row_entries(&self) -> usize {
        self.row_tiles * TILE
    }

    /// Bytes of scratch memory.
    pub fn scratch_bytes(&self) -> usize {
        if self.row_tiles <= 1 {
            return 0;
        }
        2 * self.entries.array_bytes(self.rows * self.row_entries())
    }

    /// One of the two arrays in scratch memory.
    fn array(&self, kernel: &mut KernelWriter, number: usize) -> Place {
        let entries = self.rows * self.row_entries();
        let offset = self.scratch + number % 2 * self.entries.array_bytes(entries);
        self.entries.scratch(kernel, offset, entries)
    }

    /// The kernels that sort, with how they are launched.
    pub fn phases(&self, ends: &impl Ends) -> Result<Vec<(String, Phase)>, LoweringError> {
        let tile_rows = if self.row_tiles == 1 { TILE / self.run } else { 1 };
        let tiles = self.rows.div_ceil(tile_rows) * self.row_tiles;
        let blocks = grid(tiles)?;
        let phase = |symbol: &str| Phase {
            symbol: symbol.into(),
            grid: blocks,
            block: [THREADS as u32, 1, 1],
            ..Phase::default()
        };
        let mut phases = vec![(self.tiles(ends, "tiles", tile_rows), phase("tiles"))];
        let (mut width, mut number) = (TILE, 0);
        while width < self.row_entries() {
            let symbol = format!("merge{number}");
            phases.push((self.merge_runs(ends, &symbol, width, number), phase(&symbol)));
            width *= 2;
            number += 1;
        }
        Ok(phases)
    }

    /// Sorts the tiles.
    fn tiles(&self, ends: &impl Ends, symbol: &str, tile_rows: usize) -> String {
        let entries = self.entries;
        let mut kernel = ends.open(symbol);
        let tile = kernel.block('x');
        let thread = kernel.thread();
        let memory = entries.workgroup(&mut kernel, TILE);
        for item in 0..ITEMS {
            let e = &mut kernel.emitter;
            let at = self.at(e, &thread, item);
            let place = self.place(e, &tile, &at, tile_rows);
            let types = entries.types();
            // Arithmetic of both cases is written before the condition is known: it reads nothing.
            let results = e.fresh();
            let list = types.join(", ");
            e.open(format_args!("{results}:{} = scf.if {} -> ({list}) {{", types.len(), place.valid));
            let entry = ends.read(&mut kernel, &place.row, &place.position);
            ends.check(&mut kernel, &entry);
            let e = &mut kernel.emitter;
            e.line(format_args!("scf.yield {} : {list}", entry.join(", ")));
            e.close("} else {");
            e.open("// behind everything");
            let last = entries.last(e);
            e.line(format_args!("scf.yield {} : {list}", last.join(", ")));
            e.close("}");
            let entry: Entry = (0..types.len()).map(|part| format!("{results}#{part}")).collect();
            entries.store(e, &memory, &at, "index", &entry);
        }
        kernel.barrier();
        let e = &mut kernel.emitter;
        let number = e.resize(&thread, "index", "i32");
        let items = e.int("i32", ITEMS);
        let mine = e.arith("muli", "i32", &number, &items);
        let mut list: Vec<Entry> = (0..ITEMS)
            .map(|item| {
                let shift = e.int("i32", item);
                let at = e.arith("addi", "i32", &mine, &shift);
                entries.load(e, &memory, &at, "i32")
            })
            .collect();
        sort_items(e, entries, &mut list);
        store_items(e, entries, &memory, &mine, &list);
        kernel.barrier();
        merge_tile(&mut kernel, entries, &memory, &number, TILE, self.run);
        let last = self.row_tiles <= 1;
        self.leave(&mut kernel, ends, &memory, &tile, &thread, tile_rows, if last { None } else { Some(0) });
        kernel.keep_resident(RESIDENT);
        kernel.finish()
    }

    /// Merges neighbouring runs of `width` entries from array `number` on.
    fn merge_runs(&self, ends: &impl Ends, symbol: &str, width: usize, number: usize) -> String {
        let entries = self.entries;
        let ty = "i64";
        let mut kernel = ends.open(symbol);
        let tile = kernel.block('x');
        let thread = kernel.thread();
        let source = self.array(&mut kernel, number);
        let memory = entries.workgroup(&mut kernel, TILE);
        let splits = kernel.workgroup(2 * 8);
        let e = &mut kernel.emitter;
        let row_tiles = e.int("index", self.row_tiles);
        let row = e.arith("divui", "index", &tile, &row_tiles);
        let in_row = e.arith("remui", "index", &tile, &row_tiles);
        let (row, in_row) = (e.resize(&row, "index", ty), e.resize(&in_row, "index", ty));
        let (size, tile_size, length) = (e.int(ty, self.row_entries()), e.int(ty, TILE), e.int(ty, width));
        let row_start = e.arith("muli", ty, &row, &size);
        let from = e.arith("muli", ty, &in_row, &tile_size);
        // The pair of runs that this tile of the result is of.
        let pair = e.int(ty, 2 * width);
        let diagonal = e.arith("remui", ty, &from, &pair);
        let first = e.arith("subi", ty, &from, &diagonal);
        let bound = |e: &mut crate::emit::Emitter, start: &Value| {
            let end = e.arith("addi", ty, start, &length);
            e.arith("minsi", ty, &end, &size)
        };
        let second = bound(e, &first);
        let end = bound(e, &second);
        let first_length = e.arith("subi", ty, &second, &first);
        let second_length = e.arith("subi", ty, &end, &second);
        let first = e.arith("addi", ty, &row_start, &first);
        let second = e.arith("addi", ty, &row_start, &second);

        // Two warps find where the tile begins and ends in both runs.
        let number32 = e.resize(&thread, "index", "i32");
        let (bits, mask) = (e.int("i32", 5), e.int("i32", 31));
        let warp = e.arith("shrui", "i32", &number32, &bits);
        let lane = e.arith("andi", "i32", &number32, &mask);
        let two = e.int("i32", 2);
        let searches = e.compare("ult", "i32", &warp, &two);
        e.open(format_args!("scf.if {searches} {{"));
        let warp_wide = e.resize(&warp, "i32", ty);
        let shift = e.arith("muli", ty, &warp_wide, &tile_size);
        let mine = e.arith("addi", ty, &diagonal, &shift);
        let lane = e.resize(&lane, "i32", ty);
        let (a, b) = ((&first, &first_length), (&second, &second_length));
        let found = split(&mut kernel, entries, &source, a, b, &mine, &lane);
        let e = &mut kernel.emitter;
        let at = e.op(format_args!(
            "llvm.getelementptr {splits}[{warp}] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i64"
        ));
        e.line(format_args!("llvm.store {found}, {at} : i64, !llvm.ptr<3>"));
        e.close("}");
        kernel.barrier();
        let e = &mut kernel.emitter;
        let begin = e.op(format_args!("llvm.load {splits} : !llvm.ptr<3> -> i64"));
        let after =
            e.op(format_args!("llvm.getelementptr {splits}[1] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i64"));
        let stop = e.op(format_args!("llvm.load {after} : !llvm.ptr<3> -> i64"));
        let taken = e.arith("subi", ty, &stop, &begin);
        let a_from = e.arith("addi", ty, &first, &begin);
        let b_from = e.arith("subi", ty, &diagonal, &begin);
        let b_from = e.arith("addi", ty, &second, &b_from);
        let b_from = e.arith("subi", ty, &b_from, &taken);
        let mut loaded = Vec::new();
        for item in 0..ITEMS {
            let at = self.at(e, &thread, item);
            let wide = e.resize(&at, "index", ty);
            let of_first = e.compare("ult", ty, &wide, &taken);
            let start = e.choose(&of_first, ty, &a_from, &b_from);
            let from = e.arith("addi", ty, &start, &wide);
            loaded.push((at, entries.load(e, &source, &from, ty)));
        }
        for (at, entry) in &loaded {
            entries.store(e, &memory, at, "index", entry);
        }
        kernel.barrier();
        let e = &mut kernel.emitter;
        let items = e.int("i32", ITEMS);
        let mine = e.arith("muli", "i32", &number32, &items);
        let zero = e.int("i32", 0);
        let all = e.int("i32", TILE);
        let taken = e.resize(&taken, ty, "i32");
        let rest = e.arith("subi", "i32", &all, &taken);
        let runs = Runs { first: zero, first_length: taken.clone(), second: taken, second_length: rest };
        let merged = merge(e, entries, &memory, &runs, &mine, TILE - 1);
        kernel.barrier();
        store_items(&mut kernel.emitter, entries, &memory, &mine, &merged);
        kernel.barrier();
        let next = if 2 * width >= self.row_entries() { None } else { Some(number + 1) };
        self.leave(&mut kernel, ends, &memory, &tile, &thread, 1, next);
        kernel.keep_resident(RESIDENT);
        kernel.finish()
    }

    /// Takes a sorted tile from workgroup memory to array `next`, or to where the sorted rows go.
    #[expect(clippy::too_many_arguments, reason = "the places of a kernel that two kernels have")]
    fn leave(
        &self,
        kernel: &mut KernelWriter,
        ends: &impl Ends,
        memory: &Place,
        tile: &Value,
        thread: &Value,
        tile_rows: usize,
        next: Option<usize>,
    ) {
        let entries = self.entries;
        let target = next.map(|number| self.array(kernel, number));
        for item in 0..ITEMS {
            let e = &mut kernel.emitter;
            let at = self.at(e, thread, item);
            let entry = entries.load(e, memory, &at, "index");
            if let Some(target) = &target {
                // Tiles of all rows lie one behind the other.
                let size = e.int("index", TILE);
                let start = e.arith("muli", "index", tile, &size);
                let to = e.arith("addi", "index", &start, &at);
                entries.store(e, target, &to, "index", &entry);
                continue;
            }
            let place = self.place(e, tile, &at, tile_rows);
            e.open(format_args!("scf.if {} {{", place.valid));
            ends.write(kernel, &place.row, &place.position, &entry);
            kernel.emitter.close("}");
        }
    }

    /// Entry `item` of a thread, entries of neighbouring threads lying side by side: its place in the tile.
    fn at(&self, e: &mut crate::emit::Emitter, thread: &Value, item: usize) -> Value {
        let shift = e.int("index", item * THREADS);
        e.arith("addi", "index", thread, &shift)
    }

    /// The row and place of a tile's entry.
    fn place(&self, e: &mut crate::emit::Emitter, tile: &Value, at: &Value, tile_rows: usize) -> InRow {
        let ty = "index";
        let (row, position) = if tile_rows > 1 {
            let (run, rows) = (e.int(ty, self.run), e.int(ty, tile_rows));
            let (in_tile, position) = (e.arith("divui", ty, at, &run), e.arith("remui", ty, at, &run));
            let first = e.arith("muli", ty, tile, &rows);
            (e.arith("addi", ty, &first, &in_tile), position)
        } else {
            let (tiles, size) = (e.int(ty, self.row_tiles.max(1)), e.int(ty, TILE));
            let (row, in_row) = (e.arith("divui", ty, tile, &tiles), e.arith("remui", ty, tile, &tiles));
            let first = e.arith("muli", ty, &in_row, &size);
            (row, e.arith("addi", ty, &first, at))
        };
        let (rows, size) = (e.int(ty, self.rows), e.int(ty, self.size));
        let a = e.compare("ult", ty, &row, &rows);
        let b = e.compare("ult", ty, &position, &size);
        InRow { row, position, valid: e.both(&a, &b) }
    }
}

/// Where an entry of a tile is.
struct InRow {
    row: Value,
    position: Value,
    valid: Value,
}

const _: () = assert!(TILE / WARP >= 2);
