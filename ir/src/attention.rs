//! Attention as a kernel of its own.

use crate::{Access, DType};
use smallvec::SmallVec;

/// Scaled dot-product attention: what [`AttentionOp`](crate::AttentionOp) computes, without keeping its scores.
///
/// Arguments in the order of [`Attention::operands`]. Scalars: the scale, then the cap if there is one, both
/// positive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attention {
    /// Element type of queries, keys, values, bias and output. Sums of f16 and bf16 are kept in f32.
    pub dtype: DType,
    /// Extents.
    pub sizes: AttentionSizes,
    /// Whether queries see no later keys, both sequences aligned at their ends.
    pub causal: bool,
    /// Whether scores are capped.
    pub softcap: bool,
    /// `[batch, heads, queries, width]`.
    pub query: BufferView,
    /// `[batch, kv_heads, keys, width]`; `heads / kv_heads` neighbouring heads of queries share one of keys.
    pub key: BufferView,
    /// `[batch, kv_heads, keys, value_width]`.
    pub value: BufferView,
    /// Truth values `[batch, heads, queries, keys]`: where a query does not see a key.
    pub mask: Option<BufferView>,
    /// `[batch, heads, queries, keys]`, added to the scores.
    pub bias: Option<BufferView>,
    /// `[batch, heads, queries, value_width]`.
    pub output: BufferView,
    /// The logarithm of the sum of the exponentials of a query's scores, `[batch, heads, queries]`, of type
    /// [`scale_dtype`](Attention::scale_dtype): what a gradient needs. -∞ for a query that sees no key.
    pub lse: Option<BufferView>,
}

/// The extents of an attention, none of them 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AttentionSizes {
    /// Independent sequences.
    pub batch: usize,
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values, a divisor of `heads`.
    pub kv_heads: usize,
    /// Positions of queries.
    pub queries: usize,
    /// Positions of keys and values.
    pub keys: usize,
    /// Elements of a query and of a key.
    pub width: usize,
    /// Elements of a value.
    pub value_width: usize,
}

/// How a kernel walks one of its buffers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct BufferView {
    /// Strides.
    pub access: Access,
    /// Bytes the address is known to be a multiple of (at least the element's size, at most 64).
    pub alignment: usize,
}

/// The part a buffer plays in an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttentionOperand {
    /// Queries.
    Query,
    /// Keys.
    Key,
    /// Values.
    Value,
    /// Where a query does not see a key.
    Mask,
    /// What is added to the scores.
    Bias,
    /// The result.
    Output,
    /// Logarithms of the sums of exponentials.
    Lse,
}

impl AttentionOperand {
    /// Every part, in the order of arguments.
    pub const ALL: [Self; 7] =
        [Self::Query, Self::Key, Self::Value, Self::Mask, Self::Bias, Self::Output, Self::Lse];

    /// The name used in the textual form.
    pub fn name(self) -> &'static str {
        ["query", "key", "value", "mask", "bias", "output", "lse"][self as usize]
    }

    /// Whether the buffer is written.
    pub fn is_written(self) -> bool {
        matches!(self, Self::Output | Self::Lse)
    }
}

impl Attention {
    /// The type of the scalars of an attention over elements of a type, and of its sums.
    pub fn scale_dtype(dtype: DType) -> DType {
        if dtype == DType::F64 { DType::F64 } else { DType::F32 }
    }

    /// How the buffer of a part is walked, if the kernel has it.
    pub fn view(&self, operand: AttentionOperand) -> Option<&BufferView> {
        match operand {
            AttentionOperand::Query => Some(&self.query),
            AttentionOperand::Key => Some(&self.key),
            AttentionOperand::Value => Some(&self.value),
            AttentionOperand::Mask => self.mask.as_ref(),
            AttentionOperand::Bias => self.bias.as_ref(),
            AttentionOperand::Output => Some(&self.output),
            AttentionOperand::Lse => self.lse.as_ref(),
        }
    }

    /// As [`view`](Self::view), to change it.
    pub fn view_mut(&mut self, operand: AttentionOperand) -> Option<&mut BufferView> {
        match operand {
            AttentionOperand::Query => Some(&mut self.query),
            AttentionOperand::Key => Some(&mut self.key),
            AttentionOperand::Value => Some(&mut self.value),
            AttentionOperand::Mask => self.mask.as_mut(),
            AttentionOperand::Bias => self.bias.as_mut(),
            AttentionOperand::Output => Some(&mut self.output),
            AttentionOperand::Lse => self.lse.as_mut(),
        }
    }

    /// The parts of the kernel's arguments, in order.
    pub fn operands(&self) -> SmallVec<[AttentionOperand; 7]> {
        AttentionOperand::ALL.into_iter().filter(|&operand| self.view(operand).is_some()).collect()
    }

    /// The position of a part among the arguments.
    pub fn position(&self, operand: AttentionOperand) -> Option<usize> {
        self.operands().iter().position(|&other| other == operand)
    }

    /// Element type of a part's buffer.
    pub fn operand_dtype(&self, operand: AttentionOperand) -> DType {
        match operand {
            AttentionOperand::Mask => DType::Bool,
            AttentionOperand::Lse => Self::scale_dtype(self.dtype),
            _ => self.dtype,
        }
    }

    /// Extents of a part's buffer.
    pub fn operand_shape(&self, operand: AttentionOperand) -> SmallVec<[usize; 4]> {
        let s = &self.sizes;
        let rows = |heads, rows, columns| SmallVec::from_buf([s.batch, heads, rows, columns]);
        match operand {
            AttentionOperand::Query => rows(s.heads, s.queries, s.width),
            AttentionOperand::Key => rows(s.kv_heads, s.keys, s.width),
            AttentionOperand::Value => rows(s.kv_heads, s.keys, s.value_width),
            AttentionOperand::Mask | AttentionOperand::Bias => rows(s.heads, s.queries, s.keys),
            AttentionOperand::Output => rows(s.heads, s.queries, s.value_width),
            AttentionOperand::Lse => SmallVec::from_slice(&[s.batch, s.heads, s.queries]),
        }
    }

    /// Types of the scalars.
    pub fn scalars(&self) -> SmallVec<[DType; 2]> {
        SmallVec::from_elem(Self::scale_dtype(self.dtype), 1 + usize::from(self.softcap))
    }
}
