//! Burn's element types and the compiler's.

use burn_backend::{BoolStore, DType, Scalar};
use burn_mlir_ir as ir;
use half::{bf16, f16};
use std::cmp::Ordering;

/// The compiler's type for one of Burn's; `None` for quantised floats, which are several tensors. How truth values
/// are stored is up to their tensor.
pub(crate) fn to_ir(dtype: DType) -> Option<ir::DType> {
    Some(match dtype {
        DType::F64 => ir::DType::F64,
        DType::F32 => ir::DType::F32,
        DType::Flex32 => ir::DType::Flex32,
        DType::F16 => ir::DType::F16,
        DType::BF16 => ir::DType::BF16,
        DType::I64 => ir::DType::I64,
        DType::I32 => ir::DType::I32,
        DType::I16 => ir::DType::I16,
        DType::I8 => ir::DType::I8,
        DType::U64 => ir::DType::U64,
        DType::U32 => ir::DType::U32,
        DType::U16 => ir::DType::U16,
        DType::U8 => ir::DType::U8,
        DType::Bool(_) => ir::DType::Bool,
        DType::QFloat(_) => return None,
    })
}

/// Burn's type for one of the compiler's.
pub(crate) fn to_burn(dtype: ir::DType) -> DType {
    match dtype {
        ir::DType::F64 => DType::F64,
        ir::DType::F32 => DType::F32,
        ir::DType::Flex32 => DType::Flex32,
        ir::DType::F16 => DType::F16,
        ir::DType::BF16 => DType::BF16,
        ir::DType::I64 => DType::I64,
        ir::DType::I32 => DType::I32,
        ir::DType::I16 => DType::I16,
        ir::DType::I8 => DType::I8,
        ir::DType::U64 => DType::U64,
        ir::DType::U32 => DType::U32,
        ir::DType::U16 => DType::U16,
        ir::DType::U8 => DType::U8,
        ir::DType::Bool => DType::Bool(BoolStore::Native),
    }
}

/// The value of an integer type next to a scalar, and where the scalar lies from there: `Equal` unless it is
/// out of the type's range.
pub(crate) fn nearest(value: Scalar, dtype: ir::DType) -> (Scalar, Ordering) {
    let exact = match value {
        Scalar::Int(v) => i128::from(v),
        Scalar::UInt(v) => i128::from(v),
        Scalar::Float(_) | Scalar::Bool(_) => return (value, Ordering::Equal),
    };
    let bits = 8 * dtype.size();
    let (low, high) = match dtype.kind() {
        ir::DTypeKind::Signed => (-1 << (bits - 1), (1 << (bits - 1)) - 1),
        ir::DTypeKind::Unsigned => (0, (1 << bits) - 1),
        ir::DTypeKind::Float | ir::DTypeKind::Bool => return (value, Ordering::Equal),
    };
    let near = exact.clamp(low, high);
    let scalar = i64::try_from(near).map_or(Scalar::UInt(near as u64), Scalar::Int);
    (scalar, exact.cmp(&near))
}

/// The bits of a scalar as a kernel argument of type `dtype`: the value converted as Rust's `as`
/// does, in the low bytes.
pub(crate) fn scalar_bits(value: Scalar, dtype: ir::DType) -> u64 {
    let float = || match value {
        Scalar::Float(v) => v,
        Scalar::Int(v) => v as f64,
        Scalar::UInt(v) => v as f64,
        Scalar::Bool(v) => v as u8 as f64,
    };
    let int = || match value {
        Scalar::Float(v) if dtype == ir::DType::U64 => v as u64 as i64,
        Scalar::Float(v) => v as i64,
        Scalar::Int(v) => v,
        Scalar::UInt(v) => v as i64,
        Scalar::Bool(v) => v as i64,
    };
    match dtype {
        ir::DType::F64 => float().to_bits(),
        ir::DType::F32 | ir::DType::Flex32 => (float() as f32).to_bits() as u64,
        ir::DType::F16 => f16::from_f64(float()).to_bits() as u64,
        ir::DType::BF16 => bf16::from_f64(float()).to_bits() as u64,
        ir::DType::Bool => (float() != 0.0) as u64,
        ir::DType::I64 | ir::DType::U64 => int() as u64,
        ir::DType::I32 | ir::DType::U32 => int() as u32 as u64,
        ir::DType::I16 | ir::DType::U16 => int() as u16 as u64,
        ir::DType::I8 | ir::DType::U8 => int() as u8 as u64,
    }
}
