//! How the rows of a block that reduces are spread over blocks of threads.

use crate::nvptx::map::{chunk_width, has_known_registers, is_light, lane_dimension};
use crate::nvptx::{ACCESS_BYTES, ENOUGH_BLOCKS, WARP};
use burn_mlir_ir::{Access, Block, DimKind, Instr, ParamId};

/// Steps of a thread that stay in registers between the reductions of a row.
const REGISTER_STEPS: usize = 8;

/// Elements of a thread that stay in registers.
const REGISTER_ELEMENTS: usize = 64;

/// Registers of a multiprocessor.
const REGISTERS: usize = 64 << 10;

/// Reductions of a block for whose accumulators there are registers in any case.
const FEW_REDUCTIONS: usize = 2;

/// Threads of all blocks that share few rows.
const ENOUGH_THREADS: usize = ENOUGH_BLOCKS * 512;

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
    /// Where the width does not divide the row: the strides of an access whose chunks are aligned. Steps are the
    /// chunks between the first and the last aligned place of a row, at most [`steps`](Self::steps); what is
    /// before and behind are its *edges*.
    pub leader: Option<Vec<i64>>,
}

impl Geometry {
    /// Decides for a block, which has a dimension that is not empty.
    pub fn of(block: &Block) -> Self {
        let lane = lane_dimension(block);
        let along = block.domain[lane].kind == DimKind::Reduction;
        let mut width = chunk_width(block, lane, false);
        let others = |kind: DimKind| -> Vec<usize> {
            (0..block.domain.len()).filter(|&dim| dim != lane && block.domain[dim].kind == kind).collect()
        };
        let (parallel, reduction) = (others(DimKind::Parallel), others(DimKind::Reduction));
        let leader = if along && reduction.is_empty() { leader(block, lane, width) } else { None };
        if leader.is_some() {
            width = chunk_width(block, lane, true);
        }
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
                // Rows too long for registers: few at a time, so that they stay in the cache.
                _ if steps > 512 * REGISTER_STEPS && rows >= ENOUGH_BLOCKS => 1024,
                _ => {
                    let mine = if width >= 8 && steps > 512 { 8 } else { 4 };
                    steps.div_ceil(mine).next_power_of_two().clamp(WARP, 512)
                }
            };
            (threads, (4 * WARP / threads).max(1))
        } else {
            let columns = rows.next_power_of_two().min(WARP);
            let threads = steps.max(1).next_power_of_two().min(8 * WARP / columns).min(WARP);
            // Many columns keep the GPU busy with a thread each.
            let threads = threads.min((ENOUGH_THREADS / rows.max(1)).max(1).next_power_of_two());
            (threads, columns.max(4 * WARP / threads))
        };
        let blocks = rows.div_ceil(block_rows);
        let mine = steps.div_ceil(threads);
        let unroll = if width >= 4 { 4 } else { 8 };
        let (mut splits, mut split_steps) = (1, steps);
        let enough = ENOUGH_THREADS / (threads * block_rows);
        if blocks < enough / 2 && mine >= 4 * REGISTER_STEPS {
            let wanted = enough.div_ceil(blocks).min(mine / REGISTER_STEPS).max(1);
            split_steps = steps.div_ceil(wanted).next_multiple_of(threads * unroll);
            splits = steps.div_ceil(split_steps);
        }
        // The more threads, the fewer registers each of them has.
        let elements = if threads > 512 { REGISTER_ELEMENTS / 2 } else { REGISTER_ELEMENTS };
        let registers = splits == 1 && mine <= REGISTER_STEPS && mine * width <= elements;
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
            leader,
        }
    }

    /// Blocks that a multiprocessor should hold, if registers suffice as far as one can tell: an assembler that is
    /// told nothing may give every thread all it can use.
    pub fn resident(&self, block: &Block) -> Option<usize> {
        let elements = if self.registers { self.steps.div_ceil(self.threads) * self.width } else { 0 };
        let reductions =
            block.body.iter().filter(|s| matches!(s.instr, Instr::Reduce(..) | Instr::ArgReduce(..))).count();
        let registers = match (self.registers, elements) {
            _ if !has_known_registers(block) || reductions > FEW_REDUCTIONS => return None,
            _ if !is_light(block) => 128,
            (false, _) => 64,
            (true, 0..=16) => 40,
            (true, _) => 96,
        };
        Some((REGISTERS / registers / self.block_threads()).max(1))
    }

    /// Steps that every row has.
    pub fn certain_steps(&self, size: usize) -> usize {
        if self.leader.is_some() { (size + 1 - self.width) / self.width } else { self.steps }
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

/// Chunks of a row from which on its edges are worth a step of their own.
const LONG: usize = 64;

/// The strides of a contiguous access that is aligned to the widest chunks, if rows are long and not multiples of
/// those.
fn leader(block: &Block, lane: usize, width: usize) -> Option<Vec<i64>> {
    let wide = chunk_width(block, lane, true);
    if wide == width || block.domain[lane].size < LONG * wide {
        return None;
    }
    let loads = block.body.iter().filter_map(|statement| match &statement.instr {
        Instr::Load { param, access } => Some((param, access)),
        _ => None,
    });
    let all = loads.chain(block.stores.iter().map(|store| (&store.param, &store.access)));
    let contiguous: Vec<_> = all.filter(|(_, access)| access.strides[lane] == 1).collect();
    let aligned = |(param, _): &&(&ParamId, &Access)| {
        let param = &block.params[param.0 as usize];
        param.alignment >= (wide * param.dtype.size()).min(ACCESS_BYTES)
    };
    // The one that most are aligned with.
    let together = |(_, leader): &&(&ParamId, &Access)| {
        let agrees = |access: &Access| {
            access.strides.iter().zip(&leader.strides).all(|(a, b)| (a - b) % wide as i64 == 0)
        };
        contiguous.iter().filter(|(_, access)| agrees(access)).count()
    };
    contiguous.iter().filter(aligned).max_by_key(together).map(|(_, access)| access.strides.to_vec())
}
