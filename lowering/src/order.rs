//! Values as unsigned integers of the same order: what radix sorts, merges and atomic extremes compare.
//!
//! All NaN are one integer, the largest or the least as is asked for. Zeros differ by what the order is for: a sort
//! is stable, so -0 and +0 are equal and stay where they are; an extreme is `maximum` of IEEE 754, so -0 is below +0.

use crate::emit::{Emitter, Value};
use burn_mlir_ir::{DType, DTypeKind};

/// What the order says of -0 and +0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zeros {
    Equal,
    Signed,
}

/// How values of a type are ordered.
#[derive(Clone, Copy)]
pub(crate) struct Order {
    pub dtype: DType,
    pub zeros: Zeros,
    /// Whether NaN is the largest integer; the least otherwise.
    pub nan_is_last: bool,
}

/// The integer type of an element's bits.
pub(crate) fn bits_type(dtype: DType) -> String {
    format!("i{}", 8 * dtype.size())
}

impl Order {
    /// The order of a sort.
    pub fn of_sort(dtype: DType) -> Self {
        Self { dtype, zeros: Zeros::Equal, nan_is_last: true }
    }

    /// The integer for a value, given and returned as an integer of its size.
    pub fn key(&self, e: &mut Emitter, bits: &Value) -> Value {
        let ty = bits_type(self.dtype);
        match self.dtype.kind() {
            DTypeKind::Bool | DTypeKind::Unsigned => bits.clone(),
            DTypeKind::Signed => {
                let sign = constant(e, &ty, self.sign());
                op(e, "xori", &ty, bits, &sign)
            }
            DTypeKind::Float => self.float(e, bits, &ty),
        }
    }

    fn float(&self, e: &mut Emitter, bits: &Value, ty: &str) -> Value {
        let rest = constant(e, ty, !self.sign());
        let magnitude = op(e, "andi", ty, bits, &rest);
        let zero = constant(e, ty, 0);
        let mut number = bits.clone();
        if self.zeros == Zeros::Equal {
            let is_zero = op(e, "cmpi eq,", ty, &magnitude, &zero);
            number = choose(e, &is_zero, ty, &zero, &number);
        }
        let mask = self.turned(e, &number, ty);
        let key = op(e, "xori", ty, &number, &mask);
        let infinity = constant(e, ty, infinity(self.dtype));
        let is_nan = op(e, "cmpi ugt,", ty, &magnitude, &infinity);
        let nan = constant(e, ty, if self.nan_is_last { -1 } else { 0 });
        choose(e, &is_nan, ty, &nan, &key)
    }

    /// The bits of the float for an integer, a NaN for that of NaN.
    pub fn float_of(&self, e: &mut Emitter, key: &Value) -> Value {
        let ty = bits_type(self.dtype);
        let all = constant(e, &ty, -1);
        // The sign is turned, in the key.
        let inverted = op(e, "xori", &ty, key, &all);
        let mask = self.turned(e, &inverted, &ty);
        op(e, "xori", &ty, key, &mask)
    }

    /// The bits in which a float of this sign differs from its integer: all if it is negative, else the sign.
    fn turned(&self, e: &mut Emitter, number: &Value, ty: &str) -> Value {
        let last = constant(e, ty, 8 * self.dtype.size() as i64 - 1);
        let negative = op(e, "shrsi", ty, number, &last);
        let sign = constant(e, ty, self.sign());
        op(e, "ori", ty, &negative, &sign)
    }

    /// The sign bit.
    fn sign(&self) -> i64 {
        i64::MIN >> (64 - 8 * self.dtype.size())
    }
}

fn constant(e: &mut Emitter, ty: &str, value: i64) -> Value {
    e.op(format_args!("arith.constant {value} : {ty}"))
}

fn op(e: &mut Emitter, name: &str, ty: &str, a: &Value, b: &Value) -> Value {
    e.op(format_args!("arith.{name} {a}, {b} : {ty}"))
}

fn choose(e: &mut Emitter, condition: &Value, ty: &str, a: &Value, b: &Value) -> Value {
    e.op(format_args!("arith.select {condition}, {a}, {b} : {ty}"))
}

/// The bits of a float type's infinity.
fn infinity(dtype: DType) -> i64 {
    match dtype {
        DType::F16 => 0x7c00,
        DType::BF16 => 0x7f80,
        DType::F64 => 0x7ff0_0000_0000_0000,
        _ => 0x7f80_0000,
    }
}
