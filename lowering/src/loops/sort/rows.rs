//! A radix sort of each row in the worker's scratch.

use super::radix::{Memory, Radix};
use crate::abi::Scratch;
use crate::host::tiles::{Carried, Cut, Range, index, index_op, open_carrying_for, scaled};
use crate::loops::{TILE_ELEMENTS, payload};
use crate::{LoweringError, Payload};
use burn_mlir_ir::Sort;

/// Lowers a sort of many rows: a tile is some of them.
pub(super) fn lower(sort: &Sort, rows: usize) -> Result<Payload, LoweringError> {
    let (size, passes) = (sort.shape[sort.axis], sort.dtype.size());
    let cut = Cut::new(rows, 1, (TILE_ELEMENTS / (size * passes)).max(1), 1);
    let memory = Memory::new(sort, 1, 1, Scratch::Worker);
    let mut radix = Radix::new(sort, &memory, "sort");
    let (input, output) = (radix.input(), radix.output());
    let (begin, end) = (radix.phase.begin(), radix.phase.end());
    let (row, _) = cut.open(radix.e(), &begin, &end);
    let mut coordinates = radix.locate(&row);
    let (zero, one, limit) = (index(radix.e(), 0), index(radix.e(), 1), index(radix.e(), size));
    let all = Range { from: zero.clone(), to: limit };
    radix.read(&input, &mut coordinates, &zero, &all);

    let passes = index(radix.e(), passes);
    let first = Carried { value: zero.clone(), ty: "index".into() };
    let pass = open_carrying_for(radix.e(), &zero, &passes, 1, &[first]);
    let half = pass.carried[0].value.clone();
    let other = index_op(radix.e(), "arith.subi", &one, &half);
    let (source, target) = (radix.half(&zero, &half), radix.half(&zero, &other));
    let shift = scaled(radix.e(), &pass.variable, 8);
    radix.count(&source, &zero, &all, &shift, &zero);
    let same = radix.offsets(&zero);
    let e = radix.e();
    let yes = e.op("arith.constant true");
    let differs = e.op(format_args!("arith.xori {same}, {yes} : i1"));
    e.open(format_args!("scf.if {differs} {{"));
    radix.distribute([&source, &target], &zero, &all, &zero);
    radix.e().close("}");
    let next = radix.e().op(format_args!("arith.select {same}, {half}, {other} : index"));
    let results = pass.close(radix.e(), &[Carried { value: next, ty: "index".into() }]);

    let base = radix.half(&zero, &results[0].value);
    radix.write(&output, &mut coordinates, &base, &all);
    cut.close(radix.e());
    Ok(payload("sort", radix.phase, cut.tiles(), memory.worker_bytes))
}
