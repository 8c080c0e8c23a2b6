//! Kernels that are loops over data, not blocks.
use crate::{LoweringError, Payload};
use burn_mlir_ir::{Scan, Scatter, Sort};
pub(crate) fn scatter(_: &Scatter) -> Result<Payload, LoweringError> {
    Err(LoweringError::Unsupported("scatter".into()))
}
pub(crate) fn scan(_: &Scan) -> Result<Payload, LoweringError> {
    Err(LoweringError::Unsupported("scan".into()))
}
pub(crate) fn sort(_: &Sort) -> Result<Payload, LoweringError> {
    Err(LoweringError::Unsupported("sort".into()))
}
