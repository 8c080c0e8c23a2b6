//! How a contraction is spread over blocks of threads, from its shape alone.

use super::super::reading::Reading;
use crate::contraction::{Contraction, Group};
use crate::nvptx::ACCESS_BYTES;
use burn_mlir_ir::{COUNTER_WORDS, NvptxTarget};

/// Threads of a block, at most.
const THREADS: usize = 256;

/// Threads along a side of a tile, where both sides are long.
const SIDE_THREADS: usize = 16;

/// Consecutive rows or columns of a thread: what one access to workgroup memory reads.
const LANES: usize = 4;

/// Summed points of a slice.
const DEPTH: usize = 16;

/// Slices a block computes for nothing while it fills its memory and writes its results: what a block costs besides
/// its slices, in slices of its own.
const BLOCK_COST: f64 = 6.0;

/// The same for each part of a sum that is added to the others.
const PART_COST: f64 = 2.0;

/// Slices a part of a sum has at least.
const PART_SLICES: usize = 4;

/// Bytes of partial sums, at most.
const PARTIAL_BYTES: usize = 64 << 20;

/// Threads along rows and columns, rows and columns of a thread, and how much of the speed of multiply-adds such a tile
/// reaches, for 4-byte elements.
const TILES_OF_4: &[([usize; 2], [usize; 2], f64)] = &[
    ([16, 16], [8, 8], 1.0),
    ([16, 8], [8, 8], 0.9),
    ([8, 16], [8, 8], 0.9),
    ([8, 16], [8, 4], 0.75),
    ([8, 16], [4, 4], 0.5),
    ([16, 8], [4, 4], 0.5),
    ([4, 32], [4, 4], 0.35),
    ([32, 4], [4, 4], 0.35),
    ([1, 128], [4, 2], 0.15),
    ([128, 1], [2, 4], 0.15),
];

/// The same for 8-byte elements.
const TILES_OF_8: &[([usize; 2], [usize; 2], f64)] = &[
    ([16, 16], [4, 8], 1.0),
    ([16, 16], [4, 4], 0.9),
    ([8, 16], [4, 4], 0.8),
    ([4, 32], [4, 4], 0.5),
    ([32, 4], [4, 4], 0.5),
    ([1, 128], [4, 2], 0.2),
    ([128, 1], [2, 4], 0.2),
];

/// Sides up to this are left to the blocks that have no more threads than elements.
const FEW: usize = 4;

/// Elements between two summed points in workgroup memory beyond the tile's, so that threads that write
/// along the sum do not all meet the same bank.
const PADDING: usize = 4;

/// Rows or columns of a tile: `runs` parts, in each of which every thread has `lanes` consecutive points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Side {
    /// Points in all, of the whole contraction.
    pub points: usize,
    /// Threads along this side.
    pub threads: usize,
    /// Consecutive points of a thread.
    pub lanes: usize,
    /// Runs of consecutive points a thread has.
    pub runs: usize,
}

impl Side {
    /// So many threads and lanes, or fewer if that is enough for all points.
    fn new(points: usize, threads: usize, lanes: usize) -> Self {
        let lanes = points.next_power_of_two().min(lanes);
        let threads = points.div_ceil(lanes).next_power_of_two().min(threads);
        Self { points, threads, lanes, runs: 1 }
    }

    /// Points of a tile, a power of two.
    pub fn tile(&self) -> usize {
        self.threads * self.lanes * self.runs
    }

    /// Points from one run of a thread to the next.
    pub fn apart(&self) -> usize {
        self.threads * self.lanes
    }

    /// Tiles that cover all points.
    pub fn tiles(&self) -> usize {
        self.points.div_ceil(self.tile())
    }

    /// Whether the last tile is not full.
    pub fn ragged(&self) -> bool {
        !self.points.is_multiple_of(self.tile())
    }

    /// Elements between two summed points in workgroup memory.
    pub fn pitch(&self) -> usize {
        self.tile() + PADDING
    }
}

/// How a contraction is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    /// Independent products.
    pub batch: usize,
    /// Rows.
    pub rows: Side,
    /// Columns.
    pub columns: Side,
    /// Summed points.
    pub sum: usize,
    /// Summed points of a slice, a power of two.
    pub depth: usize,
    /// Slices in workgroup memory if they are copied there while others are multiplied, at least two; one if they
    /// pass through registers.
    pub stages: usize,
    /// Parts the sum is cut into, each for a block of its own.
    pub parts: usize,
}

impl Geometry {
    /// Decides for a contraction whose operands are read so.
    pub fn of(contraction: &Contraction, readings: &[Reading; 2], target: &NvptxTarget) -> Self {
        let bytes = contraction.accumulator.size();
        let direct = readings.iter().all(|reading| reading.direct) && matches!(bytes, 4 | 8);
        let sides = [&contraction.rows, &contraction.columns].map(points);
        if direct && sides.iter().any(|&points| points > FEW) && points(&contraction.sum) > 0 {
            Self::pipelined(contraction, bytes, target)
        } else {
            Self::plain(contraction, target)
        }
    }

    /// For slices that pass through registers.
    fn plain(contraction: &Contraction, target: &NvptxTarget) -> Self {
        let (rows, columns) = (points(&contraction.rows), points(&contraction.columns));
        let (batch, sum) = (points(&contraction.batch), points(&contraction.sum));
        let square = |points: usize| Side::new(points, SIDE_THREADS, LANES);
        // Beside a short side, a long one has the block's other threads, and no more lanes than keep the
        // elements low that each of them copies.
        let beside = |points: usize, short: &Side| {
            Side::new(points, THREADS / short.threads, LANES.min(short.threads))
        };
        let (mut row_side, mut column_side) = (square(rows), square(columns));
        if column_side.threads < SIDE_THREADS {
            row_side = beside(rows, &column_side);
        } else if row_side.threads < SIDE_THREADS {
            column_side = beside(columns, &row_side);
        }
        let cut = |runs: usize, depth: usize| Self {
            batch,
            rows: Side { runs, ..row_side },
            columns: Side { runs, ..column_side },
            sum,
            depth: depth.min(sum.max(1).next_power_of_two()),
            stages: 1,
            parts: 1,
        };
        // 8 × 8 accumulators a thread where there are enough such tiles.
        let large = cut(2, DEPTH / 2);
        let full = [&large.rows, &large.columns].iter().all(|side| side.points >= side.tile());
        let square = [&row_side, &column_side].iter().all(|side| side.threads == SIDE_THREADS);
        let enough = large.tiles() >= target.multiprocessors;
        if contraction.accumulator.size() <= 4 && square && full && enough { large } else { cut(1, DEPTH) }
    }

    /// For slices that are copied to workgroup memory as they are.
    fn pipelined(contraction: &Contraction, bytes: usize, target: &NvptxTarget) -> Self {
        let (batch, sum) = (points(&contraction.batch), points(&contraction.sum));
        let depth = DEPTH;
        let slices = sum.div_ceil(depth);
        let side = |group: &Group, threads: usize, each: usize| {
            let lanes = each.min(ACCESS_BYTES / bytes);
            Side { points: points(group), threads, lanes, runs: each / lanes }
        };
        let mut best: Option<(f64, Self)> = None;
        for &(threads, each, speed) in if bytes == 4 { TILES_OF_4 } else { TILES_OF_8 } {
            let rows = side(&contraction.rows, threads[0], each[0]);
            let columns = side(&contraction.columns, threads[1], each[1]);
            let area = rows.tile() * columns.tile();
            let stages = if area == 128 * 128 { 3 } else { 4 };
            let whole = Self { batch, rows, columns, sum, depth, stages, parts: 1 };
            for parts in [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64] {
                // So many slices each that no part is empty.
                let parts = slices.div_ceil(slices.div_ceil(parts));
                let tiles = whole.tiles();
                let partial = tiles * parts * area * bytes;
                let apart =
                    slices / parts >= PART_SLICES && tiles <= COUNTER_WORDS && partial <= PARTIAL_BYTES;
                if parts > 1 && !apart {
                    continue;
                }
                let gathered = if parts > 1 { PART_COST * (1.0 + parts as f64 / 4.0) } else { 0.0 };
                let block = slices.div_ceil(parts) as f64 + BLOCK_COST + gathered;
                let rounds = (tiles * parts).div_ceil(target.multiprocessors) as f64;
                let cost = block * rounds * area as f64 / speed;
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, Self { parts, ..whole.clone() }));
                }
            }
        }
        best.expect("some tile always fits").1
    }

    /// Tiles of the result.
    pub fn tiles(&self) -> usize {
        self.batch * self.rows.tiles() * self.columns.tiles()
    }

    /// Threads of a block.
    pub fn threads(&self) -> usize {
        self.rows.threads * self.columns.threads
    }

    /// Accumulators of a thread.
    pub fn accumulators(&self) -> usize {
        self.rows.lanes * self.rows.runs * self.columns.lanes * self.columns.runs
    }

    /// Slices of the sum.
    pub fn slices(&self) -> usize {
        self.sum.div_ceil(self.depth)
    }

    /// Slices of a part of the sum; the last part may have fewer.
    pub fn part_slices(&self) -> usize {
        self.slices().div_ceil(self.parts)
    }
}

fn points(group: &Group) -> usize {
    group.sizes.iter().product()
}
