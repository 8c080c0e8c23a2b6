//! Which tiles a contraction is cut into: the cheapest by a model of waves, bytes and instructions.

use super::problem::{Problem, line_tiles, points};
use super::results::COLUMNS;
use burn_mlir_ir::{COUNTER_WORDS, NvptxTarget};

/// Rows of a consumer's part of a tile: those of one matrix instruction.
pub(super) const ROWS: usize = 64;

/// Bytes of a row of an operand's tile in workgroup memory, all of them summed points or all of them rows
/// or columns: the swizzled memory has rows of so many.
pub(super) const ROW_BYTES: usize = 128;

/// Bytes of a buffer for results: 64 rows of 128 bytes.
pub(super) const STORE_BYTES: usize = ROWS * ROW_BYTES;

/// Columns of a step of a deferred epilogue.
pub(super) const STEP_COLUMNS: usize = 16;

/// Threads of a warpgroup.
pub(super) const WARPGROUP: usize = 128;

/// Dynamic memory a block of threads can have on Hopper.
const WORKGROUP_BYTES: usize = 232_448;

/// Bytes of the two barriers of a stage.
const STAGE_BARRIER_BYTES: usize = 16;

/// Bytes of the tickets of all consumers of a block.
const TICKET_BYTES: usize = 16;

/// Stages more than this hide nothing.
const MAX_STAGES: usize = 10;

/// Consecutive row tiles that are walked before the next column tile, so that both operands of the tiles
/// under way at a time are in the second-level cache.
const RASTER: usize = 16;

/// Tiles: warpgroups that multiply, columns.
const TILES: [(usize, usize); 6] = [(2, 256), (2, 192), (2, 128), (2, 64), (1, 128), (1, 64)];

/// Parts of a sum, at most.
const MAX_SPLITS: usize = 32;

/// Cost model, in cycles of a multiprocessor: bytes per cycle from the second-level cache, ...
const BYTES_PER_CYCLE: usize = 56;
/// ... for each slice besides (and a part of its bytes), ...
const SLICE: usize = 32;
/// ... of partial sums from and to it, ...
const PARTIAL_BYTES_PER_CYCLE: usize = 32;
/// ... until the first products of a block of threads, ...
const START: usize = 1500;
/// ... of a tile's epilogue, without and for each column, ...
const EPILOGUE: usize = 400;
const EPILOGUE_COLUMN: usize = 6;
/// ... and until the last block knows that the others' partial sums are there.
const MEETING: usize = 2500;

/// What a block's results ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Demand {
    /// Boxes of results that go through workgroup memory, of 64 columns.
    pub staged: usize,
    /// Instructions for an element, roughly.
    pub cost: usize,
    /// Whether the epilogue can run while the next tile is multiplied, and is worth it.
    pub deferrable: bool,
}

/// How a contraction is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Warpgroups that multiply, each 64 rows.
    pub consumers: usize,
    /// Columns of a tile.
    pub columns: usize,
    /// Stages of the ring.
    pub stages: usize,
    /// Buffers for results of each consumer.
    pub store_buffers: usize,
    /// Whether the epilogue of a tile runs while the next one is multiplied.
    pub deferred: bool,
    /// Parts a sum is cut into, each of another block of threads.
    pub splits: usize,
    /// Slices of the sum of a part.
    pub slices: usize,
    /// Tiles along rows, along columns.
    pub tiles: [usize; 2],
    /// Row tiles that are walked before the next column tile.
    pub raster: usize,
    /// Blocks of threads.
    pub grid: usize,
    /// Where parts of sums are in scratch.
    pub scratch_offset: usize,
}

impl Plan {
    /// Decides.
    pub fn of(problem: &Problem<'_>, target: &NvptxTarget, results: Demand) -> Option<Self> {
        let tiles: Vec<(usize, usize)> = match problem.line {
            Some(line) => line_tiles(line).flat_map(|columns| [(2, columns), (1, columns)]).collect(),
            None => TILES.to_vec(),
        };
        let candidates = tiles.into_iter().flat_map(|(consumers, columns)| {
            (1..=MAX_SPLITS).filter_map(move |splits| {
                Self::with(problem, target.multiprocessors, consumers, columns, splits, results)
            })
        });
        candidates.min_by_key(|candidate| candidate.0).map(|(_, plan)| plan)
    }

    /// The plan with given tiles, and its cost.
    fn with(
        problem: &Problem<'_>,
        multiprocessors: usize,
        consumers: usize,
        columns: usize,
        splits: usize,
        results: Demand,
    ) -> Option<(usize, Self)> {
        let tiles =
            [points(&problem.rows).div_ceil(ROWS * consumers), points(&problem.columns).div_ceil(columns)];
        let all = slices(problem);
        let part = all.div_ceil(splits);
        let matrices = points(&problem.batch) * tiles[0] * tiles[1];
        if splits > 1 {
            let counters = matrices * consumers <= COUNTER_WORDS;
            if part < 4 || all.div_ceil(part) != splits || !counters || matrices > 2 * multiprocessors {
                return None;
            }
        }
        let blocks = matrices * splits;
        i32::try_from(blocks).ok()?;
        let grid = blocks.min(multiprocessors);
        // With one tile for each block there is no next one.
        let deferred =
            results.deferrable && splits == 1 && blocks > multiprocessors && all > columns / STEP_COLUMNS;
        let store_buffers = match (results.staged, columns) {
            _ if deferred => columns / COLUMNS,
            (0, _) => 0,
            (staged, 256) => staged.max(4),
            // An even number where a result has two boxes.
            (staged, 192) => (staged + staged % 2).max(if staged == 1 { 3 } else { 4 }),
            (staged, 128) => staged.max(2),
            (staged, _) => staged,
        };
        let mut plan = Self {
            consumers,
            columns,
            stages: 0,
            store_buffers,
            deferred,
            splits,
            slices: part,
            tiles,
            raster: if tiles[0] <= RASTER { tiles[0] } else { RASTER },
            grid,
            scratch_offset: 0,
        };
        let room = WORKGROUP_BYTES.checked_sub(plan.store_bytes() + TICKET_BYTES)?;
        plan.stages = (room / (plan.stage_bytes() + STAGE_BARRIER_BYTES)).min(MAX_STAGES);
        if plan.stages < 2 {
            return None;
        }
        // A matrix instruction of n columns and 32 bytes of the sum takes n / 2 cycles.
        let multiply = consumers * columns * 2;
        let slice = multiply.max(plan.stage_bytes() / BYTES_PER_CYCLE) + SLICE + plan.stage_bytes() / 512;
        // A multiprocessor has 128 lanes.
        let epilogue = EPILOGUE + EPILOGUE_COLUMN * columns + results.cost * consumers * columns * ROWS / 128;
        let mut tile = part * slice + if deferred { EPILOGUE } else { epilogue };
        let mut last = if deferred { epilogue } else { 0 };
        if splits > 1 {
            // Each part is written by one and read by another; the last one reads all of its tile.
            let partial = consumers * ROWS * columns * 4 / PARTIAL_BYTES_PER_CYCLE;
            tile += partial;
            last += MEETING + splits * partial;
            if blocks > multiprocessors {
                tile += partial;
            }
        }
        Some((START + last + blocks.div_ceil(multiprocessors) * tile, plan))
    }

    /// Threads of a block: a warpgroup that copies and those that multiply.
    pub fn threads(&self) -> usize {
        WARPGROUP * (1 + self.consumers)
    }

    /// Rows of a tile.
    pub fn rows(&self) -> usize {
        ROWS * self.consumers
    }

    /// Bytes of the left operand in a stage.
    pub fn left_bytes(&self) -> usize {
        self.rows() * ROW_BYTES
    }

    /// Bytes of a stage.
    pub fn stage_bytes(&self) -> usize {
        self.left_bytes() + self.columns * ROW_BYTES
    }

    /// Bytes of all buffers for results.
    fn store_bytes(&self) -> usize {
        self.consumers * self.store_buffers * STORE_BYTES
    }

    /// Where the buffers for results are in workgroup memory: behind the stages.
    pub fn store_offset(&self) -> usize {
        self.stages * self.stage_bytes()
    }

    /// Where the barriers are.
    pub fn barrier_offset(&self) -> usize {
        self.store_offset() + self.store_bytes()
    }

    /// Where the tickets of consumers are that add parts of sums.
    pub fn ticket_offset(&self) -> usize {
        self.barrier_offset() + self.stages * STAGE_BARRIER_BYTES
    }

    /// Bytes of workgroup memory.
    pub fn workgroup_bytes(&self) -> usize {
        self.ticket_offset() + TICKET_BYTES
    }

    /// Tiles of one matrix product.
    pub fn matrix_tiles(&self) -> usize {
        self.tiles[0] * self.tiles[1]
    }

    /// Whether a consumer has products of two slices under way: where it is alone on a tile, or tiles are so
    /// small that waiting for each slice would leave the matrix unit idle.
    pub fn two_under_way(&self) -> bool {
        self.columns < 256
    }
}

/// Points of the sum in a slice.
pub(super) fn depth(problem: &Problem<'_>) -> usize {
    ROW_BYTES / problem.element.size()
}

/// Slices of the summed run.
pub(super) fn run_slices(problem: &Problem<'_>) -> usize {
    points(&problem.sum).div_ceil(depth(problem))
}

/// Slices of the whole sum.
pub(super) fn slices(problem: &Problem<'_>) -> usize {
    points(&problem.outer) * run_slices(problem)
}
