//! The sorted indices of all lists, at the start of scratch memory, with the places of their updates.

use super::Columns;
use crate::emit::{Emitter, Value};
use crate::nvptx::code::Code;
use crate::nvptx::sort::{Ends, Entries, Entry, Place};
use crate::nvptx::writer::KernelWriter;

/// Where sorted indices come from and where they are.
pub(super) struct SortedIndices<'a> {
    pub columns: &'a Columns<'a>,
    pub entries: Entries,
}

impl SortedIndices<'_> {
    fn array(&self, kernel: &mut KernelWriter) -> Place {
        let count = self.columns.list_count() * self.columns.axis_size();
        self.entries.scratch(kernel, 0, count)
    }

    /// Number of an entry among those of all lists.
    fn number(&self, e: &mut Emitter, list: &Value, place: &Value) -> Value {
        let size = e.int("index", self.columns.axis_size());
        let first = e.arith("muli", "index", list, &size);
        e.arith("addi", "index", &first, place)
    }

    /// Index and place of a list's entry, an `i32`.
    pub fn entry_at(&self, kernel: &mut KernelWriter, list: &Value, at: &Value) -> (Value, Value) {
        let sorted = self.array(kernel);
        let e = &mut kernel.emitter;
        let at = self.number(e, list, at);
        let entry = self.entries.load(e, &sorted, &at, "index");
        (self.entries.key(e, &entry), self.entries.position(e, &entry))
    }

    /// The index of a list's entry.
    pub fn key(&self, kernel: &mut KernelWriter, list: &Value, at: &Value) -> Value {
        self.entry_at(kernel, list, at).0
    }
}

impl Ends for SortedIndices<'_> {
    fn open(&self, symbol: &str) -> KernelWriter {
        self.columns.open(symbol)
    }

    fn read(&self, kernel: &mut KernelWriter, row: &Value, place: &Value) -> Entry {
        let mut at = self.columns.place(&mut kernel.emitter, Some(row), None);
        at[self.columns.scatter.axis] = place.clone();
        let key = self.columns.index(kernel, &at, self.entries.key_type());
        let e = &mut kernel.emitter;
        let position = e.resize(place, "index", "i32");
        self.entries.make(e, &key, &position)
    }

    fn check(&self, kernel: &mut KernelWriter, entry: &Entry) {
        let key_type = self.entries.key_type();
        let e = &mut kernel.emitter;
        let key = self.entries.key(e, entry);
        let extent = e.int(key_type, self.columns.scatter.extent);
        let outside = e.compare("eq", key_type, &key, &extent);
        kernel.report(&outside);
    }

    fn write(&self, kernel: &mut KernelWriter, row: &Value, place: &Value, entry: &Entry) {
        let sorted = self.array(kernel);
        let at = self.number(&mut kernel.emitter, row, place);
        self.entries.store(&mut kernel.emitter, &sorted, &at, "index", entry);
    }
}
