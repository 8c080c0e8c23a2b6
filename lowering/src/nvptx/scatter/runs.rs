//! Updates in the order of their indices: runs of equal ones are combined, many at a time.
//!
//! A list of sorted indices is cut into chunks; a thread walks one chunk for one column. What it finds of a
//! run that began in an earlier chunk is that chunk's *head*, of a run that goes on in the next one its
//! *tail*; the second kernel adds the heads behind a tail to it.

use super::Columns;
use super::sorted::SortedIndices;
use crate::emit::{Emitter, Value};
use crate::host::tiles::{Carried, open_carrying_for};
use crate::nvptx::code::Code;
use crate::nvptx::sort::{Entries, Sorting};
use crate::nvptx::writer::{GLOBAL, KernelWriter};
use crate::nvptx::{grid, kernels};
use crate::scalar;
use crate::types::{storage_type, value_type};
use crate::{LoweringError, Payload};
use burn_mlir_ir::{Literal, Phase};

/// Threads of a block.
const THREADS: usize = 128;

/// Updates that are read before the first of them is combined.
const AHEAD: usize = 16;

/// Parts of a chunk at most.
const PARTS: usize = 64;

pub(super) fn lower(columns: &Columns<'_>) -> Result<Payload, LoweringError> {
    let (size, lists, inner) = (columns.axis_size(), columns.list_count(), columns.inner_count());
    let parts = (lists * inner * size / (AHEAD * columns.enough_threads())).clamp(1, PARTS);
    let chunks = size.div_ceil(AHEAD * parts);
    let entries = columns.entries();
    let threads = lists * chunks * inner;
    let partial_bytes = (threads * columns.scatter_bytes()).next_multiple_of(256);
    let runs = Runs {
        columns,
        entries,
        parts,
        chunks,
        heads: entries.array_bytes(lists * size),
        tails: entries.array_bytes(lists * size) + partial_bytes,
    };
    let sorting = Sorting::new(entries, lists, size, columns.index_bits(), runs.tails + partial_bytes)?;
    let mut phases = sorting.phases(&SortedIndices { columns, entries })?;
    let blocks = grid(threads.div_ceil(THREADS))?;
    for (symbol, text) in [("runs", runs.chunks("runs")), ("joins", runs.joins("joins"))] {
        let block = [THREADS as u32, 1, 1];
        phases.push((text, Phase { symbol: symbol.into(), grid: blocks, block, ..Phase::default() }));
    }
    Ok(kernels(phases, runs.tails + partial_bytes + sorting.scratch_bytes()))
}

impl Columns<'_> {
    /// Bytes of a value that is combined.
    fn scatter_bytes(&self) -> usize {
        self.accumulator().size()
    }
}

struct Runs<'a> {
    columns: &'a Columns<'a>,
    entries: Entries,
    /// Parts of [`AHEAD`] updates of a chunk.
    parts: usize,
    /// Chunks of a list.
    chunks: usize,
    /// Where heads are in scratch memory, behind the sorted indices.
    heads: usize,
    /// Where tails are.
    tails: usize,
}

/// Where a thread is.
struct Here {
    list: Value,
    chunk: Value,
    /// Coordinates of list and column.
    place: Vec<Value>,
    /// Number among the partial results.
    number: Value,
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
        let (lists, inner) = (self.columns.list_count(), self.columns.inner_count());
        let threads = e.int(ty, THREADS);
        let first = e.arith("muli", ty, &block, &threads);
        let number = e.arith("addi", ty, &first, &thread);
        let limit = e.int(ty, lists * self.chunks * inner);
        let valid = e.compare("ult", ty, &number, &limit);
        e.open(format_args!("scf.if {valid} {{"));
        let at = super::coordinates(e, &number, &[lists, self.chunks, inner]);
        let place = self.columns.place(e, Some(&at[0]), Some(&at[2]));
        let here = Here { list: at[0].clone(), chunk: at[1].clone(), place, number };
        (kernel, here)
    }

    /// The key of a list's entry.
    fn key(&self, kernel: &mut KernelWriter, list: &Value, at: &Value) -> Value {
        self.sorted().key(kernel, list, at)
    }

    fn sorted(&self) -> SortedIndices<'_> {
        SortedIndices { columns: self.columns, entries: self.entries }
    }

    /// A head or tail: of `offset` in scratch, of a thread.
    fn partial(&self, kernel: &mut KernelWriter, offset: usize, number: &Value) -> Value {
        let base = kernel.scratch(offset);
        kernel.element(&base, GLOBAL, number, storage_type(self.columns.accumulator()))
    }

    fn leave(&self, kernel: &mut KernelWriter, offset: usize, number: &Value, value: &Value) {
        let at = self.partial(kernel, offset, number);
        let dtype = self.columns.accumulator();
        let e = &mut kernel.emitter;
        let value = scalar::to_storage(e, dtype, value);
        e.line(format_args!("llvm.store {value}, {at} : {}, {GLOBAL}", storage_type(dtype)));
    }

    fn left(&self, kernel: &mut KernelWriter, offset: usize, number: &Value) -> Value {
        let at = self.partial(kernel, offset, number);
        let dtype = self.columns.accumulator();
        let e = &mut kernel.emitter;
        let value = e.op(format_args!("llvm.load {at} : {GLOBAL} -> {}", storage_type(dtype)));
        scalar::from_storage(e, dtype, &value)
    }

    /// The place of data that a key means.
    fn target(&self, e: &mut Emitter, here: &Here, key: &Value) -> Vec<Value> {
        let mut at = here.place.clone();
        at[self.columns.scatter.axis] = e.resize(key, self.entries.key_type(), "index");
        at
    }

    /// Writes what a run came to, if its index is one.
    fn finish(&self, kernel: &mut KernelWriter, here: &Here, key: &Value, sum: &Value) {
        let e = &mut kernel.emitter;
        let ty = self.entries.key_type();
        let extent = e.int(ty, self.columns.scatter.extent);
        let inside = e.compare("ult", ty, key, &extent);
        e.open(format_args!("scf.if {inside} {{"));
        let at = self.target(e, here, key);
        self.columns.replace(kernel, &at, sum);
        kernel.emitter.close("}");
    }

    /// The kernel over chunks.
    fn chunks(&self, symbol: &str) -> String {
        let ty = "index";
        let size = self.columns.axis_size();
        let (key_type, sum_type) = (self.entries.key_type(), value_type(self.columns.accumulator()));
        let (mut kernel, here) = self.start(symbol);
        let e = &mut kernel.emitter;
        let length = e.int(ty, AHEAD * self.parts);
        let from = e.arith("muli", ty, &here.chunk, &length);
        let end = e.arith("addi", ty, &from, &length);
        let limit = e.int(ty, size);
        let end = e.arith("minui", ty, &end, &limit);
        let (zero, one) = (e.int(ty, 0), e.int(ty, 1));
        // Before the first chunk there is an index that differs from its first one.
        let begins = e.compare("eq", ty, &from, &zero);
        let before = e.arith("subi", ty, &from, &one);
        let before = e.arith("maxsi", ty, &before, &zero);
        let key = self.key(&mut kernel, &here.list, &before);
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
        let [key, sum, _, head] = [0, 1, 2, 3].map(|part: usize| after[part].value.clone());
        let open = self.goes_on(&mut kernel, &here.list, &end, &key);
        let e = &mut kernel.emitter;
        e.open(format_args!("scf.if {head} {{"));
        self.leave(&mut kernel, self.heads, &here.number, &sum);
        kernel.emitter.close("} else {");
        kernel.emitter.open(format_args!("scf.if {open} {{"));
        self.leave(&mut kernel, self.tails, &here.number, &sum);
        kernel.emitter.close("} else {");
        kernel.emitter.open("// the run is complete");
        self.finish(&mut kernel, &here, &key, &sum);
        kernel.emitter.close("}");
        kernel.emitter.close("}");
        kernel.emitter.close("}");
        kernel.finish()
    }

    /// Whether the entry at `at`, if there is one, has this key.
    fn goes_on(&self, kernel: &mut KernelWriter, list: &Value, at: &Value, key: &Value) -> Value {
        let size = self.columns.axis_size();
        let e = &mut kernel.emitter;
        let (limit, last) = (e.int("index", size), e.int("index", size - 1));
        let exists = e.compare("ult", "index", at, &limit);
        let at = e.arith("minui", "index", at, &last);
        let next = self.key(kernel, list, &at);
        let e = &mut kernel.emitter;
        let same = e.compare("eq", self.entries.key_type(), &next, key);
        e.both(&exists, &same)
    }

    /// Takes [`AHEAD`] updates.
    fn part(&self, kernel: &mut KernelWriter, here: &Here, from: &Value, state: State) -> State {
        let ty = "index";
        let size = self.columns.axis_size();
        let key_type = self.entries.key_type();
        let sum_type = value_type(self.columns.accumulator());
        let exact = size.is_multiple_of(AHEAD);
        let mut entries = Vec::new();
        for ahead in 0..AHEAD {
            let e = &mut kernel.emitter;
            let (shift, last, limit) = (e.int(ty, ahead), e.int(ty, size - 1), e.int(ty, size));
            let at = e.arith("addi", ty, from, &shift);
            let valid = if exact { None } else { Some(e.compare("ult", ty, &at, &limit)) };
            let at = e.arith("minui", ty, &at, &last);
            entries.push((self.sorted().entry_at(kernel, &here.list, &at), valid));
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
                let at = self.target(e, here, &inside);
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
            e.open(format_args!("scf.if {} {{", state.head));
            self.leave(kernel, self.heads, &here.number, &state.sum);
            kernel.emitter.close("} else {");
            kernel.emitter.open("// the run is complete");
            self.finish(kernel, here, &state.key, &state.sum);
            kernel.emitter.close("}");
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
        let (size, inner) = (self.columns.axis_size(), self.columns.inner_count());
        let key_type = self.entries.key_type();
        let sum_type = value_type(self.columns.accumulator());
        let (mut kernel, here) = self.start(symbol);
        let e = &mut kernel.emitter;
        let (length, one) = (e.int(ty, AHEAD * self.parts), e.int(ty, 1));
        let (zero, limit) = (e.int(ty, 0), e.int(ty, size));
        let from = e.arith("muli", ty, &here.chunk, &length);
        let end = e.arith("addi", ty, &from, &length);
        let end = e.arith("minui", ty, &end, &limit);
        let last = e.arith("subi", ty, &end, &one);
        let key = self.key(&mut kernel, &here.list, &last);
        let open = self.goes_on(&mut kernel, &here.list, &end, &key);
        // The run is another thread's if it began before the chunk.
        let e = &mut kernel.emitter;
        let begins = e.compare("ugt", ty, &from, &zero);
        let before = e.arith("subi", ty, &from, &one);
        let before = e.arith("maxsi", ty, &before, &zero);
        let before = self.key(&mut kernel, &here.list, &before);
        let e = &mut kernel.emitter;
        let same = e.compare("eq", key_type, &before, &key);
        let head = e.both(&begins, &same);
        let tail = e.not(&head);
        let mine = e.both(&open, &tail);
        e.open(format_args!("scf.if {mine} {{"));
        let sum = self.left(&mut kernel, self.tails, &here.number);
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
        let distance = e.arith("subi", ty, &next, &here.chunk);
        let columns = e.int(ty, inner);
        let distance = e.arith("muli", ty, &distance, &columns);
        let number = e.arith("addi", ty, &here.number, &distance);
        let head = self.left(&mut kernel, self.heads, &number);
        let e = &mut kernel.emitter;
        let grown = self.columns.combine(e, sum_in, &head);
        let after = e.arith("addi", ty, &next, &one);
        let end = e.arith("muli", ty, &after, &length);
        // It goes on if it reaches the first entry of the chunk after this one.
        let on = self.goes_on(&mut kernel, &here.list, &end, &key);
        let e = &mut kernel.emitter;
        e.line(format_args!("scf.yield {next}, {grown}, {on} : {types}"));
        e.close("}");
        let total = format!("{name}#1");
        self.finish(&mut kernel, &here, &key, &total);
        kernel.emitter.close("}");
        kernel.emitter.close("}");
        kernel.finish()
    }
}
