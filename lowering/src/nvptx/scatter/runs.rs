//! Updates in the order of their indices: runs of equal ones are combined, many at a time.
//!
//! A thread walks one [chunk](super::chunks) for one column; a second kernel completes the runs of more than one, in the
//! threads in whose chunks they begin.

use super::Columns;
use super::chunks::{Chunks, Here, Part};
use crate::emit::Value;
use crate::host::tiles::{Carried, open_carrying_for};
use crate::nvptx::code::Code;
use crate::nvptx::grid;
use crate::nvptx::writer::KernelWriter;
use crate::scalar;
use crate::{LoweringError, Payload};
use burn_mlir_ir::{Literal, Phase};

/// Threads of a block.
const THREADS: usize = 128;

/// Updates that are read before the first of them is combined.
const AHEAD: usize = 16;

/// Parts of a chunk at most.
const PARTS: usize = 64;

pub(super) fn lower(columns: &Columns<'_>) -> Result<Payload, LoweringError> {
    let updates = columns.count() * columns.axis_size();
    let parts = (updates / (AHEAD * columns.enough_threads())).clamp(1, PARTS);
    let runs = Runs { columns, chunks: Chunks::new(columns, AHEAD * parts) };
    let (grid, block) = (grid(runs.chunks.count().div_ceil(THREADS))?, [THREADS as u32, 1, 1]);
    let phase = |symbol: &str| Phase { symbol: symbol.into(), grid, block, ..Phase::default() };
    runs.chunks.payload([(runs.sums("runs"), phase("runs")), (runs.joins("joins"), phase("joins"))])
}

struct Runs<'a> {
    columns: &'a Columns<'a>,
    /// A thread's.
    chunks: Chunks<'a>,
}

/// What a thread carries along the chunk.
struct State {
    /// The index of the last update.
    key: Value,
    /// What was combined for it.
    sum: Value,
    /// Whether there was an update in this chunk.
    live: Value,
    /// Whether the run began before the chunk.
    head: Value,
}

impl Runs<'_> {
    /// Opens a kernel up to the condition that the thread has something to do.
    fn start(&self, symbol: &str) -> (KernelWriter, Here) {
        let ty = "index";
        let mut kernel = self.columns.open(symbol);
        let (block, thread) = (kernel.block('x'), kernel.thread());
        let e = &mut kernel.emitter;
        let threads = e.int(ty, THREADS);
        let first = e.arith("muli", ty, &block, &threads);
        let number = e.arith("addi", ty, &first, &thread);
        let limit = e.int(ty, self.chunks.count());
        let valid = e.compare("ult", ty, &number, &limit);
        e.open(format_args!("scf.if {valid} {{"));
        let here = self.chunks.here(e, &number);
        (kernel, here)
    }

    /// Leaves the head of a chunk or writes what a whole run came to.
    fn end_run(&self, kernel: &mut KernelWriter, here: &Here, state: &State, goes_on: Option<&Value>) {
        kernel.emitter.open(format_args!("scf.if {} {{", state.head));
        self.chunks.leave(kernel, Part::Head, &here.number, &state.sum);
        kernel.emitter.close("} else {");
        if let Some(goes_on) = goes_on {
            kernel.emitter.open(format_args!("scf.if {goes_on} {{"));
            self.chunks.leave(kernel, Part::Tail, &here.number, &state.sum);
            kernel.emitter.close("} else {");
        }
        kernel.emitter.open("// the run is complete");
        self.chunks.finish(kernel, here, &state.key, |_, _| state.sum.clone());
        if goes_on.is_some() {
            kernel.emitter.close("}");
        }
        kernel.emitter.close("}");
    }

    /// The kernel over chunks.
    fn sums(&self, symbol: &str) -> String {
        let ty = "index";
        let (key_type, sum_type) = (self.chunks.key_type(), self.chunks.ty());
        let (mut kernel, here) = self.start(symbol);
        let e = &mut kernel.emitter;
        let (from, end) = self.chunks.range(e, &here);
        let (zero, one) = (e.int(ty, 0), e.int(ty, 1));
        // Before the first chunk there is an index that differs from its first one.
        let begins = e.compare("eq", ty, &from, &zero);
        let before = e.arith("subi", ty, &from, &one);
        let before = e.arith("maxsi", ty, &before, &zero);
        let key = self.chunks.sorted.key(&mut kernel, &here.list, &before);
        let e = &mut kernel.emitter;
        let bit = e.int(key_type, 1);
        let other = e.arith("xori", key_type, &key, &bit);
        let key = e.choose(&begins, key_type, &other, &key);
        let sum =
            scalar::constant(e, self.columns.accumulator(), Literal::of(self.columns.accumulator(), 0.0));
        let no = e.op("arith.constant false");
        let carried = |state: &State| {
            [(&state.key, key_type), (&state.sum, sum_type), (&state.live, "i1"), (&state.head, "i1")]
                .map(|(value, ty)| Carried { value: value.clone(), ty: ty.into() })
        };
        let start = State { key, sum, live: no.clone(), head: no };
        let open = open_carrying_for(e, &from, &end, AHEAD, &carried(&start));
        let [key, sum, live, head] = [0, 1, 2, 3].map(|part: usize| open.carried[part].value.clone());
        let state = self.part(&mut kernel, &here, &open.variable, State { key, sum, live, head });
        let after = open.close(&mut kernel.emitter, &carried(&state));
        let [key, sum, live, head] = [0, 1, 2, 3].map(|part: usize| after[part].value.clone());
        let goes_on = self.chunks.has_key(&mut kernel, &here, &end, &key);
        self.end_run(&mut kernel, &here, &State { key, sum, live, head }, Some(&goes_on));
        kernel.emitter.close("}");
        kernel.finish()
    }

    /// Takes [`AHEAD`] updates.
    fn part(&self, kernel: &mut KernelWriter, here: &Here, from: &Value, state: State) -> State {
        let ty = "index";
        let size = self.columns.axis_size();
        let (key_type, sum_type) = (self.chunks.key_type(), self.chunks.ty());
        let exact = size.is_multiple_of(AHEAD);
        let mut entries = Vec::new();
        for ahead in 0..AHEAD {
            let e = &mut kernel.emitter;
            let (shift, last, limit) = (e.int(ty, ahead), e.int(ty, size - 1), e.int(ty, size));
            let at = e.arith("addi", ty, from, &shift);
            let valid = if exact { None } else { Some(e.compare("ult", ty, &at, &limit)) };
            let at = e.arith("minui", ty, &at, &last);
            entries.push((self.chunks.sorted.entry_at(kernel, &here.list, &at), valid));
        }
        let mut loaded = Vec::new();
        for ((key, position), valid) in entries {
            let e = &mut kernel.emitter;
            let mut at = here.place.clone();
            at[self.columns.scatter.axis] = e.resize(&position, "i32", ty);
            let update = self.columns.value(kernel, 2, &at);
            // An index that is none reads the last element, for nothing.
            let old = self.columns.reads_data().then(|| {
                let e = &mut kernel.emitter;
                let last = e.int(key_type, self.columns.scatter.extent - 1);
                let inside = e.arith("minui", key_type, &key, &last);
                let at = self.chunks.target(e, here, &inside);
                self.columns.value(kernel, 0, &at)
            });
            loaded.push((key, update, old, valid));
        }
        let mut state = state;
        for (key, update, old, valid) in loaded {
            let e = &mut kernel.emitter;
            let same = e.compare("eq", key_type, &key, &state.key);
            let fresh = e.not(&same);
            let mut flush = e.both(&fresh, &state.live);
            if let Some(valid) = &valid {
                flush = e.both(&flush, valid);
            }
            e.open(format_args!("scf.if {flush} {{"));
            self.end_run(kernel, here, &state, None);
            kernel.emitter.close("}");
            let e = &mut kernel.emitter;
            let begun = match &old {
                Some(old) => self.columns.combine(e, old, &update),
                None => update.clone(),
            };
            let grown = self.columns.combine(e, &state.sum, &update);
            let grown = e.choose(&state.live, sum_type, &grown, &update);
            let sum = e.choose(&same, sum_type, &grown, &begun);
            let yes = e.op("arith.constant true");
            // The first update of a chunk that has the index before it is of a head.
            let dead = e.not(&state.live);
            let head = e.arith("ori", "i1", &state.head, &dead);
            let head = e.both(&head, &same);
            let next = State { key, sum, live: yes, head };
            state = match valid {
                None => next,
                Some(valid) => State {
                    key: e.choose(&valid, key_type, &next.key, &state.key),
                    sum: e.choose(&valid, sum_type, &next.sum, &state.sum),
                    live: e.choose(&valid, "i1", &next.live, &state.live),
                    head: e.choose(&valid, "i1", &next.head, &state.head),
                },
            };
        }
        state
    }

    /// The kernel that completes the runs of more than one chunk, in the threads where they begin.
    fn joins(&self, symbol: &str) -> String {
        let ty = "index";
        let sum_type = self.chunks.ty();
        let (mut kernel, here) = self.start(symbol);
        let e = &mut kernel.emitter;
        let (length, one) = (e.int(ty, self.chunks.length), e.int(ty, 1));
        let (from, end) = self.chunks.range(e, &here);
        let last = e.arith("subi", ty, &end, &one);
        let key = self.chunks.sorted.key(&mut kernel, &here.list, &last);
        let open = self.chunks.has_key(&mut kernel, &here, &end, &key);
        // The run is another thread's if it began before the chunk.
        let e = &mut kernel.emitter;
        let before = e.arith("subi", ty, &from, &one);
        let head = self.chunks.has_key(&mut kernel, &here, &before, &key);
        let e = &mut kernel.emitter;
        let tail = e.not(&head);
        let mine = e.both(&open, &tail);
        e.open(format_args!("scf.if {mine} {{"));
        let sum = self.chunks.left(&mut kernel, Part::Tail, &here.number);
        let e = &mut kernel.emitter;
        let yes = e.op("arith.constant true");
        let results = (e.fresh(), [e.fresh(), e.fresh(), e.fresh()], [e.fresh(), e.fresh(), e.fresh()]);
        let types = format!("{ty}, {sum_type}, i1");
        let (name, [chunk, total, more], [inside, sum_in, _]) = &results;
        e.open(format_args!(
            "{name}:3 = scf.while ({chunk} = {}, {total} = {sum}, {more} = {yes}) : ({types}) -> ({types}) {{",
            here.chunk
        ));
        e.line(format_args!("scf.condition({more}) {chunk}, {total}, {more} : {types}"));
        e.close("} do {");
        e.open(format_args!("^bb0({inside}: {ty}, {sum_in}: {sum_type}, {}: i1):", results.2[2]));
        let next = e.arith("addi", ty, inside, &one);
        let number = self.chunks.number(e, &here, &next);
        let head = self.chunks.left(&mut kernel, Part::Head, &number);
        let e = &mut kernel.emitter;
        let grown = self.columns.combine(e, sum_in, &head);
        let after = e.arith("addi", ty, &next, &one);
        let end = e.arith("muli", ty, &after, &length);
        // It goes on if it reaches the first entry of the chunk after this one.
        let on = self.chunks.has_key(&mut kernel, &here, &end, &key);
        let e = &mut kernel.emitter;
        e.line(format_args!("scf.yield {next}, {grown}, {on} : {types}"));
        e.close("}");
        let total = format!("{name}#1");
        self.chunks.finish(&mut kernel, &here, &key, |_, _| total);
        kernel.emitter.close("}");
        kernel.emitter.close("}");
        kernel.finish()
    }
}
