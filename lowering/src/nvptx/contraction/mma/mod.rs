//! Contractions on the matrix multiplier that every GPU from `sm_80` on has: f16 and bf16, and Flex32 as TF32, summed
//! in f32.
//!
//! A block of threads computes a [`tile`] of the result. Slices of both operands are copied to workgroup memory some
//! slices ahead ([`super::copy`], [`layout`]), warps multiply [`fragment`]s of them ([`kernel`]). The sums pass through workgroup memory
//! to the statements after the contraction ([`super::drain`]); where there are few tiles, blocks share a tile's sum
//! ([`super::parts`]). Sizes, strides, alignments and the number of dimensions are arbitrary.

mod element;
mod fragment;
mod kernel;
mod layout;
mod tile;

use super::reading::Reading;
use crate::contraction::Contraction;
use crate::{LoweringError, Payload};
use burn_mlir_ir::{Block, NvptxTarget};
use element::Element;
use tile::Tile;

/// Lowers a contraction whose type the multiplier takes; nothing of any other. It has at least one element and
/// sums something.
pub(super) fn lower(
    block: &Block,
    contraction: &Contraction,
    target: &NvptxTarget,
) -> Result<Option<Payload>, LoweringError> {
    let Some(element) = Element::of(block, contraction) else { return Ok(None) };
    let contraction = contraction.clone().with_close_sum();
    let readings = [true, false].map(|left| Reading::of(block, &contraction, left, element.dtype()));
    let tile = Tile::of(&contraction, element, &readings, target);
    let blocks = tile.tiles() * tile.parts;
    if blocks > i32::MAX as usize {
        return Err(LoweringError::Unsupported(format!("a contraction of {blocks} tiles")));
    }
    let (text, program) = kernel::Kernel::new(block, &contraction, &tile, element, readings).write()?;
    Ok(Some(crate::nvptx::payload(&[text], program)))
}
