//! Element types as MLIR spells them.

use burn_mlir_ir::DType;

/// The type of a value in straight-line code; a truth value is an `i1`. 16-bit floats are integers wherever they
/// are not being converted: LLVM has no code for some of their vectors, and calls libraries for others.
pub(crate) fn value_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "f64",
        DType::F32 | DType::Flex32 => "f32",
        DType::I64 | DType::U64 => "i64",
        DType::I32 | DType::U32 => "i32",
        DType::I16 | DType::U16 | DType::F16 | DType::BF16 => "i16",
        DType::I8 | DType::U8 => "i8",
        DType::Bool => "i1",
    }
}

/// The type of an element in memory; a truth value is an `i8`.
pub(crate) fn storage_type(dtype: DType) -> &'static str {
    if dtype == DType::Bool { "i8" } else { value_type(dtype) }
}

/// Whether a value of one type is the same value of the other as it is.
pub(crate) fn same_value(from: DType, to: DType) -> bool {
    let narrow = |dtype| matches!(dtype, DType::F16 | DType::BF16);
    from == to || !narrow(from) && !narrow(to) && value_type(from) == value_type(to)
}
