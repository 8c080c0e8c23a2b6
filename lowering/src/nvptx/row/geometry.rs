//! How the rows of a block that reduces are spread over blocks of threads.

use crate::nvptx::map::{chunk_width, lane_dimension};
use crate::nvptx::{ENOUGH_BLOCKS, WARP};
use burn_mlir_ir::{Block, DimKind};

/// Steps of a thread that stay in registers between the reductions of a row.
const REGISTER_STEPS: usize = 8;

/// Elements of a thread that stay in registers.
const REGISTER_ELEMENTS: usize = 64;

/// Elements a thread loads before it uses them, where values do not stay in registers.
const UNROLL_ELEMENTS: usize = 16;

/// How a block's rows are cut. A *row* is what one point of the parallel dimensions reduces; where the
/// lanes run along a parallel dimension, as many rows as there are lanes. A *step* is a chunk of it.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    /// The lane dimension.
    pub lane: usize,
    /// Whether the lanes run along a reduction dimension.
    pub along: bool,
    /// Lanes of a chunk.
    pub width: usize,
    /// The other parallel dimensions.
    pub parallel: Vec<usize>,
    /// The other reduction dimensions.
    pub reduction: Vec<usize>,
    /// Number of rows.
    pub rows: usize,
    /// Steps of a row.
    pub steps: usize,
    /// Threads that share a row, a power of two.
    pub threads: usize,
    /// Rows of a block of threads.
    pub block_rows: usize,
    /// Blocks that share a row.
    pub splits: usize,
    /// Steps each of them takes.
    pub split_steps: usize,
    /// Steps a thread has in flight.
    pub unroll: usize,
    /// Whether a thread's steps stay in registers.
    pub registers: bool,
}

impl Geometry {
    /// Decides for a block, which has a dimension that is not empty.
    pub fn of(block: &Block) -> Self {
        let lane = lane_dimension(block);
        let along = block.domain[lane].kind == DimKind::Reduction;
        let width = chunk_width(block, lane, false);
        let others = |kind: DimKind| -> Vec<usize> {
            (0..block.domain.len()).filter(|&dim| dim != lane && block.domain[dim].kind == kind).collect()
        };
        let (parallel, reduction) = (others(DimKind::Parallel), others(DimKind::Reduction));
        let size = |dims: &[usize]| dims.iter().map(|&dim| block.domain[dim].size).product::<usize>();
        let chunks = block.domain[lane].size / width;
        let (mut rows, mut steps) = (size(&parallel), size(&reduction));
        if along {
            steps *= chunks
        } else {
            rows *= chunks
        }

        let (threads, block_rows) = if along {
            let threads = match steps {
                0..=WARP => steps.max(1).next_power_of_two(),
                _ => steps.div_ceil(4).next_power_of_two().clamp(WARP, 512),
            };
            (threads, (4 * WARP / threads).max(1))
        } else {
            let columns = rows.next_power_of_two().min(WARP);
            let threads = steps.max(1).next_power_of_two().min(8 * WARP / columns).min(WARP);
            (threads, columns.max(2 * WARP / threads))
        };
        let blocks = rows.div_ceil(block_rows);
        let mine = steps.div_ceil(threads);
        let unroll = (UNROLL_ELEMENTS / width).clamp(1, 4);
        let (mut splits, mut split_steps) = (1, steps);
        if blocks < ENOUGH_BLOCKS / 2 && mine >= 4 * REGISTER_STEPS {
            let wanted = ENOUGH_BLOCKS.div_ceil(blocks).min(mine / REGISTER_STEPS).max(1);
            split_steps = steps.div_ceil(wanted).next_multiple_of(threads * unroll);
            splits = steps.div_ceil(split_steps);
        }
        let registers = splits == 1 && mine <= REGISTER_STEPS && mine * width <= REGISTER_ELEMENTS;
        Self {
            lane,
            along,
            width,
            parallel,
            reduction,
            rows,
            steps,
            threads,
            block_rows,
            splits,
            split_steps,
            unroll,
            registers,
        }
    }

    /// Threads of a block.
    pub fn block_threads(&self) -> usize {
        self.threads * self.block_rows
    }

    /// Lanes of what a row reduces to.
    pub fn result_width(&self) -> usize {
        if self.along { 1 } else { self.width }
    }
}
