//! Operations on truth values.

use super::{Float, Int, Truth};
use crate::emit::Value;
use std::ops::{BitAnd, BitOr, BitXor, Not};

impl<'b> Truth<'b> {
    /// The SSA name.
    pub fn name(self) -> Value {
        self.builder.name(self.id)
    }

    fn make(self, text: String) -> Self {
        Self { id: self.builder.op(text), ..self }
    }

    /// `yes` where true.
    pub fn select(self, yes: Float<'b>, no: Float<'b>) -> Float<'b> {
        let (c, a, b) = (self.name(), yes.name(), no.name());
        yes.make(format!("arith.select {c}, {a}, {b} : {}", yes.width.float()))
    }

    /// `yes` where true.
    pub fn select_int(self, yes: Int<'b>, no: Int<'b>) -> Int<'b> {
        let (c, a, b) = (self.name(), yes.name(), no.name());
        yes.make(format!("arith.select {c}, {a}, {b} : {}", yes.width.int()))
    }

    fn two(self, op: &str, other: Truth<'b>) -> Truth<'b> {
        self.make(format!("arith.{op} {}, {} : i1", self.name(), other.name()))
    }
}

operators!(Truth: BitAnd bitand "andi", BitOr bitor "ori", BitXor bitxor "xori");

impl<'b> Not for Truth<'b> {
    type Output = Truth<'b>;
    fn not(self) -> Truth<'b> {
        let yes = self.make("arith.constant true".to_string());
        self ^ yes
    }
}
