//! Blocks that reduce.
use crate::{LoweringError, Payload};
use burn_mlir_ir::{Block, HostTarget};
pub(super) fn lower(_block: &Block, _target: &HostTarget) -> Result<Payload, LoweringError> {
    Err(LoweringError::Unsupported("reductions".into()))
}
