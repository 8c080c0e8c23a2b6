//! The steps of a radix sort: bytes of keys, how often each occurs, where elements with it go.

use super::key::{bits_of, digit};
use crate::abi::{PhaseWriter, Scratch};
use crate::emit::{Emitter, Value};
use crate::host::tiles::{Range, index, index_op, locate_line, open_for, scaled};
use crate::loops::array::{Array, Place, Plan};
use crate::loops::view::View;
use crate::scalar;
use crate::types::value_type;
use burn_mlir_ir::{DType, Sort};

/// Values of a byte.
const VALUES: usize = 256;

/// Tables to count in: elements that follow each other often have the same byte, and an increment has to wait
/// for the one before.
const COUNTS: usize = 4;

/// Where everything is in scratch memory.
pub(super) struct Memory {
    size: usize,
    parts: usize,
    scratch: Scratch,
    keys: Place,
    positions: Option<Place>,
    digits: Place,
    tables: Place,
    /// In the worker's scratch.
    counts: Place,
    /// For each row of a sort in phases, see [`Radix::state`].
    states: Place,
    /// Bytes of the worker's scratch, without the arrays if they are shared.
    pub worker_bytes: u64,
    /// Bytes of shared scratch.
    pub shared_bytes: u64,
}

impl Memory {
    /// Memory for `rows` rows at a time, each in `parts` parts.
    pub fn new(sort: &Sort, rows: usize, parts: usize, scratch: Scratch) -> Self {
        let size = sort.shape[sort.axis];
        let mut arrays = Plan::default();
        let positions = position_type(sort).size();
        let keys = arrays.place(2 * rows * size, sort.dtype.size());
        let positions = sort.index_dtype.map(|_| arrays.place(2 * rows * size, positions));
        let digits = arrays.place(rows * size, 1);
        let tables = arrays.place(rows * parts * VALUES, position_type(sort).size());
        let states = arrays.place(rows * STATE_WORDS, 8);
        let mut worker = Plan::default();
        let mut shared_bytes = arrays.bytes;
        if scratch == Scratch::Worker {
            (worker, shared_bytes) = (arrays, 0);
        }
        let counts = worker.place(COUNTS * VALUES, position_type(sort).size());
        let worker_bytes = worker.bytes;
        Self {
            size,
            parts,
            scratch,
            keys,
            positions,
            digits,
            tables,
            counts,
            states,
            worker_bytes,
            shared_bytes,
        }
    }
}

/// The type of positions and counts.
fn position_type(sort: &Sort) -> DType {
    if sort.shape[sort.axis] >> 31 == 0 { DType::U32 } else { DType::U64 }
}

/// Words of a row's state: a line, so that rows do not disturb each other.
const STATE_WORDS: usize = 8;

/// A word of a row's state.
#[derive(Clone, Copy)]
pub(super) enum State {
    /// The bits below the byte that is sorted by.
    Shift = 0,
    /// Which half of the arrays elements were in before the last pass.
    From = 1,
    /// Which half they are in.
    In = 2,
}

/// A phase of a radix sort.
pub(super) struct Radix<'a> {
    pub phase: PhaseWriter,
    sort: &'a Sort,
    memory: &'a Memory,
    keys: Array,
    positions: Option<Array>,
    digits: Array,
    tables: Array,
    counts: Array,
    states: Array,
}

impl<'a> Radix<'a> {
    /// Opens the function `symbol`.
    pub fn new(sort: &'a Sort, memory: &'a Memory, symbol: &str) -> Self {
        let mut phase = PhaseWriter::new(symbol);
        let scratch = memory.scratch;
        let count = value_type(position_type(sort));
        Self {
            keys: Array::new(&mut phase, scratch, memory.keys, value_type(bits_of(sort.dtype))),
            positions: memory.positions.map(|place| Array::new(&mut phase, scratch, place, count)),
            digits: Array::new(&mut phase, scratch, memory.digits, "i8"),
            tables: Array::new(&mut phase, scratch, memory.tables, count),
            counts: Array::new(&mut phase, Scratch::Worker, memory.counts, count),
            states: Array::new(&mut phase, scratch, memory.states, "i64"),
            phase,
            sort,
            memory,
        }
    }

    pub fn e(&mut self) -> &mut Emitter {
        &mut self.phase.emitter
    }

    /// The number of bytes of a key.
    pub fn passes(&self) -> usize {
        self.sort.dtype.size()
    }

    /// The input's view, of bits.
    pub fn input(&mut self) -> View {
        View::new(&mut self.phase, 0, bits_of(self.sort.dtype), &self.sort.accesses[0], &self.sort.shape)
    }

    /// The output's view, of bits or of positions.
    pub fn output(&mut self) -> View {
        let dtype = self.sort.index_dtype.unwrap_or(bits_of(self.sort.dtype));
        View::new(&mut self.phase, 1, dtype, &self.sort.accesses[1], &self.sort.shape)
    }

    /// The coordinates of a row.
    pub fn locate(&mut self, row: &Value) -> Vec<Value> {
        let (shape, axis) = (&self.sort.shape, self.sort.axis);
        let e = &mut self.phase.emitter;
        let zero = index(e, 0);
        locate_line(e, row, shape, &[axis], &zero)
    }

    /// Reads a range of a row into the first half of the arrays at `base`.
    pub fn read(&mut self, input: &View, coordinates: &mut [Value], base: &Value, range: &Range) {
        let e = &mut self.phase.emitter;
        let at = open_for(e, &range.from, &range.to, 1);
        coordinates[self.sort.axis] = at.clone();
        let bits = input.load(e, coordinates);
        let to = index_op(e, "arith.addi", base, &at);
        self.keys.store(e, &to, &bits);
        if let Some(positions) = &self.positions {
            let position = e.op(format_args!("arith.index_cast {at} : index to {}", positions.element));
            positions.store(e, &to, &position);
        }
        e.close("}");
    }

    /// Writes a range of a row from the arrays at `base`.
    pub fn write(&mut self, output: &View, coordinates: &mut [Value], base: &Value, range: &Range) {
        let e = &mut self.phase.emitter;
        let at = open_for(e, &range.from, &range.to, 1);
        coordinates[self.sort.axis] = at.clone();
        let from = index_op(e, "arith.addi", base, &at);
        let value = match (&self.positions, self.sort.index_dtype) {
            (Some(positions), Some(dtype)) => {
                let position = positions.load(e, &from);
                scalar::cast(e, position_type(self.sort), dtype, &position)
            }
            _ => self.keys.load(e, &from),
        };
        output.store(e, coordinates, &value);
        e.close("}");
    }

    /// Where half `half` of the arrays of row `row` begins.
    pub fn half(&mut self, row: &Value, half: &Value) -> Value {
        let size = self.memory.size;
        let e = self.e();
        let rows = scaled(e, row, 2);
        let halves = index_op(e, "arith.addi", &rows, half);
        scaled(e, &halves, size as i64)
    }

    /// Where the bytes of row `row` begin.
    pub fn bytes(&mut self, row: &Value) -> Value {
        let size = self.memory.size as i64;
        scaled(self.e(), row, size)
    }

    /// Where the table of a part begins; parts are counted through all rows.
    pub fn table(&mut self, part: &Value) -> Value {
        scaled(self.e(), part, VALUES as i64)
    }

    /// Bytes of the elements of a range, and how often each occurs: to `table`.
    pub fn count(&mut self, source: &Value, bytes: &Value, range: &Range, shift: &Value, table: &Value) {
        let (sort, ty) = (self.sort, self.keys.element);
        let e = &mut self.phase.emitter;
        let shift = e.op(format_args!("arith.index_cast {shift} : index to {ty}"));
        // A loop of its own, of which LLVM makes vectors.
        let at = open_for(e, &range.from, &range.to, 1);
        let from = index_op(e, "arith.addi", source, &at);
        let bits = self.keys.load(e, &from);
        let byte = digit(e, sort, &bits, &shift);
        let to = index_op(e, "arith.addi", bytes, &at);
        self.digits.store(e, &to, &byte);
        e.close("}");

        let (zero, all) = (index(e, 0), index(e, COUNTS * VALUES));
        let none = e.op(format_args!("arith.constant 0 : {}", self.counts.element));
        let at = open_for(e, &zero, &all, 1);
        self.counts.store(e, &at, &none);
        e.close("}");

        let length = index_op(e, "arith.subi", &range.to, &range.from);
        let counts = index(e, COUNTS);
        let rest = index_op(e, "arith.remui", &length, &counts);
        let whole = index_op(e, "arith.subi", &range.to, &rest);
        let at = open_for(e, &range.from, &whole, COUNTS);
        for nth in 0..COUNTS {
            self.count_one(bytes, &at, nth);
        }
        self.e().close("}");
        let at = open_for(self.e(), &whole, &range.to, 1);
        self.count_one(bytes, &at, 0);
        self.e().close("}");

        let e = &mut self.phase.emitter;
        let values = index(e, VALUES);
        let value = open_for(e, &zero, &values, 1);
        let mut sum: Option<Value> = None;
        for nth in 0..COUNTS {
            let first = index(e, nth * VALUES);
            let at = index_op(e, "arith.addi", &value, &first);
            let count = self.counts.load(e, &at);
            sum = Some(match sum {
                Some(sum) => e.op(format_args!("arith.addi {sum}, {count} : {}", self.counts.element)),
                None => count,
            });
        }
        let to = index_op(e, "arith.addi", table, &value);
        self.tables.store(e, &to, &sum.unwrap_or_default());
        e.close("}");
    }

    /// Counts the byte `nth` elements after `at` in table `nth`.
    fn count_one(&mut self, bytes: &Value, at: &Value, nth: usize) {
        let e = &mut self.phase.emitter;
        let offset = index(e, nth);
        let at = index_op(e, "arith.addi", at, &offset);
        let from = index_op(e, "arith.addi", bytes, &at);
        let byte = self.digits.load(e, &from);
        let value = e.op(format_args!("arith.index_castui {byte} : i8 to index"));
        let first = index(e, nth * VALUES);
        let place = index_op(e, "arith.addi", &first, &value);
        let count = self.counts.load(e, &place);
        let one = e.op(format_args!("arith.constant 1 : {}", self.counts.element));
        let count = e.op(format_args!("arith.addi {count}, {one} : {}", self.counts.element));
        self.counts.store(e, &place, &count);
    }

    /// Replaces the counts of a row's parts, whose tables begin at `table`, by where the first element with that
    /// byte goes. Gives whether all elements have the same byte, an `i1`.
    pub fn offsets(&mut self, table: &Value) -> Value {
        let parts = self.memory.parts;
        let e = &mut self.phase.emitter;
        let count = self.counts.element;
        let (zero, values, all) = (index(e, 0), index(e, VALUES), index(e, parts));
        let add = |e: &mut Emitter, a: &Value, b: &Value| e.op(format_args!("arith.addi {a}, {b} : {count}"));
        // How many elements of parts before have the byte; LLVM makes vectors of the inner loops.
        let none = e.op(format_args!("arith.constant 0 : {count}"));
        let value = open_for(e, &zero, &values, 1);
        self.counts.store(e, &value, &none);
        e.close("}");
        let at_part = |e: &mut Emitter, part: &Value, value: &Value| {
            let first = scaled(e, part, VALUES as i64);
            let first = index_op(e, "arith.addi", table, &first);
            index_op(e, "arith.addi", &first, value)
        };
        let part = open_for(e, &zero, &all, 1);
        let value = open_for(e, &zero, &values, 1);
        let at = at_part(e, &part, &value);
        let (here, before) = (self.tables.load(e, &at), self.counts.load(e, &value));
        self.tables.store(e, &at, &before);
        let sum = add(e, &before, &here);
        self.counts.store(e, &value, &sum);
        e.close("}");
        e.close("}");

        let size = e.op(format_args!("arith.constant {} : {count}", self.memory.size));
        let no = e.op("arith.constant false");
        let (start, same, results, value) = (e.fresh(), e.fresh(), e.fresh(), e.fresh());
        let one = index(e, 1);
        e.open(format_args!(
            "{results}:2 = scf.for {value} = {zero} to {values} step {one} iter_args({start} = {none}, {same} = {no}) \
             -> ({count}, i1) {{"
        ));
        let total = self.counts.load(e, &value);
        self.counts.store(e, &value, &start);
        let next = add(e, &start, &total);
        let is_all = e.op(format_args!("arith.cmpi eq, {total}, {size} : {count}"));
        let same = e.op(format_args!("arith.ori {same}, {is_all} : i1"));
        e.line(format_args!("scf.yield {next}, {same} : {count}, i1"));
        e.close("}");

        let part = open_for(e, &zero, &all, 1);
        let value = open_for(e, &zero, &values, 1);
        let at = at_part(e, &part, &value);
        let (before, start) = (self.tables.load(e, &at), self.counts.load(e, &value));
        let place = add(e, &before, &start);
        self.tables.store(e, &at, &place);
        e.close("}");
        e.close("}");
        format!("{results}#1")
    }

    /// Moves the elements of a range to their places.
    pub fn distribute(&mut self, halves: [&Value; 2], bytes: &Value, range: &Range, table: &Value) {
        let [source, target] = halves;
        let e = &mut self.phase.emitter;
        let count = self.counts.element;
        let one = e.op(format_args!("arith.constant 1 : {count}"));
        let at = open_for(e, &range.from, &range.to, 1);
        let place = index_op(e, "arith.addi", bytes, &at);
        let byte = self.digits.load(e, &place);
        let value = e.op(format_args!("arith.index_castui {byte} : i8 to index"));
        let entry = index_op(e, "arith.addi", table, &value);
        let slot = self.tables.load(e, &entry);
        let next = e.op(format_args!("arith.addi {slot}, {one} : {count}"));
        self.tables.store(e, &entry, &next);
        let slot = e.op(format_args!("arith.index_castui {slot} : {count} to index"));
        let from = index_op(e, "arith.addi", source, &at);
        let to = index_op(e, "arith.addi", target, &slot);
        for array in [Some(&self.keys), self.positions.as_ref()].into_iter().flatten() {
            let value = array.load(e, &from);
            array.store(e, &to, &value);
        }
        e.close("}");
    }

    /// A word of a row's state, an `index`.
    pub fn state(&mut self, row: &Value, word: State) -> Value {
        let e = &mut self.phase.emitter;
        let at = state_at(e, row, word);
        let value = self.states.load(e, &at);
        e.op(format_args!("arith.index_cast {value} : i64 to index"))
    }

    /// Writes a word of a row's state.
    pub fn set_state(&mut self, row: &Value, word: State, value: &Value) {
        let e = &mut self.phase.emitter;
        let at = state_at(e, row, word);
        let value = e.op(format_args!("arith.index_cast {value} : index to i64"));
        self.states.store(e, &at, &value);
    }
}

fn state_at(e: &mut Emitter, row: &Value, word: State) -> Value {
    let first = scaled(e, row, STATE_WORDS as i64);
    let word = index(e, word as usize);
    index_op(e, "arith.addi", &first, &word)
}
