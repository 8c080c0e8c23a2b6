//! Contractions.
//!
//! Types the matrix multiplier takes go to it ([`mma`]); all others are register tiles of fused multiply-adds:
//! a block of threads computes a tile of the result ([`geometry`]). In turns, its threads copy a slice
//! of both operands to workgroup memory in the accumulator's type ([`operand`]), and add the products of
//! that slice to the accumulators each has in registers ([`kernel`]). The finished accumulators go through
//! the statements after the contraction ([`epilogue`]). Each element is one chain of multiply-adds in the
//! order of the summed dimensions, whatever the geometry.

mod asm;
mod copy;
mod drain;
mod epilogue;
mod geometry;
mod hopper;
mod kernel;
mod mma;
mod operand;
mod parts;
mod pipeline;
mod reading;

use super::payload;
use crate::contraction::Contraction;
use crate::{LoweringError, Payload};
use burn_mlir_ir::{Block, DType, DimKind, NvptxTarget, ParamMode, Program};
use geometry::Geometry;
use reading::Reading;

/// The function's name.
const SYMBOL: &str = "contract";

/// Lowers a block with a contraction, which has a dimension that is not empty.
pub(super) fn lower(block: &Block, target: &NvptxTarget) -> Result<Payload, LoweringError> {
    let contraction = Contraction::of(block, 0).map_err(LoweringError::Unsupported)?;
    check(block, &contraction)?;
    let outer = [&contraction.batch, &contraction.rows, &contraction.columns];
    if outer.iter().any(|group| group.len() == 0) {
        let program = Program::default();
        return Ok(Payload { text: String::new(), program, schedule: String::new(), lower_sequence: false });
    }
    if contraction.sum.len() > 0 {
        if target.is_hopper()
            && let Some(payload) = hopper::lower(block, &contraction, target)?
        {
            return Ok(payload);
        }
        if let Some(payload) = mma::lower(block, &contraction, target)? {
            return Ok(payload);
        }
    }
    fma(block, &contraction, target)
}

/// Lowers to multiply-adds.
fn fma(block: &Block, contraction: &Contraction, target: &NvptxTarget) -> Result<Payload, LoweringError> {
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

/// Says what of a contraction cannot be lowered.
fn check(block: &Block, contraction: &Contraction) -> Result<(), LoweringError> {
    if contraction.accumulator == DType::Bool {
        return Err(LoweringError::Unsupported("a contraction of truth values".into()));
    }
    // Threads with different coordinates would replace what the others still read.
    let repeated = block.stores.iter().any(|store| {
        let mut dims = block.domain.iter().enumerate();
        block.params[store.param.0 as usize].mode == ParamMode::InOut
            && dims.any(|(dim, d)| d.kind == DimKind::Parallel && d.size > 1 && !store.access.uses(dim))
    });
    if repeated {
        return Err(LoweringError::Unsupported(
            "an update in place that does not depend on all coordinates, after a contraction".into(),
        ));
    }
    Ok(())
}

/// The dimension along which a chunk of results runs: the innermost columns; if there are none, any will do for
/// one lane.
fn lane_dimension(contraction: &Contraction) -> usize {
    let groups = [&contraction.columns, &contraction.rows, &contraction.batch];
    groups.iter().find_map(|group| group.dims.last().copied()).unwrap_or(0)
}
