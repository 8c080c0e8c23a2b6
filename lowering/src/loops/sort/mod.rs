//! Stable sorts along an axis.
//!
//! - short rows: [`merge`], one after the other;
//! - rows: [`rows`], a radix sort of each in the worker's scratch;
//! - few long rows: [`parts`], a radix sort whose passes are phases, in shared scratch.
//!
//! The radix sorts are least significant byte first, which makes them stable; which elements are in a part
//! depends on the size alone.

mod key;
mod merge;
mod parts;
mod radix;
mod rows;

use crate::{LoweringError, Payload};
use burn_mlir_ir::Sort;

/// Elements of a row for each byte of a key from which counting bytes is faster than merging.
const RADIX_ELEMENTS: usize = 32;

/// Elements of a row from which it is worth to be cut into parts.
const LONG: usize = 1 << 16;

/// Rows that keep workers busy without being cut.
const MANY: usize = 32;

/// Lowers a sort.
pub(crate) fn sort(sort: &Sort) -> Result<Payload, LoweringError> {
    let size = sort.shape[sort.axis];
    if size < RADIX_ELEMENTS * sort.dtype.size() {
        return merge::lower(sort);
    }
    let rows = sort.rows();
    if size >= LONG && rows < MANY { parts::lower(sort, rows) } else { rows::lower(sort, rows) }
}
