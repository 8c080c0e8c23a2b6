//! Contractions.
//!
//! - [`hopper`]: on Hopper, for types its warpgroup matrix instructions take and operands the copy engine walks;
//! - [`mma`]: for the types that the matrix unit of every GPU takes, however operands lie;
//! - [`fma`]: for all other types, by multiply-adds.
//!
//! The last two share how operands are read ([`reading`], [`copy`]) and how blocks share a long sum ([`parts`]).

mod asm;
mod copy;
mod drain;
mod fma;
mod hopper;
mod mma;
mod parts;
mod place;
mod reading;

use crate::contraction::Contraction;
use crate::{LoweringError, Payload};
use burn_mlir_ir::{Block, DType, DimKind, NvptxTarget, ParamMode, Program};

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
    fma::lower(block, &contraction, target)
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
