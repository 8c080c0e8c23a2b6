//! Sorted indices in chunks, for the methods that combine runs of equal ones in parallel.
//!
//! What a chunk has of a run that began in an earlier chunk is its *head*, of one that begins in it and goes on
//! in the next its *tail*. Both are left in scratch memory, behind the sorted indices; a second kernel adds the
//! heads behind a tail to it.

use super::Columns;
use super::sorted::SortedIndices;
use crate::emit::{Emitter, Value};
use crate::nvptx::code::Code;
use crate::nvptx::sort::Sorting;
use crate::nvptx::writer::{GLOBAL, KernelWriter};
use crate::scalar;
use crate::types::{storage_type, value_type};
use crate::{LoweringError, Payload};
use burn_mlir_ir::{DType, Phase};

/// The chunks of all lists.
pub(super) struct Chunks<'a> {
    pub columns: &'a Columns<'a>,
    pub sorted: SortedIndices<'a>,
    /// Updates of a chunk.
    pub length: usize,
    /// Chunks of a list.
    chunks: usize,
    /// Where the parts of runs are in scratch memory.
    parts: usize,
}

/// A chunk of a list and one of its columns.
pub(super) struct Here {
    pub list: Value,
    pub chunk: Value,
    /// Coordinates of list and column.
    pub place: Vec<Value>,
    /// Number among all of them.
    pub number: Value,
}

/// A part of a run that is not whole in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The end of a run, or a piece from its middle.
    Head,
    /// The beginning.
    Tail,
}

impl<'a> Chunks<'a> {
    pub fn new(columns: &'a Columns<'a>, length: usize) -> Self {
        let size = columns.axis_size();
        let sorted = SortedIndices { columns, entries: columns.entries() };
        let parts = sorted.entries.array_bytes(columns.list_count() * size);
        Self { columns, sorted, length, chunks: size.div_ceil(length), parts }
    }

    /// Chunks of all lists, once for each column.
    pub fn count(&self) -> usize {
        self.columns.list_count() * self.chunks * self.columns.inner_count()
    }

    /// The type of values that are combined.
    pub fn ty(&self) -> &'static str {
        value_type(self.columns.accumulator())
    }

    /// The type of indices.
    pub fn key_type(&self) -> &'static str {
        self.sorted.entries.key_type()
    }

    /// The kernels that sort the indices, followed by others.
    pub fn payload(
        &self,
        kernels: impl IntoIterator<Item = (String, Phase)>,
    ) -> Result<Payload, LoweringError> {
        let scratch = self.parts + 2 * self.part_bytes();
        let (lists, size) = (self.columns.list_count(), self.columns.axis_size());
        let sorting = Sorting::new(self.sorted.entries, lists, size, self.columns.index_bits(), scratch)?;
        let mut phases = sorting.phases(&self.sorted)?;
        phases.extend(kernels);
        Ok(crate::nvptx::kernels(phases, scratch + sorting.scratch_bytes()))
    }

    /// Bytes of all heads, and of all tails.
    fn part_bytes(&self) -> usize {
        (self.count() * self.columns.accumulator().size()).next_multiple_of(256)
    }

    /// Chunk and column of a number.
    pub fn here(&self, e: &mut Emitter, number: &Value) -> Here {
        let sizes = [self.columns.list_count(), self.chunks, self.columns.inner_count()];
        let at = super::coordinates(e, number, &sizes);
        let place = self.columns.place(e, Some(&at[0]), Some(&at[2]));
        Here { list: at[0].clone(), chunk: at[1].clone(), place, number: number.clone() }
    }

    /// The number of a chunk of the same list and column.
    pub fn number(&self, e: &mut Emitter, here: &Here, chunk: &Value) -> Value {
        let distance = e.arith("subi", "index", chunk, &here.chunk);
        let columns = e.int("index", self.columns.inner_count());
        let distance = e.arith("muli", "index", &distance, &columns);
        e.arith("addi", "index", &here.number, &distance)
    }

    /// The first place of a chunk and the one behind it.
    pub fn range(&self, e: &mut Emitter, here: &Here) -> (Value, Value) {
        let (length, size) = (e.int("index", self.length), e.int("index", self.columns.axis_size()));
        let from = e.arith("muli", "index", &here.chunk, &length);
        let end = e.arith("addi", "index", &from, &length);
        (from, e.arith("minui", "index", &end, &size))
    }

    /// Whether a list has an entry at a place, which may be one before its first, and whether its index is `key`.
    pub fn has_key(&self, kernel: &mut KernelWriter, here: &Here, at: &Value, key: &Value) -> Value {
        let e = &mut kernel.emitter;
        let size = self.columns.axis_size();
        let (limit, last, zero) = (e.int("index", size), e.int("index", size - 1), e.int("index", 0));
        // One before the first is larger than all.
        let exists = e.compare("ult", "index", at, &limit);
        let at = e.arith("maxsi", "index", at, &zero);
        let at = e.arith("minui", "index", &at, &last);
        let other = self.sorted.key(kernel, &here.list, &at);
        let e = &mut kernel.emitter;
        let same = e.compare("eq", self.key_type(), &other, key);
        e.both(&same, &exists)
    }

    fn part(&self, kernel: &mut KernelWriter, part: Part, number: &Value) -> Value {
        let behind = if part == Part::Head { 0 } else { self.part_bytes() };
        let base = kernel.scratch(self.parts + behind);
        kernel.element(&base, GLOBAL, number, storage_type(self.columns.accumulator()))
    }

    /// Leaves a part of a run.
    pub fn leave(&self, kernel: &mut KernelWriter, part: Part, number: &Value, value: &Value) {
        let at = self.part(kernel, part, number);
        store(&mut kernel.emitter, self.columns.accumulator(), &at, GLOBAL, value);
    }

    /// The part of a run that was left.
    pub fn left(&self, kernel: &mut KernelWriter, part: Part, number: &Value) -> Value {
        let at = self.part(kernel, part, number);
        load(&mut kernel.emitter, self.columns.accumulator(), &at, GLOBAL)
    }

    /// The place of data that a key means.
    pub fn target(&self, e: &mut Emitter, here: &Here, key: &Value) -> Vec<Value> {
        let mut at = here.place.clone();
        at[self.columns.scatter.axis] = e.resize(key, self.key_type(), "index");
        at
    }

    /// Replaces the element of data that a key means, if it means one.
    pub fn finish(
        &self,
        kernel: &mut KernelWriter,
        here: &Here,
        key: &Value,
        value: impl FnOnce(&mut KernelWriter, &[Value]) -> Value,
    ) {
        let e = &mut kernel.emitter;
        let extent = e.int(self.key_type(), self.columns.scatter.extent);
        let inside = e.compare("ult", self.key_type(), key, &extent);
        e.open(format_args!("scf.if {inside} {{"));
        let at = self.target(e, here, key);
        let value = value(kernel, &at);
        self.columns.replace(kernel, &at, &value);
        kernel.emitter.close("}");
    }
}

/// Stores a value that is combined.
pub(super) fn store(e: &mut Emitter, dtype: DType, at: &Value, space: &str, value: &Value) {
    let value = scalar::to_storage(e, dtype, value);
    e.line(format_args!("llvm.store {value}, {at} : {}, {space}", storage_type(dtype)));
}

/// Loads a value that is combined.
pub(super) fn load(e: &mut Emitter, dtype: DType, at: &Value, space: &str) -> Value {
    let value = e.op(format_args!("llvm.load {at} : {space} -> {}", storage_type(dtype)));
    scalar::from_storage(e, dtype, &value)
}
