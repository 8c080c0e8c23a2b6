//! Keys whose order as unsigned integers is the order of the sort.

use crate::emit::{Emitter, Value};
use burn_mlir_ir::{DType, DTypeKind, Sort};

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
/// integer of its size, as is `shift`. Elements that compare equal have one key: so have -0 and 0, and all NaN.
pub(super) fn digit(e: &mut Emitter, sort: &Sort, bits: &Value, shift: &Value) -> Value {
    let width = 8 * sort.dtype.size();
    let ty = format!("i{width}");
    let mut key = key(e, sort.dtype, bits, width, &ty);
    if sort.descending {
        let ones = e.op(format_args!("arith.constant -1 : {ty}"));
        key = e.op(format_args!("arith.xori {key}, {ones} : {ty}"));
    }
    if width == 8 {
        return key;
    }
    let shifted = e.op(format_args!("arith.shrui {key}, {shift} : {ty}"));
    e.op(format_args!("arith.trunci {shifted} : {ty} to i8"))
}

fn key(e: &mut Emitter, dtype: DType, bits: &Value, width: usize, ty: &str) -> Value {
    let sign = 1u64 << (width - 1);
    let constant = |e: &mut Emitter, value: u64| {
        // As MLIR reads it: signed.
        let value = ((value << (64 - width)) as i64) >> (64 - width);
        e.op(format_args!("arith.constant {value} : {ty}"))
    };
    match dtype.kind() {
        DTypeKind::Bool | DTypeKind::Unsigned => bits.clone(),
        DTypeKind::Signed => {
            let sign = constant(e, sign);
            e.op(format_args!("arith.xori {bits}, {sign} : {ty}"))
        }
        DTypeKind::Float => {
            let rest = constant(e, sign - 1);
            let magnitude = e.op(format_args!("arith.andi {bits}, {rest} : {ty}"));
            let zero = constant(e, 0);
            let is_zero = e.op(format_args!("arith.cmpi eq, {magnitude}, {zero} : {ty}"));
            let bits = e.op(format_args!("arith.select {is_zero}, {zero}, {bits} : {ty}"));
            // All bits of a negative number are turned, of another one only the sign.
            let last = constant(e, width as u64 - 1);
            let negative = e.op(format_args!("arith.shrsi {bits}, {last} : {ty}"));
            let sign = constant(e, sign);
            let mask = e.op(format_args!("arith.ori {negative}, {sign} : {ty}"));
            let key = e.op(format_args!("arith.xori {bits}, {mask} : {ty}"));
            let infinity = constant(e, infinity(dtype));
            let is_nan = e.op(format_args!("arith.cmpi ugt, {magnitude}, {infinity} : {ty}"));
            let largest = e.op(format_args!("arith.constant -1 : {ty}"));
            e.op(format_args!("arith.select {is_nan}, {largest}, {key} : {ty}"))
        }
    }
}

/// The bits of a type's infinity.
fn infinity(dtype: DType) -> u64 {
    match dtype {
        DType::F16 => 0x7c00,
        DType::BF16 => 0x7f80,
        DType::F64 => 0x7ff0_0000_0000_0000,
        _ => 0x7f80_0000,
    }
}
