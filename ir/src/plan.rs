//! From a graph to kernels, buffers and an order.

use crate::{DType, Kernel, KernelId, Layout};

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
    /// All memory the launches touch.
    pub buffers: Vec<Buffer>,
    /// In order of execution.
    pub launches: Vec<Launch>,
    /// One place per result of the graph.
    pub results: Vec<ResultPlace>,
    /// Size of the arena in bytes.
    pub arena_bytes: usize,
}
