//! A thread a column, which takes the column's updates in their order.

use super::Columns;
use crate::host::tiles::open_for;
use crate::nvptx::code::Code;
use crate::nvptx::{grid, kernels};
use crate::{LoweringError, Payload};
use burn_mlir_ir::Phase;

/// Threads of a block.
const THREADS: usize = 128;

/// Updates whose indices and values are read before the first of them is combined.
const AHEAD: usize = 4;

pub(super) fn lower(columns: &Columns<'_>) -> Result<Payload, LoweringError> {
    let size = columns.axis_size();
    let axis = columns.scatter.axis;
    let count = columns.count();
    let ty = "index";
    let mut kernel = columns.open("scatter");
    let (block, thread) = (kernel.block('x'), kernel.thread());
    let e = &mut kernel.emitter;
    let threads = e.int(ty, THREADS);
    let first = e.arith("muli", ty, &block, &threads);
    let number = e.arith("addi", ty, &first, &thread);
    let limit = e.int(ty, count);
    let valid = e.compare("ult", ty, &number, &limit);
    e.open(format_args!("scf.if {valid} {{"));
    // Neighbouring threads have neighbouring columns, in the order of the dimensions.
    let mut dims: Vec<usize> = columns.lists.iter().chain(&columns.inner).copied().collect();
    dims.sort_unstable();
    let zero = e.int(ty, 0);
    let mut place = vec![zero.clone(); columns.scatter.shape.len()];
    if !dims.is_empty() {
        let sizes = columns.sizes(&dims);
        for (&dim, at) in dims.iter().zip(super::coordinates(e, &number, &sizes)) {
            place[dim] = at;
        }
    }
    let whole = size / AHEAD * AHEAD;
    if whole > 0 {
        let end = e.int(ty, whole);
        let step = open_for(e, &zero, &end, AHEAD);
        updates(columns, &mut kernel, &place, axis, &step, AHEAD);
        kernel.emitter.close("}");
    }
    if size > whole {
        let step = kernel.emitter.int(ty, whole);
        updates(columns, &mut kernel, &place, axis, &step, size - whole);
    }
    kernel.emitter.close("}");
    let phase = Phase {
        symbol: "scatter".into(),
        grid: grid(count.div_ceil(THREADS))?,
        block: [THREADS as u32, 1, 1],
        ..Phase::default()
    };
    Ok(kernels(vec![(kernel.finish(), phase)], 0))
}

/// Takes `count` updates from `step` on.
fn updates(
    columns: &Columns<'_>,
    kernel: &mut crate::nvptx::writer::KernelWriter,
    place: &[String],
    axis: usize,
    step: &String,
    count: usize,
) {
    let mut list = Vec::new();
    for ahead in 0..count {
        let e = &mut kernel.emitter;
        let shift = e.int("index", ahead);
        let mut at = place.to_vec();
        at[axis] = e.arith("addi", "index", step, &shift);
        let index = columns.index(kernel, &at, "i64");
        let update = columns.value(kernel, 2, &at);
        list.push((index, update));
    }
    for (index, update) in list {
        let e = &mut kernel.emitter;
        let extent = e.int("i64", columns.scatter.extent);
        let outside = e.compare("eq", "i64", &index, &extent);
        kernel.report(&outside);
        let e = &mut kernel.emitter;
        let inside = e.not(&outside);
        e.open(format_args!("scf.if {inside} {{"));
        let mut at = place.to_vec();
        at[axis] = e.resize(&index, "i64", "index");
        let value = if columns.reads_data() {
            let old = columns.value(kernel, 0, &at);
            columns.combine(&mut kernel.emitter, &old, &update)
        } else {
            update
        };
        columns.replace(kernel, &at, &value);
        kernel.emitter.close("}");
    }
}
