//! How a contraction is spread over blocks of threads and their warps, from its shape alone.

use super::super::reading::{CHUNK_BYTES, Reading};
use super::element::Element;
use crate::contraction::{Contraction, Group};
use burn_mlir_ir::{COUNTER_WORDS, NvptxTarget};

/// Threads of a warp.
pub(super) const WARP: usize = 32;

/// Bytes of the sum in one slice of an operand, for each row or column.
const DEPTH_BYTES: usize = 64;

/// Accumulators of a thread that leave registers for elements on their way through it.
const ACCUMULATORS_BESIDE_ELEMENTS: usize = 64;

/// Slices a block computes for nothing while it fills its memory and writes its results: what a block costs
/// besides its slices, in slices of the largest tile.
const BLOCK_COST: f64 = 10.0;

/// The same for each part of a sum that is added to the others.
const PART_COST: f64 = 3.0;

/// Slices a part of a sum has at least.
const PART_SLICES: usize = 4;

/// Bytes of partial sums, at most.
const PARTIAL_BYTES: usize = 64 << 20;

/// Points of a tile along rows and columns, warps along both, and how much of the multiplier's speed such a tile reaches.
const TILES: &[([usize; 2], [usize; 2], f64)] = &[
    ([128, 128], [2, 2], 1.0),
    ([128, 128], [2, 4], 0.9),
    ([128, 64], [2, 2], 0.8),
    ([64, 128], [2, 2], 0.8),
    ([64, 64], [2, 2], 0.65),
    ([32, 64], [2, 2], 0.4),
    ([64, 32], [2, 2], 0.4),
    ([16, 128], [1, 4], 0.3),
    ([128, 16], [4, 1], 0.3),
];

/// Rows or columns of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Side {
    /// Points in all, of the whole contraction.
    pub points: usize,
    /// Points of a tile.
    pub tile: usize,
    /// Warps along this side.
    pub warps: usize,
}

impl Side {
    /// Points of a warp, a multiple of 16.
    pub fn warp(&self) -> usize {
        self.tile / self.warps
    }

    /// Tiles that cover all points.
    pub fn tiles(&self) -> usize {
        self.points.div_ceil(self.tile)
    }
}

/// How a contraction is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    /// Independent products.
    pub batch: usize,
    /// Rows, then columns.
    pub sides: [Side; 2],
    /// Summed points.
    pub sum: usize,
    /// Summed points of a slice, a power of two.
    pub depth: usize,
    /// Slices in workgroup memory, at least two.
    pub stages: usize,
    /// Parts the sum is cut into, each for a block of its own.
    pub parts: usize,
}

impl Tile {
    /// Decides for a contraction of a target.
    pub fn of(
        contraction: &Contraction,
        element: Element,
        readings: &[Reading; 2],
        target: &NvptxTarget,
    ) -> Self {
        let points = |group: &Group| group.sizes.iter().product::<usize>();
        let (rows, columns) = (points(&contraction.rows), points(&contraction.columns));
        let (batch, sum) = (points(&contraction.batch), points(&contraction.sum));
        let through_registers = readings.iter().any(|reading| !reading.direct);
        let depth = DEPTH_BYTES / element.bytes();
        let slices = sum.div_ceil(depth);
        let mut best: Option<(f64, Self)> = None;
        for &([tile_rows, tile_columns], [row_warps, column_warps], speed) in TILES {
            let area = tile_rows * tile_columns;
            let threads = row_warps * column_warps * WARP;
            if through_registers && area / threads > ACCUMULATORS_BESIDE_ELEMENTS {
                continue;
            }
            let sides = [
                Side { points: rows, tile: tile_rows, warps: row_warps },
                Side { points: columns, tile: tile_columns, warps: column_warps },
            ];
            let whole = Self { batch, sides, sum, depth, stages: 2, parts: 1 };
            for parts in [1, 2, 3, 4, 6, 8, 12, 16, 24, 32] {
                // So many slices each that no part is empty.
                let parts = slices.div_ceil(slices.div_ceil(parts));
                let tiles = whole.tiles();
                let partial = tiles * parts * area * size_of::<f32>();
                let apart =
                    slices / parts >= PART_SLICES && tiles <= COUNTER_WORDS && partial <= PARTIAL_BYTES;
                if parts > 1 && !apart {
                    continue;
                }
                let large = (128 * 128) as f64;
                let slice = area as f64 / large / speed;
                let gathered = if parts > 1 { PART_COST * (1.0 + parts as f64 / 4.0) } else { 0.0 };
                let block =
                    slices.div_ceil(parts) as f64 * slice + (BLOCK_COST + gathered) * area as f64 / large;
                let rounds = (tiles * parts).div_ceil(target.multiprocessors) as f64;
                let cost = block * rounds;
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    // More slices under way where each is little work.
                    let stages = if area >= 128 * 64 { 4 } else { 6 };
                    let stages = stages.min(slices.div_ceil(parts) + 1).max(2);
                    best = Some((cost, Self { stages, parts, ..whole }));
                }
            }
        }
        best.expect("some tile always fits").1
    }

    /// Tiles of the result.
    pub fn tiles(&self) -> usize {
        self.batch * self.sides[0].tiles() * self.sides[1].tiles()
    }

    /// Threads of a block.
    pub fn threads(&self) -> usize {
        self.sides[0].warps * self.sides[1].warps * WARP
    }

    /// Slices of the sum.
    pub fn slices(&self) -> usize {
        self.sum.div_ceil(self.depth)
    }

    /// Slices of a part of the sum; the last part may have fewer.
    pub fn part_slices(&self) -> usize {
        self.slices().div_ceil(self.parts)
    }

    /// Bytes of a slice of one side's operand in workgroup memory.
    pub fn side_bytes(&self, side: usize) -> usize {
        self.sides[side].tile * DEPTH_BYTES
    }

    /// Bytes of a slice of both operands.
    pub fn stage_bytes(&self) -> usize {
        self.side_bytes(0) + self.side_bytes(1)
    }

    /// Accumulators of a thread.
    pub fn accumulators(&self) -> usize {
        self.sides[0].tile * self.sides[1].tile / self.threads()
    }

    /// Chunks of 16 bytes in a row of a slice: rows run along the sum or along the side's points.
    pub fn row_chunks(&self, side: usize, along_sum: bool) -> usize {
        if along_sum {
            DEPTH_BYTES / CHUNK_BYTES
        } else {
            self.sides[side].tile / (CHUNK_BYTES * self.depth / DEPTH_BYTES)
        }
    }
}
