//! Sorting rows of entries by digits of their keys, the lowest first: each [pass](pass) distributes the entries
//! of a row stably by one digit. How often each digit occurs is [counted](histogram) for all passes at once.
//!
//! A pass reads and writes every entry once. The tiles of a row learn from each other how many of their
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

/// Entries of a thread, if there are many of up to 8 bytes.
const ITEMS: usize = 16;

/// Entries of a thread otherwise.
const FEW_ITEMS: usize = 8;

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
        let many = rows * size >= 4 * ENOUGH_BLOCKS * THREADS * ITEMS;
        let items = if many && entries.entry_bytes() <= 8 { ITEMS } else { FEW_ITEMS };
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

    /// Bytes of what tiles publish: `[pass][tile][digit]` of words.
    fn published_bytes(&self) -> usize {
        let word = if self.word() == "i32" { 4 } else { 8 };
        word * self.passes() * self.tiles() * DIGITS
    }

    /// Arrays of entries between passes.
    fn arrays(&self) -> usize {
        (self.passes() - 1).min(2)
    }

    /// Bytes of scratch memory.
    pub fn scratch_bytes(&self) -> usize {
        let arrays = self.arrays() * self.entries.array_bytes(self.rows * self.size);
        self.histogram_bytes() + self.published_bytes() + arrays
    }

    /// One of the arrays of entries.
    fn array(&self, kernel: &mut KernelWriter, number: usize) -> Place {
        let entries = self.rows * self.size;
        let offset = self.scratch + self.histogram_bytes() + self.published_bytes();
        let offset = offset + number % 2 * self.entries.array_bytes(entries);
        self.entries.scratch(kernel, offset, entries)
    }

    /// Where the digit of a pass is counted that is the thread's position, for a row.
    fn counted(&self, kernel: &mut KernelWriter, row: &Value, pass: usize, thread: &Value) -> Value {
        let base = kernel.scratch(self.scratch);
        let e = &mut kernel.emitter;
        let (stride, shift) = (e.int("index", self.passes() * DIGITS), e.int("index", pass * DIGITS));
        let at = e.arith("muli", "index", row, &stride);
        let at = e.arith("addi", "index", &at, &shift);
        let at = e.arith("addi", "index", &at, thread);
        kernel.element(&base, GLOBAL, &at, "i32")
    }

    /// The digit of a pass of a key that is [in order](Ends::order), an `i32`.
    fn digit(&self, e: &mut Emitter, key: &Value, pass: usize) -> Value {
        let ty = self.entries.key_type();
        let (shift, mask) = (e.int(ty, pass * DIGIT_BITS), e.int("i32", self.last_digit(pass)));
        let key = e.arith("shrui", ty, key, &shift);
        let key = e.resize(&key, ty, "i32");
        e.arith("andi", "i32", &key, &mask)
    }

    /// Bits of a pass' digit.
    fn digit_bits(&self, pass: usize) -> usize {
        (self.bits - pass * DIGIT_BITS).min(DIGIT_BITS)
    }

    /// The largest digit of a pass.
    fn last_digit(&self, pass: usize) -> usize {
        (1 << self.digit_bits(pass)) - 1
    }

    /// The kernels that sort, with how they are launched.
    pub fn phases(&self, ends: &impl Ends) -> Result<Vec<(String, Phase)>, LoweringError> {
        let phase = |symbol: &str, blocks: [u32; 3]| Phase {
            symbol: symbol.into(),
            grid: blocks,
            block: [THREADS as u32, 1, 1],
            ..Phase::default()
        };
        let mut phases = Vec::new();
        let cleared = (self.histogram_bytes() + self.published_bytes()).div_ceil(ACCESS_BYTES * THREADS);
        phases.push((self.clear(ends, "clear"), phase("clear", grid(cleared)?)));
        let parts = self.parts();
        let counting = grid(self.rows * parts)?;
        phases.push((self.histogram(ends, "histogram", parts), phase("histogram", counting)));
        for pass in 0..self.passes() {
            let symbol = format!("pass{pass}");
            phases.push((self.pass(ends, &symbol, pass), phase(&symbol, grid(self.tiles())?)));
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
        let count = (self.histogram_bytes() + self.published_bytes()) / ACCESS_BYTES;
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
