//! Tiles, buffers and schedule of an attention kernel.

use crate::nvptx::ACCESS_BYTES;
use burn_mlir_ir::{Attention, AttentionOperand, BufferView, DType};

/// Widest head that fits.
const MOST_WIDTH: usize = 256;

/// Bytes of the dynamic memory a block of threads can have.
const MOST_MEMORY: usize = 232_448;

/// Keys and values of heads worked on at a time should stay in the second-level cache.
const CACHED_BYTES: usize = 32 << 20;

/// Queries from which on three warpgroups of them pay off in a causal attention of narrow heads.
const MANY_QUERIES: usize = 1024;

/// Copies in flight of keys and of values.
pub(super) const STAGES: usize = 2;

/// How the work is cut up. A block of threads has a warpgroup that copies and `consumers` of them that
/// compute 64 queries each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    /// Warpgroups that compute.
    pub consumers: usize,
    /// Keys in a block.
    pub keys: usize,
    /// Queries are read while those before are worked on: two buffers.
    pub double_query: bool,
    /// The next tile's first scores are computed with this tile's last sum.
    pub cross_tile: bool,
    /// The result is staged in the memory of the queries.
    pub output_in_query: bool,
    /// Consumers take turns with the tensor cores, so that one's softmax runs under the other's products.
    pub ping_pong: bool,
    /// Sums are rescaled after the next scores were started, not before.
    pub late_rescale: bool,
    /// Independent chains in the reductions of a row.
    pub chains: usize,
    /// Tiles with most keys first, in groups of this many heads; otherwise head by head.
    pub longest_first: Option<usize>,
    /// Columns of a tile of queries and keys, a multiple of 64.
    pub width: usize,
    /// Steps of 16 along the width.
    pub steps: usize,
    /// Columns of a tile of values, a multiple of 64.
    pub value_width: usize,
    /// Columns of a sum, a multiple of 16.
    pub columns: usize,
}

/// Whether the copy engine can walk a buffer: rows of adjacent elements, all else in steps of 16 bytes.
fn is_copyable(view: &BufferView, extents: &[usize], element: usize) -> bool {
    let strides = view.access.strides.iter().zip(extents);
    let (outer, inner) = (&view.access.strides[..3], view.access.strides[3]);
    let stepped =
        outer.iter().all(|&stride| stride >= 0 && (stride as usize * element).is_multiple_of(ACCESS_BYTES));
    let reach = strides.map(|(&stride, &extent)| stride * extent as i64).max().unwrap_or(0);
    let adjacent = inner == 1 || extents[3] == 1;
    let distinct = outer[2] != 0 || extents[2] == 1;
    let bounded = reach < 1 << 36 && extents.iter().all(|&extent| extent < 1 << 31);
    stepped && adjacent && distinct && bounded && view.alignment.is_multiple_of(ACCESS_BYTES)
}

impl Tiling {
    /// The tiling of an attention, or nothing if it is not one for tensor cores and copy engine.
    pub fn of(attention: &Attention) -> Option<Self> {
        let sizes = &attention.sizes;
        let element = attention.dtype.size();
        let narrow = matches!(attention.dtype, DType::F16 | DType::BF16);
        let widest = sizes.width.max(sizes.value_width);
        let moved = [
            AttentionOperand::Query,
            AttentionOperand::Key,
            AttentionOperand::Value,
            AttentionOperand::Output,
        ];
        let copyable = moved.into_iter().all(|operand| {
            let shape = attention.operand_shape(operand);
            attention.view(operand).is_some_and(|view| is_copyable(view, &shape, element))
        });
        let rows = sizes.batch.checked_mul(sizes.heads)?.checked_mul(sizes.queries)?;
        if !narrow || widest > MOST_WIDTH || !copyable || rows.max(sizes.keys) >= 1 << 30 {
            return None;
        }
        // Scores that are changed one by one need registers of their own.
        let plain = attention.mask.is_none() && attention.bias.is_none() && !attention.softcap;
        let general = Self {
            consumers: 2,
            keys: if plain { 128 } else { 64 },
            double_query: true,
            cross_tile: false,
            output_in_query: false,
            ping_pong: true,
            late_rescale: true,
            chains: 8,
            longest_first: None,
            width: sizes.width.next_multiple_of(64),
            steps: sizes.width.div_ceil(16),
            value_width: sizes.value_width.next_multiple_of(64),
            columns: sizes.value_width.next_multiple_of(16),
        };
        let long = !attention.causal || sizes.queries > MANY_QUERIES;
        let mut tiling = match widest {
            0..=64 if plain => {
                let consumers = if long { 3 } else { 2 };
                let cross_tile = !attention.causal;
                Self { consumers, cross_tile, late_rescale: false, chains: 4, ..general }
            }
            0..=128 => Self { cross_tile: plain, ..general },
            129..=192 => Self {
                keys: if plain { 96 } else { 48 },
                double_query: false,
                output_in_query: true,
                late_rescale: false,
                chains: 4,
                ..general
            },
            _ => Self {
                keys: if plain { 80 } else { 32 },
                double_query: false,
                output_in_query: true,
                ping_pong: false,
                late_rescale: false,
                chains: 4,
                ..general
            },
        };
        if attention.causal {
            let head = sizes.keys * (sizes.width + sizes.value_width) * element;
            tiling.longest_first = Some((CACHED_BYTES / head).clamp(1, sizes.heads * sizes.batch));
        }
        (tiling.memory_bytes() <= MOST_MEMORY).then_some(tiling)
    }

    /// Queries in a tile.
    pub fn queries(&self) -> usize {
        64 * self.consumers
    }

    pub fn threads(&self) -> usize {
        128 * (self.consumers + 1)
    }

    /// Buffers of queries.
    pub fn query_buffers(&self) -> usize {
        if self.double_query { 2 } else { 1 }
    }

    pub fn query_bytes(&self) -> usize {
        let columns = if self.output_in_query { self.width.max(self.value_width) } else { self.width };
        2 * self.queries() * columns
    }

    pub fn key_bytes(&self) -> usize {
        2 * self.keys * self.width
    }

    pub fn value_bytes(&self) -> usize {
        2 * self.keys * self.value_width
    }

    pub fn key_offset(&self) -> usize {
        self.query_buffers() * self.query_bytes()
    }

    pub fn value_offset(&self) -> usize {
        self.key_offset() + STAGES * self.key_bytes()
    }

    pub fn output_offset(&self) -> usize {
        self.value_offset() + STAGES * self.value_bytes()
    }

    /// Where the barriers are: full and empty for each buffer of queries, then of keys, then of values.
    pub fn barrier_offset(&self) -> usize {
        let output = if self.output_in_query { 0 } else { 2 * self.queries() * self.value_width };
        self.output_offset() + output
    }

    /// Where each buffer of queries says which tile it is of.
    pub fn slot_offset(&self) -> usize {
        self.barrier_offset() + 8 * (2 * self.query_buffers() + 4 * STAGES)
    }

    pub fn memory_bytes(&self) -> usize {
        (self.slot_offset() + 4 * self.query_buffers()).next_multiple_of(16)
    }

    /// Registers of a thread that computes.
    pub fn registers(&self) -> usize {
        if self.consumers == 3 { 160 } else { 240 }
    }

    /// Registers of a thread that copies.
    pub fn copy_registers(&self) -> usize {
        if self.consumers == 3 { 32 } else { 24 }
    }

    /// Accumulators of a thread: scores, and sums.
    pub fn accumulators(&self) -> [usize; 2] {
        [self.keys / 2, self.columns / 2]
    }
}
