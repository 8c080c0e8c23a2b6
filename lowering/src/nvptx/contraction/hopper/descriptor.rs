//! Descriptors of operands in workgroup memory for warpgroup matrix instructions.

use super::int::{int_by, int_op};
use super::plan::ROW_BYTES;
use super::problem::Major;
use crate::emit::{Emitter, Value};

/// Bits of an address that a descriptor can hold.
const ADDRESS_MASK: usize = 0x3_FFFF;

/// The swizzle of 128 bytes.
const SWIZZLE: i64 = 1 << 62;

/// Bytes of the summed points one instruction takes.
const STEP_BYTES: usize = 32;

/// Instructions of a slice.
pub(super) const STEPS: usize = ROW_BYTES / STEP_BYTES;

/// Bytes from 8 rows of workgroup memory to the next 8.
const EIGHT_ROWS: i64 = 8 * ROW_BYTES as i64;

/// An operand's place in the first stage.
#[derive(Clone, Debug)]
pub(super) struct Descriptor {
    first: Value,
    step: usize,
}

/// Bytes of a box of 64 rows or columns by 64 summed points, for operands adjacent along the former.
const BOX_BYTES: usize = 64 * ROW_BYTES;

impl Descriptor {
    /// Of the operand at the `i32` `address`.
    pub fn new(e: &mut Emitter, address: &Value, major: Major) -> Self {
        // Along the sum, a row of memory is one row or column of the operand, and only the distance of
        // 8 of them counts. Otherwise it is one summed point; boxes of 64 rows or columns follow each other.
        let (leading, step) = match major {
            Major::Sum => (16, STEP_BYTES),
            Major::Side => (BOX_BYTES as i64, STEP_BYTES / 2 * ROW_BYTES),
        };
        let high = SWIZZLE | (EIGHT_ROWS >> 4) << 32 | (leading >> 4) << 16;
        let low = int_by(e, "andi", address, ADDRESS_MASK);
        let low = int_by(e, "shrui", &low, 4);
        let low = e.op(format_args!("arith.extui {low} : i32 to i64"));
        let high = e.op(format_args!("arith.constant {high} : i64"));
        Self { first: e.op(format_args!("arith.ori {low}, {high} : i64")), step: step >> 4 }
    }

    /// In the stage that begins `offset` (an `i64`, in units of 16 bytes) after the first.
    pub fn at(&self, e: &mut Emitter, offset: &Value) -> Value {
        e.op(format_args!("arith.addi {}, {offset} : i64", self.first))
    }

    /// Of the `step`-th instruction of a slice whose first has descriptor `at`.
    pub fn step(&self, e: &mut Emitter, at: &Value, step: usize) -> Value {
        if step == 0 {
            return at.clone();
        }
        let units = e.op(format_args!("arith.constant {} : i64", step * self.step));
        e.op(format_args!("arith.addi {at}, {units} : i64"))
    }
}

/// The distance of a stage from the first, in units of 16 bytes, an `i64`.
pub(super) fn stage_units(e: &mut Emitter, stage: &Value, bytes: usize) -> Value {
    let units = super::int::int(e, bytes >> 4);
    let units = int_op(e, "muli", stage, &units);
    e.op(format_args!("arith.extui {units} : i32 to i64"))
}
