//! The intermediate representation of burn-mlir: pure data and the decisions made on it.
//!
//! A window of recorded tensor operations is a [`Graph`]. [`plan`](mod@plan) turns a graph into a
//! [`Plan`]: fused [`Kernel`]s, the buffers they read and write, and the order they run in. Both a
//! graph and a kernel have a textual form that prints, parses and verifies, so every decision can
//! be read, diffed and tested as text. This crate knows neither MLIR nor Burn nor any device.

mod access;
mod attention;
mod dtype;
mod dtype_set;
mod graph;
mod infer;
mod kernel;
mod layout;
mod literal;
mod op;
pub mod opened;
pub mod plan;
mod program;
mod shape;
mod target;
mod tensor_map;
pub mod text;
mod verify;

pub use access::{Access, Layout, OPEN_STRIDE, StrideArgument, Strides};
pub use attention::{Attention, AttentionOperand, AttentionSizes, BufferView};
pub use dtype::{DType, DTypeKind};
pub use dtype_set::DTypeSet;
pub use graph::{Graph, Node, ValueId};
pub use infer::{Declared, InferError, Rule, infer};
pub use kernel::{
    Block, DimKind, Domain, DomainDim, Gather, Instr, Kernel, KernelId, Operand, Param, ParamId, ParamMode,
    Paths, Scan, Scatter, Sort, Statement, Store,
};
pub use literal::Literal;
pub use op::{
    ArgReduceOp, AttentionOp, BinaryOp, CompareOp, Labels, Op, ReduceOp, ScatterOp, SliceDim, UnaryOp,
};
pub use opened::{Opened, opened};
pub use plan::{Argument, Buffer, BufferSource, Launch, Plan, PlanError, ResultPlace};
pub use program::{COUNTER_WORDS, Factor, Phase, Program};
pub use shape::{Shape, extents};
pub use target::{HostTarget, NvptxTarget, Target};
pub use tensor_map::{Swizzle, TensorMap};
pub use text::ParseError;
pub use verify::{VerifyError, Violation};
