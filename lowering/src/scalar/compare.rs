//! Comparisons and choices.

use super::cast::{compute_type, extend};
use crate::emit::{Emitter, Value};
use crate::types::value_type;
use burn_mlir_ir::{CompareOp, DType, DTypeKind};

/// Predicates for floats, signed and unsigned integers.
fn predicates(op: CompareOp) -> (&'static str, &'static str, &'static str) {
    match op {
        CompareOp::Eq => ("oeq", "eq", "eq"),
        CompareOp::Ne => ("une", "ne", "ne"),
        CompareOp::Lt => ("olt", "slt", "ult"),
        CompareOp::Le => ("ole", "sle", "ule"),
        CompareOp::Gt => ("ogt", "sgt", "ugt"),
        CompareOp::Ge => ("oge", "sge", "uge"),
    }
}

/// A comparison of two values of `dtype`; an `i1`.
pub(crate) fn compare(e: &mut Emitter, op: CompareOp, dtype: DType, a: &Value, b: &Value) -> Value {
    let (float, signed, unsigned) = predicates(op);
    match dtype.kind() {
        DTypeKind::Float => {
            let (a, b) = (extend(e, dtype, a), extend(e, dtype, b));
            e.op(format_args!("arith.cmpf {float}, {a}, {b} : {}", value_type(compute_type(dtype))))
        }
        DTypeKind::Signed => e.op(format_args!("arith.cmpi {signed}, {a}, {b} : {}", value_type(dtype))),
        _ => e.op(format_args!("arith.cmpi {unsigned}, {a}, {b} : {}", value_type(dtype))),
    }
}

/// `a` where `condition` holds, else `b`.
pub(crate) fn select(e: &mut Emitter, dtype: DType, condition: &Value, a: &Value, b: &Value) -> Value {
    e.op(format_args!("arith.select {condition}, {a}, {b} : {}", value_type(dtype)))
}
