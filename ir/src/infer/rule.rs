//! What operations demand of their operands.

use crate::op::type_text;
use crate::{DType, DTypeSet, Shape};
use thiserror::Error;

/// An operation does not fit its operands.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{op} of ({types}): {rule}")]
pub struct InferError {
    /// The operation and its parameters.
    pub op: String,
    /// The operands' types.
    pub types: String,
    /// What is broken.
    pub rule: Rule,
}

/// A demand that operands do not meet.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Rule {
    /// Another number of operands.
    #[error("takes {expected} operands, not {got}")]
    Arity {
        /// How many it takes.
        expected: usize,
        /// How many there are.
        got: usize,
    },
    /// One or more operands are needed.
    #[error("takes at least one operand")]
    NoOperand,
    /// Not defined for the element type.
    #[error("takes {expected}, not {got}")]
    Domain {
        /// What it takes.
        expected: DTypeSet,
        /// What it got.
        got: DType,
    },
    /// Element types must agree.
    #[error("element types must agree")]
    DTypes,
    /// The condition of a selection.
    #[error("the condition must be bool, not {0}")]
    Condition(DType),
    /// Indices are integers.
    #[error("indices must be integers, not {0}")]
    IndexType(DType),
    /// The result of a search for a position is an integer.
    #[error("the result is a position and must be an integer type, not {0}")]
    PositionType(DType),
    /// Bits can only be read as a type of the same size.
    #[error("{from} and {to} are not reinterpretable: sizes differ or one is bool")]
    Bitcast {
        /// The operand's type.
        from: DType,
        /// The result's type.
        to: DType,
    },
    /// Random bits are u32.
    #[error("the result must be u32, not {0}")]
    RandomType(DType),
    /// Shapes must agree.
    #[error("shapes must agree")]
    Shapes,
    /// Ranks must agree.
    #[error("ranks must agree")]
    Ranks,
    /// No such axis.
    #[error("axis {axis} is out of range for rank {rank}")]
    Axis {
        /// The axis.
        axis: usize,
        /// The rank it should be less than.
        rank: usize,
    },
    /// Axes must be given in order.
    #[error("axes must be strictly increasing")]
    AxisOrder,
    /// Not a permutation.
    #[error("axes must be a permutation of 0..{rank}")]
    Permutation {
        /// How many axes there are.
        rank: usize,
    },
    /// No element to point at.
    #[error("there is no position among 0 elements")]
    EmptyPosition,
    /// A reshape keeps the number of elements.
    #[error("cannot become {to}: another number of elements")]
    Elements {
        /// The shape asked for.
        to: String,
    },
    /// Only extents of 1 expand.
    #[error("cannot expand to {to}: axes must be kept or have extent 1")]
    Expand {
        /// The shape asked for.
        to: String,
    },
    /// One range for each axis.
    #[error("{got} ranges for rank {rank}")]
    RangeCount {
        /// How many there are.
        got: usize,
        /// How many there should be.
        rank: usize,
    },
    /// A step of 0.
    #[error("the step of axis {axis} is 0")]
    ZeroStep {
        /// The axis.
        axis: usize,
    },
    /// A range outside the axis.
    #[error("the range of axis {axis} leaves its extent of {extent}")]
    Range {
        /// The axis.
        axis: usize,
        /// Its extent.
        extent: usize,
    },
    /// Updates must have the shape of the box they replace.
    #[error("updates must have the shape of the box, {0}")]
    Box(String),
    /// A window's parameters.
    #[error("size, step and dilation of a window must be at least 1")]
    Window,
    /// One label for each axis.
    #[error("labels \"{labels}\" do not name the axes of {shape} one by one")]
    LabelCount {
        /// The labels.
        labels: String,
        /// The operand's shape.
        shape: String,
    },
    /// A label used twice in one operand or in the result.
    #[error("label '{0}' stands twice in \"{1}\"")]
    LabelTwice(char, String),
    /// A label that is no letter.
    #[error("labels must be letters")]
    LabelLetter,
    /// A label with two extents.
    #[error("label '{label}' has extents {lhs} and {rhs}")]
    LabelExtent {
        /// The label.
        label: char,
        /// Extent in the left operand.
        lhs: usize,
        /// Extent in the right operand.
        rhs: usize,
    },
    /// A label of the result that no operand has.
    #[error("label '{0}' of the result is in no operand")]
    LabelUnknown(char),
    /// A label that is in one operand only and not in the result.
    #[error("label '{0}' is in one operand only and not in the result")]
    LabelLost(char),
    /// Indices must not be larger than the data besides the axis.
    #[error("indices must not exceed the data on any axis but {axis}")]
    IndexShape {
        /// The indexed axis.
        axis: usize,
    },
    /// Heads of keys are shared by equally many heads of queries.
    #[error("{queries} heads of queries cannot share {keys} heads of keys")]
    Heads {
        /// Heads of queries.
        queries: usize,
        /// Heads of keys.
        keys: usize,
    },
    /// More bytes than there can be.
    #[error("{0} is too large")]
    TooLarge(String),
    /// The result's element type is a parameter.
    #[error("the result's element type must be given")]
    NoDType,
    /// The result's shape is a parameter.
    #[error("the result's shape must be given")]
    NoShape,
}

/// `f32[2], i64[]`.
pub(crate) fn types_text(operands: &[(DType, &Shape)]) -> String {
    let texts: Vec<_> = operands.iter().map(|(dtype, shape)| type_text(*dtype, shape)).collect();
    texts.join(", ")
}
