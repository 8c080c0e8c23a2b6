//! Rules on attention kernels.

use super::Violation;
use super::access::check_strides;
use super::kernel::{check_output, check_types};
use crate::text::Separated;
use crate::{Attention, AttentionOp, AttentionOperand, Op, Rule};

impl Attention {
    pub(super) fn verify(&self) -> Result<(), Violation> {
        let (masked, biased) = (self.mask.is_some(), self.bias.is_some());
        let op = AttentionOp { masked, biased, ..AttentionOp::default() };
        let read: Vec<_> = self.operands().into_iter().filter(|operand| !operand.is_written()).collect();
        let types: Vec<_> = read.iter().map(|&operand| self.operand_dtype(operand)).collect();
        check_types(&Op::Attention(op), &types, self.dtype)?;
        let s = &self.sizes;
        if [s.batch, s.heads, s.kv_heads, s.queries, s.keys, s.width, s.value_width].contains(&0) {
            return Err(Violation::EmptyAttention);
        }
        if !s.heads.is_multiple_of(s.kv_heads) {
            let rule = Rule::Heads { queries: s.heads, keys: s.kv_heads };
            return Err(Violation::Operands { types: Separated(&types).to_string(), rule });
        }
        self.operands().into_iter().try_for_each(|operand| self.verify_view(operand))
    }

    fn verify_view(&self, operand: AttentionOperand) -> Result<(), Violation> {
        let Some(view) = self.view(operand) else { return Ok(()) };
        let (dtype, shape) = (self.operand_dtype(operand), self.operand_shape(operand));
        let (size, alignment) = (dtype.size(), view.alignment);
        if !alignment.is_power_of_two() || !(size..=64).contains(&alignment) {
            return Err(Violation::Alignment { size, alignment });
        }
        if operand.is_written() {
            check_output(&view.access, &shape, dtype)
        } else {
            check_strides(&view.access.strides, &shape, size)
        }
    }
}
