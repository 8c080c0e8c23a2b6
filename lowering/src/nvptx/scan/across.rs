//! Rows that lie side by side: neighbouring threads take neighbouring rows, each a segment of its row.

use super::Rows;
use crate::emit::{Emitter, Value};
use crate::host::tiles::{Carried, open_carrying_for};
use crate::nvptx::code::Code;
use crate::nvptx::writer::{KernelWriter, WORKGROUP};
use crate::nvptx::{ENOUGH_BLOCKS, WARP};
use crate::{LoweringError, Payload};

/// Segments of a row in a block at most.
const SEGMENTS: usize = 8;

/// Elements of a segment at least, if rows are few.
const SEGMENT: usize = 16;

/// Elements that a thread reads before it combines the first of them.
const AHEAD: usize = 4;

/// How rows are cut; a block has [`WARP`] of them.
struct Cut {
    /// Segments of a row in a block.
    segments: usize,
    /// Blocks that share a row.
    splits: usize,
    /// Elements of a segment.
    segment: usize,
}

impl Cut {
    fn of(rows: &Rows<'_>) -> Self {
        // Warps that fill the GPU.
        let wanted = (8 * ENOUGH_BLOCKS).div_ceil(rows.count.div_ceil(WARP).max(1));
        let wanted = wanted.min(rows.size.div_ceil(SEGMENT)).max(1);
        let segments = wanted.next_power_of_two().min(SEGMENTS);
        let splits = wanted.div_ceil(segments);
        let segment = rows.size.div_ceil(segments * splits).next_multiple_of(AHEAD);
        Self { segments, splits: rows.size.div_ceil(segments * segment.max(1)).max(1), segment }
    }
}

pub(super) fn lower(rows: &Rows<'_>) -> Result<Payload, LoweringError> {
    let cut = Cut::of(rows);
    let threads = WARP * cut.segments;
    rows.payload(rows.count.div_ceil(WARP), cut.splits, threads, |symbol, writes| {
        Across::kernel(rows, &cut, symbol, writes)
    })
}

struct Across<'a> {
    rows: &'a Rows<'a>,
    place: Vec<Value>,
    from: Value,
    end: Value,
}

impl Across<'_> {
    /// A kernel that writes prefixes, or leaves what the parts of rows come to.
    fn kernel(rows: &Rows<'_>, cut: &Cut, symbol: &str, writes: bool) -> String {
        let (ty, value) = ("index", rows.ty());
        let mut kernel = KernelWriter::new(symbol, 2, 0);
        let (block, thread, split) = (kernel.block('x'), kernel.thread(), kernel.block('y'));
        let memory =
            (cut.segments > 1).then(|| kernel.workgroup(WARP * cut.segments * rows.accumulator.size()));
        let e = &mut kernel.emitter;
        let warp = e.int(ty, WARP);
        let (segment, lane) = (e.arith("divui", ty, &thread, &warp), e.arith("remui", ty, &thread, &warp));
        let first = e.arith("muli", ty, &block, &warp);
        let row = e.arith("addi", ty, &first, &lane);
        let (count, last) = (e.int(ty, rows.count), e.int(ty, rows.count.max(1) - 1));
        let valid = e.compare("ult", ty, &row, &count);
        let row = e.arith("minui", ty, &row, &last);
        let place = rows.place(e, &row);
        let (segments, length, size) =
            (e.int(ty, cut.segments), e.int(ty, cut.segment), e.int(ty, rows.size));
        let number = e.arith("muli", ty, &split, &segments);
        let number = e.arith("addi", ty, &number, &segment);
        let from = e.arith("muli", ty, &number, &length);
        let from = e.arith("minui", ty, &from, &size);
        let end = e.arith("addi", ty, &from, &length);
        let end = e.arith("minui", ty, &end, &size);
        let walk = Across { rows, place, from, end };
        let mut start = rows.identity(e);
        if writes && cut.splits > 1 {
            start = rows.before(&mut kernel, &split, &row);
        }
        let total = if let Some(memory) = &memory {
            let identity = rows.identity(&mut kernel.emitter);
            let mine = walk.go(&mut kernel, &identity, None);
            let element = |e: &mut Emitter, at: &Value| {
                let at = e.resize(at, ty, "i64");
                e.op(format_args!(
                    "llvm.getelementptr {memory}[{at}] : ({WORKGROUP}, i64) -> {WORKGROUP}, {value}"
                ))
            };
            let e = &mut kernel.emitter;
            let at = element(e, &thread);
            e.line(format_args!("llvm.store {mine}, {at} : {value}, {WORKGROUP}"));
            kernel.barrier();
            let e = &mut kernel.emitter;
            let mut all = start;
            let mut before = all.clone();
            for other in 0..cut.segments {
                let shift = e.int(ty, other);
                let is_mine = e.compare("eq", ty, &segment, &shift);
                before = e.choose(&is_mine, value, &all, &before);
                let shift = e.int(ty, other * WARP);
                let at = e.arith("addi", ty, &lane, &shift);
                let at = element(e, &at);
                let part = e.op(format_args!("llvm.load {at} : {WORKGROUP} -> {value}"));
                all = rows.combine(e, &all, &part);
            }
            start = before;
            all
        } else if writes {
            start.clone()
        } else {
            walk.go(&mut kernel, &start, None)
        };
        if writes {
            walk.go(&mut kernel, &start, Some(&valid));
        } else {
            let e = &mut kernel.emitter;
            let zero = e.int(ty, 0);
            let leads = e.compare("eq", ty, &segment, &zero);
            let leads = e.both(&leads, &valid);
            e.open(format_args!("scf.if {leads} {{"));
            rows.leave(&mut kernel, &split, &row, &total);
            kernel.emitter.close("}");
        }
        kernel.finish()
    }

    /// Combines the segment's elements behind `start`; writes prefixes where `writes` says so.
    fn go(&self, kernel: &mut KernelWriter, start: &Value, writes: Option<&Value>) -> Value {
        let (ty, rows) = ("index", self.rows);
        let carried = |value: &Value| Carried { value: value.clone(), ty: rows.ty().into() };
        let e = &mut kernel.emitter;
        let open = open_carrying_for(e, &self.from, &self.end, AHEAD, &[carried(start)]);
        let (one, identity) = (e.int(ty, 1), rows.identity(e));
        let last = e.arith("subi", ty, &self.end, &one);
        let mut elements = Vec::new();
        for ahead in 0..AHEAD {
            let e = &mut kernel.emitter;
            let shift = e.int(ty, ahead);
            let at = e.arith("addi", ty, &open.variable, &shift);
            let inside = e.compare("ult", ty, &at, &self.end);
            let at = e.arith("minui", ty, &at, &last);
            let mut place = self.place.clone();
            place[rows.scan.axis] = at;
            let value = rows.read(kernel, &place);
            let value = kernel.emitter.choose(&inside, rows.ty(), &value, &identity);
            elements.push((place, inside, value));
        }
        let mut sum = open.carried[0].value.clone();
        for (place, inside, value) in elements {
            let e = &mut kernel.emitter;
            sum = rows.combine(e, &sum, &value);
            if let Some(valid) = writes {
                let inside = e.both(&inside, valid);
                e.open(format_args!("scf.if {inside} {{"));
                rows.write(kernel, &place, &sum);
                kernel.emitter.close("}");
            }
        }
        open.close(&mut kernel.emitter, &[carried(&sum)]).remove(0).value
    }
}
