//! Lowering of blocks for NVIDIA GPUs.
//!
//! - [`map`]: blocks without reductions;
//! - [`row`]: blocks that reduce;
//! - [`contraction`]: blocks with a contraction.
//!
//! A payload is the code of one thread. Its place in the grid, its memory accesses and what it exchanges
//! with other threads are explicit operations of the llvm and nvvm dialects; its arithmetic is linalg on
//! the tensors of a [`chunk`] of elements, the sum of a contraction arithmetic on vectors.

mod access;
mod chunk;
mod contraction;
mod map;
mod row;
mod writer;

use crate::host::with_lane;
use crate::{Lowered, LoweringError, Payload, pipeline};
use burn_mlir_ir::{Block, Kernel, NvptxTarget, Program};
use melior::{
    Context,
    ir::{
        Attribute, BlockLike,
        attribute::StringAttribute,
        operation::{OperationLike, OperationMutLike},
    },
};

/// The transform script of all payloads.
const SCHEDULE: &str = include_str!("schedule.mlir");

/// Bytes of the widest access to memory.
const ACCESS_BYTES: usize = 16;

/// Lowers a kernel to functions that are entry points of a GPU.
pub(crate) fn lower<'c>(
    context: &'c Context,
    kernel: &Kernel,
    target: &NvptxTarget,
    stages: bool,
) -> Result<Lowered<'c>, LoweringError> {
    let payload = match kernel {
        Kernel::Block(block) => self::block(block, target)?,
        _ => return Err(LoweringError::Unsupported("scatter, sort and scan on NVIDIA targets".into())),
    };
    let mut lowered = pipeline::run(context, payload, stages)?;
    mark_kernels(context, &lowered);
    if let Some(stage) = lowered.stages.iter_mut().find(|stage| stage.name == "llvm") {
        stage.text = lowered.module.as_operation().to_string();
    }
    Ok(lowered)
}

fn block(block: &Block, target: &NvptxTarget) -> Result<Payload, LoweringError> {
    let block = with_lane(block);
    if block.contraction().is_some() {
        return contraction::lower(&block, target);
    }
    if block.reduces() { row::lower(&block) } else { map::lower(&block) }
}

/// A payload of kernels written by hand-out of [`writer::KernelWriter`].
fn payload(texts: &[String], program: Program) -> Payload {
    Payload { text: texts.join("\n"), program, schedule: SCHEDULE.into(), lower_sequence: false }
}

/// Marks the functions of the program as entry points with their number of threads: attributes that
/// only functions of the LLVM dialect may have.
fn mark_kernels(context: &Context, lowered: &Lowered<'_>) {
    let mut next = lowered.module.body().first_operation_mut();
    while let Some(mut operation) = next {
        let name = operation.attribute("sym_name").ok().and_then(|a| StringAttribute::try_from(a).ok());
        let phase =
            lowered.program.phases.iter().find(|phase| name.is_some_and(|n| n.value() == phase.symbol));
        if let Some(phase) = phase {
            let [x, y, z] = phase.block;
            let threads = format!("array<i32: {x}, {y}, {z}>");
            for (key, text) in [("nvvm.kernel", "unit"), ("nvvm.reqntid", threads.as_str())] {
                if let Some(attribute) = Attribute::parse(context, text) {
                    operation.set_attribute(key, attribute);
                }
            }
        }
        next = operation.next_in_block_mut();
    }
}
