//! Constants as MLIR spells them.

use crate::types::value_type;
use burn_mlir_ir::{DType, DTypeKind, Literal, ReduceOp};

/// A finite number of `dtype` from which on everything rounds to infinity.
fn overflow(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 65520.0,
        // Half way from the largest finite value to the next power of two.
        DType::BF16 => f64::from_bits(0x47ef_f000_0000_0000),
        DType::F32 | DType::Flex32 => f64::from_bits(0x47ef_ffff_f000_0000),
        _ => f64::INFINITY,
    }
}

/// Quiet NaN and infinity of `dtype`, as bits.
fn special(dtype: DType) -> (&'static str, &'static str, &'static str) {
    match dtype {
        DType::F16 => ("0x7E00", "0x7C00", "0xFC00"),
        DType::BF16 => ("0x7FC0", "0x7F80", "0xFF80"),
        DType::F32 | DType::Flex32 => ("0x7FC00000", "0x7F800000", "0xFF800000"),
        _ => ("0x7FF8000000000000", "0x7FF0000000000000", "0xFFF0000000000000"),
    }
}

/// The number of a floating-point attribute; MLIR rounds it to the type once.
pub(super) fn float(value: f64, dtype: DType) -> String {
    let (nan, infinity, minus_infinity) = special(dtype);
    if value.is_nan() {
        return nan.to_string();
    }
    if value.abs() >= overflow(dtype) {
        return if value > 0.0 { infinity } else { minus_infinity }.to_string();
    }
    // MLIR wants a point in the mantissa; `{:e}` is the shortest decimal that reads back exactly.
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) if !mantissa.contains('.') => format!("{mantissa}.0e{exponent}"),
        _ => text,
    }
}

/// The right-hand side of a constant of `dtype`: `arith.constant … : type`. 16-bit floats are of their own type,
/// so that MLIR rounds them.
pub(super) fn text(dtype: DType, value: Literal) -> String {
    let ty = value_type(dtype);
    match (dtype, dtype.kind()) {
        (DType::F16 | DType::BF16, _) => {
            format!("arith.constant {} : {}", float(value.as_f64(), dtype), dtype.name())
        }
        (_, DTypeKind::Float) => format!("arith.constant {} : {ty}", float(value.as_f64(), dtype)),
        (_, DTypeKind::Bool) => format!("arith.constant {}", integer(value) != 0),
        (_, DTypeKind::Signed | DTypeKind::Unsigned) => {
            let spare = 64 - 8 * dtype.size() as u32;
            format!("arith.constant {} : {ty}", integer(value) << spare >> spare)
        }
    }
}

fn integer(value: Literal) -> i64 {
    match value {
        Literal::Int(value) => value,
        Literal::Float(bits) => f64::from_bits(bits) as i64,
    }
}

/// The least value of a type, -∞ for floats.
pub(super) fn lowest(dtype: DType) -> Literal {
    match dtype.kind() {
        DTypeKind::Float => Literal::float(f64::NEG_INFINITY),
        DTypeKind::Signed => Literal::Int(i64::MIN >> (64 - 8 * dtype.size())),
        DTypeKind::Unsigned | DTypeKind::Bool => Literal::Int(0),
    }
}

/// The largest value of a type, +∞ for floats.
pub(super) fn highest(dtype: DType) -> Literal {
    match dtype.kind() {
        DTypeKind::Float => Literal::float(f64::INFINITY),
        DTypeKind::Signed => Literal::Int(i64::MAX >> (64 - 8 * dtype.size())),
        DTypeKind::Unsigned => Literal::Int((u64::MAX >> (64 - 8 * dtype.size())) as i64),
        DTypeKind::Bool => Literal::Int(1),
    }
}

/// The value that a combination leaves as it is.
pub(crate) fn identity(op: ReduceOp, dtype: DType) -> Literal {
    match op {
        ReduceOp::Sum => Literal::of(dtype, 0.0),
        ReduceOp::Prod => Literal::of(dtype, 1.0),
        ReduceOp::Max => lowest(dtype),
        ReduceOp::Min => highest(dtype),
    }
}
