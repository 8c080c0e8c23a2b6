//! Arithmetic on `i32`: places in the grid, in workgroup memory and in tensor maps.

use crate::emit::{Emitter, Value};

/// A constant.
pub(super) fn int(e: &mut Emitter, value: usize) -> Value {
    e.op(format_args!("arith.constant {value} : i32"))
}

/// An operation such as `addi`.
pub(super) fn int_op(e: &mut Emitter, op: &str, a: &Value, b: &Value) -> Value {
    e.op(format_args!("arith.{op} {a}, {b} : i32"))
}

/// An operation with a constant.
pub(super) fn int_by(e: &mut Emitter, op: &str, a: &Value, b: usize) -> Value {
    let neutral = if matches!(op, "muli" | "divui") { 1 } else { 0 };
    if b == neutral && matches!(op, "muli" | "divui" | "addi" | "subi" | "shrui" | "shli") {
        return a.clone();
    }
    let b = int(e, b);
    int_op(e, op, a, &b)
}

/// A comparison such as `ult` with a constant, an `i1`.
pub(super) fn int_is(e: &mut Emitter, predicate: &str, a: &Value, b: usize) -> Value {
    let b = int(e, b);
    e.op(format_args!("arith.cmpi {predicate}, {a}, {b} : i32"))
}

/// The coordinates of the `linear`-th point, in row-major order, of a box with these extents.
pub(super) fn split(e: &mut Emitter, linear: &Value, sizes: &[usize]) -> Vec<Value> {
    let mut rest = linear.clone();
    let mut coordinates = vec![Value::new(); sizes.len()];
    for (position, &size) in sizes.iter().enumerate().rev() {
        if position == 0 {
            coordinates[0] = rest.clone();
            break;
        }
        coordinates[position] = int_by(e, "remui", &rest, size);
        rest = int_by(e, "divui", &rest, size);
    }
    coordinates
}

/// The value as an `index`.
pub(super) fn widened(e: &mut Emitter, value: &Value) -> Value {
    e.op(format_args!("arith.index_castui {value} : i32 to index"))
}
