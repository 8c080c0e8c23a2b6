//! Which element types an operation is defined on.

use crate::{ArgReduceOp, BinaryOp, CompareOp, DType, DTypeKind, ReduceOp, ScatterOp, UnaryOp};
use std::fmt;

/// A set of element types that operations are defined on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DTypeSet {
    /// Every type.
    Any,
    /// Floats and integers.
    Numbers,
    /// Floats.
    Floats,
    /// Signed and unsigned integers.
    Integers,
    /// Integers and truth values.
    Bits,
    /// Truth values.
    Truth,
}

impl DTypeSet {
    /// Whether a type is in the set.
    pub fn contains(self, dtype: DType) -> bool {
        match self {
            Self::Any => true,
            Self::Numbers => dtype.kind() != DTypeKind::Bool,
            Self::Floats => dtype.is_float(),
            Self::Integers => dtype.is_int(),
            Self::Bits => !dtype.is_float(),
            Self::Truth => dtype == DType::Bool,
        }
    }
}

/// As it reads after "takes".
impl fmt::Display for DTypeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "any type",
            Self::Numbers => "floats or integers",
            Self::Floats => "floats",
            Self::Integers => "integers",
            Self::Bits => "integers or bool",
            Self::Truth => "bool",
        })
    }
}

impl UnaryOp {
    /// The operand's types. A function not listed is one of real numbers.
    pub fn domain(self) -> DTypeSet {
        match self {
            Self::Neg | Self::Abs | Self::Sign => DTypeSet::Numbers,
            Self::Not => DTypeSet::Bits,
            _ => DTypeSet::Floats,
        }
    }
}

impl BinaryOp {
    /// The operands' types. A function not listed is arithmetic on numbers.
    pub fn domain(self) -> DTypeSet {
        match self {
            Self::And | Self::Or | Self::Xor => DTypeSet::Bits,
            Self::Shl | Self::Shr => DTypeSet::Integers,
            Self::Atan2 => DTypeSet::Floats,
            _ => DTypeSet::Numbers,
        }
    }
}

impl CompareOp {
    /// The operands' types: truth values have no order.
    pub fn domain(self) -> DTypeSet {
        match self {
            Self::Eq | Self::Ne => DTypeSet::Any,
            _ => DTypeSet::Numbers,
        }
    }
}

impl ReduceOp {
    /// The operand's types.
    pub fn domain(self) -> DTypeSet {
        match self {
            Self::Max | Self::Min => DTypeSet::Any,
            Self::Sum | Self::Prod => DTypeSet::Numbers,
        }
    }
}

impl ArgReduceOp {
    /// The operand's types.
    pub fn domain(self) -> DTypeSet {
        DTypeSet::Numbers
    }
}

impl ScatterOp {
    /// The types of data and updates.
    pub fn domain(self) -> DTypeSet {
        match self {
            Self::Assign | Self::Max | Self::Min => DTypeSet::Any,
            Self::Add | Self::Mul => DTypeSet::Numbers,
        }
    }
}
