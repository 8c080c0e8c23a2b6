//! Functions of integers and truth values. All wrap, and none traps: a divisor that would is
//! replaced before the division.

use crate::emit::{Emitter, Value};
use crate::types::value_type;
use burn_mlir_ir::{BinaryOp, DType, DTypeKind, UnaryOp};

/// Emits integer operations of one type.
struct Int<'e> {
    e: &'e mut Emitter,
    dtype: DType,
}

impl Int<'_> {
    fn op(&mut self, op: &str, a: &Value, b: &Value) -> Value {
        self.e.op(format_args!("arith.{op} {a}, {b} : {}", value_type(self.dtype)))
    }

    fn constant(&mut self, value: i64) -> Value {
        super::constant(self.e, self.dtype, burn_mlir_ir::Literal::Int(value))
    }

    fn compare(&mut self, predicate: &str, a: &Value, b: &Value) -> Value {
        self.op(&format!("cmpi {predicate},"), a, b)
    }

    fn select(&mut self, condition: &Value, a: &Value, b: &Value) -> Value {
        super::select(self.e, self.dtype, condition, a, b)
    }

    fn either(&mut self, a: &Value, b: &Value) -> Value {
        self.e.op(format_args!("arith.ori {a}, {b} : i1"))
    }

    fn both(&mut self, a: &Value, b: &Value) -> Value {
        self.e.op(format_args!("arith.andi {a}, {b} : i1"))
    }

    fn signed(&self) -> bool {
        self.dtype.kind() == DTypeKind::Signed
    }

    fn bits(&self) -> i64 {
        8 * self.dtype.size() as i64
    }

    /// `b` with what a division must not see replaced by 1: 0, and for signed types -1 (the
    /// quotient of the least value by -1 overflows). Also whether `b` is 0, and whether it is -1.
    fn divisor(&mut self, b: &Value) -> (Value, Value, Value) {
        let (zero, one, minus_one) = (self.constant(0), self.constant(1), self.constant(-1));
        let is_zero = self.compare("eq", b, &zero);
        let is_minus_one = self.compare("eq", b, &minus_one);
        let replace = if self.signed() { self.either(&is_zero, &is_minus_one) } else { is_zero.clone() };
        (self.select(&replace, &one, b), is_zero, is_minus_one)
    }

    fn div(&mut self, a: &Value, b: &Value) -> Value {
        let (divisor, is_zero, is_minus_one) = self.divisor(b);
        let zero = self.constant(0);
        let mut quotient = self.op(if self.signed() { "divsi" } else { "divui" }, a, &divisor);
        if self.signed() {
            let negated = self.op("subi", &zero, a);
            quotient = self.select(&is_minus_one, &negated, &quotient);
        }
        self.select(&is_zero, &zero, &quotient)
    }

    fn rem(&mut self, a: &Value, b: &Value) -> Value {
        let (divisor, is_zero, _) = self.divisor(b);
        let zero = self.constant(0);
        if !self.signed() {
            let rest = self.op("remui", a, &divisor);
            return self.select(&is_zero, &zero, &rest);
        }
        // The rest by the 1 that stands for 0 and -1 is 0 already.
        let rest = self.op("remsi", a, &divisor);
        let differs = self.op("xori", &rest, b);
        let opposite = self.compare("slt", &differs, &zero);
        let nonzero = self.compare("ne", &rest, &zero);
        let wrong = self.both(&opposite, &nonzero);
        let moved = self.op("addi", &rest, b);
        self.select(&wrong, &moved, &rest)
    }

    /// Square and multiply over every bit of the exponent, since odd bases do not run out of bits.
    /// A negative exponent gives the truncated reciprocal: 0 but for the bases 1 and -1.
    fn pow(&mut self, a: &Value, b: &Value) -> Value {
        let (zero, one) = (self.constant(0), self.constant(1));
        let mut square = a.clone();
        let mut result = one.clone();
        let digits = if self.signed() { self.bits() - 1 } else { self.bits() };
        for digit in 0..digits {
            let mask = self.constant(1i64 << digit);
            let set = self.op("andi", b, &mask);
            let set = self.compare("ne", &set, &zero);
            let factor = self.select(&set, &square, &one);
            result = self.op("muli", &result, &factor);
            if digit + 1 < digits {
                square = self.op("muli", &square, &square);
            }
        }
        if !self.signed() {
            return result;
        }
        let minus_one = self.constant(-1);
        let odd = self.op("andi", b, &one);
        let odd = self.compare("ne", &odd, &zero);
        let alternating = self.select(&odd, &minus_one, &one);
        let is_one = self.compare("eq", a, &one);
        let is_minus_one = self.compare("eq", a, &minus_one);
        let reciprocal = self.select(&is_one, &one, &zero);
        let reciprocal = self.select(&is_minus_one, &alternating, &reciprocal);
        let negative = self.compare("slt", b, &zero);
        self.select(&negative, &reciprocal, &result)
    }

    /// A count of the width or more (a negative one among them) shifts everything out.
    fn shift(&mut self, left: bool, a: &Value, b: &Value) -> Value {
        let (zero, last) = (self.constant(0), self.constant(self.bits() - 1));
        let count = self.op("minui", b, &last);
        if !left && self.signed() {
            return self.op("shrsi", a, &count);
        }
        let shifted = self.op(if left { "shli" } else { "shrui" }, a, &count);
        let inside = self.compare("ule", b, &last);
        self.select(&inside, &shifted, &zero)
    }
}

/// Whether `unary` is defined for integers (or truth values).
pub(super) fn has_unary(op: UnaryOp, dtype: DType) -> bool {
    use UnaryOp::*;
    match dtype.kind() {
        DTypeKind::Bool => matches!(op, Not | IsNan | IsInf),
        _ => matches!(op, Neg | Abs | Sign | Floor | Ceil | Round | Trunc | Not | IsNan | IsInf),
    }
}

/// A function of one integer or truth value; the operand itself for what is not
/// [defined](has_unary).
pub(super) fn unary(e: &mut Emitter, op: UnaryOp, dtype: DType, x: &Value) -> Value {
    let mut i = Int { e, dtype };
    match op {
        UnaryOp::IsNan | UnaryOp::IsInf => i.e.op("arith.constant false"),
        UnaryOp::Not if dtype == DType::Bool => {
            let yes = i.e.op("arith.constant true");
            i.op("xori", x, &yes)
        }
        UnaryOp::Not => {
            let ones = i.constant(-1);
            i.op("xori", x, &ones)
        }
        UnaryOp::Neg => {
            let zero = i.constant(0);
            i.op("subi", &zero, x)
        }
        UnaryOp::Abs if i.signed() => {
            let zero = i.constant(0);
            let negated = i.op("subi", &zero, x);
            let negative = i.compare("slt", x, &zero);
            i.select(&negative, &negated, x)
        }
        UnaryOp::Sign if i.signed() => {
            let (one, minus_one) = (i.constant(1), i.constant(-1));
            let capped = i.op("minsi", x, &one);
            i.op("maxsi", &capped, &minus_one)
        }
        UnaryOp::Sign => {
            let one = i.constant(1);
            i.op("minui", x, &one)
        }
        // Integral already.
        _ => x.clone(),
    }
}

/// Whether `binary` is defined for integers (or truth values).
pub(super) fn has_binary(op: BinaryOp, dtype: DType) -> bool {
    use BinaryOp::*;
    match dtype.kind() {
        DTypeKind::Bool => matches!(op, Add | Mul | Max | Min | And | Or | Xor),
        _ => op != Atan2,
    }
}

/// A function of two integers or truth values; the first operand for what is not
/// [defined](has_binary).
pub(super) fn binary(e: &mut Emitter, op: BinaryOp, dtype: DType, a: &Value, b: &Value) -> Value {
    let mut i = Int { e, dtype };
    if dtype == DType::Bool {
        return match op {
            BinaryOp::Add | BinaryOp::Max | BinaryOp::Or => i.op("ori", a, b),
            BinaryOp::Mul | BinaryOp::Min | BinaryOp::And => i.op("andi", a, b),
            BinaryOp::Xor => i.op("xori", a, b),
            _ => a.clone(),
        };
    }
    match op {
        BinaryOp::Add => i.op("addi", a, b),
        BinaryOp::Sub => i.op("subi", a, b),
        BinaryOp::Mul => i.op("muli", a, b),
        BinaryOp::Div => i.div(a, b),
        BinaryOp::Rem => i.rem(a, b),
        BinaryOp::Pow => i.pow(a, b),
        BinaryOp::Max => i.op(if i.signed() { "maxsi" } else { "maxui" }, a, b),
        BinaryOp::Min => i.op(if i.signed() { "minsi" } else { "minui" }, a, b),
        BinaryOp::And => i.op("andi", a, b),
        BinaryOp::Or => i.op("ori", a, b),
        BinaryOp::Xor => i.op("xori", a, b),
        BinaryOp::Shl => i.shift(true, a, b),
        BinaryOp::Shr => i.shift(false, a, b),
        BinaryOp::Atan2 => a.clone(),
    }
}
