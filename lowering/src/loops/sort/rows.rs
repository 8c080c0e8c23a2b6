//! A radix sort of each row in the worker's scratch.

use super::radix::{Memory, Radix, State};
use crate::abi::Scratch;
use crate::emit::Value;
use crate::host::tiles::{
    Carried, Cut, Range, delinearize, index, index_op, open_carrying_for, open_for, part_range, scaled,
};
use crate::loops::{TILE_ELEMENTS, payload};
use crate::{LoweringError, Payload};
use burn_mlir_ir::Sort;

/// Columns that are sorted together: a line of the cache has as many elements of four bytes.
const COLUMNS: usize = 16;

/// Scratch up to which columns are sorted together.
const SCRATCH: u64 = 512 << 10;

/// Lowers a sort of many rows: a tile is some of them. Where memory is contiguous across the rows, as many as
/// share lines of the cache are read, sorted and written together.
pub(super) fn lower(sort: &Sort, rows: usize) -> Result<Payload, LoweringError> {
    let (size, lane) = (sort.shape[sort.axis], sort.shape.len() - 1);
    let strides = &sort.accesses[1].strides;
    let across = lane != sort.axis && strides[lane] == 1;
    let lanes = if across { sort.shape[lane] } else { 1 };
    let room = SCRATCH / Memory::new(sort, 1, 1, Scratch::Worker).worker_bytes.max(1);
    let group = COLUMNS.min(lanes).min(room as usize).max(1);
    let [outer, groups] = [rows / lanes.max(1), lanes.div_ceil(group)];

    let work = size * group * sort.dtype.size();
    let cut = Cut::new(outer * groups, 1, (TILE_ELEMENTS / work.max(1)).max(1), 1);
    let memory = Memory::new(sort, group, 1, Scratch::Worker);
    let mut radix = Radix::new(sort, &memory, "sort");
    let (input, output) = (radix.input(), radix.output());
    let (begin, end) = (radix.phase.begin(), radix.phase.end());
    let (tile, _) = cut.open(radix.e(), &begin, &end);
    let zero = index(radix.e(), 0);
    let all = Range { from: zero.clone(), to: index(radix.e(), size) };
    if group == 1 {
        let mut coordinates = radix.locate(&tile);
        radix.read(&input, &mut coordinates, &zero, &all);
        let half = passes(&mut radix, &zero, &all);
        let base = radix.half(&zero, &half);
        radix.write(&output, &mut coordinates, &base, &all);
    } else {
        let at = delinearize(radix.e(), &tile, &[outer, groups]);
        let range = part_range(radix.e(), &at[1], group, lanes);
        let first = scaled(radix.e(), &at[0], lanes as i64);
        let count = index_op(radix.e(), "arith.subi", &range.to, &range.from);
        let first = index_op(radix.e(), "arith.addi", &first, &range.from);
        let mut coordinates = radix.locate(&first);
        let each = Each { lane, from: range.from, count };
        each.across(&mut radix, &mut coordinates, &all, |radix, nth, coordinates, one| {
            let base = radix.half(nth, &zero);
            radix.read(&input, coordinates, &base, one);
        });
        let nth = open_for(radix.e(), &zero, &each.count, 1);
        let half = passes(&mut radix, &nth, &all);
        radix.set_state(&nth, State::In, &half);
        radix.e().close("}");
        each.across(&mut radix, &mut coordinates, &all, |radix, nth, coordinates, one| {
            let half = radix.state(nth, State::In);
            let base = radix.half(nth, &half);
            radix.write(&output, coordinates, &base, one);
        });
    }
    cut.close(radix.e());
    Ok(payload("sort", radix.phase, cut.tiles(), memory.worker_bytes))
}

/// The columns of a group.
struct Each {
    lane: usize,
    from: Value,
    count: Value,
}

impl Each {
    /// Runs `code` for each place along the axis, and there for each column: with its number in the group, its
    /// coordinates, and the place as a range.
    fn across<'a>(
        &self,
        radix: &mut Radix<'a>,
        coordinates: &mut [Value],
        all: &Range,
        mut code: impl FnMut(&mut Radix<'a>, &Value, &mut [Value], &Range),
    ) {
        let (zero, one) = (index(radix.e(), 0), index(radix.e(), 1));
        let from = open_for(radix.e(), &all.from, &all.to, 1);
        let to = index_op(radix.e(), "arith.addi", &from, &one);
        let nth = open_for(radix.e(), &zero, &self.count, 1);
        coordinates[self.lane] = index_op(radix.e(), "arith.addi", &self.from, &nth);
        code(radix, &nth, coordinates, &Range { from, to });
        radix.e().close("}");
        radix.e().close("}");
    }
}

/// Sorts the row that is number `nth` in scratch by one byte after the other; gives the half of the arrays where
/// its elements end.
fn passes(radix: &mut Radix, nth: &Value, all: &Range) -> Value {
    let (zero, one) = (index(radix.e(), 0), index(radix.e(), 1));
    let passes = radix.passes();
    let passes = index(radix.e(), passes);
    let (bytes, table) = (radix.bytes(nth), radix.table(nth));
    let first = Carried { value: zero.clone(), ty: "index".into() };
    let pass = open_carrying_for(radix.e(), &zero, &passes, 1, &[first]);
    let half = pass.carried[0].value.clone();
    let other = index_op(radix.e(), "arith.subi", &one, &half);
    let (source, target) = (radix.half(nth, &half), radix.half(nth, &other));
    let shift = scaled(radix.e(), &pass.variable, 8);
    radix.count(&source, &bytes, all, &shift, &table);
    let same = radix.offsets(&table);
    let e = radix.e();
    let yes = e.op("arith.constant true");
    let differs = e.op(format_args!("arith.xori {same}, {yes} : i1"));
    e.open(format_args!("scf.if {differs} {{"));
    radix.distribute([&source, &target], &bytes, all, &table);
    radix.e().close("}");
    let next = radix.e().op(format_args!("arith.select {same}, {half}, {other} : index"));
    pass.close(radix.e(), &[Carried { value: next, ty: "index".into() }]).remove(0).value
}
