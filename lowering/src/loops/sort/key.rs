//! Keys whose order as unsigned integers is the order of the sort.

use crate::emit::{Emitter, Value};
use crate::order::{Order, bits_type};
use burn_mlir_ir::{DType, Sort};

/// The unsigned type of a type's size.
pub(super) fn bits_of(dtype: DType) -> DType {
    match dtype.size() {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        _ => DType::U64,
    }
}

/// The byte of an element's key that `shift` bits are below: an `i8`. The element is given by its bits, an
/// integer of its size, as is `shift`.
pub(super) fn digit(e: &mut Emitter, sort: &Sort, bits: &Value, shift: &Value) -> Value {
    let ty = bits_type(sort.dtype);
    let mut key = Order::of_sort(sort.dtype).key(e, bits);
    if sort.descending {
        let ones = e.op(format_args!("arith.constant -1 : {ty}"));
        key = e.op(format_args!("arith.xori {key}, {ones} : {ty}"));
    }
    if ty == "i8" {
        return key;
    }
    let shifted = e.op(format_args!("arith.shrui {key}, {shift} : {ty}"));
    e.op(format_args!("arith.trunci {shifted} : {ty} to i8"))
}
