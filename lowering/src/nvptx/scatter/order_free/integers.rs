//! Updates of integers, in place.

use super::atomic;
use crate::nvptx::kernels;
use crate::nvptx::scatter::{Columns, coordinates};
use crate::types::storage_type;
use crate::{LoweringError, Payload};
use burn_mlir_ir::{DType, DTypeKind, ScatterOp};

/// The atomic operation for updates of a type, if the hardware has it.
pub(super) fn operation(op: ScatterOp, dtype: DType) -> Option<&'static str> {
    let kind = dtype.kind();
    if !matches!(kind, DTypeKind::Signed | DTypeKind::Unsigned) || dtype.size() < 4 {
        return None;
    }
    match (op, kind) {
        (ScatterOp::Add, _) => Some("add"),
        (ScatterOp::Max, DTypeKind::Signed) => Some("max"),
        (ScatterOp::Max, _) => Some("umax"),
        (ScatterOp::Min, DTypeKind::Signed) => Some("min"),
        (ScatterOp::Min, _) => Some("umin"),
        (ScatterOp::Assign | ScatterOp::Mul, _) => None,
    }
}

pub(super) fn lower(columns: &Columns<'_>, operation: &str) -> Result<Payload, LoweringError> {
    let scatter = columns.scatter;
    let ty = storage_type(scatter.dtype);
    let phase = columns.each("scatter", scatter.shape.iter().product(), |kernel, number| {
        let mut at = coordinates(&mut kernel.emitter, number, &scatter.shape);
        let index = columns.open_inside(kernel, &at);
        let update = kernel.load(2, ty, &scatter.accesses[2], &at);
        at[scatter.axis] = index;
        let to = kernel.address(0, ty, &scatter.accesses[0], &at);
        atomic(&mut kernel.emitter, operation, &to, &update, ty);
        kernel.emitter.close("}");
    })?;
    Ok(kernels(vec![phase], 0))
}
