//! Tile sizes of a packed contraction, from shapes and the target alone: never from the number of
//! threads, so that results do not depend on it.

use crate::contraction::Contraction;
use burn_mlir_ir::HostTarget;

/// Steps of the sum that one iteration of the innermost loop makes.
const UNROLL: i64 = 2;
/// Longest part of the sum computed in one go.
const DEPTH_BLOCK: i64 = 2048;
/// Steps of the sum that one packing tile covers.
const PACK_DEPTH: i64 = 512;
/// Right panels from which on tiles may pack their own: enough to go round many threads.
const LOCAL_PANELS: i64 = 32;
/// Rows up to which packing by tiles pays for any right operand: its panels are soon used up.
const LOCAL_ROWS: i64 = 256;
/// Multiply-adds below which a tile is not worth handing to another thread.
const SMALLEST_TILE: i64 = 1 << 19;

/// How a contraction is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocking {
    /// Rows of a register tile, and of a packed panel of the left operand.
    pub mr: i64,
    /// Columns of a register tile, and of a packed panel of the right operand.
    pub nr: i64,
    /// Panels that cover the rows.
    pub row_panels: i64,
    /// Panels that cover the columns.
    pub column_panels: i64,
    /// Row panels of one tile.
    pub row_block: i64,
    /// Column panels of one tile.
    pub column_block: i64,
    /// Sum length of the packed operands: padded with zeros to whole blocks.
    pub depth: i64,
    /// Part of the sum computed in one go, a multiple of `unroll`.
    pub depth_block: i64,
    /// Steps of the sum per iteration of the innermost loop.
    pub unroll: i64,
    /// Steps of the sum one packing tile covers.
    pub pack_depth: i64,
    /// Whether a tile packs the panels of the right operand it needs, just before it needs them. Such a tile has
    /// all rows, so that nothing is packed twice.
    pub local: bool,
}

/// `a / b` rounded up.
pub(crate) fn ceil_div(a: i64, b: i64) -> i64 {
    (a + b - 1) / b
}

/// Elements of the vectors in which rows of `width` elements are moved.
pub(crate) fn lanes(width: i64) -> i64 {
    let mut lanes = 1;
    while lanes < width {
        lanes *= 2;
    }
    lanes
}

impl Blocking {
    /// Chooses sizes for `contraction` on `target`.
    pub fn of(contraction: &Contraction, target: &HostTarget) -> Self {
        let (batch, rows, columns, sum) = (
            contraction.batch.len(),
            contraction.rows.len(),
            contraction.columns.len(),
            contraction.sum.len(),
        );
        let element = contraction.accumulator.size() as i64;
        let lanes = (target.vector_bytes as i64 / element.max(4)).max(1);
        let (mr, nr) = register_tile(rows, columns, lanes, target.vector_registers as i64);

        let blocks = ceil_div(sum, DEPTH_BLOCK).max(1);
        let depth_block = ceil_div(ceil_div(sum, blocks), UNROLL) * UNROLL;
        let depth = depth_block * blocks;

        let (row_panels, column_panels) = (ceil_div(rows, mr), ceil_div(columns, nr));
        let local = depth > 0
            && column_panels * batch >= LOCAL_PANELS
            && (rows <= LOCAL_ROWS || 2 * contraction.right_reach() <= columns * sum);
        // The left block and one right panel stay in the second-level cache.
        let l2 = target.l2_bytes as i64;
        let panel_bytes = (mr * depth_block * element).max(1);
        let mut row_block = (l2 * 3 / 8 / panel_bytes).clamp(1, 8).min(row_panels);
        let mut column_block = (256 / nr).max(1).min(column_panels);
        // Small problems are cut finer, for at least eight tiles where tiles stay worth handing out.
        let tile_work = |r: i64, c: i64| r * mr * c * nr * depth;
        let tiles = |r: i64, c: i64| batch * ceil_div(row_panels, r) * ceil_div(column_panels, c);
        while tiles(row_block, column_block) < 8 && tile_work(row_block, column_block) > 2 * SMALLEST_TILE {
            if row_block >= 2 && row_block * mr >= column_block * nr {
                row_block = ceil_div(row_block, 2);
            } else if column_block >= 2 {
                column_block = ceil_div(column_block, 2);
            } else if row_block >= 2 {
                row_block = ceil_div(row_block, 2);
            } else {
                break;
            }
        }
        if local {
            row_block = row_panels;
            column_block = (column_panels * batch / 64).clamp(1, 4).min(column_panels);
        }
        // Equal blocks: no short one at the end.
        let even = |panels: i64, block: i64| ceil_div(panels, ceil_div(panels, block));
        Self {
            mr,
            nr,
            row_panels,
            column_panels,
            row_block: even(row_panels, row_block),
            column_block: even(column_panels, column_block),
            depth,
            depth_block,
            unroll: UNROLL,
            pack_depth: PACK_DEPTH,
            local,
        }
    }
}

/// Register tile with the least padded work: `mr · nr` accumulators, a row of the right panel and a
/// broadcast element must fit the registers.
fn register_tile(rows: i64, columns: i64, lanes: i64, registers: i64) -> (i64, i64) {
    let vectors: i64 = if columns <= lanes { 1 } else { 2 };
    let most = (registers * 3 / 4) / vectors; // 12 of 32, 6 of 16 for two vectors
    let most = most.min(if vectors == 1 { registers / 2 } else { most });
    let cost = |mr: i64| ceil_div(rows, mr) * (mr * vectors + vectors + 1);
    let least = (most / 2).max(2);
    let mr = (least..=most).rev().min_by_key(|&mr| cost(mr)).unwrap_or(most);
    (mr.min(rows.max(2)), vectors * lanes)
}
