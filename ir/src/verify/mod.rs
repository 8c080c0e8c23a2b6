//! Whether a graph or a kernel is well formed.
//!
//! Recording and planning only make well-formed graphs and kernels; the verifiers state what that
//! means, for tests and for text written by hand. The first violation is reported, with the line
//! of the textual form it stands in.

mod access;
mod attention;
mod block;
mod graph;
mod kernel;
mod statement;

use crate::{DType, Literal, Rule};
use thiserror::Error;

/// A graph or a kernel is not well formed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{at}: {violation}")]
pub struct VerifyError {
    /// The line of the textual form.
    pub at: String,
    /// What is wrong with it.
    pub violation: Violation,
}

/// What a verifier objects to. Nodes and statements are named `%0`, parameters `@0`, scalars `$0`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    /// An operand that is no earlier node or statement.
    #[error("operand {0} does not come before it")]
    OperandOrder(String),
    /// The operation does not take these operands.
    #[error("applied to ({types}): {rule}")]
    Operands {
        /// The operands' types.
        types: String,
        /// What the operation demands.
        rule: Rule,
    },
    /// The type that stands there is not that of the value.
    #[error("the value is {computed}, not {declared}")]
    Type {
        /// The type in the text.
        declared: String,
        /// The type of the value.
        computed: String,
    },
    /// A constant that its type does not hold.
    #[error("{value} is no constant of type {dtype}")]
    Constant {
        /// The constant.
        value: Literal,
        /// Its type.
        dtype: DType,
    },
    /// A scalar argument that is not declared.
    #[error("there is no scalar ${slot}, only {count}")]
    NoScalar {
        /// The scalar's number.
        slot: u32,
        /// How many there are.
        count: usize,
    },
    /// A scalar argument of another type.
    #[error("scalar ${slot} must be {needed}, not {found}")]
    ScalarType {
        /// The scalar's number.
        slot: u32,
        /// The type needed here.
        needed: DType,
        /// The type it has.
        found: DType,
    },
    /// Two nodes for one input.
    #[error("input {0} is bound twice")]
    InputTwice(u32),
    /// An input's offset is given when the plan runs.
    #[error("an input's layout has offset 0, not {0}")]
    LayoutOffset(i64),
    /// Not one stride for each dimension.
    #[error("{got} strides for {rank} dimensions")]
    StrideCount {
        /// How many there are.
        got: usize,
        /// How many dimensions.
        rank: usize,
    },
    /// Addresses further apart than an address space is large.
    #[error("reaches over more bytes than there can be")]
    Reach,
    /// A result that is no node.
    #[error("result {0} is no node")]
    NoResult(String),
    /// Too many dimensions.
    #[error("a domain has at most 32 dimensions, not {0}")]
    TooManyDims(usize),
    /// A dimension of size 1.
    #[error("dimension {0} has size 1 and must be left out")]
    UnitDim(usize),
    /// A parallel dimension of size 0.
    #[error("parallel dimension {0} has size 0: such a kernel is never launched")]
    EmptyDim(usize),
    /// Two dimensions that are one.
    #[error("dimensions {0} and {next} are walked as one by every access and must be merged", next = .0 + 1)]
    Mergeable(usize),
    /// An alignment that is no power of two between the element's size and 64.
    #[error("an alignment is a power of two from {size} to 64, not {alignment}")]
    Alignment {
        /// Bytes of an element.
        size: usize,
        /// The alignment given.
        alignment: usize,
    },
    /// A parameter that is not declared.
    #[error("there is no parameter {param}, only {count}")]
    NoParam {
        /// The parameter.
        param: String,
        /// How many there are.
        count: usize,
    },
    /// A parameter of another type.
    #[error("parameter {param} has type {found}, not {needed}")]
    ParamType {
        /// The parameter.
        param: String,
        /// The type needed here.
        needed: DType,
        /// The type it has.
        found: DType,
    },
    /// A parameter read though it is only written, or the other way round.
    #[error("parameter {param} is `{mode}` and cannot be {used}")]
    Mode {
        /// The parameter.
        param: String,
        /// How it is declared.
        mode: &'static str,
        /// What is done with it.
        used: &'static str,
    },
    /// An output that nothing is stored to.
    #[error("nothing is stored to it")]
    NeverStored,
    /// A buffer updated in place, read elsewhere than written.
    #[error("parameter {0} is `inout` and must be accessed in one way only")]
    InOutAccess(String),
    /// An attention without a position, a head or an element.
    #[error("extents of an attention are not 0")]
    EmptyAttention,
    /// A gather along an axis without elements.
    #[error("cannot gather from an axis of extent 0")]
    GatherExtent,
    /// A second contraction.
    #[error("a block has at most one contraction, and {0} is one")]
    SecondContraction(String),
    /// A reduction in a block with a contraction.
    #[error("a block with a contraction ({0}) has no other reduction")]
    ReduceBesideContract(String),
    /// The operand of a contraction is no load.
    #[error("operand {0} of a contraction must be a load or a cast of one")]
    ContractOperand(String),
    /// A value of the summed points that does not go into the contraction.
    #[error("depends on reduction dimensions, but only the operands of contraction {0} may")]
    FullBesideContract(String),
    /// The value stored is the same for all points of the reduction dimensions.
    #[error("{0} is a row value: its store must have stride 0 on reduction dimension {1}")]
    RowStore(String, usize),
    /// Different values stored to one element.
    #[error("{value} depends on dimension {dim}, but its store has stride 0 there")]
    StoreDrops {
        /// The value.
        value: String,
        /// The dimension.
        dim: usize,
    },
    /// Two coordinates may be one element of an output.
    #[error("accesses {0} may reach an element more than once")]
    Overlap(String),
}

/// Whether a type holds a constant: integers may be written signed or unsigned.
fn check_constant(value: Literal, dtype: DType) -> Result<(), Violation> {
    let holds = match value {
        Literal::Float(_) => dtype.is_float(),
        Literal::Int(value) if dtype == DType::Bool => value == 0 || value == 1,
        Literal::Int(value) => {
            let bits = 8 * dtype.size() as u32;
            dtype.is_int() && (-(1i128 << (bits - 1))..1i128 << bits).contains(&i128::from(value))
        }
    };
    if holds { Ok(()) } else { Err(Violation::Constant { value, dtype }) }
}

/// Whether there is a scalar of this number and type.
fn check_scalar(scalars: &[DType], slot: u32, needed: DType) -> Result<(), Violation> {
    match scalars.get(slot as usize) {
        None => Err(Violation::NoScalar { slot, count: scalars.len() }),
        Some(&found) if found != needed => Err(Violation::ScalarType { slot, needed, found }),
        Some(_) => Ok(()),
    }
}
