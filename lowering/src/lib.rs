//! From a [`Kernel`] and a [`Target`] to a module in the LLVM dialect and the [`Program`] that says how
//! to launch it.
//!
//! A kernel becomes MLIR text: linalg on tensors for its arithmetic, scf, memref and vector for what
//! linalg cannot say. Parsing verifies it; the pass pipelines of `pipeline.rs` and the transform
//! scripts beside the code vectorise, bufferise and lower it. The code needs no symbol from outside.

mod abi;
mod body;
mod cascade;
mod contraction;
mod emit;
mod error;
mod host;
mod loops;
mod nvptx;
mod order;
mod pipeline;
mod scalar;
mod types;

pub use error::LoweringError;
pub use pipeline::context;

use burn_mlir_ir::{Kernel, Program, Target};
use melior::{Context, ir::Module};

/// Version of the code this crate makes: part of a kernel's key in the cache. To be raised with every
/// change of generated code.
pub const VERSION: u32 = 50;

/// The text of a kernel at one point of its way down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// `linalg`, `scheduled` or `llvm`.
    pub name: &'static str,
    /// MLIR.
    pub text: String,
}

/// A lowered kernel.
pub struct Lowered<'c> {
    /// LLVM dialect only, with NVVM operations for a GPU.
    pub module: Module<'c>,
    /// How to launch it.
    pub program: Program,
    /// What it looked like on the way, if that was asked for.
    pub stages: Vec<Stage>,
}

/// Payload text of a kernel with its program, and the schedule it goes through.
pub(crate) struct Payload {
    /// Functions, one per phase.
    pub text: String,
    /// How to launch them.
    pub program: Program,
    /// A module with named sequences: `@__transform_main` runs on the payload, `@lower`, if
    /// `lower_sequence`, once there are buffers. Empty for a payload without linalg.
    pub schedule: String,
    /// Whether the schedule has a sequence `@lower`.
    pub lower_sequence: bool,
}

/// Lowers a kernel; with `stages`, records its text on the way.
pub fn lower<'c>(
    context: &'c Context,
    kernel: &Kernel,
    target: &Target,
    stages: bool,
) -> Result<Lowered<'c>, LoweringError> {
    let target = match target {
        // Without it every polynomial would call a library, one lane at a time.
        Target::Host(target) if !target.fma => {
            let reason = format!("the processor {} has no fused multiply-add (x86-64-v3 does)", target.cpu);
            return Err(LoweringError::Unsupported(reason));
        }
        Target::Host(target) => target,
        Target::Nvptx(target) => return nvptx::lower(context, kernel, target, stages),
    };
    let payload = match kernel {
        Kernel::Block(block) => host::block(block, target)?,
        Kernel::Scatter(scatter) => loops::scatter(scatter, target)?,
        Kernel::Scan(scan) => loops::scan(scan, target)?,
        Kernel::Sort(sort) => loops::sort(sort)?,
        Kernel::Paths(paths) => loops::paths(paths)?,
        Kernel::Attention(attention) => host::attention(attention, target)?,
    };
    pipeline::run(context, payload, stages)
}
