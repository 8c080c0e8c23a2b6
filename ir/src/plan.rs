//! From a graph to kernels, buffers and an order.
//!
//! # How a graph becomes kernels
//!
//! The graph is rewritten to fewer forms (`legalise`). Then planning walks the live nodes from
//! the results to the inputs (`fuse`). Each node, when its turn comes, knows all its readers, and
//! where they read: every reader asked for its operands *at coordinates*, affine functions of the
//! dimensions of the iteration space of the reader's group (`affine`). A view (reshape, permute,
//! expand, slice, unfold) is no kernel: it changes the coordinates that its reader asks at
//! (`views`). A reshape may have to split a dimension of the space first; if no split makes the
//! coordinates affine, its operand is stored row-major and read by element index.
//!
//! A node then is placed (`place`, `update`):
//!
//! - *Generators* and small expressions of them are computed by every reader.
//! - *Elementwise* operations and gathers join the group of a reader if all its requests agree on
//!   the coordinates; if others need the value, too, the group stores it, provided that the group
//!   computes every element exactly once. A view between the two does no harm: the value is
//!   computed where it is read. Costly functions are not computed more often than once an element.
//! - A *reduction* joins if the dimensions of the group that its result does not use are exactly
//!   the group's reduction dimensions, or can become those. So a softmax's sum and maximum join
//!   the division that reads them, and what they reduce joins in turn. If its result uses all
//!   dimensions, the reduction dimensions are new and what reads it becomes its epilogue.
//! - A *contraction* joins if its result uses all dimensions and nothing else reduces or gathers: what
//!   reads it is its epilogue. Its operands are read from memory.
//! - Anything else opens a group of its own. `concat` and `slice update` are groups that store
//!   into boxes; `scatter`, `sort`, `scan`, `paths` and `attention` are kernels by themselves.
//!
//! A value lies row-major in memory. Where the target's wide accesses and copies need it, long rows of an odd number
//! of elements end in a gap.
//!
//! Joining never makes a cycle of groups (`reach`). Each group is then written as statements
//! (`emit`), brought into a canonical form (`canonical`), ordered (`schedule`) and given
//! memory (`memory`).

mod affine;
mod assemble;
mod attention;
mod canonical;
mod emit;
mod fuse;
mod group;
mod legalise;
mod memory;
mod place;
mod reach;
mod schedule;
mod update;
mod views;
mod window;

use crate::{DType, Graph, Kernel, KernelId, Layout, Target, VerifyError};
use std::collections::BTreeMap;

/// Why a graph has no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The graph breaks a rule of the representation.
    #[error("malformed graph: {0}")]
    Malformed(#[from] VerifyError),
    /// The planner cannot express a node.
    #[error("node {node} of the graph cannot be planned: {reason}")]
    Unsupported {
        /// The node.
        node: u32,
        /// What is missing.
        reason: &'static str,
    },
}

/// Plans a graph: fusion, order, memory.
pub fn plan(graph: &Graph) -> Result<Plan, PlanError> {
    plan_with(graph, 1)
}

/// Plans a graph for a target, whose rows lie as it likes them.
pub fn plan_for(graph: &Graph, target: &Target) -> Result<Plan, PlanError> {
    plan_with(graph, target.row_bytes())
}

fn plan_with(graph: &Graph, row_bytes: usize) -> Result<Plan, PlanError> {
    graph.verify()?;
    let window = window::Window::new(graph);
    let mut fused = fuse::fuse(&window, row_bytes);
    let mut steps = schedule::schedule(&window, &graph.scalars, &fused)?;
    let memory = memory::plan_memory(&mut fused.storages, &mut steps);
    Ok(assemble::assemble(&window, &fused.storages, &memory, steps, &fused.results))
}

/// Where a plan's buffer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BufferSource {
    /// The buffer of the tensor bound to this input of the graph.
    Input(u32),
    /// A new allocation that outlives the plan: a result's storage.
    Fresh,
    /// Part of the arena that lives as long as the plan runs.
    Arena {
        /// Distance from the start of the arena in bytes, a multiple of 64.
        offset: usize,
    },
}

/// A piece of memory a plan works on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Buffer {
    /// Where it comes from.
    pub source: BufferSource,
    /// Size in bytes (for inputs: what the accesses may reach from the input's offset on, 0 if unknown).
    pub bytes: usize,
}

/// A buffer argument of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Argument {
    /// Index into [`Plan::buffers`].
    pub buffer: u32,
    /// Elements between the buffer's start (for an input: the input tensor's own offset) and domain
    /// coordinate 0.
    pub offset: i64,
    /// Element type, to scale the offset.
    pub dtype: DType,
}

/// One kernel with its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Launch {
    /// Index into [`Plan::kernels`].
    pub kernel: KernelId,
    /// One argument per kernel parameter.
    pub arguments: Vec<Argument>,
    /// The graph's scalar for each scalar of the kernel.
    pub scalars: Vec<u32>,
}

/// Where a result of the graph lies once the plan has run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResultPlace {
    /// Index into [`Plan::buffers`].
    pub buffer: u32,
    /// Layout in that buffer. For an input's buffer the offset is relative to the input's own.
    pub layout: Layout,
}

/// What a graph becomes: kernels, buffers, launches in order, places of the results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Plan {
    /// The distinct kernels.
    pub kernels: Vec<Kernel>,
    /// For each kernel that was [opened](mod@crate::opened) its numbers; nothing else.
    pub numbers: BTreeMap<KernelId, Vec<u64>>,
    /// All memory the launches touch.
    pub buffers: Vec<Buffer>,
    /// In order of execution.
    pub launches: Vec<Launch>,
    /// One place per result of the graph.
    pub results: Vec<ResultPlace>,
    /// Size of the arena in bytes.
    pub arena_bytes: usize,
}
