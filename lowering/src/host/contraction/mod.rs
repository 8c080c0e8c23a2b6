//! Contractions on the host: packed operands, register tiles, the epilogue row by row.
//!
//! A first phase packs both operands into panels as wide as a register tile ([`pack`]). In a second
//! phase a tile is a block of rows and columns of the result ([`kernel`]): for each register tile the
//! sum runs over packed panels with its accumulators in registers, and the finished rows go through the
//! [`epilogue`]. Each element is one chain of multiply-adds in the order of the summed dimensions, whatever
//! the [`blocking`].

mod blocking;
mod epilogue;
mod index;
mod kernel;
mod memory;
mod pack;
mod structure;
#[cfg(test)]
mod tests;

use crate::{LoweringError, Payload};
use burn_mlir_ir::{Block, HostTarget};

/// Lowers a block that contains a contraction.
pub(crate) fn lower(block: &Block, target: &HostTarget) -> Result<Payload, LoweringError> {
    kernel::packed(block, target)
}
