//! The distribution of a row's entries by one digit.

use super::super::entry::{Entry, Place};
use super::{DIGIT_BITS, DIGITS, Ends, FEW_ITEMS, Radix, THREADS};
use crate::emit::{Emitter, Value};
use crate::nvptx::WARP;
use crate::nvptx::code::Code;
use crate::nvptx::shuffle::{Shuffle, shuffle};
use crate::nvptx::writer::{GLOBAL, KernelWriter, WORKGROUP};

/// Warps of a block.
const WARPS: usize = THREADS / WARP;

/// Tiles whose counts a thread reads at once when it looks back.
const WINDOW: usize = 8;

/// Memory of a block, and where a thread is in it.
struct Tile {
    /// Position in the block, an `i32`.
    thread: Value,
    warp: Value,
    lane: Value,
    /// Counts `[warp][digit]`.
    counters: Value,
    /// A value of each warp, twice.
    sums: Value,
    /// What to add to an entry's place in the sorted tile for its place in the row, for each digit.
    bases: Value,
    entries: Place,
    /// Number of the tile among all, in its row, and the row's, each an `index`.
    number: Value,
    in_row: Value,
    row: Value,
    /// Number of the pass, an `i32`.
    pass: Value,
    /// Whether it is the first one.
    first: bool,
    /// Entries of the tile, an `i32`; all but the last of a row are full.
    valid: Value,
}

/// An entry of a thread.
struct Item {
    entry: Entry,
    digit: Value,
    /// Entries of the warp's same step and digit in lanes before.
    before: Value,
    /// Entries of the warp's same step and digit.
    all: Value,
}

impl Radix {
    /// Distributes by the digit of the first pass or of the others.
    pub(super) fn pass(&self, ends: &impl Ends, symbol: &str, first: bool) -> String {
        let mut kernel = ends.open(symbol);
        let tile = self.take(&mut kernel, first);
        let items: Vec<Item> = (0..self.items)
            .map(|item| self.read(&mut kernel, ends, &tile, item))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|(entry, digit)| matched(&mut kernel.emitter, &tile, entry, digit))
            .collect();
        let ranks = self.rank(&mut kernel, &tile, &items);
        kernel.barrier();
        let e = &mut kernel.emitter;
        let (counts, total) = column(e, &tile);
        let aggregate = self.published(&mut kernel, &tile, None);
        self.publish(&mut kernel, &tile, &aggregate, &total);
        let number = kernel.thread();
        let pass = kernel.emitter.resize(&tile.pass, "i32", "index");
        let from = self.counted(&mut kernel, &tile.row, &pass, &number);
        let e = &mut kernel.emitter;
        let in_all = e.op(format_args!("llvm.load {from} : {GLOBAL} -> i32"));
        let [in_tile, start] = before_threads(&mut kernel, &tile, [&total, &in_all]);
        let e = &mut kernel.emitter;
        for (warp, count) in counts.iter().enumerate() {
            let count = e.arith("addi", "i32", count, &in_tile);
            let shift = e.int("i32", warp * DIGITS);
            let at = e.arith("addi", "i32", &tile.thread, &shift);
            store(e, &tile.counters, &at, &count);
        }
        kernel.barrier();
        let e = &mut kernel.emitter;
        for (item, rank) in items.iter().zip(&ranks) {
            let at = tile.counter(e, &item.digit);
            let first = load(e, &tile.counters, &at);
            let to = e.arith("addi", "i32", &first, rank);
            self.entries.store(e, &tile.entries, &to, "i32", &item.entry);
        }
        let earlier = self.look_back(&mut kernel, &tile, &aggregate, &total);
        let e = &mut kernel.emitter;
        let base = e.arith("addi", "i32", &start, &earlier);
        let base = e.arith("subi", "i32", &base, &in_tile);
        store(e, &tile.bases, &tile.thread, &base);
        kernel.barrier();
        self.leave(&mut kernel, ends, &tile);
        // As many as have registers for what they keep.
        let is_small = self.entries.key_type() == "i32" && self.passes() > 1;
        kernel.keep_resident(if self.items > FEW_ITEMS {
            2
        } else if is_small {
            4
        } else {
            3
        });
        kernel.finish()
    }

    /// Takes the next tile of the pass; clears the block's counts.
    fn take(&self, kernel: &mut KernelWriter, first: bool) -> Tile {
        let ty = "index";
        let position = kernel.thread();
        let counters = kernel.workgroup(4 * WARPS * DIGITS);
        let sums = kernel.workgroup(4 * 2 * WARPS);
        let bases = kernel.workgroup(4 * DIGITS);
        let taken = kernel.workgroup(4);
        let entries = self.entries.workgroup(kernel, self.tile());
        let tickets = kernel.scratch(self.scratch + if first { 0 } else { 4 });
        let e = &mut kernel.emitter;
        let thread = e.resize(&position, ty, "i32");
        let (zero, one) = (e.int("i32", 0), e.int("i32", 1));
        let leads = e.compare("eq", "i32", &thread, &zero);
        e.open(format_args!("scf.if {leads} {{"));
        let ticket = e.op(format_args!(
            "llvm.atomicrmw add {tickets}, {one} syncscope(\"device\") monotonic : {GLOBAL}, i32"
        ));
        e.line(format_args!("llvm.store {ticket}, {taken} : i32, {WORKGROUP}"));
        e.close("}");
        for warp in 0..WARPS {
            let shift = e.int("i32", warp * DIGITS);
            let at = e.arith("addi", "i32", &thread, &shift);
            store(e, &counters, &at, &zero);
        }
        kernel.barrier();
        let e = &mut kernel.emitter;
        let ticket = e.op(format_args!("llvm.load {taken} : {WORKGROUP} -> i32"));
        let (pass, ticket) = if first || self.passes() == 2 {
            (e.int("i32", usize::from(!first)), ticket)
        } else {
            let tiles = e.int("i32", self.tiles());
            let earlier = e.arith("divui", "i32", &ticket, &tiles);
            (e.arith("addi", "i32", &earlier, &one), e.arith("remui", "i32", &ticket, &tiles))
        };
        let number = e.resize(&ticket, "i32", ty);
        let row_tiles = e.int(ty, self.row_tiles());
        let row = e.arith("divui", ty, &number, &row_tiles);
        let in_row = e.arith("remui", ty, &number, &row_tiles);
        let (length, size) = (e.int(ty, self.tile()), e.int(ty, self.size));
        let from = e.arith("muli", ty, &in_row, &length);
        let left = e.arith("subi", ty, &size, &from);
        let valid = e.arith("minui", ty, &left, &length);
        let valid = e.resize(&valid, ty, "i32");
        let (bits, mask) = (e.int("i32", 5), e.int("i32", WARP - 1));
        let warp = e.arith("shrui", "i32", &thread, &bits);
        let lane = e.arith("andi", "i32", &thread, &mask);
        Tile { thread, warp, lane, counters, sums, bases, entries, number, in_row, row, pass, first, valid }
    }

    /// Entry `item` of a thread with its digit. A warp has consecutive entries, neighbouring lanes neighbouring
    /// ones. An entry that is none comes behind the others of its tile.
    fn read(&self, kernel: &mut KernelWriter, ends: &impl Ends, tile: &Tile, item: usize) -> (Entry, Value) {
        let (ty, index) = ("i32", "index");
        let e = &mut kernel.emitter;
        let (stride, shift) = (e.int(ty, WARP * self.items), e.int(ty, item * WARP));
        let first = e.arith("muli", ty, &tile.warp, &stride);
        let at = e.arith("addi", ty, &first, &tile.lane);
        let at = e.arith("addi", ty, &at, &shift);
        let inside = e.compare("ult", ty, &at, &tile.valid);
        let one = e.int(ty, 1);
        let last = e.arith("subi", ty, &tile.valid, &one);
        let at = e.arith("minui", ty, &at, &last);
        let at = e.resize(&at, ty, index);
        let length = e.int(index, self.tile());
        let from = e.arith("muli", index, &tile.in_row, &length);
        let place = e.arith("addi", index, &from, &at);
        let entry = if tile.first {
            ends.read(kernel, &tile.row, &place)
        } else {
            let before = kernel.emitter.arith("subi", ty, &tile.pass, &one);
            let source = self.array(kernel, &before);
            let at = self.in_array(&mut kernel.emitter, tile, &place);
            self.entries.load(&mut kernel.emitter, &source, &at, index)
        };
        let e = &mut kernel.emitter;
        let digit = self.digit_of(e, ends, &entry, tile);
        let behind = e.int(ty, DIGITS - 1);
        let digit = e.choose(&inside, ty, &digit, &behind);
        (entry, digit)
    }

    fn digit_of(&self, e: &mut Emitter, ends: &impl Ends, entry: &Entry, tile: &Tile) -> Value {
        let key = self.entries.key(e, entry);
        let key = ends.order(e, &key);
        self.digit(e, &key, &tile.pass)
    }

    /// Where the entry at a place of the tile's row is in an array.
    fn in_array(&self, e: &mut Emitter, tile: &Tile, place: &Value) -> Value {
        let size = e.int("index", self.size);
        let first = e.arith("muli", "index", &tile.row, &size);
        e.arith("addi", "index", &first, place)
    }

    /// The number of entries of the warp with an item's digit that come before it; leaves their counts.
    fn rank(&self, kernel: &mut KernelWriter, tile: &Tile, items: &[Item]) -> Vec<Value> {
        let ty = "i32";
        let e = &mut kernel.emitter;
        let (zero, all) = (e.int(ty, 0), e.int(ty, -1));
        let mut ranks = Vec::new();
        for item in items {
            let at = tile.counter(e, &item.digit);
            let before = load(e, &tile.counters, &at);
            let after = e.arith("addi", ty, &before, &item.all);
            let leads = e.compare("eq", ty, &item.before, &zero);
            // All lanes have read when the first of those with a digit writes.
            e.line(format_args!("nvvm.bar.warp.sync {all} : i32"));
            e.open(format_args!("scf.if {leads} {{"));
            store(e, &tile.counters, &at, &after);
            e.close("}");
            e.line(format_args!("nvvm.bar.warp.sync {all} : i32"));
            ranks.push(e.arith("addi", ty, &before, &item.before));
        }
        ranks
    }

    /// Where a tile publishes the count of the thread's digit: this one, or number `at` (an `i32`) of the row.
    fn published(&self, kernel: &mut KernelWriter, tile: &Tile, at: Option<&Value>) -> Value {
        let ty = "index";
        let base = kernel.scratch(self.published_offset());
        let e = &mut kernel.emitter;
        let number = match at {
            None => tile.number.clone(),
            Some(at) => {
                let row_tiles = e.int(ty, self.row_tiles());
                let first = e.arith("muli", ty, &tile.row, &row_tiles);
                let at = e.resize(at, "i32", ty);
                e.arith("addi", ty, &first, &at)
            }
        };
        let (tiles, digits) = (e.int(ty, self.tiles()), e.int(ty, DIGITS));
        let pass = e.resize(&tile.pass, "i32", ty);
        let first = e.arith("muli", ty, &pass, &tiles);
        let number = e.arith("addi", ty, &first, &number);
        let first = e.arith("muli", ty, &number, &digits);
        let digit = e.resize(&tile.thread, "i32", ty);
        let at = e.arith("addi", ty, &first, &digit);
        kernel.element(&base, GLOBAL, &at, self.word())
    }

    /// Publishes the tile's own count; for the first tile of a row it is the sum as well.
    fn publish(&self, kernel: &mut KernelWriter, tile: &Tile, to: &Value, count: &Value) {
        let e = &mut kernel.emitter;
        let zero = e.int("index", 0);
        let first = e.compare("eq", "index", &tile.in_row, &zero);
        let (own, sum) = (self.state(e, OWN), self.state(e, SUM));
        let state = e.choose(&first, self.word(), &sum, &own);
        self.store_word(e, to, count, &state);
    }

    /// A state in the two highest bits of a word.
    fn state(&self, e: &mut Emitter, state: i64) -> Value {
        let unused = if self.word() == "i32" { 32 } else { 0 };
        e.int(self.word(), (state << 62) >> unused)
    }

    fn store_word(&self, e: &mut Emitter, to: &Value, count: &Value, state: &Value) {
        let (word, bytes) = (self.word(), if self.word() == "i32" { 4 } else { 8 });
        let count = e.resize(count, "i32", word);
        let value = e.arith("ori", word, &count, state);
        e.line(format_args!(
            "llvm.store {value}, {to} atomic syncscope(\"device\") monotonic {{alignment = {bytes} : i64}} : {word}, {GLOBAL}"
        ));
    }

    /// The number of entries with the thread's digit in the tiles of the row before this one, which becomes the
    /// sum that this tile publishes.
    fn look_back(&self, kernel: &mut KernelWriter, tile: &Tile, aggregate: &Value, total: &Value) -> Value {
        let (ty, word) = ("i32", self.word());
        let bytes = if word == "i32" { 4 } else { 8 };
        let e = &mut kernel.emitter;
        let (zero, one) = (e.int(ty, 0), e.int(ty, 1));
        let in_row = e.resize(&tile.in_row, "index", ty);
        let has_earlier = e.compare("ne", ty, &in_row, &zero);
        let start = e.arith("subi", ty, &in_row, &one);
        let names = (e.fresh(), [e.fresh(), e.fresh(), e.fresh()], [e.fresh(), e.fresh(), e.fresh()]);
        let (results, before, inside) = &names;
        let types = "i32, i32, i1";
        e.open(format_args!(
            "{results}:3 = scf.while ({} = {start}, {} = {zero}, {} = {has_earlier}) : ({types}) -> ({types}) {{",
            before[0], before[1], before[2]
        ));
        e.line(format_args!(
            "scf.condition({}) {}, {}, {} : {types}",
            before[2], before[0], before[1], before[2]
        ));
        e.close("} do {");
        e.open(format_args!("^bb0({}: i32, {}: i32, {}: i1):", inside[0], inside[1], inside[2]));
        let mut words = Vec::new();
        for back in 0..WINDOW {
            let e = &mut kernel.emitter;
            let back = e.int(ty, back);
            // The first tile of a row ends the search: what is read instead of tiles before it is not used.
            let at = e.arith("subi", ty, &inside[0], &back);
            let at = e.arith("maxsi", ty, &at, &zero);
            let from = self.published(kernel, tile, Some(&at));
            words.push(kernel.emitter.op(format_args!(
                "llvm.load {from} atomic syncscope(\"device\") monotonic {{alignment = {bytes} : i64}} : {GLOBAL} -> {word}"
            )));
        }
        let e = &mut kernel.emitter;
        let (none, count_bits) = (e.int(word, 0), e.int(word, (1u64 << (8 * bytes - 2)) - 1));
        let (mut at, mut sum) = (inside[0].clone(), inside[1].clone());
        let mut goes_on = e.op("arith.constant true");
        let mut found = e.op("arith.constant false");
        for value in words {
            let is_there = e.compare("ne", word, &value, &none);
            let is_there = e.both(&goes_on, &is_there);
            // The state of a sum is the sign.
            let is_sum = e.compare("slt", word, &value, &none);
            let is_sum = e.both(&is_sum, &is_there);
            let count = e.arith("andi", word, &value, &count_bits);
            let count = e.resize(&count, word, ty);
            let count = e.choose(&is_there, ty, &count, &zero);
            sum = e.arith("addi", ty, &sum, &count);
            let step = e.choose(&is_there, ty, &one, &zero);
            at = e.arith("subi", ty, &at, &step);
            found = e.arith("ori", "i1", &found, &is_sum);
            let ends = e.not(&is_sum);
            goes_on = e.both(&is_there, &ends);
        }
        let more = e.not(&found);
        e.line(format_args!("scf.yield {at}, {sum}, {more} : {types}"));
        e.close("}");
        let earlier = format!("{results}#1");
        e.open(format_args!("scf.if {has_earlier} {{"));
        let all = e.arith("addi", ty, &earlier, total);
        let state = self.state(e, SUM);
        self.store_word(e, aggregate, &all, &state);
        e.close("}");
        earlier
    }

    /// Takes the tile's entries, sorted by the digit, to their places in the row.
    fn leave(&self, kernel: &mut KernelWriter, ends: &impl Ends, tile: &Tile) {
        match (tile.first, self.passes()) {
            (true, 1) | (false, 2) => self.leave_in(kernel, ends, tile, true),
            (true, _) => self.leave_in(kernel, ends, tile, false),
            (false, passes) => {
                let e = &mut kernel.emitter;
                let last = e.int("i32", passes - 1);
                let is_last = e.compare("eq", "i32", &tile.pass, &last);
                e.open(format_args!("scf.if {is_last} {{"));
                self.leave_in(kernel, ends, tile, true);
                kernel.emitter.close("} else {");
                kernel.emitter.open("// to where the next pass reads");
                self.leave_in(kernel, ends, tile, false);
                kernel.emitter.close("}");
            }
        }
    }

    /// Takes them to where the sorted rows go if this is the `last` pass, else to an array.
    fn leave_in(&self, kernel: &mut KernelWriter, ends: &impl Ends, tile: &Tile, last: bool) {
        let ty = "i32";
        let target = (!last).then(|| self.array(kernel, &tile.pass));
        for item in 0..self.items {
            let e = &mut kernel.emitter;
            let shift = e.int(ty, item * THREADS);
            let at = e.arith("addi", ty, &tile.thread, &shift);
            let inside = e.compare("ult", ty, &at, &tile.valid);
            e.open(format_args!("scf.if {inside} {{"));
            let entry = self.entries.load(e, &tile.entries, &at, ty);
            let digit = self.digit_of(e, ends, &entry, tile);
            let base = load(e, &tile.bases, &digit);
            let place = e.arith("addi", ty, &base, &at);
            let place = e.resize(&place, ty, "index");
            match &target {
                Some(target) => {
                    let to = self.in_array(e, tile, &place);
                    self.entries.store(e, target, &to, "index", &entry);
                }
                None => ends.write(kernel, &tile.row, &place, &entry),
            }
            kernel.emitter.close("}");
        }
    }
}

/// State of a word that holds a tile's own count.
const OWN: i64 = 1;
/// State of a word that holds the sum up to a tile; what sets the sign.
const SUM: i64 = 2;

impl Tile {
    /// Where the warp counts a digit.
    fn counter(&self, e: &mut Emitter, digit: &Value) -> Value {
        let digits = e.int("i32", DIGITS);
        let first = e.arith("muli", "i32", &self.warp, &digits);
        e.arith("addi", "i32", &first, digit)
    }
}

/// Finds the lanes that have the same digit.
fn matched(e: &mut Emitter, tile: &Tile, entry: Entry, digit: Value) -> Item {
    let ty = "i32";
    let (all, zero, one) = (e.int(ty, -1), e.int(ty, 0), e.int(ty, 1));
    let mut same = all.clone();
    for bit in 0..DIGIT_BITS {
        let mask = e.int(ty, 1 << bit);
        let part = e.arith("andi", ty, &digit, &mask);
        let is_set = e.compare("ne", ty, &part, &zero);
        let votes = e.op(format_args!("nvvm.vote.sync ballot {all}, {is_set} -> i32"));
        let others = e.choose(&is_set, ty, &zero, &all);
        let votes = e.arith("xori", ty, &votes, &others);
        same = e.arith("andi", ty, &same, &votes);
    }
    let own = e.arith("shli", ty, &one, &tile.lane);
    let lower = e.arith("subi", ty, &own, &one);
    let lower = e.arith("andi", ty, &same, &lower);
    let before = e.op(format_args!("math.ctpop {lower} : i32"));
    let all = e.op(format_args!("math.ctpop {same} : i32"));
    Item { entry, digit, before, all }
}

/// For the digit that is the thread's position, what the warps before each warp count, and what all do.
fn column(e: &mut Emitter, tile: &Tile) -> (Vec<Value>, Value) {
    let counts: Vec<Value> = (0..WARPS)
        .map(|warp| {
            let shift = e.int("i32", warp * DIGITS);
            let at = e.arith("addi", "i32", &tile.thread, &shift);
            load(e, &tile.counters, &at)
        })
        .collect();
    let mut sum = e.int("i32", 0);
    let mut before = Vec::new();
    for count in counts {
        before.push(sum.clone());
        sum = e.arith("addi", "i32", &sum, &count);
    }
    (before, sum)
}

/// The sums of two values over the threads of the block before this one.
fn before_threads(kernel: &mut KernelWriter, tile: &Tile, values: [&Value; 2]) -> [Value; 2] {
    let ty = "i32";
    let e = &mut kernel.emitter;
    let last = e.int(ty, WARP - 1);
    let is_last = e.compare("eq", ty, &tile.lane, &last);
    let mut before = Vec::new();
    for (number, value) in values.into_iter().enumerate() {
        let mut sum = value.clone();
        let mut distance = 1;
        while distance < WARP {
            let other = shuffle(e, &sum, ty, Shuffle::Up(distance, WARP));
            let far = e.int(ty, distance);
            let exists = e.compare("uge", ty, &tile.lane, &far);
            let both = e.arith("addi", ty, &other, &sum);
            sum = e.choose(&exists, ty, &both, &sum);
            distance *= 2;
        }
        let shift = e.int(ty, number * WARPS);
        let at = e.arith("addi", ty, &tile.warp, &shift);
        e.open(format_args!("scf.if {is_last} {{"));
        store(e, &tile.sums, &at, &sum);
        e.close("}");
        before.push(e.arith("subi", ty, &sum, value));
    }
    kernel.barrier();
    let e = &mut kernel.emitter;
    let zero = e.int(ty, 0);
    [0, 1].map(|number: usize| {
        let mut sum = before[number].clone();
        for warp in 0..WARPS - 1 {
            let at = e.int(ty, number * WARPS + warp);
            let other = load(e, &tile.sums, &at);
            let warp = e.int(ty, warp);
            let is_before = e.compare("ult", ty, &warp, &tile.warp);
            let other = e.choose(&is_before, ty, &other, &zero);
            sum = e.arith("addi", ty, &sum, &other);
        }
        sum
    })
}

fn load(e: &mut Emitter, base: &Value, at: &Value) -> Value {
    let at = e.op(format_args!("llvm.getelementptr {base}[{at}] : ({WORKGROUP}, i32) -> {WORKGROUP}, i32"));
    e.op(format_args!("llvm.load {at} : {WORKGROUP} -> i32"))
}

fn store(e: &mut Emitter, base: &Value, at: &Value, value: &Value) {
    let at = e.op(format_args!("llvm.getelementptr {base}[{at}] : ({WORKGROUP}, i32) -> {WORKGROUP}, i32"));
    e.line(format_args!("llvm.store {value}, {at} : i32, {WORKGROUP}"));
}
