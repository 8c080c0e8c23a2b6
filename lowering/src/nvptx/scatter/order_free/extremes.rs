//! Largest and smallest floats: as unsigned integers of the same order, -0 below +0 as in `maximum` of IEEE 754.
//! NaN is beyond all numbers on the side that wins.
//!
//! Three kernels: the integers of data go to scratch memory, updates are combined there, and what has changed goes
//! back. An element without an update that wins keeps its bits, those of a NaN, too.

use super::{Columns, Item, atomic, data_count, data_shape, each_item, float_bits, updates};
use crate::emit::{Emitter, Value};
use crate::nvptx::code::Code;
use crate::nvptx::kernels;
use crate::nvptx::scatter::coordinates;
use crate::nvptx::writer::{GLOBAL, KernelWriter};
use crate::order::{Order, Zeros, bits_type};
use crate::types::storage_type;
use crate::{LoweringError, Payload};

/// Lowers a scatter with the atomic operation `umax` or `umin`.
pub(super) fn lower(columns: &Columns<'_>, operation: &str) -> Result<Payload, LoweringError> {
    let (scatter, count) = (columns.scatter, data_count(columns));
    let dtype = scatter.dtype;
    let order = Keys(Order { dtype, zeros: Zeros::Signed, nan_is_last: operation == "umax" });
    let (ty, element) = (order.ty(), storage_type(dtype));
    let place = |kernel: &mut KernelWriter, number: &Value| {
        let keys = kernel.scratch(0);
        kernel.element(&keys, GLOBAL, number, ty)
    };
    // Elements of data: their coordinates, their keys, where a key is kept for them, and whether there are
    // any.
    let data = |kernel: &mut KernelWriter, items: Vec<Item>| -> Vec<_> {
        let read = items.into_iter().map(|Item { number, valid }| {
            let at = coordinates(&mut kernel.emitter, &number, &data_shape(columns));
            let old = kernel.load(0, element, &scatter.accesses[0], &at);
            let key = order.key(&mut kernel.emitter, &old);
            (at, key, place(kernel, &number), valid)
        });
        read.collect()
    };
    let keys = each_item(columns, "keys", count, |kernel, items| {
        // Threads that share the last element write the same.
        for (_, key, place, _) in data(kernel, items) {
            kernel.emitter.line(format_args!("llvm.store {key}, {place} : {ty}, {GLOBAL}"));
        }
    })?;
    let combine = each_item(columns, "updates", scatter.shape.iter().product(), |kernel, items| {
        for update in updates(columns, kernel, items) {
            let e = &mut kernel.emitter;
            e.open(format_args!("scf.if {} {{", update.inside));
            let key = order.key(e, &update.element);
            let place = place(kernel, &update.number);
            atomic(&mut kernel.emitter, operation, &place, &key, ty);
            kernel.emitter.close("}");
        }
    })?;
    let write = each_item(columns, "write", count, |kernel, items| {
        let read = data(kernel, items).into_iter().map(|(at, old, place, valid)| {
            let key = kernel.emitter.op(format_args!("llvm.load {place} : {GLOBAL} -> {ty}"));
            (at, old, key, valid)
        });
        for (at, old, key, valid) in read.collect::<Vec<_>>() {
            let e = &mut kernel.emitter;
            let mut changed = e.compare("ne", ty, &key, &old);
            if let Some(valid) = &valid {
                changed = e.both(&changed, valid);
            }
            e.open(format_args!("scf.if {changed} {{"));
            let value = order.element(e, &key);
            kernel.store(0, element, &scatter.accesses[0], &at, &value);
            kernel.emitter.close("}");
        }
    })?;
    Ok(kernels(vec![keys, combine, write], count * order.bytes()))
}

/// Floats as integers that atomic operations take.
struct Keys(Order);

impl Keys {
    /// Bytes of an integer.
    fn bytes(&self) -> usize {
        self.0.dtype.size().max(4)
    }

    fn ty(&self) -> &'static str {
        if self.bytes() == 4 { "i32" } else { "i64" }
    }

    /// The integer for an element in memory.
    fn key(&self, e: &mut Emitter, element: &Value) -> Value {
        let ty = bits_type(self.0.dtype);
        let bits = float_bits(e, self.0.dtype, element, &ty);
        let key = self.0.key(e, &bits);
        e.resize(&key, &ty, self.ty())
    }

    /// The element for an integer, as it is in memory.
    fn element(&self, e: &mut Emitter, key: &Value) -> Value {
        let (ty, element) = (bits_type(self.0.dtype), storage_type(self.0.dtype));
        let key = e.resize(key, self.ty(), &ty);
        let bits = self.0.float_of(e, &key);
        if element == ty { bits } else { e.op(format_args!("arith.bitcast {bits} : {ty} to {element}")) }
    }
}
