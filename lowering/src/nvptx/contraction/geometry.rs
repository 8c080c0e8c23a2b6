//! How a contraction is spread over blocks of threads, from its shape alone.

use crate::contraction::{Contraction, Group};

/// Threads of a block, at most.
const THREADS: usize = 256;

/// Threads along a side of a tile, where both sides are long.
const SIDE_THREADS: usize = 16;

/// Consecutive rows or columns of a thread: what one access to workgroup memory reads.
const LANES: usize = 4;

/// Summed points of a slice.
const DEPTH: usize = 16;

/// Tiles of the larger kind from which on they keep a large GPU busy.
const ENOUGH_TILES: usize = 132;

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
}

impl Geometry {
    /// Decides for a contraction.
    pub fn of(contraction: &Contraction) -> Self {
        let points = |group: &Group| group.sizes.iter().product::<usize>();
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
        };
        // 8 × 8 accumulators a thread where there are enough such tiles.
        let large = cut(2, DEPTH / 2);
        let full = [&large.rows, &large.columns].iter().all(|side| side.points >= side.tile());
        let square = [&row_side, &column_side].iter().all(|side| side.threads == SIDE_THREADS);
        if contraction.accumulator.size() <= 4 && square && full && large.tiles() >= ENOUGH_TILES {
            large
        } else {
            cut(1, DEPTH)
        }
    }

    /// Blocks of threads.
    pub fn tiles(&self) -> usize {
        self.batch * self.rows.tiles() * self.columns.tiles()
    }

    /// Threads of a block.
    pub fn threads(&self) -> usize {
        self.rows.threads * self.columns.threads
    }
}
