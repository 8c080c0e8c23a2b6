//! Reductions of few rows: parts of a row are reduced by different workers, then combined in order.
use super::row::Rows;
use crate::{LoweringError, Payload};
use burn_mlir_ir::{Block, HostTarget};

/// How rows are split.
pub(super) struct Split {}
impl Split {
    /// The split of rows that are few and long.
    pub fn of(_rows: &Rows) -> Option<Self> { None }
}
pub(super) fn lower(_: &Block, _: &HostTarget, _: Split) -> Result<Payload, LoweringError> {
    Err(LoweringError::Unsupported("split".into()))
}
