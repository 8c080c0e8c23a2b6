//! How often scalar code uses its own intermediate values.

use inkwell::module::Module;
use inkwell::types::AnyTypeEnum;
use inkwell::values::{AsValueRef, InstructionOpcode, InstructionValue, Operand};
use std::collections::HashMap;

/// Ways from a value to what it is computed from that the loop vectoriser still walks in a moment.
const WAYS: u64 = 1 << 16;

/// Whether LLVM's loop vectoriser could take for ever. It asks of each value whether all lanes have the same one
/// (`vputils::isSingleScalar` in LLVM 22), and goes from a value to all its operands without noting where it has been:
/// `x · x`, squared 60 times, takes 2⁶⁰ steps. Code of vectors it leaves alone.
pub(crate) fn outgrows_vectorizer(module: &Module<'_>) -> bool {
    let blocks = module.get_functions().flat_map(|function| function.get_basic_blocks());
    let mut ways = HashMap::new();
    for instruction in blocks.flat_map(|block| block.get_instructions()) {
        if !is_walked(instruction) {
            continue;
        }
        let of_operand = |operand| match operand {
            Some(Operand::Value(value)) => ways.get(&value.as_value_ref()).copied().unwrap_or(1),
            _ => 0,
        };
        let total = instruction.get_operands().map(of_operand).fold(0, u64::saturating_add);
        if total > WAYS {
            return true;
        }
        ways.insert(instruction.as_value_ref(), total);
    }
    false
}

/// Whether the vectoriser goes on to an instruction's operands.
fn is_walked(instruction: InstructionValue<'_>) -> bool {
    use InstructionOpcode::{Call, Load, Phi};
    !matches!(instruction.get_opcode(), Phi | Load | Call)
        && matches!(instruction.get_type(), AnyTypeEnum::IntType(_) | AnyTypeEnum::FloatType(_))
}
