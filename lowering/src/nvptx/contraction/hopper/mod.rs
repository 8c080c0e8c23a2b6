//! Contractions for Hopper: warpgroup matrix instructions fed by the copy engine.
//!
//! A block of threads walks over tiles of the result ([`plan`], [`place`]). One warp copies slices of both
//! operands to workgroup memory ([`producer`]), in the layout that one or two warpgroups multiply them from
//! ([`consumer`], [`products`], [`descriptor`], [`fragment`]); a ring of barriers ([`ring`]) lets the copies of the
//! next slices, and of the next tile, run ahead. The accumulators stay in registers for the statements after the
//! contraction ([`epilogue`]), once the parts of a sum that was cut are added ([`splits`]); results whose rows or
//! columns are contiguous leave by the copy engine, too ([`results`]). Operands that it cannot walk are copied
//! first ([`packing`]).

mod consumer;
mod descriptor;
mod epilogue;
mod fragment;
mod int;
mod kernel;
mod packing;
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

/// The functions that copy the left and the right operand.
const COPY_SYMBOLS: [&str; 2] = ["copy_left", "copy_right"];

/// Lowers a contraction, or nothing if it is none for the copy engine and the matrix instructions: of other
/// types, or with operands that lie differently. It has at least one element and sums something.
pub(super) fn lower(
    block: &Block,
    contraction: &Contraction,
    target: &NvptxTarget,
) -> Result<Option<Payload>, LoweringError> {
    let Some(mut problem) = Problem::of(block, contraction) else { return Ok(None) };
    let results = Results::of(&problem);
    let Some(mut plan) = Plan::of(&problem, target, results.demand) else { return Ok(None) };
    let (mut texts, mut phases) = (Vec::new(), Vec::new());
    for (operand, symbol) in problem.operands().into_iter().zip(COPY_SYMBOLS) {
        if let Some(packing) = &operand.packing {
            let copy = packing.lower(block, symbol, plan.scratch_offset)?;
            operand.view.offset = plan.scratch_offset;
            plan.scratch_offset += packing.bytes;
            texts.push(copy.text);
            phases.extend(copy.program.phases);
        }
    }
    texts.push(kernel::Kernel::new(&problem, &plan, &results).write()?);
    let depth = plan::depth(&problem);
    let mut tensor_maps = vec![
        producer::map(&problem.left, plan.rows(), depth),
        producer::map(&problem.right, plan.columns, depth),
    ];
    tensor_maps.extend(results.maps.iter().cloned());
    phases.push(Phase {
        symbol: SYMBOL.into(),
        grid: [plan.grid as u32, 1, 1],
        block: [plan.threads() as u32, 1, 1],
        workgroup_bytes: plan.workgroup_bytes() as u32,
        tensor_maps,
        ..Phase::default()
    });
    let parts = splits::scratch_bytes(&plan, problem::points(&problem.batch));
    let shared_bytes = (plan.scratch_offset + parts) as u64;
    // Copies are linalg, as other maps are.
    let copies = phases.len() > 1;
    let payload = payload(&texts, Program { phases, shared_bytes, worker_bytes: 0 });
    Ok(Some(if copies { payload } else { Payload { schedule: String::new(), ..payload } }))
}
