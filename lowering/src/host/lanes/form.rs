//! In which types values are at hand, and how MLIR spells chunks of them.

use crate::emit::{Emitter, Value};
use crate::scalar;
use crate::types::{storage_type, value_type};
use burn_mlir_ir::DType;

/// In which type a value is at hand or wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The value type.
    Value,
    /// The type in memory.
    Storage,
    /// The type reductions accumulate in.
    Accumulator,
}

impl Form {
    /// The element type of a value of `dtype` in this form.
    pub fn element(self, dtype: DType) -> &'static str {
        match self {
            Self::Value => value_type(dtype),
            Self::Storage => storage_type(dtype),
            Self::Accumulator => value_type(scalar::accumulator(dtype)),
        }
    }

    pub fn to_value(self, e: &mut Emitter, dtype: DType, x: &Value) -> Value {
        match self {
            Self::Value => x.clone(),
            Self::Storage => scalar::from_storage(e, dtype, x),
            Self::Accumulator => convert(e, scalar::accumulator(dtype), dtype, x),
        }
    }

    #[expect(clippy::wrong_self_convention, reason = "it is the value that is converted, the form says how")]
    pub fn from_value(self, e: &mut Emitter, dtype: DType, x: &Value) -> Value {
        match self {
            Self::Value => x.clone(),
            Self::Storage => scalar::to_storage(e, dtype, x),
            Self::Accumulator => convert(e, dtype, scalar::accumulator(dtype), x),
        }
    }
}

/// Conversion between a type and the one it accumulates in.
pub(crate) fn convert(e: &mut Emitter, from: DType, to: DType, x: &Value) -> Value {
    if from == to { x.clone() } else { scalar::cast(e, from, to, x) }
}

/// `vector<width x element>`.
pub(crate) fn vector_type(width: usize, element: &str) -> String {
    format!("vector<{width}x{element}>")
}

/// `tensor<width x element>`.
pub(crate) fn tensor_type(width: usize, element: &str) -> String {
    format!("tensor<{width}x{element}>")
}

/// The zero of an MLIR type as an attribute's text.
pub(crate) fn zero_of(element: &str) -> &'static str {
    match element {
        _ if element.starts_with('i') => "0",
        _ => "0.0",
    }
}
