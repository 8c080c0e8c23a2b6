//! Sorting rows of entries by digits of their keys, the lowest first: each [pass](pass) distributes the entries
//! of a row stably by one digit. How often each digit occurs is [counted](histogram) for all passes at once.
//!
//! A pass reads and writes every entry once. All but the first are launches of one kernel, which knows the number
//! of the pass by the number of tiles taken before. The tiles of a row learn from each other how many of their
//! entries with a digit come before: a tile publishes its own counts, then looks back over those of the tiles
//! before it until one has published the sum up to and including itself. Tiles are taken in the order in which
//! blocks start, so that a block waits only for blocks that run.

mod histogram;
mod pass;

use super::Ends;
use super::entry::{Entries, Place};
use crate::LoweringError;
use crate::emit::{Emitter, Value};
use crate::nvptx::code::Code;
use crate::nvptx::writer::{GLOBAL, KernelWriter};
use crate::nvptx::{ACCESS_BYTES, ENOUGH_BLOCKS, grid};
use burn_mlir_ir::Phase;

/// Bits of a digit.
const DIGIT_BITS: usize = 8;

/// Values of a digit.
const DIGITS: usize = 1 << DIGIT_BITS;

/// Threads of a block: one for each value of a digit.
const THREADS: usize = DIGITS;

/// Entries of a thread, if there are many with keys of 32 bits.
const ITEMS: usize = 16;

/// Entries of a thread otherwise.
const FEW_ITEMS: usize = 8;

/// Bytes of the numbers of tiles taken, by the first pass and by the others.
const TICKET_BYTES: usize = 256;

/// Entries from which on a word of 32 bits cannot hold a count beside its state.
const WIDE_COUNTS: usize = 1 << 30;

/// Passes that sort keys of so many bits.
pub(super) fn passes(bits: usize) -> usize {
    bits.div_ceil(DIGIT_BITS)
}

/// Rows to be sorted.
pub(in crate::nvptx) struct Radix {
    entries: Entries,
    rows: usize,
    size: usize,
    /// Bits of a key that differ.
    bits: usize,
    /// Entries of a thread.
    items: usize,
    /// Where scratch memory begins.
    scratch: usize,
}

impl Radix {
    /// `rows` rows of `size` entries, ordered by the lowest `bits` of their keys; scratch memory is used from
    /// byte `scratch` on.
    pub fn new(entries: Entries, rows: usize, size: usize, bits: usize, scratch: usize) -> Self {
        // Fewer tiles have less to look back over, as long as they are enough for a GPU.
        let many = rows * size >= ENOUGH_BLOCKS / 2 * THREADS * ITEMS;
        let items = if many && entries.key_type() == "i32" { ITEMS } else { FEW_ITEMS };
        Self { entries, rows, size, bits, items, scratch }
    }

    fn passes(&self) -> usize {
        passes(self.bits)
    }

    /// Entries of a block.
    fn tile(&self) -> usize {
        THREADS * self.items
    }

    fn row_tiles(&self) -> usize {
        self.size.div_ceil(self.tile())
    }

    fn tiles(&self) -> usize {
        self.rows * self.row_tiles()
    }

    /// The type of published counts.
    fn word(&self) -> &'static str {
        if self.size < WIDE_COUNTS { "i32" } else { "i64" }
    }

    /// Bytes of the counts of all digits: `[row][pass][digit]` of `i32`.
    fn histogram_bytes(&self) -> usize {
        4 * self.rows * self.passes() * DIGITS
    }

    /// Where what tiles publish begins: `[pass][tile][digit]` of words.
    fn published_offset(&self) -> usize {
        self.scratch + TICKET_BYTES + self.histogram_bytes()
    }

    /// Bytes that are zero before the first pass: tickets, counts and what tiles publish.
    fn cleared_bytes(&self) -> usize {
        let word = if self.word() == "i32" { 4 } else { 8 };
        TICKET_BYTES + self.histogram_bytes() + word * self.passes() * self.tiles() * DIGITS
    }

    /// Bytes of scratch memory.
    pub fn scratch_bytes(&self) -> usize {
        // Between passes, entries are in one of two arrays.
        let arrays = (self.passes() - 1).min(2);
        self.cleared_bytes() + arrays * self.entries.array_bytes(self.rows * self.size)
    }

    /// One of the two arrays of entries, by whether a number (an `i32`) is odd.
    fn array(&self, kernel: &mut KernelWriter, number: &Value) -> Place {
        let entries = self.rows * self.size;
        let place = self.entries.scratch(kernel, self.scratch + self.cleared_bytes(), entries);
        let e = &mut kernel.emitter;
        let (one, bytes) = (e.int("i32", 1), e.int("i64", self.entries.array_bytes(entries)));
        let odd = e.arith("andi", "i32", number, &one);
        let odd = e.resize(&odd, "i32", "i64");
        let shift = e.arith("muli", "i64", &odd, &bytes);
        place.shifted(e, &shift)
    }

    /// Where the digit of a pass (an `index`) is counted that is the thread's position, for a row.
    fn counted(&self, kernel: &mut KernelWriter, row: &Value, pass: &Value, thread: &Value) -> Value {
        let base = kernel.scratch(self.scratch + TICKET_BYTES);
        let e = &mut kernel.emitter;
        let (passes, digits) = (e.int("index", self.passes()), e.int("index", DIGITS));
        let at = e.arith("muli", "index", row, &passes);
        let at = e.arith("addi", "index", &at, pass);
        let at = e.arith("muli", "index", &at, &digits);
        let at = e.arith("addi", "index", &at, thread);
        kernel.element(&base, GLOBAL, &at, "i32")
    }

    /// The digit of a pass (an `i32`) of a key that is [in order](Ends::order), an `i32`. Bits that do not differ
    /// may be in the last one.
    fn digit(&self, e: &mut Emitter, key: &Value, pass: &Value) -> Value {
        let ty = self.entries.key_type();
        let (bits, mask) = (e.int("i32", DIGIT_BITS), e.int("i32", DIGITS - 1));
        let shift = e.arith("muli", "i32", pass, &bits);
        let shift = e.resize(&shift, "i32", ty);
        let key = e.arith("shrui", ty, key, &shift);
        let key = e.resize(&key, ty, "i32");
        e.arith("andi", "i32", &key, &mask)
    }

    /// The kernels that sort, with how they are launched.
    pub fn phases(&self, ends: &impl Ends) -> Result<Vec<(String, Phase)>, LoweringError> {
        let phase = |symbol: &str, blocks: [u32; 3]| Phase {
            symbol: symbol.into(),
            grid: blocks,
            block: [THREADS as u32, 1, 1],
            ..Phase::default()
        };
        let cleared = self.cleared_bytes().div_ceil(ACCESS_BYTES * THREADS);
        let (parts, tiles) = (self.parts(), grid(self.tiles())?);
        let mut phases = vec![
            (self.clear(ends, "clear"), phase("clear", grid(cleared)?)),
            (self.histogram(ends, "histogram", parts), phase("histogram", grid(self.rows * parts)?)),
            (self.pass(ends, "first", true), phase("first", tiles)),
        ];
        for pass in 1..self.passes() {
            // One kernel for all of them.
            let text = if pass == 1 { self.pass(ends, "next", false) } else { String::new() };
            phases.push((text, phase("next", tiles)));
        }
        Ok(phases)
    }

    /// Sets counts and what is published to zero.
    fn clear(&self, ends: &impl Ends, symbol: &str) -> String {
        let ty = "index";
        let mut kernel = ends.open(symbol);
        let (block, thread) = (kernel.block('x'), kernel.thread());
        let base = kernel.scratch(self.scratch);
        let e = &mut kernel.emitter;
        let threads = e.int(ty, THREADS);
        let count = self.cleared_bytes() / ACCESS_BYTES;
        let first = e.arith("muli", ty, &block, &threads);
        let at = e.arith("addi", ty, &first, &thread);
        let limit = e.int(ty, count);
        let inside = e.compare("ult", ty, &at, &limit);
        e.open(format_args!("scf.if {inside} {{"));
        let zeros = e.op("arith.constant dense<0> : vector<4xi32>");
        let at = kernel.element(&base, GLOBAL, &at, "vector<4xi32>");
        let e = &mut kernel.emitter;
        e.line(format_args!("llvm.store {zeros}, {at} {{alignment = 16 : i64}} : vector<4xi32>, {GLOBAL}"));
        e.close("}");
        kernel.finish()
    }
}
