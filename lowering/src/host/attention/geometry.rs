//! Tiles of attention on the host, and what lies where in scratch.

use burn_mlir_ir::{Attention, HostTarget};

/// Rows of a register tile.
pub(super) const ROWS: usize = 6;

/// Register tiles of a tile of queries, where there are that many queries.
const MOST_GROUPS: usize = 8;

/// Vectors of keys in a block.
const BLOCK_VECTORS: usize = 4;

/// Every array in scratch starts at a multiple of this.
const ALIGNMENT: usize = 64;

/// How the work is cut up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    /// Register tiles of a tile of queries.
    groups: usize,
    /// Elements of a vector.
    pub lanes: usize,
    /// Vectors of a row of a register tile.
    pub vectors: usize,
    /// Bytes of an element of a sum.
    pub element: usize,
    /// Columns of packed values: whole vectors.
    pub columns: usize,
}

/// Arrays in the worker's scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Array {
    /// Scaled queries `[row][element]`.
    Queries,
    /// Scores, then weights `[row][key]`.
    Scores,
    /// Sums `[row][column]`.
    Sums,
    /// Sums of weights, a vector a row.
    Totals,
    /// Largest score of a row.
    Max,
    /// What the sums of a row are to be multiplied with.
    Factors,
}

impl Geometry {
    pub fn of(attention: &Attention, target: &HostTarget) -> Self {
        let element = Attention::scale_dtype(attention.dtype).size();
        let lanes = (target.vector_bytes / element).max(1);
        Self {
            groups: attention.sizes.queries.div_ceil(ROWS).min(MOST_GROUPS),
            lanes,
            vectors: if target.vector_registers >= 32 { 4 } else { 2 },
            element,
            columns: attention.sizes.value_width.next_multiple_of(lanes),
        }
    }

    /// Queries of a tile.
    pub fn rows(&self) -> usize {
        ROWS * self.groups
    }

    /// Keys of a block.
    pub fn keys(&self) -> usize {
        BLOCK_VECTORS * self.lanes
    }

    /// Blocks of keys.
    pub fn blocks(&self, keys: usize) -> usize {
        keys.div_ceil(self.keys())
    }

    /// Elements of a packed block: keys `[element][key]`, then values `[key][column]`.
    pub fn block_elements(&self, attention: &Attention) -> usize {
        self.keys() * (attention.sizes.width + self.columns)
    }

    pub fn packed_bytes(&self, attention: &Attention) -> usize {
        let sizes = &attention.sizes;
        let blocks = sizes.batch * sizes.kv_heads * self.blocks(sizes.keys);
        self.element * blocks * self.block_elements(attention)
    }

    fn arrays(&self, attention: &Attention) -> [(Array, usize); 6] {
        let rows = self.rows();
        [
            (Array::Queries, rows * attention.sizes.width),
            (Array::Scores, rows * self.keys()),
            (Array::Sums, rows * self.columns),
            (Array::Totals, rows * self.lanes),
            (Array::Max, rows),
            (Array::Factors, rows),
        ]
    }

    /// Where an array starts in the worker's scratch.
    pub fn offset(&self, attention: &Attention, array: Array) -> usize {
        let before = self.arrays(attention).into_iter().take_while(|entry| entry.0 != array);
        before.map(|entry| (entry.1 * self.element).next_multiple_of(ALIGNMENT)).sum()
    }

    pub fn worker_bytes(&self, attention: &Attention) -> usize {
        let all = self.arrays(attention).into_iter();
        all.map(|entry| (entry.1 * self.element).next_multiple_of(ALIGNMENT)).sum()
    }
}
