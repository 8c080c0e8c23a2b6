//! How slices lie in workgroup memory: rows of 16-byte chunks, permuted so that what a warp reads at once lies in
//! different banks.

use super::super::asm::{with_word, word, words};
use super::super::copy::{Extent, Layout};
use super::super::reading::{CHUNK_BYTES, Reading};
use super::element::Element;
use super::tile::Tile;
use crate::emit::{Emitter, Value};

/// What of the contraction one side's slices hold, and how.
pub(super) fn layout(tile: &Tile, element: Element, side: usize, reading: Reading) -> (Layout, Extent) {
    let threads = tile.threads();
    let layout = Layout {
        kept: element.dtype(),
        chunk: element.chunk(),
        row_chunks: tile.row_chunks(side, reading.along_sum),
        chunks: tile.side_bytes(side) / CHUNK_BYTES,
        apart: threads * CHUNK_BYTES,
    };
    let Tile { sides, sum, depth, .. } = *tile;
    let extent =
        Extent { left: side == 0, points: sides[side].points, tile: sides[side].tile, sum, depth, threads };
    (layout, extent)
}

/// The address of a chunk of the slice at `memory`.
pub(super) fn place(
    e: &mut Emitter,
    (element, along_sum): (Element, bool),
    row_chunks: usize,
    memory: &Value,
    row: &Value,
    column: &Value,
) -> Value {
    let swap = permutation(e, row, row_chunks, along_sum, element);
    let place = words(e, "arith.xori", column, &swap);
    let row_bytes = with_word(e, "arith.muli", row, row_chunks * CHUNK_BYTES);
    let place = with_word(e, "arith.muli", &place, CHUNK_BYTES);
    let to = words(e, "arith.addi", memory, &row_bytes);
    words(e, "arith.addi", &to, &place)
}

/// The position of a chunk in a row is that of its column, exclusive or with this.
pub(super) fn permutation(
    e: &mut Emitter,
    row: &Value,
    row_chunks: usize,
    along_sum: bool,
    element: Element,
) -> Value {
    if element == Element::Tf32 && !along_sum {
        // Four summed points of eight columns are read at once, word by word.
        let low = with_word(e, "arith.andi", row, 3);
        let twice = with_word(e, "arith.shli", &low, 1);
        return with_word(e, "arith.andi", &twice, row_chunks - 1);
    }
    // Eight rows of one column are read at once.
    let shift = match row_chunks {
        1 => return word(e, 0),
        2 => 2,
        4 => 1,
        _ => 0,
    };
    let shifted = with_word(e, "arith.shrui", row, shift);
    with_word(e, "arith.andi", &shifted, row_chunks.min(8) - 1)
}
