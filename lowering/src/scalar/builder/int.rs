//! Operations on integers.

use super::{Float, Int, Truth, Width};
use std::ops::{Add, BitAnd, BitOr, BitXor, Mul, Sub};

impl<'b> Int<'b> {
    /// A constant of the same type.
    pub fn constant(self, value: i64) -> Int<'b> {
        let key = (value as u64, self.width, false);
        let id = self.builder.constant(key, format!("arith.constant {value} : {}", self.width.int()));
        Int { id, ..self }
    }

    fn two(self, op: &str, other: Int<'b>) -> Int<'b> {
        self.make(format!("arith.{op} {}, {} : {}", self.name(), other.name(), self.width.int()))
    }

    pub fn shl(self, count: i64) -> Int<'b> {
        self.two("shli", self.constant(count))
    }

    /// Arithmetic.
    pub fn shr(self, count: i64) -> Int<'b> {
        self.two("shrsi", self.constant(count))
    }

    /// Logical.
    pub fn shr_logical(self, count: i64) -> Int<'b> {
        self.two("shrui", self.constant(count))
    }

    /// Left by a count below the width that is data.
    pub fn shl_by(self, count: Int<'b>) -> Int<'b> {
        self.two("shli", count)
    }

    /// Logical, right by a count below the width that is data.
    pub fn shr_logical_by(self, count: Int<'b>) -> Int<'b> {
        self.two("shrui", count)
    }

    /// The low and the high half of the unsigned product.
    pub fn mul_extended(self, other: Int<'b>) -> (Int<'b>, Int<'b>) {
        let (a, b) = (self.name(), other.name());
        let low = self.builder.emitter.borrow_mut().fresh();
        let high = self.builder.emitter.borrow_mut().fresh();
        let ty = self.width.int();
        self.builder
            .emitter
            .borrow_mut()
            .line(format_args!("{low}, {high} = arith.mului_extended {a}, {b} : {ty}"));
        let int = |name| Int { id: self.builder.intern(name), ..self };
        (int(low), int(high))
    }

    /// Zero-extended to `i64`.
    pub fn widen(self) -> Int<'b> {
        let id = self.builder.op(format!("arith.extui {} : i32 to i64", self.name()));
        Int { id, width: Width::Double, ..self }
    }

    /// The low half of an `i64`.
    pub fn narrow(self) -> Int<'b> {
        let id = self.builder.op(format!("arith.trunci {} : i64 to i32", self.name()));
        Int { id, width: Width::Single, ..self }
    }

    /// Its width.
    pub fn width(self) -> Width {
        self.width
    }

    /// A comparison by its MLIR predicate.
    pub fn compare(self, predicate: &str, other: Int<'b>) -> Truth<'b> {
        let (a, b) = (self.name(), other.name());
        let id = self.builder.op(format!("arith.cmpi {predicate}, {a}, {b} : {}", self.width.int()));
        Truth { builder: self.builder, id }
    }

    pub fn eq(self, other: Int<'b>) -> Truth<'b> {
        self.compare("eq", other)
    }

    pub fn ne(self, other: Int<'b>) -> Truth<'b> {
        self.compare("ne", other)
    }

    /// The float with these bits.
    pub fn to_float(self) -> Float<'b> {
        let (float, int) = (self.width.float(), self.width.int());
        let id = self.builder.op(format!("arith.bitcast {} : {int} to {float}", self.name()));
        Float { builder: self.builder, width: self.width, id }
    }

    /// The nearest float.
    pub fn convert(self) -> Float<'b> {
        let (float, int) = (self.width.float(), self.width.int());
        let id = self.builder.op(format!("arith.sitofp {} : {int} to {float}", self.name()));
        Float { builder: self.builder, width: self.width, id }
    }
}

operators!(Int: Add add "addi", Sub sub "subi", Mul mul "muli", BitAnd bitand "andi", BitOr bitor "ori", BitXor bitxor "xori");
with_constants!(Int i64: Add add, Sub sub, Mul mul, BitAnd bitand, BitOr bitor, BitXor bitxor);
