//! Types the matrix multiplier takes.

use crate::contraction::Contraction;
use crate::types::same_value;
use burn_mlir_ir::{Block, DType};

/// The type of both operands in workgroup memory. Products are summed in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    /// 16 bits, as the contraction's type says.
    Half(DType),
    /// f32, rounded on the way to the multiplier.
    Tf32,
}

impl Element {
    /// Of a contraction whose operands and result may be multiplied so.
    pub fn of(block: &Block, contraction: &Contraction) -> Option<Self> {
        let dtype = block.body[contraction.statement.0 as usize].dtype;
        let element = match dtype {
            DType::F16 | DType::BF16 => Self::Half(dtype),
            DType::Flex32 => Self::Tf32,
            _ => return None,
        };
        // An operand of another type was cast to the contraction's.
        let fits = |types: &[DType]| types.iter().rev().nth(1).is_some_and(|&last| same_value(last, dtype));
        (fits(&contraction.left.types) && fits(&contraction.right.types)).then_some(element)
    }

    /// The type in workgroup memory.
    pub fn dtype(self) -> DType {
        match self {
            Self::Half(dtype) => dtype,
            Self::Tf32 => DType::Flex32,
        }
    }

    /// Its bytes.
    pub fn bytes(self) -> usize {
        self.dtype().size()
    }

    /// Elements of a chunk.
    pub fn chunk(self) -> usize {
        super::super::reading::CHUNK_BYTES / self.bytes()
    }

    /// The instruction's shape, layouts and types.
    pub fn instruction(self) -> &'static str {
        match self {
            Self::Half(DType::F16) => "m16n8k16.row.col.f32.f16.f16.f32",
            Self::Half(_) => "m16n8k16.row.col.f32.bf16.bf16.f32",
            Self::Tf32 => "m16n8k8.row.col.f32.tf32.tf32.f32",
        }
    }
}
