//! Element types as MLIR spells them.

use burn_mlir_ir::DType;

/// The type of a value in straight-line code; a truth value is an `i1`.
pub(crate) fn value_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "f64",
        DType::F32 | DType::Flex32 => "f32",
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        DType::I64 | DType::U64 => "i64",
        DType::I32 | DType::U32 => "i32",
        DType::I16 | DType::U16 => "i16",
        DType::I8 | DType::U8 => "i8",
        DType::Bool => "i1",
    }
}

/// The type of an element in memory; a truth value is an `i8`.
pub(crate) fn storage_type(dtype: DType) -> &'static str {
    if dtype == DType::Bool { "i8" } else { value_type(dtype) }
}
