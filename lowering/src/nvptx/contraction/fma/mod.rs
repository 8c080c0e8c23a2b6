//! Contractions by fused multiply-adds, for all types.
//!
//! A block of threads computes a tile of the result ([`geometry`]). Slices of both operands go to workgroup memory: as
//! they are, some slices ahead of the one whose products are summed ([`pipeline`]), or one at a time through registers
//! if they have to be converted ([`operand`], [`kernel`]). Each thread adds the products to the accumulators it has in
//! registers, which then go through the statements after the contraction ([`epilogue`]). Each element, or each part of
//! its sum, is one chain of multiply-adds in the order of the summed dimensions.

mod epilogue;
mod geometry;
mod kernel;
mod operand;
mod pipeline;

use super::reading::Reading;
use crate::contraction::Contraction;
use crate::nvptx::payload;
use crate::{LoweringError, Payload};
use burn_mlir_ir::{Block, NvptxTarget};
use geometry::Geometry;

/// Lowers a contraction that has at least one element.
pub(super) fn lower(
    block: &Block,
    contraction: &Contraction,
    target: &NvptxTarget,
) -> Result<Payload, LoweringError> {
    let contraction = contraction.clone().with_close_sum();
    let readings = [true, false].map(|left| Reading::of(block, &contraction, left, contraction.accumulator));
    let geometry = Geometry::of(&contraction, &readings, target);
    let blocks = geometry.tiles() * geometry.parts;
    if blocks > i32::MAX as usize {
        return Err(LoweringError::Unsupported(format!("a contraction of {blocks} tiles")));
    }
    let (text, program) = kernel::Kernel::new(block, &contraction, &geometry, readings).write()?;
    Ok(payload(&[text], program))
}
