//! Scalar code for one statement, which the vectoriser turns into vectors.
//!
//! A function of floats is written once for f32 and f64 with the operators of [`builder`]; a new
//! one is a variant of `UnaryOp` or `BinaryOp` and a row in [`float_unary`] or [`float_binary`].
//! f16 and bf16 are extended to f32 and rounded back around every statement.

mod builder;
mod cast;
mod compare;
mod constant;
mod erf;
mod exp;
mod hyperbolic;
mod integer;
mod inverse_trig;
mod log;
mod philox;
mod pi_reduction;
mod pow;
mod remainder;
mod rounding;
mod trig;

pub(crate) use cast::{bitcast, cast, from_storage, to_storage};
pub(crate) use compare::{compare, select};
pub(crate) use constant::identity;
pub(crate) use philox::philox;

use crate::emit::{Emitter, Value};
use builder::{Builder, Float, Width};
use burn_mlir_ir::{BinaryOp, DType, Literal, ReduceOp, UnaryOp};

/// A function of one float.
type Unary = for<'b> fn(Float<'b>) -> Float<'b>;
/// A function of two floats.
type Binary = for<'b> fn(Float<'b>, Float<'b>) -> Float<'b>;

/// The implementation of a function of one float, if there is one.
fn float_unary(op: UnaryOp) -> Option<Unary> {
    Some(match op {
        UnaryOp::Neg => |x| -x,
        UnaryOp::Abs => |x| x.abs(),
        UnaryOp::Sign => rounding::sign,
        UnaryOp::Recip => |x| x.constant(1.0) / x,
        UnaryOp::Exp => exp::exp,
        UnaryOp::Expm1 => exp::expm1,
        UnaryOp::Log => log::log,
        UnaryOp::Log1p => log::log1p,
        UnaryOp::Sqrt => |x| x.sqrt(),
        UnaryOp::Rsqrt => |x| x.constant(1.0) / x.sqrt(),
        UnaryOp::Sin => trig::sin,
        UnaryOp::Cos => trig::cos,
        UnaryOp::Tan => trig::tan,
        UnaryOp::Asin => inverse_trig::asin,
        UnaryOp::Acos => inverse_trig::acos,
        UnaryOp::Atan => inverse_trig::atan,
        UnaryOp::Sinh => hyperbolic::sinh,
        UnaryOp::Cosh => hyperbolic::cosh,
        UnaryOp::Tanh => exp::tanh,
        UnaryOp::Asinh => hyperbolic::asinh,
        UnaryOp::Acosh => hyperbolic::acosh,
        UnaryOp::Atanh => hyperbolic::atanh,
        UnaryOp::Erf => erf::erf,
        UnaryOp::Sigmoid => exp::sigmoid,
        UnaryOp::Floor => |x| x.floor(),
        UnaryOp::Ceil => |x| x.ceil(),
        UnaryOp::Round => |x| x.round(),
        UnaryOp::Trunc => |x| x.trunc(),
        UnaryOp::Not | UnaryOp::IsNan | UnaryOp::IsInf => return None,
    })
}

/// The implementation of a function of two floats, if there is one.
fn float_binary(op: BinaryOp) -> Option<Binary> {
    Some(match op {
        BinaryOp::Add => |a, b| a + b,
        BinaryOp::Sub => |a, b| a - b,
        BinaryOp::Mul => |a, b| a * b,
        BinaryOp::Div => |a, b| a / b,
        BinaryOp::Rem => remainder::rem,
        BinaryOp::Pow => pow::pow,
        BinaryOp::Atan2 => inverse_trig::atan2,
        BinaryOp::Max => |a, b| a.maximum(b),
        BinaryOp::Min => |a, b| a.minimum(b),
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr => return None,
    })
}

/// Whether [`unary`] is defined for operands of `dtype`.
pub(crate) fn has_unary(op: UnaryOp, dtype: DType) -> bool {
    if dtype.is_float() {
        op.is_predicate() || float_unary(op).is_some()
    } else {
        integer::has_unary(op, dtype)
    }
}

/// Whether [`binary`] is defined for operands of `dtype`.
pub(crate) fn has_binary(op: BinaryOp, dtype: DType) -> bool {
    if dtype.is_float() { float_binary(op).is_some() } else { integer::has_binary(op, dtype) }
}

/// A constant of `dtype`.
pub(crate) fn constant(e: &mut Emitter, dtype: DType, value: Literal) -> Value {
    let x = e.op(constant::text(dtype, value));
    match dtype {
        DType::F16 | DType::BF16 => e.op(format_args!("arith.bitcast {x} : {dtype} to i16")),
        _ => x,
    }
}

/// The width in which floats of `dtype` are computed.
fn width(dtype: DType) -> Width {
    if dtype == DType::F64 { Width::Double } else { Width::Single }
}

/// A function of one operand of `dtype`, for which it must be [defined](has_unary).
pub(crate) fn unary(e: &mut Emitter, op: UnaryOp, dtype: DType, x: &Value) -> Value {
    if !dtype.is_float() {
        return integer::unary(e, op, dtype, x);
    }
    let x = cast::extend(e, dtype, x);
    let y = unary_extended(e, op, dtype, &x);
    if op.is_predicate() { y } else { cast::round(e, dtype, &y) }
}

/// A function of one float operand of `dtype`, for which it must be [defined](has_unary): of the type in which
/// it is computed, as is the result, which is yet to be rounded unless it is a truth value.
pub(crate) fn unary_extended(e: &mut Emitter, op: UnaryOp, dtype: DType, x: &Value) -> Value {
    if op.is_predicate() {
        return Builder::with(e, |b| {
            let x = b.float(width(dtype), x);
            match op {
                UnaryOp::IsNan => x.is_nan().name(),
                _ => x.abs().eq(x.constant(f64::INFINITY)).name(),
            }
        });
    }
    let Some(function) = float_unary(op) else { return x.clone() };
    Builder::with(e, |b| function(b.float(width(dtype), x)).name())
}

/// `e^x` of a float that is at most 0 or NaN: the bits of [`UnaryOp::Exp`].
pub(crate) fn exp_of_nonpositive(e: &mut Emitter, dtype: DType, x: &Value) -> Value {
    let x = cast::extend(e, dtype, x);
    let y = Builder::with(e, |b| exp::exp_of_nonpositive(b.float(width(dtype), &x)).name());
    cast::round(e, dtype, &y)
}

/// A function of two operands of `dtype`, for which it must be [defined](has_binary).
pub(crate) fn binary(e: &mut Emitter, op: BinaryOp, dtype: DType, a: &Value, b: &Value) -> Value {
    if !dtype.is_float() {
        return integer::binary(e, op, dtype, a, b);
    }
    let (a, b) = (cast::extend(e, dtype, a), cast::extend(e, dtype, b));
    let Some(function) = float_binary(op) else { return a };
    let y = Builder::with(e, |builder| {
        let width = width(dtype);
        function(builder.float(width, &a), builder.float(width, &b)).name()
    });
    cast::round(e, dtype, &y)
}

/// The type in which a reduction of `dtype` accumulates.
pub(crate) fn accumulator(dtype: DType) -> DType {
    if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype }
}

/// One step of a reduction whose [accumulator](accumulator) is of `dtype`.
pub(crate) fn combine(e: &mut Emitter, op: ReduceOp, dtype: DType, acc: &Value, x: &Value) -> Value {
    let op = match op {
        ReduceOp::Sum => BinaryOp::Add,
        ReduceOp::Prod => BinaryOp::Mul,
        ReduceOp::Max => BinaryOp::Max,
        ReduceOp::Min => BinaryOp::Min,
    };
    binary(e, op, dtype, acc, x)
}

#[cfg(test)]
mod tests;
