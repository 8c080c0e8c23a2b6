//! Contractions: register tiles of fused multiply-adds.
//!
//! A block of threads computes a tile of the result ([`geometry`]). In turns, its threads copy a slice
//! of both operands to workgroup memory in the accumulator's type ([`operand`]), and add the products of
//! that slice to the accumulators each has in registers ([`kernel`]). The finished accumulators go through
//! the statements after the contraction ([`epilogue`]). Each element is one chain of multiply-adds in the
//! order of the summed dimensions, whatever the geometry.

mod epilogue;
mod geometry;
mod hopper;
mod kernel;
mod operand;

use super::payload;
use crate::contraction::Contraction;
use crate::{LoweringError, Payload};
use burn_mlir_ir::{Block, DType, DimKind, NvptxTarget, ParamMode, Phase, Program};
use geometry::Geometry;

/// The function's name.
const SYMBOL: &str = "contract";

/// Lowers a block with a contraction, which has a dimension that is not empty.
pub(super) fn lower(block: &Block, target: &NvptxTarget) -> Result<Payload, LoweringError> {
    let contraction = Contraction::of(block, 0).map_err(LoweringError::Unsupported)?;
    check(block, &contraction)?;
    let geometry = Geometry::of(&contraction);
    if geometry.tiles() == 0 {
        let program = Program::default();
        return Ok(Payload { text: String::new(), program, schedule: String::new(), lower_sequence: false });
    }
    if target.is_hopper()
        && contraction.sum.len() > 0
        && let Some(payload) = hopper::lower(block, &contraction, target)?
    {
        return Ok(payload);
    }
    let grid = u32::try_from(geometry.tiles()).ok().filter(|&tiles| tiles <= i32::MAX as u32);
    let grid = grid
        .ok_or_else(|| LoweringError::Unsupported(format!("a contraction of {} tiles", geometry.tiles())))?;
    let text = kernel::Kernel::new(block, &contraction, &geometry).write()?;
    let threads = geometry.threads() as u32;
    let phase =
        Phase { symbol: SYMBOL.into(), grid: [grid, 1, 1], block: [threads, 1, 1], ..Phase::default() };
    let program = Program { phases: vec![phase], shared_bytes: 0, worker_bytes: 0 };
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
