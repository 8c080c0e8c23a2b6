//! The statements of a block as scalar code.

use crate::emit::{Emitter, Value};
use crate::error::LoweringError;
use crate::scalar;
use burn_mlir_ir::{Block, DType, Instr, Operand};
use std::ops::Range;

/// What the code around a block's statements knows: how to get at elements, arguments and
/// coordinates.
pub(crate) trait Surroundings {
    /// Coordinate `dim` of the iteration space, an `index`.
    fn coordinate(&mut self, e: &mut Emitter, dim: usize) -> Value;

    /// Scalar argument `slot`, of its [value type](crate::types::value_type).
    fn scalar(&mut self, e: &mut Emitter, slot: usize) -> Value;

    /// The value of statement `index`: a load, gather, reduction or contraction, which straight-line
    /// code cannot express. `values` are those of the statements before it.
    fn element(
        &mut self,
        e: &mut Emitter,
        index: usize,
        values: &[Option<Value>],
    ) -> Result<Value, LoweringError>;
}

/// Emits the statements `range` of a block; `values` has one entry a statement, those present are
/// taken as they are. A statement outside the range that is used must be present.
pub(crate) fn statements(
    e: &mut Emitter,
    block: &Block,
    range: Range<usize>,
    values: &mut [Option<Value>],
    around: &mut impl Surroundings,
) -> Result<(), LoweringError> {
    for index in range {
        if values[index].is_none() {
            values[index] = Some(statement(e, block, index, values, around)?);
        }
    }
    Ok(())
}

/// Emits one statement.
fn statement(
    e: &mut Emitter,
    block: &Block,
    index: usize,
    values: &[Option<Value>],
    around: &mut impl Surroundings,
) -> Result<Value, LoweringError> {
    let dtype = block.body[index].dtype;
    let typed = |operand: &Operand| -> Result<(Value, DType), LoweringError> {
        let position = operand.0 as usize;
        let missing =
            || LoweringError::Unsupported(format!("statement {index} before its operand {position}"));
        let value = values.get(position).cloned().flatten().ok_or_else(missing)?;
        Ok((value, block.body[position].dtype))
    };
    Ok(match &block.body[index].instr {
        Instr::Load { .. }
        | Instr::Gather(_)
        | Instr::Reduce(..)
        | Instr::ArgReduce(..)
        | Instr::Contract(..) => around.element(e, index, values)?,
        Instr::Scalar { slot } => around.scalar(e, *slot as usize),
        Instr::Constant { value } => scalar::constant(e, dtype, *value),
        Instr::Index { access, offset } => {
            let position = position(e, block, access, *offset, around);
            scalar::cast(e, DType::I64, dtype, &position)
        }
        Instr::Random { key, stream, access, offset } => {
            let position = position(e, block, access, *offset, around);
            let (key, stream) = (around.scalar(e, *key as usize), around.scalar(e, *stream as usize));
            scalar::philox(e, &key, &stream, &position)
        }
        Instr::Unary(op, a) => {
            let (x, operand) = typed(a)?;
            if !scalar::has_unary(*op, operand) {
                return Err(LoweringError::Unsupported(format!("{op} of {operand}")));
            }
            scalar::unary(e, *op, operand, &x)
        }
        Instr::Binary(op, a, b) => {
            let ((a, operand), (b, _)) = (typed(a)?, typed(b)?);
            if !scalar::has_binary(*op, operand) {
                return Err(LoweringError::Unsupported(format!("{op} of {operand}")));
            }
            scalar::binary(e, *op, operand, &a, &b)
        }
        Instr::Compare(op, a, b) => {
            let ((a, operand), (b, _)) = (typed(a)?, typed(b)?);
            scalar::compare(e, *op, operand, &a, &b)
        }
        Instr::Select(condition, a, b) => {
            let ((condition, _), (a, _), (b, _)) = (typed(condition)?, typed(a)?, typed(b)?);
            scalar::select(e, dtype, &condition, &a, &b)
        }
        Instr::Cast(a) => {
            let (x, from) = typed(a)?;
            scalar::cast(e, from, dtype, &x)
        }
        Instr::Bitcast(a) => {
            let (x, from) = typed(a)?;
            scalar::bitcast(e, from, dtype, &x)
        }
    })
}

/// An affine function of the coordinates, as an `i64`.
fn position(
    e: &mut Emitter,
    block: &Block,
    access: &burn_mlir_ir::Access,
    offset: i64,
    around: &mut impl Surroundings,
) -> Value {
    let mut sum = e.op(format_args!("arith.constant {offset} : i64"));
    for dim in (0..block.domain.len()).filter(|&dim| access.uses(dim)) {
        let coordinate = around.coordinate(e, dim);
        let coordinate = e.op(format_args!("arith.index_cast {coordinate} : index to i64"));
        let stride = e.op(format_args!("arith.constant {} : i64", access.strides[dim]));
        let step = e.op(format_args!("arith.muli {coordinate}, {stride} : i64"));
        sum = e.op(format_args!("arith.addi {sum}, {step} : i64"));
    }
    sum
}
