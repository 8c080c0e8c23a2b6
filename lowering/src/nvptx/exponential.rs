//! Exponentials of what is not above 0: of a value less its row's maximum, as softmax has them. They need not be
//! guarded against overflow, and have the same bits as others.

use crate::emit::{Emitter, Value};
use crate::scalar;
use burn_mlir_ir::{BinaryOp, Block, DType, Instr, ReduceOp, UnaryOp};

/// The argument of the exponential that a statement is, if it is at most 0 or NaN.
pub(super) fn of_nonpositive(block: &Block, statement: usize) -> Option<usize> {
    let instr = |operand: burn_mlir_ir::Operand| &block.body[operand.0 as usize].instr;
    let Instr::Unary(UnaryOp::Exp, argument) = block.body[statement].instr else { return None };
    let Instr::Binary(BinaryOp::Sub, value, largest) = *instr(argument) else { return None };
    let below = matches!(instr(largest), Instr::Reduce(ReduceOp::Max, reduced) if *reduced == value);
    below.then_some(argument.0 as usize)
}

/// The exponential of a value of `dtype` that is not above 0.
pub(super) fn exp(e: &mut Emitter, dtype: DType, x: &Value) -> Value {
    scalar::exp_of_nonpositive(e, dtype, x)
}
