//! Rules on graphs.

use super::access::check_strides;
use super::{VerifyError, Violation, check_constant, check_scalar};
use crate::op::type_text;
use crate::{Attention, DType, Declared, Graph, Layout, Node, Op, Shape, infer};
use smallvec::SmallVec;

impl Graph {
    /// Checks that operands come before their users and fit the operations, that types are those
    /// of the values, and that scalars, inputs and results exist.
    pub fn verify(&self) -> Result<(), VerifyError> {
        let mut inputs = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            self.verify_node(index, node)
                .and_then(|()| verify_input(node, &mut inputs))
                .map_err(|violation| VerifyError { at: format!("%{index} = {node}"), violation })?;
        }
        match self.results.iter().find(|result| result.index() >= self.nodes.len()) {
            None => Ok(()),
            Some(result) => {
                Err(VerifyError { at: "return".into(), violation: Violation::NoResult(result.to_string()) })
            }
        }
    }

    fn verify_node(&self, index: usize, node: &Node) -> Result<(), Violation> {
        if let Some(operand) = node.operands.iter().find(|operand| operand.index() >= index) {
            return Err(Violation::OperandOrder(operand.to_string()));
        }
        let operands: SmallVec<[(DType, &Shape); 4]> = node
            .operands
            .iter()
            .map(|&operand| (self.node(operand).dtype, &self.node(operand).shape))
            .collect();
        let (dtype, shape) = infer(&node.op, &operands, Declared::both(node.dtype, &node.shape))
            .map_err(|error| Violation::Operands { types: error.types, rule: error.rule })?;
        if (dtype, &shape) != (node.dtype, &node.shape) {
            return Err(Violation::Type {
                declared: type_text(node.dtype, &node.shape),
                computed: type_text(dtype, &shape),
            });
        }
        match node.op {
            Op::Fill { slot } => check_scalar(&self.scalars, slot, node.dtype),
            Op::Random { key, stream } => {
                check_scalar(&self.scalars, key, DType::U32)?;
                check_scalar(&self.scalars, stream, DType::U32)
            }
            Op::Attention(op) => {
                let dtype = Attention::scale_dtype(node.dtype);
                [Some(op.scale), op.softcap]
                    .into_iter()
                    .flatten()
                    .try_for_each(|slot| check_scalar(&self.scalars, slot, dtype))
            }
            Op::Constant { value } => check_constant(value, node.dtype),
            _ => Ok(()),
        }
    }
}

/// Checks an input's layout and that no input stands for the same tensor twice.
fn verify_input(node: &Node, inputs: &mut Vec<u32>) -> Result<(), Violation> {
    let Op::Input { slot, layout: Layout { shape, strides, offset }, alignment, .. } = &node.op else {
        return Ok(());
    };
    if !(alignment.is_power_of_two() && *alignment <= 64) {
        return Err(Violation::Alignment { size: 1, alignment: *alignment as usize });
    }
    if inputs.contains(slot) {
        return Err(Violation::InputTwice(*slot));
    }
    inputs.push(*slot);
    if *offset != 0 {
        return Err(Violation::LayoutOffset(*offset));
    }
    check_strides(strides, shape, node.dtype.size())
}
