//! Constants that are part of a kernel's structure.

use crate::DType;
use std::fmt;
use std::str::FromStr;

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

/// The bits of the NaN that is written `nan`.
const NAN: u64 = 0x7ff8_0000_0000_0000;

/// Decimal where that is exact to read back (`0.5`, `-inf`, `nan`), integers without a point, the
/// bits of unusual NaNs (`nan0xfff8000000000000`).
impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Float(NAN) => f.write_str("nan"),
            Self::Float(bits) if f64::from_bits(bits).is_nan() => write!(f, "nan{bits:#x}"),
            Self::Float(bits) => write!(f, "{:?}", f64::from_bits(bits)),
            Self::Int(value) => write!(f, "{value}"),
        }
    }
}

impl FromStr for Literal {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if let Ok(value) = text.parse() {
            return Ok(Self::Int(value));
        }
        if let Some(bits) = text.strip_prefix("nan0x") {
            let bits = u64::from_str_radix(bits, 16).map_err(drop)?;
            return if f64::from_bits(bits).is_nan() { Ok(Self::Float(bits)) } else { Err(()) };
        }
        match text {
            "nan" => Ok(Self::Float(NAN)),
            "inf" => Ok(Self::float(f64::INFINITY)),
            "-inf" => Ok(Self::float(f64::NEG_INFINITY)),
            // An integer too large for `Int` is not a float by mistake.
            _ if text.contains(['.', 'e']) => text.parse().map(Self::float).map_err(drop),
            _ => Err(()),
        }
    }
}
