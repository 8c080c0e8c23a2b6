//! Element types.

use std::fmt;
use std::str::FromStr;

/// The type of one tensor element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// 64-bit IEEE float.
    F64,
    /// 32-bit IEEE float.
    F32,
    /// 32-bit float whose contractions may use a reduced-precision unit (TF32).
    Flex32,
    /// 16-bit IEEE float.
    F16,
    /// 16-bit brain float.
    BF16,
    /// 64-bit signed integer.
    I64,
    /// 32-bit signed integer.
    I32,
    /// 16-bit signed integer.
    I16,
    /// 8-bit signed integer.
    I8,
    /// 64-bit unsigned integer.
    U64,
    /// 32-bit unsigned integer.
    U32,
    /// 16-bit unsigned integer.
    U16,
    /// 8-bit unsigned integer.
    U8,
    /// A truth value, one byte in memory, 0 or 1.
    Bool,
}

/// What arithmetic a [`DType`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DTypeKind {
    /// Floating point.
    Float,
    /// Two's complement.
    Signed,
    /// Unsigned integer.
    Unsigned,
    /// Truth value.
    Bool,
}

/// Type, name in the textual form, kind, bytes of one element.
const TABLE: [(DType, &str, DTypeKind, usize); 14] = [
    (DType::F64, "f64", DTypeKind::Float, 8),
    (DType::F32, "f32", DTypeKind::Float, 4),
    (DType::Flex32, "flex32", DTypeKind::Float, 4),
    (DType::F16, "f16", DTypeKind::Float, 2),
    (DType::BF16, "bf16", DTypeKind::Float, 2),
    (DType::I64, "i64", DTypeKind::Signed, 8),
    (DType::I32, "i32", DTypeKind::Signed, 4),
    (DType::I16, "i16", DTypeKind::Signed, 2),
    (DType::I8, "i8", DTypeKind::Signed, 1),
    (DType::U64, "u64", DTypeKind::Unsigned, 8),
    (DType::U32, "u32", DTypeKind::Unsigned, 4),
    (DType::U16, "u16", DTypeKind::Unsigned, 2),
    (DType::U8, "u8", DTypeKind::Unsigned, 1),
    (DType::Bool, "bool", DTypeKind::Bool, 1),
];

impl DType {
    /// Every element type.
    pub fn all() -> impl Iterator<Item = DType> {
        TABLE.iter().map(|row| row.0)
    }

    /// The name used in the textual form.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// The arithmetic of this type.
    pub fn kind(self) -> DTypeKind {
        TABLE[self as usize].2
    }

    /// Bytes of one element in memory.
    pub fn size(self) -> usize {
        TABLE[self as usize].3
    }

    /// Whether this is a floating-point type.
    pub fn is_float(self) -> bool {
        self.kind() == DTypeKind::Float
    }

    /// Whether this is a signed or unsigned integer (not bool).
    pub fn is_int(self) -> bool {
        matches!(self.kind(), DTypeKind::Signed | DTypeKind::Unsigned)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DType {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        TABLE.iter().find(|row| row.1 == text).map(|row| row.0).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, index);
        }
    }
}
