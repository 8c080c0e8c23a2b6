//! Updates of few columns in the order of their indices: every thread of a block has one of a chunk of
//! consecutive updates, and what equal indices come to is found by a segmented scan.
//!
//! A second kernel completes the runs of more than one [chunk](super::chunks), a warp a tail.

use super::chunks::{Chunks, Here, Part, load, store};
use super::{Columns, THREADS};
use crate::emit::{Emitter, Value};
use crate::nvptx::WARP;
use crate::nvptx::code::Code;
use crate::nvptx::grid;
use crate::nvptx::shuffle::{Shuffle, shuffle};
use crate::nvptx::writer::{KernelWriter, WORKGROUP};
use crate::types::storage_type;
use crate::{LoweringError, Payload};
use burn_mlir_ir::Phase;

/// Columns of a list at most: a warp's accesses are spread over so many elements.
const COLUMNS: usize = 8;

/// Whether a scatter is lowered so.
pub(super) fn pays(columns: &Columns<'_>) -> bool {
    columns.inner_count() <= COLUMNS && columns.axis_size() >= THREADS
}

pub(super) fn lower(columns: &Columns<'_>) -> Result<Payload, LoweringError> {
    let segments = Segments { columns, chunks: Chunks::new(columns, THREADS) };
    let count = segments.chunks.count();
    let block = [THREADS as u32, 1, 1];
    let phase = |symbol: &str, blocks: usize| {
        Ok(Phase { symbol: symbol.into(), grid: grid(blocks)?, block, ..Phase::default() })
    };
    segments.chunks.payload([
        (segments.sums("segments"), phase("segments", count)?),
        (segments.joins("joins"), phase("joins", count.div_ceil(THREADS / WARP))?),
    ])
}

struct Segments<'a> {
    columns: &'a Columns<'a>,
    /// A block's, an update a thread.
    chunks: Chunks<'a>,
}

impl Segments<'_> {
    /// Writes what a run comes to.
    fn finish(&self, kernel: &mut KernelWriter, here: &Here, key: &Value, sum: &Value) {
        self.chunks.finish(kernel, here, key, |kernel, at| {
            if !self.columns.reads_data() {
                return sum.clone();
            }
            let old = self.columns.value(kernel, 0, at);
            self.columns.combine(&mut kernel.emitter, &old, sum)
        });
    }

    /// The kernel over chunks.
    fn sums(&self, symbol: &str) -> String {
        let (ty, index) = (self.chunks.ty(), "index");
        let size = self.columns.axis_size();
        let mut kernel = self.columns.open(symbol);
        let (block, thread) = (kernel.block('x'), kernel.thread());
        let here = self.chunks.here(&mut kernel.emitter, &block);
        let e = &mut kernel.emitter;
        let (limit, one) = (e.int(index, size), e.int(index, 1));
        let (from, _) = self.chunks.range(e, &here);
        let at = e.arith("addi", index, &from, &thread);
        let valid = e.compare("ult", index, &at, &limit);
        let inside = e.int(index, size - 1);
        let inside = e.arith("minui", index, &at, &inside);
        let (key, position) = self.chunks.sorted.entry_at(&mut kernel, &here.list, &inside);
        let e = &mut kernel.emitter;
        let mut place = here.place.clone();
        place[self.columns.scatter.axis] = e.resize(&position, "i32", index);
        let update = self.columns.value(&mut kernel, 2, &place);
        let e = &mut kernel.emitter;
        let (before, after) = (e.arith("subi", index, &at, &one), e.arith("addi", index, &at, &one));
        let goes_on = self.chunks.has_key(&mut kernel, &here, &after, &key);
        let same = self.chunks.has_key(&mut kernel, &here, &before, &key);
        let e = &mut kernel.emitter;
        let before = e.arith("subi", index, &from, &one);
        let is_head = self.chunks.has_key(&mut kernel, &here, &before, &key);
        // Segments of the block begin where runs do, and with its first thread.
        let e = &mut kernel.emitter;
        let zero = e.int(index, 0);
        let leads = e.compare("eq", index, &thread, &zero);
        let begins = e.not(&same);
        let begins = e.arith("ori", "i1", &begins, &leads);
        let sum = self.scanned(&mut kernel, &thread, &update, &begins);
        let e = &mut kernel.emitter;
        let last = e.int(index, THREADS - 1);
        let is_last = e.compare("eq", index, &thread, &last);
        let ends = e.not(&goes_on);
        let leaves = e.arith("ori", "i1", &ends, &is_last);
        let leaves = e.both(&leaves, &valid);
        e.open(format_args!("scf.if {leaves} {{"));
        e.open(format_args!("scf.if {is_head} {{"));
        self.chunks.leave(&mut kernel, Part::Head, &here.number, &sum);
        kernel.emitter.close("} else {");
        kernel.emitter.open(format_args!("scf.if {goes_on} {{"));
        self.chunks.leave(&mut kernel, Part::Tail, &here.number, &sum);
        kernel.emitter.close("} else {");
        kernel.emitter.open(format_args!("// a whole run, of {ty}"));
        self.finish(&mut kernel, &here, &key, &sum);
        (0..3).for_each(|_| kernel.emitter.close("}"));
        kernel.finish()
    }

    /// What the updates of a thread's segment up to its own come to.
    fn scanned(&self, kernel: &mut KernelWriter, thread: &Value, update: &Value, begins: &Value) -> Value {
        let (ty, dtype) = (self.chunks.ty(), self.columns.accumulator());
        let warps = THREADS / WARP;
        let values = kernel.workgroup(warps * dtype.size());
        let flags = kernel.workgroup(4 * warps);
        let e = &mut kernel.emitter;
        let thread = e.resize(thread, "index", "i32");
        let (bits, mask) = (e.int("i32", 5), e.int("i32", WARP - 1));
        let (warp, lane) = (e.arith("shrui", "i32", &thread, &bits), e.arith("andi", "i32", &thread, &mask));
        let (mut sum, mut begun) = (update.clone(), e.resize(begins, "i1", "i32"));
        let zero = e.int("i32", 0);
        let mut distance = 1;
        while distance < WARP {
            let other = shuffle(e, &sum, ty, Shuffle::Up(distance, WARP));
            let other_begun = shuffle(e, &begun, "i32", Shuffle::Up(distance, WARP));
            let far = e.int("i32", distance);
            let exists = e.compare("uge", "i32", &lane, &far);
            let open = e.compare("eq", "i32", &begun, &zero);
            let takes = e.both(&exists, &open);
            let both = self.columns.combine(e, &other, &sum);
            sum = e.choose(&takes, ty, &both, &sum);
            begun = e.choose(&takes, "i32", &other_begun, &begun);
            distance *= 2;
        }
        let is_last = e.compare("eq", "i32", &lane, &mask);
        let address = |e: &mut Emitter, base: &Value, at: &Value, element: &str| {
            e.op(format_args!(
                "llvm.getelementptr {base}[{at}] : ({WORKGROUP}, i32) -> {WORKGROUP}, {element}"
            ))
        };
        e.open(format_args!("scf.if {is_last} {{"));
        let at = address(e, &values, &warp, storage_type(dtype));
        store(e, dtype, &at, WORKGROUP, &sum);
        let at = address(e, &flags, &warp, "i32");
        e.line(format_args!("llvm.store {begun}, {at} : i32, {WORKGROUP}"));
        e.close("}");
        kernel.barrier();
        let e = &mut kernel.emitter;
        let mut before: Option<Value> = None;
        for other in 0..warps - 1 {
            let other = e.int("i32", other);
            let at = address(e, &values, &other, storage_type(dtype));
            let value = load(e, dtype, &at, WORKGROUP);
            let Some(carried) = before else {
                // The first thread begins a segment.
                before = Some(value);
                continue;
            };
            let at = address(e, &flags, &other, "i32");
            let flag = e.op(format_args!("llvm.load {at} : {WORKGROUP} -> i32"));
            let open = e.compare("eq", "i32", &flag, &zero);
            let both = self.columns.combine(e, &carried, &value);
            let next = e.choose(&open, ty, &both, &value);
            let is_before = e.compare("ult", "i32", &other, &warp);
            before = Some(e.choose(&is_before, ty, &next, &carried));
        }
        let Some(before) = before else { return sum };
        let open = e.compare("eq", "i32", &begun, &zero);
        let both = self.columns.combine(e, &before, &sum);
        e.choose(&open, ty, &both, &sum)
    }

    /// The kernel that completes the runs of more than one chunk; each warp those that begin in a chunk.
    fn joins(&self, symbol: &str) -> String {
        let (ty, index) = (self.chunks.ty(), "index");
        let mut kernel = self.columns.open(symbol);
        let (block, thread) = (kernel.block('x'), kernel.thread());
        let e = &mut kernel.emitter;
        let (warps, lanes) = (e.int(index, THREADS / WARP), e.int(index, WARP));
        let first = e.arith("muli", index, &block, &warps);
        let warp = e.arith("divui", index, &thread, &lanes);
        let lane = e.arith("remui", index, &thread, &lanes);
        let number = e.arith("addi", index, &first, &warp);
        let limit = e.int(index, self.chunks.count());
        let valid = e.compare("ult", index, &number, &limit);
        e.open(format_args!("scf.if {valid} {{"));
        let here = self.chunks.here(e, &number);
        let one = e.int(index, 1);
        let (from, end) = self.chunks.range(e, &here);
        let last = e.arith("subi", index, &end, &one);
        let key = self.chunks.sorted.key(&mut kernel, &here.list, &last);
        let goes_on = self.chunks.has_key(&mut kernel, &here, &end, &key);
        // The run is another warp's if it began before the chunk.
        let e = &mut kernel.emitter;
        let before = e.arith("subi", index, &from, &one);
        let is_head = self.chunks.has_key(&mut kernel, &here, &before, &key);
        let e = &mut kernel.emitter;
        let begins = e.not(&is_head);
        let mine = e.both(&goes_on, &begins);
        e.open(format_args!("scf.if {mine} {{"));
        let tail = self.chunks.left(&mut kernel, Part::Tail, &here.number);
        let e = &mut kernel.emitter;
        let next = e.arith("addi", index, &here.chunk, &one);
        let (yes, no) = (e.op("arith.constant true"), e.op("arith.constant false"));
        let start = [(next, index), (tail, ty), (no, "i1"), (yes, "i1")];
        // Carried: the next chunk, what the run comes to, whether the lane is to write that, whether it goes on.
        let results = {
            let names: Vec<Value> = start.iter().map(|_| e.fresh()).collect();
            let inside: Vec<Value> = start.iter().map(|_| e.fresh()).collect();
            let results = e.fresh();
            let types = start.iter().map(|s| s.1).collect::<Vec<_>>().join(", ");
            let pairs: Vec<_> =
                names.iter().zip(&start).map(|(name, s)| format!("{name} = {}", s.0)).collect();
            e.open(format_args!(
                "{results}:4 = scf.while ({}) : ({types}) -> ({types}) {{",
                pairs.join(", ")
            ));
            e.line(format_args!("scf.condition({}) {} : {types}", names[3], names.join(", ")));
            e.close("} do {");
            let header: Vec<_> =
                inside.iter().zip(&start).map(|(name, s)| format!("{name}: {}", s.1)).collect();
            e.open(format_args!("^bb0({}):", header.join(", ")));
            let next = self.join(&mut kernel, &here, &key, &lane, &inside);
            let e = &mut kernel.emitter;
            e.line(format_args!("scf.yield {} : {types}", next.join(", ")));
            e.close("}");
            results
        };
        let e = &mut kernel.emitter;
        e.open(format_args!("scf.if {results}#2 {{"));
        self.finish(&mut kernel, &here, &key, &format!("{results}#1"));
        (0..3).for_each(|_| kernel.emitter.close("}"));
        kernel.finish()
    }

    /// Adds the heads of the next chunks, one a lane.
    fn join(
        &self,
        kernel: &mut KernelWriter,
        here: &Here,
        key: &Value,
        lane: &Value,
        state: &[Value],
    ) -> Vec<Value> {
        let (ty, index) = (self.chunks.ty(), "index");
        let e = &mut kernel.emitter;
        let length = e.int(index, THREADS);
        let chunk = e.arith("addi", index, &state[0], lane);
        let from = e.arith("muli", index, &chunk, &length);
        let takes_part = self.chunks.has_key(kernel, here, &from, key);
        let e = &mut kernel.emitter;
        // A lane that takes no part reads the first of them.
        let chunk = e.choose(&takes_part, index, &chunk, &here.chunk);
        let number = self.chunks.number(e, here, &chunk);
        let mut sum = self.chunks.left(kernel, Part::Head, &number);
        let e = &mut kernel.emitter;
        let lane = e.resize(lane, index, "i32");
        let mut distance = 1;
        while distance < WARP {
            let other = shuffle(e, &sum, ty, Shuffle::Up(distance, WARP));
            let far = e.int("i32", distance);
            let exists = e.compare("uge", "i32", &lane, &far);
            let both = self.columns.combine(e, &other, &sum);
            sum = e.choose(&exists, ty, &both, &sum);
            distance *= 2;
        }
        let with = self.columns.combine(e, &state[1], &sum);
        let all = e.int("i32", -1);
        let votes = e.op(format_args!("nvvm.vote.sync ballot {all}, {takes_part} -> i32"));
        let more = e.compare("eq", "i32", &votes, &all);
        let (zero, one) = (e.int("i32", 0), e.int("i32", 1));
        let none = e.compare("eq", "i32", &votes, &zero);
        // Those that take part are the first lanes; the last of them has all.
        let count = e.op(format_args!("math.ctpop {votes} : i32"));
        let writer = e.arith("subi", "i32", &count, &one);
        let writer = e.arith("maxsi", "i32", &writer, &zero);
        let writes = e.compare("eq", "i32", &lane, &writer);
        let whole = shuffle(e, &with, ty, Shuffle::Last(WARP));
        let result = e.choose(&none, ty, &state[1], &with);
        let result = e.choose(&more, ty, &whole, &result);
        let warp = e.int(index, WARP);
        let next = e.arith("addi", index, &state[0], &warp);
        vec![next, result, writes, more]
    }
}
