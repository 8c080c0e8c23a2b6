//! What a warp multiplies: parts of 16 rows (or columns) and 32 bytes of the sum, from workgroup memory.

use super::super::asm::{load_matrices, load_word, to_tf32, with_word, words};
use super::super::reading::CHUNK_BYTES;
use super::element::Element;
use super::layout::permutation;
use super::tile::Tile;
use crate::emit::{Emitter, Value};

/// Rows or columns of a fragment.
pub(super) const POINTS: usize = 16;

/// Chunks of the sum in a fragment.
const STEP_CHUNKS: usize = 2;

/// How a warp's lanes read their side's fragments.
pub(super) struct Fragments {
    element: Element,
    along_sum: bool,
    row_bytes: usize,
    /// Addresses for each step of the sum if rows run along it, for each fragment if not; an `i32` each. Four a
    /// fragment's halves where words are read.
    addresses: Vec<Value>,
}

impl Fragments {
    /// Of the warp number `warp` along side `side`, in a slice at `memory`.
    pub fn new(
        e: &mut Emitter,
        tile: &Tile,
        element: Element,
        (side, along_sum): (usize, bool),
        [lane, warp, memory]: [&Value; 3],
    ) -> Self {
        let row_chunks = tile.row_chunks(side, along_sum);
        let row_bytes = row_chunks * CHUNK_BYTES;
        let points = tile.sides[side].warp();
        let first = with_word(e, "arith.muli", warp, points);
        let mut fragments = Self { element, along_sum, row_bytes, addresses: Vec::new() };
        let half = with_word(e, "arith.shrui", lane, 4);
        if along_sum {
            // Lanes 0 to 15 have a row each of the first chunk, the others of the second.
            let row = with_word(e, "arith.andi", lane, 15);
            let swap = permutation(e, &row, row_chunks, true, element);
            let row = words(e, "arith.addi", &first, &row);
            let row = with_word(e, "arith.muli", &row, row_bytes);
            let row = words(e, "arith.addi", memory, &row);
            for step in 0..row_chunks / STEP_CHUNKS {
                let chunk = with_word(e, "arith.addi", &half, step * STEP_CHUNKS);
                let chunk = words(e, "arith.xori", &chunk, &swap);
                let chunk = with_word(e, "arith.muli", &chunk, CHUNK_BYTES);
                fragments.addresses.push(words(e, "arith.addi", &row, &chunk));
            }
            return fragments;
        }
        let first = with_word(e, "arith.divui", &first, element.chunk());
        if element == Element::Tf32 {
            // A lane has one summed point of four, and one column of eight: two chunks of four.
            let row = with_word(e, "arith.andi", lane, 3);
            let column = with_word(e, "arith.shrui", lane, 2);
            let swap = permutation(e, &row, row_chunks, false, element);
            let within = with_word(e, "arith.andi", &column, 3);
            let within = with_word(e, "arith.muli", &within, element.bytes());
            let row = with_word(e, "arith.muli", &row, row_bytes);
            let row = words(e, "arith.addi", memory, &row);
            let row = words(e, "arith.addi", &row, &within);
            let column = with_word(e, "arith.shrui", &column, 2);
            let column = words(e, "arith.addi", &first, &column);
            for eight in 0..points / 8 {
                let chunk = with_word(e, "arith.addi", &column, eight * 2);
                let chunk = words(e, "arith.xori", &chunk, &swap);
                let chunk = with_word(e, "arith.muli", &chunk, CHUNK_BYTES);
                fragments.addresses.push(words(e, "arith.addi", &row, &chunk));
            }
            return fragments;
        }
        // Lanes have a summed point each, for eight of them in turn: the first and the second chunk, then the
        // same eight points on.
        let row = with_word(e, "arith.andi", lane, 7);
        let swap = permutation(e, &row, row_chunks, false, element);
        let eight = with_word(e, "arith.muli", &half, 8);
        let row = words(e, "arith.addi", &row, &eight);
        let row = with_word(e, "arith.muli", &row, row_bytes);
        let row = words(e, "arith.addi", memory, &row);
        let second = with_word(e, "arith.shrui", lane, 3);
        let second = with_word(e, "arith.andi", &second, 1);
        let column = words(e, "arith.addi", &first, &second);
        for fragment in 0..points / POINTS {
            let chunk = with_word(e, "arith.addi", &column, fragment * POINTS / element.chunk());
            let chunk = words(e, "arith.xori", &chunk, &swap);
            let chunk = with_word(e, "arith.muli", &chunk, CHUNK_BYTES);
            fragments.addresses.push(words(e, "arith.addi", &row, &chunk));
        }
        fragments
    }

    /// The addresses in the slice `slot` bytes on.
    pub fn at(&self, e: &mut Emitter, slot: &Value) -> Vec<Value> {
        self.addresses.iter().map(|address| words(e, "arith.addi", address, slot)).collect()
    }

    /// Fragment `fragment` of step `step` of the sum, from addresses of [`at`](Self::at): four words a lane, of
    /// the first and second eight points and the first chunk, then the second.
    pub fn load(&self, e: &mut Emitter, addresses: &[Value], fragment: usize, step: usize) -> Vec<Value> {
        let points = STEP_CHUNKS * self.element.chunk();
        let loaded = if self.along_sum {
            load_matrices(e, &addresses[step], fragment * POINTS * self.row_bytes, false)
        } else if self.element == Element::Tf32 {
            let word = |e: &mut Emitter, part: usize| {
                let row = step * points + part / 2 * self.element.chunk();
                load_word(e, &addresses[2 * fragment + part % 2], row * self.row_bytes)
            };
            (0..4).map(|part| word(e, part)).collect()
        } else {
            load_matrices(e, &addresses[fragment], step * points * self.row_bytes, true)
        };
        if self.element != Element::Tf32 {
            return loaded;
        }
        loaded.iter().map(|word| to_tf32(e, word)).collect()
    }
}
