//! Replaced elements: the last update of an element wins. Each element of a list learns the place of its last
//! update as an atomic maximum; the updates that find their own place there are the ones that write.

use super::Columns;
use crate::emit::Value;
use crate::nvptx::code::Code;
use crate::nvptx::kernels;
use crate::nvptx::writer::{GLOBAL, KernelWriter};
use crate::{LoweringError, Payload};
use burn_mlir_ir::ScatterOp;

/// Elements for an update, above which it does not pay to touch all of them.
const SPARSE: usize = 16;

/// Whether a scatter is lowered so.
pub(super) fn pays(columns: &Columns<'_>) -> bool {
    let (size, extent) = (columns.axis_size(), columns.scatter.extent);
    columns.scatter.op == ScatterOp::Assign && extent / SPARSE <= size && size < u32::MAX as usize
}

pub(super) fn lower(columns: &Columns<'_>) -> Result<Payload, LoweringError> {
    let (axis, extent) = (columns.scatter.axis, columns.scatter.extent);
    let (lists, size, inner) = (columns.list_count(), columns.axis_size(), columns.inner_count());
    let clear = columns.each("clear", lists * extent, |kernel, number| {
        let base = kernel.scratch(0);
        let at = kernel.element(&base, GLOBAL, number, "i32");
        let e = &mut kernel.emitter;
        let zero = e.int("i32", 0);
        e.line(format_args!("llvm.store {zero}, {at} : i32, {GLOBAL}"));
    })?;
    let mark = columns.each("mark", lists * size, |kernel, number| {
        let at = super::coordinates(&mut kernel.emitter, number, &[lists, size]);
        let mut place = columns.place(&mut kernel.emitter, Some(&at[0]), None);
        place[axis] = at[1].clone();
        let index = columns.open_inside(kernel, &place);
        let (last, mine) = last(columns, kernel, &at[0], &index, &at[1]);
        kernel.emitter.op(format_args!(
            "llvm.atomicrmw umax {last}, {mine} syncscope(\"device\") monotonic : {GLOBAL}, i32"
        ));
        kernel.emitter.close("}");
    })?;
    let write = columns.each("write", lists * size * inner, |kernel, number| {
        let at = super::coordinates(&mut kernel.emitter, number, &[lists, size, inner]);
        let mut place = columns.place(&mut kernel.emitter, Some(&at[0]), Some(&at[2]));
        place[axis] = at[1].clone();
        let index = columns.open_inside(kernel, &place);
        let (last, mine) = last(columns, kernel, &at[0], &index, &at[1]);
        let e = &mut kernel.emitter;
        let last = e.op(format_args!("llvm.load {last} : {GLOBAL} -> i32"));
        let wins = e.compare("eq", "i32", &last, &mine);
        e.open(format_args!("scf.if {wins} {{"));
        let update = columns.value(kernel, 2, &place);
        place[axis] = index;
        columns.replace(kernel, &place, &update);
        kernel.emitter.close("}");
        kernel.emitter.close("}");
    })?;
    Ok(kernels(vec![clear, mark, write], 4 * lists * extent))
}

/// Where the last place of an element's updates is kept, and a place as it is kept there: counted from 1.
fn last(
    columns: &Columns<'_>,
    kernel: &mut KernelWriter,
    list: &Value,
    index: &Value,
    place: &Value,
) -> (Value, Value) {
    let base = kernel.scratch(0);
    let e = &mut kernel.emitter;
    let extent = e.int("index", columns.scatter.extent);
    let first = e.arith("muli", "index", list, &extent);
    let at = e.arith("addi", "index", &first, index);
    let place = e.resize(place, "index", "i32");
    let one = e.int("i32", 1);
    let mine = e.arith("addi", "i32", &place, &one);
    (kernel.element(&base, GLOBAL, &at, "i32"), mine)
}
