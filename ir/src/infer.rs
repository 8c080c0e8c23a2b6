//! The type of an operation's result.
//!
//! Element types are checked by [`infer_dtype`], which kernels share; shapes by [`infer`].

mod dtype;
mod rule;
mod shape;

pub(crate) use dtype::infer_dtype;
pub(crate) use rule::types_text;
pub use rule::{InferError, Rule};
pub(crate) use shape::check_size;

use crate::{DType, Op, Shape};

/// What is known about a result besides its operands: operations whose result is a parameter (the
/// type of a cast, the shape of a reshape) take it from here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Declared<'a> {
    /// Element type.
    pub dtype: Option<DType>,
    /// Shape.
    pub shape: Option<&'a Shape>,
}

impl Declared<'_> {
    /// Only the element type is given.
    pub fn dtype(dtype: DType) -> Self {
        Self { dtype: Some(dtype), shape: None }
    }
}

impl<'a> Declared<'a> {
    /// Element type and shape are given.
    pub fn both(dtype: DType, shape: &'a Shape) -> Self {
        Self { dtype: Some(dtype), shape: Some(shape) }
    }

    /// Only the shape is given.
    pub fn shape(shape: &'a Shape) -> Self {
        Self { dtype: None, shape: Some(shape) }
    }
}

/// The element type and shape of `op` applied to `operands`.
pub fn infer(
    op: &Op,
    operands: &[(DType, &Shape)],
    declared: Declared<'_>,
) -> Result<(DType, Shape), InferError> {
    let infer = || {
        check_arity(op, operands.len())?;
        let dtypes: smallvec::SmallVec<[DType; 4]> = operands.iter().map(|operand| operand.0).collect();
        let dtype = infer_dtype(op, &dtypes, declared.dtype)?;
        let shape = shape::infer_shape(op, operands, declared.shape)?;
        check_size(dtype, &shape)?;
        Ok((dtype, shape))
    };
    infer().map_err(|rule| InferError { op: op.to_string(), types: types_text(operands), rule })
}

impl Op {
    /// The number of operands; `None` for one or more.
    pub fn arity(&self) -> Option<usize> {
        Some(match self {
            Self::Input { .. }
            | Self::Fill { .. }
            | Self::Constant { .. }
            | Self::Iota { .. }
            | Self::Random { .. } => 0,
            Self::Unary(_) | Self::Cast | Self::Bitcast => 1,
            Self::Reshape
            | Self::Permute { .. }
            | Self::Expand
            | Self::Slice { .. }
            | Self::Unfold { .. } => 1,
            Self::Reduce { .. } | Self::ArgReduce { .. } | Self::Scan { .. } => 1,
            Self::Sort { .. } | Self::ArgSort { .. } => 1,
            Self::Binary(_) | Self::Compare(_) | Self::Contract { .. } => 2,
            Self::Gather { .. } | Self::SliceUpdate { .. } | Self::Paths => 2,
            Self::Select | Self::Scatter { .. } => 3,
            Self::Attention(op) => 3 + usize::from(op.masked) + usize::from(op.biased),
            Self::Concat { .. } => return None,
        })
    }
}

fn check_arity(op: &Op, got: usize) -> Result<(), Rule> {
    match op.arity() {
        Some(expected) if expected != got => Err(Rule::Arity { expected, got }),
        None if got == 0 => Err(Rule::NoOperand),
        _ => Ok(()),
    }
}
