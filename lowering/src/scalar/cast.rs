//! Conversions between element types.
//!
//! bf16 is converted with integer arithmetic on hosts: the x86 instructions for it flush subnormals, and
//! without them LLVM calls a library. The narrowing f64 → f16 and f64 → bf16 goes through an f32
//! rounded to odd, so that it rounds once.

use super::constant;
use crate::emit::{Emitter, Value};
use crate::types::{same_value, storage_type, value_type};
use burn_mlir_ir::{CompareOp, DType, DTypeKind, Literal};

/// The type in which values of `dtype` are computed.
pub(super) fn compute_type(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 | DType::Flex32 => DType::F32,
        other => other,
    }
}

/// A value of a float type in its [computing type](compute_type).
pub(super) fn extend(e: &mut Emitter, dtype: DType, x: &Value) -> Value {
    match dtype {
        DType::F16 => {
            let half = e.op(format_args!("arith.bitcast {x} : i16 to f16"));
            e.op(format_args!("arith.extf {half} : f16 to f32"))
        }
        DType::BF16 => {
            let wide = e.op(format_args!("arith.extui {x} : i16 to i32"));
            let sixteen = e.op("arith.constant 16 : i32");
            let high = e.op(format_args!("arith.shli {wide}, {sixteen} : i32"));
            e.op(format_args!("arith.bitcast {high} : i32 to f32"))
        }
        _ => x.clone(),
    }
}

/// A value of the [computing type](compute_type) of `dtype` rounded to `dtype`.
pub(super) fn round(e: &mut Emitter, dtype: DType, x: &Value) -> Value {
    match dtype {
        DType::F16 => {
            let half = e.op(format_args!("arith.truncf {x} : f32 to f16"));
            e.op(format_args!("arith.bitcast {half} : f16 to i16"))
        }
        DType::BF16 if e.is_for_gpu() => {
            // Nothing to LLVM; to MLIR the end of a fold that makes one rounding of an integer's two.
            let x = e.op(format_args!("math.copysign {x}, {x} : f32"));
            let brief = e.op(format_args!("arith.truncf {x} : f32 to bf16"));
            e.op(format_args!("arith.bitcast {brief} : bf16 to i16"))
        }
        DType::BF16 => {
            let bits = e.op(format_args!("arith.bitcast {x} : f32 to i32"));
            let sixteen = e.op("arith.constant 16 : i32");
            let one = e.op("arith.constant 1 : i32");
            let below_half = e.op("arith.constant 32767 : i32");
            let shifted = e.op(format_args!("arith.shrui {bits}, {sixteen} : i32"));
            let odd = e.op(format_args!("arith.andi {shifted}, {one} : i32"));
            let bias = e.op(format_args!("arith.addi {odd}, {below_half} : i32"));
            let sum = e.op(format_args!("arith.addi {bits}, {bias} : i32"));
            // The carry could turn a NaN into infinity or zero.
            let quiet = e.op("arith.constant 4194304 : i32");
            let nan = e.op(format_args!("arith.ori {bits}, {quiet} : i32"));
            let is_nan = e.op(format_args!("arith.cmpf uno, {x}, {x} : f32"));
            let rounded = e.op(format_args!("arith.select {is_nan}, {nan}, {sum} : i32"));
            let high = e.op(format_args!("arith.shrui {rounded}, {sixteen} : i32"));
            e.op(format_args!("arith.trunci {high} : i32 to i16"))
        }
        _ => x.clone(),
    }
}

/// An f64 as the f32 next to it towards zero, made odd unless it is exact: rounding that to a type
/// of at most 22 bits gives what rounding the f64 would.
fn round_to_odd(e: &mut Emitter, x: &Value) -> Value {
    let near = e.op(format_args!("arith.truncf {x} : f64 to f32"));
    let back = e.op(format_args!("arith.extf {near} : f32 to f64"));
    let size = e.op(format_args!("math.absf {x} : f64"));
    let back_size = e.op(format_args!("math.absf {back} : f64"));
    let beyond = e.op(format_args!("arith.cmpf ogt, {back_size}, {size} : f64"));
    let inexact = e.op(format_args!("arith.cmpf une, {back}, {x} : f64"));
    let bits = e.op(format_args!("arith.bitcast {near} : f32 to i32"));
    let one = e.op(format_args!("arith.extui {beyond} : i1 to i32"));
    let truncated = e.op(format_args!("arith.subi {bits}, {one} : i32"));
    let sticky = e.op(format_args!("arith.extui {inexact} : i1 to i32"));
    let odd = e.op(format_args!("arith.ori {truncated}, {sticky} : i32"));
    e.op(format_args!("arith.bitcast {odd} : i32 to f32"))
}

/// Conversion; float to integer truncates and saturates with NaN → 0, anything to bool is `!= 0`.
pub(crate) fn cast(e: &mut Emitter, from: DType, to: DType, x: &Value) -> Value {
    if same_value(from, to) {
        return x.clone();
    }
    match (from.kind(), to.kind()) {
        (_, DTypeKind::Bool) => {
            let zero = super::constant(e, from, Literal::of(from, 0.0));
            super::compare(e, CompareOp::Ne, from, x, &zero)
        }
        (DTypeKind::Float, DTypeKind::Float) => float_to_float(e, from, to, x),
        (DTypeKind::Float, _) => float_to_int(e, from, to, x),
        (kind, DTypeKind::Float) => {
            let wide = compute_type(to);
            let op = if kind == DTypeKind::Signed { "sitofp" } else { "uitofp" };
            let y = e.op(format_args!("arith.{op} {x} : {} to {}", value_type(from), value_type(wide)));
            round(e, to, &y)
        }
        (kind, _) => {
            let (a, b) = (value_type(from), value_type(to));
            let op = match (from == DType::Bool || to.size() > from.size(), kind) {
                (false, _) => "trunci",
                (true, DTypeKind::Signed) => "extsi",
                (true, _) => "extui",
            };
            e.op(format_args!("arith.{op} {x} : {a} to {b}"))
        }
    }
}

fn float_to_float(e: &mut Emitter, from: DType, to: DType, x: &Value) -> Value {
    let wide = extend(e, from, x);
    match (compute_type(from), to) {
        (DType::F64, DType::F16 | DType::BF16) => {
            let odd = round_to_odd(e, &wide);
            round(e, to, &odd)
        }
        (DType::F64, _) => e.op(format_args!("arith.truncf {wide} : f64 to f32")),
        (_, DType::F64) => e.op(format_args!("arith.extf {wide} : f32 to f64")),
        _ => round(e, to, &wide),
    }
}

/// Narrow integers are converted through i32: the conversion itself is only done in range, where
/// it is defined.
fn float_to_int(e: &mut Emitter, from: DType, to: DType, x: &Value) -> Value {
    let x = extend(e, from, x);
    let float = compute_type(from);
    let (ft, it) = (value_type(float), value_type(to));
    let signed = to.kind() == DTypeKind::Signed;
    let bits = 8 * to.size() as i32;
    // 2^bits is a float; the largest integer below it may not be.
    let beyond = 2f64.powi(if signed { bits - 1 } else { bits });
    let below = if signed { -beyond } else { 0.0 };
    let high = super::constant(e, float, Literal::float(beyond));
    let low = super::constant(e, float, Literal::float(below));
    let is_high = e.op(format_args!("arith.cmpf oge, {x}, {high} : {ft}"));
    let is_low = e.op(format_args!("arith.cmpf olt, {x}, {low} : {ft}"));
    let is_nan = e.op(format_args!("arith.cmpf uno, {x}, {x} : {ft}"));
    let outside = e.op(format_args!("arith.ori {is_high}, {is_low} : i1"));
    let undefined = e.op(format_args!("arith.ori {outside}, {is_nan} : i1"));
    let zero = super::constant(e, float, Literal::float(0.0));
    let inside = e.op(format_args!("arith.select {undefined}, {zero}, {x} : {ft}"));
    let value = if bits < 32 {
        let wide = e.op(format_args!("arith.fptosi {inside} : {ft} to i32"));
        e.op(format_args!("arith.trunci {wide} : i32 to {it}"))
    } else {
        let op = if signed { "fptosi" } else { "fptoui" };
        e.op(format_args!("arith.{op} {inside} : {ft} to {it}"))
    };
    let highest = super::constant(e, to, constant::highest(to));
    let lowest = super::constant(e, to, constant::lowest(to));
    let value = e.op(format_args!("arith.select {is_high}, {highest}, {value} : {it}"));
    e.op(format_args!("arith.select {is_low}, {lowest}, {value} : {it}"))
}

/// The same bits as another type of the same size.
pub(crate) fn bitcast(e: &mut Emitter, from: DType, to: DType, x: &Value) -> Value {
    let x = to_storage(e, from, x);
    let (a, b) = (storage_type(from), storage_type(to));
    let y = if a == b { x } else { e.op(format_args!("arith.bitcast {x} : {a} to {b}")) };
    from_storage(e, to, &y)
}

/// The value of an element in memory.
pub(crate) fn from_storage(e: &mut Emitter, dtype: DType, x: &Value) -> Value {
    if dtype != DType::Bool {
        return x.clone();
    }
    let zero = e.op("arith.constant 0 : i8");
    e.op(format_args!("arith.cmpi ne, {x}, {zero} : i8"))
}

/// The element in memory of a value.
pub(crate) fn to_storage(e: &mut Emitter, dtype: DType, x: &Value) -> Value {
    if dtype != DType::Bool { x.clone() } else { e.op(format_args!("arith.extui {x} : i1 to i8")) }
}
