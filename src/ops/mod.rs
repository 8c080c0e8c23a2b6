//! Burn's operations as compositions over the operations of the IR, one file per family.
//!
//! Everything here records; nothing computes. Functions are methods of [`MlirTensor`], so that a
//! composition reads like the formula it stands for. Operands that do not fit make a failed tensor:
//! its error surfaces when it is read.

mod activation;
mod assemble;
mod attention;
mod contract;
mod convolution;
mod ctc;
mod deformable;
mod elementwise;
mod index;
mod linear;
mod minifloat;
mod norm;
mod pool;
mod random;
mod reduce;
mod resample;
mod sample;
mod sort;
mod source;
mod view;
mod window;

pub(crate) use assemble::Padding;
pub(crate) use ctc::Ctc;
pub(crate) use deformable::Deformable;
pub(crate) use minifloat::Minifloat;
pub(crate) use pool::PoolGeometry;
pub(crate) use view::slice_dims;

use crate::dtype::scalar_bits;
use crate::record::{Operand, Operation, failed, push};
use crate::{MlirDevice, MlirError, MlirTensor};
use burn_backend::Scalar;
use burn_mlir_ir::{DType, Declared, Op, Shape, infer};
use smallvec::SmallVec;

/// Shapes and types of operands as they stand in an error: `f32[2, 3], i64[4]`.
fn describe(operands: &[&MlirTensor]) -> String {
    let texts: Vec<String> = operands.iter().map(|t| format!("{}{:?}", t.dtype, &t.shape[..])).collect();
    texts.join(", ")
}

/// A failed tensor of the given type because the operands of `op` do not fit.
fn invalid(
    op: &'static str,
    operands: &[&MlirTensor],
    dtype: DType,
    shape: Shape,
    reason: impl std::fmt::Display,
) -> MlirTensor {
    let reason = format!("{reason} (operands: {})", describe(operands));
    let result = failed(operands[0].device, MlirError::Invalid { op, reason }, dtype, shape);
    MlirTensor { store: operands[0].store, ..result }
}

/// Records `op`, or makes a failed tensor if the operands do not fit it or are not on one device.
fn apply(name: &'static str, op: Op, operands: &[&MlirTensor], dtype: DType, shape: Shape) -> MlirTensor {
    apply_with(name, op, operands, &[], dtype, shape)
}

/// As [`apply`], with scalar arguments, which the slots in `op` count from the first on.
fn apply_with(
    name: &'static str,
    op: Op,
    operands: &[&MlirTensor],
    scalars: &[(DType, Scalar)],
    dtype: DType,
    shape: Shape,
) -> MlirTensor {
    let device = operands[0].device;
    if let Some(other) = operands.iter().find(|t| t.device != device) {
        let reason = format!("operands are on {device} and on {}", other.device);
        return invalid(name, operands, dtype, shape, reason);
    }
    let scalars: SmallVec<[(DType, u64); 2]> =
        scalars.iter().map(|&(dtype, value)| (dtype, scalar_bits(value, dtype))).collect();
    let (op, scalars, shape) = (&op, &scalars[..], &shape);
    let apply = |operands: &[_]| apply_to(name, device, &Operation { op, operands, scalars, dtype, shape });
    // Nearly all have one or two, for which a list costs more than what is done with it.
    match *operands {
        [a] => apply(&[Operand::Tensor(a)]),
        [a, b] => apply(&[Operand::Tensor(a), Operand::Tensor(b)]),
        _ => {
            let operands = operands.iter().map(|tensor| Operand::Tensor(tensor));
            apply(&operands.collect::<SmallVec<[Operand<'_>; 4]>>())
        }
    }
}

/// Records an operation on operands of one device, or makes a failed tensor if they do not fit it.
fn apply_to(name: &'static str, device: MlirDevice, operation: &Operation<'_>) -> MlirTensor {
    let &Operation { operands, dtype, shape, .. } = operation;
    push(device, operation, &|op| check(name, op, operands, dtype, shape))
}

/// Whether operands fit an operation, whose result is to be of a type and shape.
fn check(
    name: &'static str,
    op: &Op,
    operands: &[Operand<'_>],
    dtype: DType,
    shape: &Shape,
) -> Result<(), MlirError> {
    let typed = |operand: &Operand<'_>| match *operand {
        Operand::Tensor(tensor) => (tensor.dtype, tensor.ir_shape()),
        Operand::Scalar(dtype, _) | Operand::Constant(dtype, _) => (dtype, shape.clone()),
    };
    let typed: SmallVec<[(DType, Shape); 3]> = operands.iter().map(typed).collect();
    let types: SmallVec<[(DType, &Shape); 3]> = typed.iter().map(|(dtype, shape)| (*dtype, shape)).collect();
    let reason = match infer(op, &types, Declared::both(dtype, shape)) {
        Ok(inferred) if inferred.0 == dtype && inferred.1 == *shape => return Ok(()),
        Ok((dtype, inferred)) => format!("gives {dtype}{inferred}"),
        Err(error) => error.rule.to_string(),
    };
    let texts: Vec<String> = typed.iter().map(|(dtype, shape)| format!("{dtype}{shape}")).collect();
    Err(MlirError::Invalid { op: name, reason: format!("{reason} (operands: {})", texts.join(", ")) })
}

/// A failed tensor because this version does not have the operation `op`.
pub(crate) fn unsupported(
    op: &'static str,
    operands: &[&MlirTensor],
    dtype: DType,
    shape: Shape,
) -> MlirTensor {
    let error = MlirError::Unsupported { op, operands: describe(operands) };
    failed(operands[0].device, error, dtype, shape)
}

/// Whether a type is narrower than what a chain of operations on it should be computed in.
fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

impl MlirTensor {
    /// Computes `f` in f32 if this tensor is f16 or bf16, and rounds once at the end.
    fn in_wide(&self, f: impl FnOnce(&MlirTensor) -> MlirTensor) -> MlirTensor {
        if is_half(self.dtype) { f(&self.cast(DType::F32)).cast(self.dtype) } else { f(self) }
    }

    /// This tensor as f32 if it is f16 or bf16.
    fn widened(&self) -> MlirTensor {
        if is_half(self.dtype) { self.cast(DType::F32) } else { self.clone() }
    }
}
