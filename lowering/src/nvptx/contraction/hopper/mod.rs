//! Contractions for Hopper: warpgroup matrix instructions fed by the copy engine.
//!
//! A block of threads walks over tiles of the result ([`plan`], [`place`]). One warp copies slices of both
//! operands to workgroup memory ([`producer`]), in the layout that one or two warpgroups multiply them
//! from ([`consumer`], [`products`], [`descriptor`], [`fragment`]); a ring of barriers ([`ring`]) lets the copies of the next slices, and of the
//! next tile, run ahead. The accumulators stay in registers for the statements after the contraction
//! ([`epilogue`]), once the parts of a sum that was cut are added ([`splits`]); 16-bit results leave by the copy engine, too ([`results`]).

mod consumer;
mod descriptor;
mod epilogue;
mod fragment;
mod int;
mod kernel;
mod place;
mod plan;
mod problem;
mod producer;
mod products;
mod results;
mod ring;
mod splits;
mod view;

use super::SYMBOL;
use crate::contraction::Contraction;
use crate::nvptx::payload;
use crate::{LoweringError, Payload};
use burn_mlir_ir::{Block, NvptxTarget, Phase, Program};
use plan::Plan;
use problem::Problem;
use results::Results;

/// Lowers a contraction, or nothing if it is none for the copy engine and the matrix instructions: of other
/// types, or with operands that lie differently. It has at least one element and sums something.
pub(super) fn lower(
    block: &Block,
    contraction: &Contraction,
    target: &NvptxTarget,
) -> Result<Option<Payload>, LoweringError> {
    let Some(problem) = Problem::of(block, contraction) else { return Ok(None) };
    let results = Results::of(&problem);
    let Some(plan) = Plan::of(&problem, target, results.demand) else { return Ok(None) };
    let text = kernel::Kernel::new(&problem, &plan, &results).write()?;
    let depth = plan::depth(&problem);
    let mut tensor_maps = vec![
        producer::map(&problem.left, plan.rows(), depth),
        producer::map(&problem.right, plan.columns, depth),
    ];
    tensor_maps.extend(results.maps.iter().cloned());
    let phase = Phase {
        symbol: SYMBOL.into(),
        grid: [plan.grid as u32, 1, 1],
        block: [plan.threads() as u32, 1, 1],
        workgroup_bytes: plan.workgroup_bytes() as u32,
        tensor_maps,
        ..Phase::default()
    };
    let shared_bytes = splits::scratch_bytes(&plan, problem::points(&problem.batch)) as u64;
    let program = Program { phases: vec![phase], shared_bytes, worker_bytes: 0 };
    let schedule = String::new();
    Ok(Some(Payload { schedule, ..payload(&[text], program) }))
}
