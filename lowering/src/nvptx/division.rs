//! Division by what is the same for many elements.
//!
//! An f32 quotient is the product with the divisor's reciprocal in f64, rounded to f32: a quotient of two
//! 24-bit numbers is no closer to the middle between two f32 than 2⁻⁴⁹ of itself, and the product is off by
//! 2⁻⁵² at most. So it has the bits of a division, for any operands, without the branch that a division is.

use super::chunk::{Environment, Known};
use crate::emit::{Emitter, Value};
use crate::scalar;
use burn_mlir_ir::{BinaryOp, Block, DType, Instr};

/// The division that a statement is, if its divisor is the same for all lanes: dividend and divisor.
pub(super) fn by_scalar(block: &Block, known: &Environment, statement: usize) -> Option<(usize, Value)> {
    let Instr::Binary(BinaryOp::Div, a, b) = block.body[statement].instr else { return None };
    let (dtype, divisor) = (block.body[b.0 as usize].dtype, b.0 as usize);
    if !dtype.is_float() || dtype == DType::F64 || known[statement].is_some() {
        return None;
    }
    match (&block.body[divisor].instr, &known[divisor]) {
        // Such a division is a product as it is.
        (Instr::Constant { value }, _) if is_power_of_two(value.as_f64()) => None,
        (_, Some(Known::Scalar(value))) => Some((a.0 as usize, value.clone())),
        _ => None,
    }
}

fn is_power_of_two(value: f64) -> bool {
    value.is_normal() && value.to_bits().trailing_zeros() >= f64::MANTISSA_DIGITS - 1
}

/// The reciprocal of a divisor of `dtype`, for [`divide`].
pub(super) fn reciprocal(e: &mut Emitter, dtype: DType, divisor: &Value) -> Value {
    let divisor = scalar::cast(e, dtype, DType::F32, divisor);
    let wide = scalar::cast(e, DType::F32, DType::F64, &divisor);
    let one = e.op("arith.constant 1.0 : f64");
    e.op(format_args!("arith.divf {one}, {wide} : f64"))
}

/// The quotient of a value of `dtype` and what has this reciprocal.
pub(super) fn divide(e: &mut Emitter, dtype: DType, value: &Value, reciprocal: &Value) -> Value {
    let value = scalar::cast(e, dtype, DType::F32, value);
    let wide = scalar::cast(e, DType::F32, DType::F64, &value);
    let product = e.op(format_args!("arith.mulf {wide}, {reciprocal} : f64"));
    let quotient = scalar::cast(e, DType::F64, DType::F32, &product);
    scalar::cast(e, DType::F32, dtype, &quotient)
}
