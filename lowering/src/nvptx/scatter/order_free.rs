//! Updates of integers, which come to the same in any order: every thread takes one, atomically.

use super::Columns;
use crate::nvptx::kernels;
use crate::nvptx::writer::GLOBAL;
use crate::types::storage_type;
use crate::{LoweringError, Payload};
use burn_mlir_ir::{DTypeKind, ScatterOp};

/// Updates of an element on the average, above which it pays to sort them: few elements are a bottleneck.
const CROWD: usize = 64;

/// The atomic operation for a scatter, if order does not matter, the hardware has it, and it pays.
pub(super) fn operation(columns: &Columns<'_>) -> Option<&'static str> {
    let scatter = columns.scatter;
    let kind = scatter.dtype.kind();
    let is_integer = matches!(kind, DTypeKind::Signed | DTypeKind::Unsigned);
    let crowded = columns.inner_count() == 1 && columns.axis_size() / CROWD > scatter.extent;
    if !is_integer || scatter.dtype.size() < 4 || crowded {
        return None;
    }
    match (scatter.op, kind) {
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
        let mut at = super::coordinates(&mut kernel.emitter, number, &scatter.shape);
        let index = columns.open_inside(kernel, &at);
        let update = kernel.load(2, ty, &scatter.accesses[2], &at);
        at[scatter.axis] = index;
        let to = kernel.address(0, ty, &scatter.accesses[0], &at);
        kernel.emitter.op(format_args!(
            "llvm.atomicrmw {operation} {to}, {update} syncscope(\"device\") monotonic : {GLOBAL}, {ty}"
        ));
        kernel.emitter.close("}");
    })?;
    Ok(kernels(vec![phase], 0))
}
