//! Attention.
//!
//! - [`hopper`]: 16-bit types on Hopper;
//! - [`general`]: all else.

mod general;
mod hopper;

use crate::{LoweringError, Payload};
use burn_mlir_ir::{Attention, NvptxTarget};

/// Lowers an attention.
pub(super) fn lower(attention: &Attention, target: &NvptxTarget) -> Result<Payload, LoweringError> {
    let payload = if target.is_hopper() { hopper::lower(attention, target) } else { None };
    payload.map_or_else(|| general::lower(attention), Ok)
}
