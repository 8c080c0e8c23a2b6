//! Lowering of blocks for NVIDIA GPUs.
//!
//! - [`map`]: blocks without reductions, [`transpose`] those that read along one dimension and write along
//!   another;
//! - [`row`]: blocks that reduce;
//! - [`contraction`]: blocks with a contraction;
//! - [`scatter`], [`scan`], [`sort`], [`paths`]: what is no block, as scalar code;
//! - [`attention`].
//!
//! A payload is the code of one thread. Its place in the grid, its memory accesses and what it exchanges
//! with other threads are explicit operations of the llvm and nvvm dialects; its arithmetic is linalg on
//! the tensors of a [`chunk`] of elements, the sum of a contraction arithmetic on vectors.

mod access;
mod attention;
mod chunk;
mod code;
mod contraction;
mod division;
mod exponential;
mod map;
mod paths;
mod quotient;
mod row;
mod scan;
mod scatter;
mod shuffle;
mod sort;
mod transpose;
mod writer;

use crate::host::with_lane;
use crate::{Lowered, LoweringError, Payload, pipeline};
use burn_mlir_ir::{Block, Kernel, NvptxTarget, Phase, Program};
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

/// Threads of a warp.
const WARP: usize = 32;

/// Blocks that fill a large GPU.
const ENOUGH_BLOCKS: usize = 264;

/// How integers are aligned on a GPU, as LLVM writes it. Without it an access to an `i64` is taken to be aligned to
/// 4 bytes, and becomes two.
const DATA_LAYOUT: &str = "e-i64:64-i128:128";

/// Lowers a kernel to functions that are entry points of a GPU.
pub(crate) fn lower<'c>(
    context: &'c Context,
    kernel: &Kernel,
    target: &NvptxTarget,
    stages: bool,
) -> Result<Lowered<'c>, LoweringError> {
    let payload = match kernel {
        Kernel::Block(block) => self::block(block, target)?,
        Kernel::Scatter(scatter) => scatter::lower(scatter, target)?,
        Kernel::Scan(scan) => scan::lower(scan)?,
        Kernel::Sort(sort) => sort::lower(sort)?,
        Kernel::Paths(paths) => paths::lower(paths)?,
        Kernel::Attention(attention) => attention::lower(attention, target)?,
    };
    let mut lowered = pipeline::run(context, payload, stages)?;
    quotient::expand(context, &lowered.module);
    mark_kernels(context, &lowered);
    let layout = StringAttribute::new(context, DATA_LAYOUT).into();
    lowered.module.as_operation_mut().set_attribute("llvm.data_layout", layout);
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

/// The payload of kernels without linalg, with how they are launched.
fn kernels(kernels: Vec<(String, Phase)>, shared_bytes: usize) -> Payload {
    let (texts, phases): (Vec<_>, Vec<_>) = kernels.into_iter().unzip();
    let program = Program { phases, shared_bytes: shared_bytes as u64, worker_bytes: 0 };
    Payload { text: texts.join("\n"), program, schedule: String::new(), lower_sequence: false }
}

/// A grid of so many blocks; at least one. Only the first extent can be large.
fn grid(blocks: usize) -> Result<[u32; 3], LoweringError> {
    match i32::try_from(blocks.max(1)) {
        Ok(blocks) => Ok([blocks as u32, 1, 1]),
        Err(_) => Err(LoweringError::Unsupported(format!("a grid of {blocks} blocks"))),
    }
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
