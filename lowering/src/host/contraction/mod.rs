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
mod stream;
#[cfg(test)]
mod tests;
mod transpose;

use crate::contraction::Contraction;
use crate::{LoweringError, Payload};
use burn_mlir_ir::{Block, HostTarget, Program};

/// Lowers a block that contains a contraction.
pub(crate) fn lower(block: &Block, target: &HostTarget) -> Result<Payload, LoweringError> {
    let contraction = Contraction::of(block, stream::ROWS).map_err(LoweringError::Unsupported)?;
    let points = contraction.batch.len() * contraction.rows.len() * contraction.columns.len();
    if points == 0 {
        let program = Program::default();
        return Ok(Payload { text: String::new(), program, schedule: String::new(), lower_sequence: false });
    }
    match stream::lower(block, &contraction, target)? {
        Some(payload) => Ok(payload),
        None => kernel::packed(block, &contraction, target),
    }
}
