//! Arithmetic on vectors of elements.

use crate::emit::{Emitter, Value};
use crate::host::combining_op;
use crate::host::lanes::{convert as convert_element, tensor_type, vector_type, zero_of};
use crate::host::tiles::index;
use crate::scalar;
use crate::types::value_type;
use burn_mlir_ir::{DType, HostTarget, ReduceOp};

/// Lanes of a native vector of the type that `dtype` is computed in, at most 16.
pub(super) fn lanes(dtype: DType, target: &HostTarget) -> usize {
    (target.vector_bytes / scalar::accumulator(dtype).size()).clamp(1, 16)
}

/// The type of the same bits that is stored as it is computed with.
pub(super) fn stored(dtype: DType) -> DType {
    if dtype == DType::Bool { DType::U8 } else { dtype }
}

/// A vector of `width` elements of another type. The schedule makes vectors of its linalg.
pub(super) fn convert(e: &mut Emitter, from: DType, to: DType, x: &Value, width: usize) -> Value {
    if from == to {
        return x.clone();
    }
    let (source, target) = (value_type(from), value_type(to));
    let zero = index(e, 0);
    let (source_tensor, target_tensor) = (tensor_type(width, source), tensor_type(width, target));
    let empty = e.op(format_args!("tensor.empty() : {source_tensor}"));
    let tensor = e.op(format_args!(
        "vector.transfer_write {x}, {empty}[{zero}] {{in_bounds = [true]}} : {}, {source_tensor}",
        vector_type(width, source)
    ));
    let empty = e.op(format_args!("tensor.empty() : {target_tensor}"));
    let result = e.fresh();
    e.open(format_args!(
        "{result} = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], \
         iterator_types = [\"parallel\"]}} ins({tensor} : {source_tensor}) outs({empty} : {target_tensor}) {{"
    ));
    let (element, before) = (e.fresh(), e.fresh());
    e.line(format_args!("^bb0({element}: {source}, {before}: {target}):"));
    let converted = convert_element(e, from, to, &element);
    e.line(format_args!("linalg.yield {converted} : {target}"));
    e.close(format_args!("}} -> {target_tensor}"));
    let padding = e.op(format_args!("arith.constant {} : {target}", zero_of(target)));
    e.op(format_args!(
        "vector.transfer_read {result}[{zero}], {padding} {{in_bounds = [true]}} : {target_tensor}, {}",
        vector_type(width, target)
    ))
}

/// Combines vectors of a type that is accumulated in.
pub(super) fn combine(
    e: &mut Emitter,
    op: ReduceOp,
    dtype: DType,
    a: &Value,
    b: &Value,
    width: usize,
) -> Value {
    let ty = vector_type(width, value_type(dtype));
    e.op(format_args!("{} {a}, {b} : {ty}", combining_op(op, dtype)))
}

/// A vector of `width` times a value.
pub(super) fn spread(e: &mut Emitter, dtype: DType, value: &Value, width: usize) -> Value {
    let element = value_type(dtype);
    e.op(format_args!("vector.broadcast {value} : {element} to {}", vector_type(width, element)))
}
