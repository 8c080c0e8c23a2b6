//! Attention on any NVIDIA GPU, in any type and layout: register tiles of fused multiply-adds.
//!
//! A block of threads computes a tile of queries of one head. For one block of keys after the other, it
//! computes scores and adds the weighted values to its sums ([`products`]); between the two the scores
//! become weights ([`rows`]). Scores never leave the block. Each sum is one chain in the order of the keys.

mod geometry;
mod kernel;
mod products;
mod rows;

use crate::nvptx::payload;
use crate::{LoweringError, Payload};
use burn_mlir_ir::{Attention, Phase, Program};
use geometry::{Geometry, THREADS};

/// The function's name.
const SYMBOL: &str = "attention";

/// Lowers an attention.
pub(super) fn lower(attention: &Attention) -> Result<Payload, LoweringError> {
    let sizes = &attention.sizes;
    let geometry = Geometry::of(attention);
    let rows = sizes.queries.div_ceil(geometry.tile());
    let blocks = [sizes.batch, sizes.heads, geometry.parts].into_iter().try_fold(rows, usize::checked_mul);
    let blocks = blocks.filter(|&blocks| blocks <= i32::MAX as usize);
    let blocks = blocks.ok_or_else(|| {
        LoweringError::Unsupported(format!("an attention of {} heads of {rows} tiles", sizes.heads))
    })?;
    let text = kernel::Kernel::new(attention, geometry).write();
    let phase = Phase {
        symbol: SYMBOL.into(),
        grid: [blocks as u32, 1, 1],
        block: [THREADS as u32, 1, 1],
        ..Phase::default()
    };
    let program = Program { phases: vec![phase], shared_bytes: 0, worker_bytes: 0 };
    Ok(payload(&[text], program))
}
