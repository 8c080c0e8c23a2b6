//! Merging two sorted runs: the merge path.
//!
//! Element `d` of the merged run is found without merging what is before it: it has some `i` elements of
//! the first run and `d - i` of the second before it, and a binary search finds `i`.

use super::entry::{Entries, Entry, Place};
use crate::emit::{Emitter, Value};
use crate::host::tiles::{Carried, open_carrying_for};
use crate::nvptx::code::Code;
use crate::nvptx::writer::KernelWriter;

/// Entries a thread sorts or merges.
pub(super) const ITEMS: usize = 8;

/// Two runs in one array, positions and lengths of type `i32`.
pub(super) struct Runs {
    pub first: Value,
    pub first_length: Value,
    pub second: Value,
    pub second_length: Value,
}

/// A thread's [`ITEMS`] entries of the merged run from `diagonal` on; `limit` is the last entry of the array.
pub(super) fn merge(
    e: &mut Emitter,
    entries: Entries,
    place: &Place,
    runs: &Runs,
    diagonal: &Value,
    limit: usize,
) -> Vec<Entry> {
    let ty = "i32";
    let one = e.int(ty, 1);
    let zero = e.int(ty, 0);
    let low = e.arith("subi", ty, diagonal, &runs.second_length);
    let low = e.arith("maxsi", ty, &low, &zero);
    let high = e.arith("minsi", ty, diagonal, &runs.first_length);
    let found = e.repeat(
        &[(low, ty), (high, ty)],
        |e, range| e.compare("slt", ty, &range[0], &range[1]),
        |e, range| {
            let sum = e.arith("addi", ty, &range[0], &range[1]);
            let middle = e.arith("shrui", ty, &sum, &one);
            let a = e.arith("addi", ty, &runs.first, &middle);
            let b = e.arith("addi", ty, &runs.second, diagonal);
            let b = e.arith("subi", ty, &b, &middle);
            let b = e.arith("subi", ty, &b, &one);
            let (a, b) = (entries.load(e, place, &a, ty), entries.load(e, place, &b, ty));
            let second_first = entries.precedes(e, &b, &a);
            let next = e.arith("addi", ty, &middle, &one);
            let low = e.choose(&second_first, ty, &range[0], &next);
            vec![low, e.choose(&second_first, ty, &middle, &range[1])]
        },
    );
    let second = e.arith("subi", ty, diagonal, &found[0]);
    let mut a_at = e.arith("addi", ty, &runs.first, &found[0]);
    let mut b_at = e.arith("addi", ty, &runs.second, &second);
    let a_end = e.arith("addi", ty, &runs.first, &runs.first_length);
    let b_end = e.arith("addi", ty, &runs.second, &runs.second_length);
    let last = e.int(ty, limit);
    let read = |e: &mut Emitter, at: &Value| {
        let at = e.arith("minsi", ty, at, &last);
        entries.load(e, place, &at, ty)
    };
    let (mut a, mut b) = (read(e, &a_at), read(e, &b_at));
    let mut merged = Vec::new();
    for item in 0..ITEMS {
        let second_first = entries.precedes(e, &b, &a);
        let a_left = e.compare("slt", ty, &a_at, &a_end);
        let b_left = e.compare("slt", ty, &b_at, &b_end);
        let b_wins = e.both(&second_first, &b_left);
        let a_gone = e.not(&a_left);
        let take_b = e.arith("ori", "i1", &b_wins, &a_gone);
        merged.push(entries.choose(e, &take_b, &b, &a));
        if item + 1 < ITEMS {
            let (a_next, b_next) = (e.arith("addi", ty, &a_at, &one), e.arith("addi", ty, &b_at, &one));
            let at = e.choose(&take_b, ty, &b_next, &a_next);
            a_at = e.choose(&take_b, ty, &a_at, &a_next);
            b_at = e.choose(&take_b, ty, &b_next, &b_at);
            let next = read(e, &at);
            a = entries.choose(e, &take_b, &a, &next);
            b = entries.choose(e, &take_b, &next, &b);
        }
    }
    merged
}

/// How many entries of the first run are before position `diagonal` of the merged one, found by a whole warp;
/// positions and lengths are of type `i64`.
pub(super) fn split(
    kernel: &mut KernelWriter,
    entries: Entries,
    place: &Place,
    first: (&Value, &Value),
    second: (&Value, &Value),
    diagonal: &Value,
    lane: &Value,
) -> Value {
    let ty = "i64";
    let e = &mut kernel.emitter;
    let (zero, one, last_lane) = (e.int(ty, 0), e.int(ty, 1), e.int(ty, 31));
    let bits = e.int(ty, 5);
    let low = e.arith("subi", ty, diagonal, second.1);
    let low = e.arith("maxsi", ty, &low, &zero);
    let high = e.arith("minsi", ty, diagonal, first.1);
    let found = e.repeat(
        &[(low, ty), (high, ty)],
        |e, range| e.compare("slt", ty, &range[0], &range[1]),
        |e, range| {
            // Each lane looks at one of 32 places.
            let span = e.arith("subi", ty, &range[1], &range[0]);
            let span = e.arith("addi", ty, &span, &last_lane);
            let step = e.arith("shrui", ty, &span, &bits);
            let shift = e.arith("muli", ty, lane, &step);
            let probe = e.arith("addi", ty, &range[0], &shift);
            let inside = e.compare("slt", ty, &probe, &range[1]);
            let end = e.arith("subi", ty, &range[1], &one);
            let probe = e.arith("minsi", ty, &probe, &end);
            let a = e.arith("addi", ty, first.0, &probe);
            let b = e.arith("addi", ty, second.0, diagonal);
            let b = e.arith("subi", ty, &b, &probe);
            let b = e.arith("subi", ty, &b, &one);
            let (a, b) = (entries.load(e, place, &a, ty), entries.load(e, place, &b, ty));
            let second_first = entries.precedes(e, &b, &a);
            let before = e.not(&second_first);
            let before = e.both(&before, &inside);
            let all = e.int("i32", -1);
            let votes = e.op(format_args!("nvvm.vote.sync ballot {all}, {before} -> i32"));
            let count = e.op(format_args!("math.ctpop {votes} : i32"));
            let count = e.resize(&count, "i32", ty);
            let none = e.compare("eq", ty, &count, &zero);
            let known = e.arith("subi", ty, &count, &one);
            let known = e.arith("muli", ty, &known, &step);
            let known = e.arith("addi", ty, &known, &one);
            let low = e.arith("addi", ty, &range[0], &known);
            let low = e.choose(&none, ty, &range[0], &low);
            let reach = e.arith("muli", ty, &count, &step);
            let high = e.arith("addi", ty, &range[0], &reach);
            vec![low, e.arith("minsi", ty, &high, &range[1])]
        },
    );
    found[0].clone()
}

/// Sorts a thread's entries: a network of odd-even transpositions.
pub(super) fn sort_items(e: &mut Emitter, entries: Entries, items: &mut [Entry]) {
    for round in 0..items.len() {
        for low in (round % 2..items.len() - 1).step_by(2) {
            let swap = entries.precedes(e, &items[low + 1], &items[low]);
            let first = entries.choose(e, &swap, &items[low + 1], &items[low]);
            let second = entries.choose(e, &swap, &items[low], &items[low + 1]);
            (items[low], items[low + 1]) = (first, second);
        }
    }
}

/// Merges sorted runs of [`ITEMS`] entries, one a thread, to runs of `width` (`ITEMS` times a power of two).
pub(super) fn merge_tile(
    kernel: &mut KernelWriter,
    entries: Entries,
    place: &Place,
    thread: &Value,
    tile: usize,
    width: usize,
) {
    let ty = "i32";
    let rounds = (width / ITEMS).trailing_zeros();
    if rounds == 0 {
        return;
    }
    let e = &mut kernel.emitter;
    let (zero, end) = (e.int("index", 0), e.int("index", rounds));
    let (one, items) = (e.int(ty, 1), e.int(ty, ITEMS));
    let mine = e.arith("muli", ty, thread, &items);
    let none: [Carried; 0] = [];
    let round = open_carrying_for(e, &zero, &end, 1, &none);
    let number = e.resize(&round.variable, "index", ty);
    let length = e.arith("shli", ty, &items, &number);
    let pair = e.arith("shli", ty, &length, &one);
    let inside = e.arith("subi", ty, &pair, &one);
    let diagonal = e.arith("andi", ty, &mine, &inside);
    let first = e.arith("subi", ty, &mine, &diagonal);
    let second = e.arith("addi", ty, &first, &length);
    let runs = Runs { first, first_length: length.clone(), second, second_length: length };
    let merged = merge(e, entries, place, &runs, &diagonal, tile - 1);
    kernel.barrier();
    store_items(&mut kernel.emitter, entries, place, &mine, &merged);
    kernel.barrier();
    round.close(&mut kernel.emitter, &none);
}

/// Stores a thread's entries one behind the other.
pub(super) fn store_items(e: &mut Emitter, entries: Entries, place: &Place, from: &Value, items: &[Entry]) {
    for (item, entry) in items.iter().enumerate() {
        let shift = e.int("i32", item);
        let at = e.arith("addi", "i32", from, &shift);
        entries.store(e, place, &at, "i32", entry);
    }
}
