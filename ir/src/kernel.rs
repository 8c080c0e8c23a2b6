//! Fused regions: what one launch computes.
//!
//! A [`Kernel::Block`] is an iteration space and straight-line code executed at each of its points:
//! loads and stores with affine accesses, elementwise operations, reductions over the reduction
//! dimensions, at most one contraction. A value that does not depend on the reduction dimensions is
//! a *row* value, computed once per point of the parallel dimensions; any other is a *full* value.
//! This one form covers maps, softmax-like row kernels, plain reductions and contractions with their
//! epilogues. What does not fit the form (scatter, sort, scan, paths) is a kernel of its own.

use crate::{
    Access, ArgReduceOp, Attention, BinaryOp, CompareOp, DType, Literal, ReduceOp, ScatterOp, UnaryOp,
};
use smallvec::SmallVec;

/// Index of a kernel in [`Plan::kernels`](crate::plan::Plan).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelId(pub u32);

/// Index of a buffer argument in [`Block::params`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ParamId(pub u32);

/// Index of a statement in [`Block::body`]: its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Operand(pub u32);

/// Whether iterations along a dimension are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DimKind {
    /// Independent iterations.
    Parallel,
    /// Iterations combined by the reductions of the body, or summed by its contraction.
    Reduction,
}

/// One dimension of an iteration space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DomainDim {
    /// Number of iterations. If it is an argument of the launch, the most there can be.
    pub size: usize,
    /// Independent or combined.
    pub kind: DimKind,
    /// Which of the launch's numbers the size is, if it is one, see [`opened`](mod@crate::opened).
    pub argument: Option<u32>,
}

impl DomainDim {
    /// A dimension of a known size.
    pub fn new(kind: DimKind, size: usize) -> Self {
        Self { size, kind, argument: None }
    }
}

/// An iteration space, outermost dimension first. Canonical: no dimension of size 1, no two
/// adjacent dimensions of one kind that every access could walk as one. May have no dimension.
pub type Domain = SmallVec<[DomainDim; 6]>;

/// How a kernel uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParamMode {
    /// Only read.
    In,
    /// Only written; every element the accesses reach is written.
    Out,
    /// Written where it is read, at the same access (an output in place of a dead input).
    InOut,
}

/// A buffer argument: the address of the element at domain coordinate 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Param {
    /// Element type.
    pub dtype: DType,
    /// Read, written, or both.
    pub mode: ParamMode,
    /// Bytes the address is known to be a multiple of (at least the element's size, at most 64).
    pub alignment: usize,
}

/// A load at an index that is data.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gather {
    /// The buffer read.
    pub param: ParamId,
    /// The affine part of the address.
    pub access: Access,
    /// The value (an integer) that indexes the gathered axis.
    pub index: Operand,
    /// Elements between two indices.
    pub stride: i64,
    /// Extent of the axis: an index outside `0..extent` is clamped and reported.
    pub extent: usize,
}

/// One statement of a body.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "fields are described with their variant")]
pub enum Instr {
    /// The element of a buffer.
    Load { param: ParamId, access: Access },
    /// The element of a buffer at an index that is data.
    Gather(Gather),
    /// A scalar argument, by position in [`Block::scalars`].
    Scalar { slot: u32 },
    /// A constant.
    Constant { value: Literal },
    /// An affine function of the coordinates, as an integer.
    Index { access: Access, offset: i64 },
    /// Philox 4×32-10 of an affine element index, keyed by two u32 scalars (positions in
    /// [`Block::scalars`]).
    Random { key: u32, stream: u32, access: Access, offset: i64 },
    /// A function of one operand.
    Unary(UnaryOp, Operand),
    /// A function of two operands.
    Binary(BinaryOp, Operand, Operand),
    /// A comparison of two operands.
    Compare(CompareOp, Operand, Operand),
    /// Condition, value if true, value if false.
    Select(Operand, Operand, Operand),
    /// Conversion to the statement's type.
    Cast(Operand),
    /// The same bits as the statement's type.
    Bitcast(Operand),
    /// Combination over all reduction dimensions; a row value. f16 and bf16 sums accumulate in f32.
    Reduce(ReduceOp, Operand),
    /// Row-major position within the reduction dimensions of an extreme element; a row value.
    ArgReduce(ArgReduceOp, Operand),
    /// Sum over the reduction dimensions of the product of two loads (possibly cast), accumulated
    /// in f32 for f16 and bf16; a row value.
    Contract(Operand, Operand),
}

/// A statement and the type of its value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Statement {
    /// What is computed.
    pub instr: Instr,
    /// Type of the value.
    pub dtype: DType,
}

/// A value written to a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Store {
    /// The buffer written.
    pub param: ParamId,
    /// Where; injective over the dimensions the value depends on, 0 on reduction dimensions for a
    /// row value.
    pub access: Access,
    /// What.
    pub value: Operand,
}

/// An iteration space with straight-line code executed at each of its points.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// The iteration space.
    pub domain: Domain,
    /// Buffer arguments.
    pub params: Vec<Param>,
    /// Types of the scalar arguments.
    pub scalars: Vec<DType>,
    /// The code, operands before users.
    pub body: Vec<Statement>,
    /// What is written.
    pub stores: Vec<Store>,
}

/// Updates combined into a buffer at indices that are data, walked in row-major order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scatter {
    /// How an update meets an element.
    pub op: ScatterOp,
    /// Element type of data and updates.
    pub dtype: DType,
    /// Element type of the indices.
    pub index_dtype: DType,
    /// Extents of the updates, outermost first.
    pub shape: SmallVec<[usize; 6]>,
    /// The axis that the indices replace.
    pub axis: usize,
    /// Extent of that axis in the data.
    pub extent: usize,
    /// Strides of data (on `axis`: between two indices), indices and updates over `shape`.
    /// Arguments in order: data (InOut), indices, updates.
    pub accesses: [Access; 3],
}

/// Stable sort along an axis. Arguments in order: input, output.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sort {
    /// Element type of the input.
    pub dtype: DType,
    /// `Some(type)` to write positions of that type instead of elements.
    pub index_dtype: Option<DType>,
    /// Largest first.
    pub descending: bool,
    /// Extents, outermost first.
    pub shape: SmallVec<[usize; 6]>,
    /// The sorted axis.
    pub axis: usize,
    /// Strides of input and output.
    pub accesses: [Access; 2],
}

/// Inclusive prefix combination along an axis. Arguments in order: input, output.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scan {
    /// The combination.
    pub op: ReduceOp,
    /// Element type.
    pub dtype: DType,
    /// Extents, outermost first.
    pub shape: SmallVec<[usize; 6]>,
    /// The scanned axis.
    pub axis: usize,
    /// Strides of input and output.
    pub accesses: [Access; 2],
}

/// What sorts and scans have in common: elements move, or are combined, along rows.
macro_rules! rows {
    ($($kernel:ident)*) => {
        $(
            impl $kernel {
                /// The dimensions besides the axis, outermost first.
                pub fn outer(&self) -> impl Iterator<Item = usize> {
                    let axis = self.axis;
                    (0..self.shape.len()).filter(move |&dim| dim != axis)
                }

                /// Number of rows along the axis.
                pub fn rows(&self) -> usize {
                    self.outer().map(|dim| self.shape[dim]).product()
                }
            }
        )*
    };
}

rows! { Sort Scan }

/// Sums over monotone paths: what [`Op::Paths`](crate::Op::Paths) computes. Arguments in order: scores, whether states
/// can be skipped to (bool), output.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Paths {
    /// Element type of scores and output; f16 and bf16 are computed in f32.
    pub dtype: DType,
    /// Steps, sequences, states.
    pub shape: SmallVec<[usize; 6]>,
    /// Strides of scores, skips (of which the first step is read) and output.
    pub accesses: [Access; 3],
}

/// What one launch computes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Straight-line code over an iteration space.
    Block(Block),
    /// Updates at indices.
    Scatter(Scatter),
    /// Sort or argsort.
    Sort(Sort),
    /// Prefix combination.
    Scan(Scan),
    /// Sums over monotone paths.
    Paths(Paths),
    /// Scaled dot-product attention.
    Attention(Box<Attention>),
}

impl Block {
    /// The dimensions a value depends on, as a bit set, for every statement: a reduction removes
    /// the reduction dimensions.
    pub fn dependences(&self) -> Vec<u32> {
        let reduction = self.reduction_dims();
        let walks = |access: &Access| {
            (0..self.domain.len()).filter(|&d| access.uses(d)).fold(0u32, |set, d| set | 1 << d)
        };
        let mut sets: Vec<u32> = Vec::with_capacity(self.body.len());
        for statement in &self.body {
            let of = |operand: &Operand| sets[operand.0 as usize];
            let set = match &statement.instr {
                Instr::Load { access, .. } | Instr::Index { access, .. } | Instr::Random { access, .. } => {
                    walks(access)
                }
                Instr::Gather(gather) => walks(&gather.access) | of(&gather.index),
                Instr::Scalar { .. } | Instr::Constant { .. } => 0,
                Instr::Unary(_, a) | Instr::Cast(a) | Instr::Bitcast(a) => of(a),
                Instr::Binary(_, a, b) | Instr::Compare(_, a, b) => of(a) | of(b),
                Instr::Select(c, a, b) => of(c) | of(a) | of(b),
                Instr::Reduce(_, a) | Instr::ArgReduce(_, a) => of(a) & !reduction,
                Instr::Contract(a, b) => (of(a) | of(b)) & !reduction,
            };
            sets.push(set);
        }
        sets
    }

    /// The reduction dimensions as a bit set.
    pub fn reduction_dims(&self) -> u32 {
        (self.domain.iter().enumerate())
            .filter(|(_, dim)| dim.kind == DimKind::Reduction)
            .fold(0, |set, (d, _)| set | 1 << d)
    }

    /// The position of the contraction, if there is one.
    pub fn contraction(&self) -> Option<Operand> {
        let position = self.body.iter().position(|s| matches!(s.instr, Instr::Contract(..)));
        position.map(|index| Operand(index as u32))
    }

    /// Whether the body reduces.
    pub fn reduces(&self) -> bool {
        self.body.iter().any(|s| matches!(s.instr, Instr::Reduce(..) | Instr::ArgReduce(..)))
    }
}
