//! Constants that are part of a kernel's structure.

use crate::DType;
use std::fmt;

/// A constant known when the kernel is compiled, such as the 0.5 inside GELU. Values a user chose
/// (a learning rate) are scalars instead: kernel arguments, which do not recompile anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Literal {
    /// The bits of an `f64`, rounded to the element type where it is used.
    Float(u64),
    /// An integer, or 0 and 1 for a truth value.
    Int(i64),
}

impl Literal {
    /// A floating-point constant.
    pub fn float(value: f64) -> Self {
        Self::Float(value.to_bits())
    }

    /// The constant `value` in the arithmetic of `dtype` (truncated for integers).
    pub fn of(dtype: DType, value: f64) -> Self {
        if dtype.is_float() { Self::float(value) } else { Self::Int(value as i64) }
    }

    /// The value as an `f64`.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Float(bits) => f64::from_bits(bits),
            Self::Int(value) => value as f64,
        }
    }
}

/// Decimal where that is exact to read back (`0.5`, `-inf`, `nan`), integers without a point.
impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float(bits) => write!(f, "{:?}", f64::from_bits(*bits)),
            Self::Int(value) => write!(f, "{value}"),
        }
    }
}
