//! Scalar code of one thread.

use crate::emit::{Emitter, Value};
use std::fmt::Display;

/// Integers, comparisons and control flow, written into an [`Emitter`].
pub(super) trait Code {
    /// An integer constant of an MLIR type.
    fn int(&mut self, ty: &str, value: impl Display) -> Value;
    /// An operation of the arith dialect on two values of one type, such as `addi`.
    fn arith(&mut self, op: &str, ty: &str, a: &Value, b: &Value) -> Value;
    /// A comparison, such as `ult`.
    fn compare(&mut self, predicate: &str, ty: &str, a: &Value, b: &Value) -> Value;
    /// One of two values.
    fn choose(&mut self, condition: &Value, ty: &str, a: &Value, b: &Value) -> Value;
    /// Whether both hold.
    fn both(&mut self, a: &Value, b: &Value) -> Value;
    /// Whether one does not hold.
    fn not(&mut self, a: &Value) -> Value;
    /// An integer as one of another type, extended with zeros.
    fn resize(&mut self, value: &Value, from: &str, to: &str) -> Value;
    /// A loop that goes on while a condition of what it carries holds.
    fn repeat(
        &mut self,
        carried: &[(Value, &str)],
        condition: impl FnOnce(&mut Self, &[Value]) -> Value,
        body: impl FnOnce(&mut Self, &[Value]) -> Vec<Value>,
    ) -> Vec<Value>;
}

impl Code for Emitter {
    fn int(&mut self, ty: &str, value: impl Display) -> Value {
        self.op(format_args!("arith.constant {value} : {ty}"))
    }

    fn arith(&mut self, op: &str, ty: &str, a: &Value, b: &Value) -> Value {
        self.op(format_args!("arith.{op} {a}, {b} : {ty}"))
    }

    fn compare(&mut self, predicate: &str, ty: &str, a: &Value, b: &Value) -> Value {
        self.op(format_args!("arith.cmpi {predicate}, {a}, {b} : {ty}"))
    }

    fn choose(&mut self, condition: &Value, ty: &str, a: &Value, b: &Value) -> Value {
        self.op(format_args!("arith.select {condition}, {a}, {b} : {ty}"))
    }

    fn both(&mut self, a: &Value, b: &Value) -> Value {
        self.arith("andi", "i1", a, b)
    }

    fn not(&mut self, a: &Value) -> Value {
        let yes = self.op("arith.constant true");
        self.arith("xori", "i1", a, &yes)
    }

    fn resize(&mut self, value: &Value, from: &str, to: &str) -> Value {
        let bits = |ty: &str| ty.trim_start_matches('i').parse::<u32>().ok();
        match (bits(from), bits(to)) {
            _ if from == to => value.clone(),
            (Some(a), Some(b)) if a < b => self.op(format_args!("arith.extui {value} : {from} to {to}")),
            (Some(_), Some(_)) => self.op(format_args!("arith.trunci {value} : {from} to {to}")),
            _ => self.op(format_args!("arith.index_castui {value} : {from} to {to}")),
        }
    }

    fn repeat(
        &mut self,
        carried: &[(Value, &str)],
        condition: impl FnOnce(&mut Self, &[Value]) -> Value,
        body: impl FnOnce(&mut Self, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let results = self.fresh();
        let types = carried.iter().map(|c| c.1).collect::<Vec<_>>().join(", ");
        let before: Vec<Value> = carried.iter().map(|_| self.fresh()).collect();
        let pairs: Vec<_> = before.iter().zip(carried).map(|(name, c)| format!("{name} = {}", c.0)).collect();
        self.open(format_args!(
            "{results}:{} = scf.while ({}) : ({types}) -> ({types}) {{",
            carried.len(),
            pairs.join(", ")
        ));
        let holds = condition(self, &before);
        self.line(format_args!("scf.condition({holds}) {} : {types}", before.join(", ")));
        self.close("} do {");
        let inside: Vec<Value> = carried.iter().map(|_| self.fresh()).collect();
        let header: Vec<_> = inside.iter().zip(carried).map(|(name, c)| format!("{name}: {}", c.1)).collect();
        self.open(format_args!("^bb0({}):", header.join(", ")));
        let next = body(self, &inside);
        self.line(format_args!("scf.yield {} : {types}", next.join(", ")));
        self.close("}");
        (0..carried.len()).map(|position| format!("{results}#{position}")).collect()
    }
}
