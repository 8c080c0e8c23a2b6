//! Tiles of the general attention kernel, and its memory.

use burn_mlir_ir::{Attention, DType};

/// Threads along queries and along keys or columns.
pub(super) const SIDE: usize = 16;

/// Threads of a block.
pub(super) const THREADS: usize = SIDE * SIDE;

/// Elements of queries and keys that are multiplied from one slice in the memory of the block.
const MOST_DEPTH: usize = 32;

/// Every thread copies some of a slice.
const LEAST_DEPTH: usize = 8;

/// Keys whose values are in the memory of the block at a time.
pub(super) const VALUE_KEYS: usize = 32;

/// How a block of threads divides a tile. A thread has `lanes` queries and as many keys of each block of
/// scores, and runs of `lanes` columns of the sums, [`SIDE`] runs apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    /// Elements of an access to the memory of the block.
    pub lanes: usize,
    /// Runs of columns of a thread.
    pub runs: usize,
    /// Elements of queries and keys in a slice.
    pub depth: usize,
    /// Parts that the columns of the values are cut into, each for blocks of threads of its own.
    pub parts: usize,
    /// Bytes of an element of a sum.
    pub element: usize,
}

impl Geometry {
    pub fn of(attention: &Attention) -> Self {
        let sizes = &attention.sizes;
        let element = Attention::scale_dtype(attention.dtype).size();
        let lanes = if element == DType::F64.size() { 2 } else { 4 };
        let runs = if sizes.value_width <= SIDE * lanes { 1 } else { 2 };
        Self {
            lanes,
            runs,
            depth: sizes.width.next_power_of_two().clamp(LEAST_DEPTH, MOST_DEPTH),
            parts: sizes.value_width.div_ceil(SIDE * lanes * runs),
            element,
        }
    }

    /// Queries of a tile, and keys of a block.
    pub fn tile(&self) -> usize {
        SIDE * self.lanes
    }

    /// Columns of a part of the values.
    pub fn columns(&self) -> usize {
        SIDE * self.lanes * self.runs
    }

    /// Elements between rows of a tile in the memory of the block.
    pub fn pitch(&self) -> usize {
        self.tile() + self.lanes
    }

    /// Bytes of slices of queries and keys, or of the values that take their place.
    pub fn slice_bytes(&self) -> usize {
        let operands = 2 * self.depth * self.pitch();
        self.element * operands.max(VALUE_KEYS * self.columns())
    }

    /// Bytes of the weights of a tile.
    pub fn weight_bytes(&self) -> usize {
        self.element * self.tile() * self.pitch()
    }
}
