//! Stable sorts.
//!
//! Elements become [entries](entry) that unsigned comparisons order; [phases] sort them by merging, and
//! the elements are then taken from where the entries came from.

mod entry;
mod merge;
mod phases;

pub(super) use entry::{Entries, Entry, Place};
pub(super) use phases::{Ends, Sorting};

use super::map::coordinates;
use super::writer::KernelWriter;
use super::{code::Code, kernels};
use crate::emit::Value;
use crate::types::storage_type;
use crate::{LoweringError, Payload, scalar};
use burn_mlir_ir::{DType, Sort};

/// Lowers a sort.
pub(super) fn lower(sort: &Sort) -> Result<Payload, LoweringError> {
    let outer: Vec<usize> = (0..sort.shape.len()).filter(|&dim| dim != sort.axis).collect();
    let rows = outer.iter().map(|&dim| sort.shape[dim]).product();
    let entries = Entries::of(sort.dtype);
    let sorting = Sorting::new(entries, rows, sort.shape[sort.axis], 0)?;
    let phases = sorting.phases(&Elements { sort, outer, entries })?;
    Ok(kernels(phases, sorting.scratch_bytes()))
}

/// The elements of a tensor.
struct Elements<'a> {
    sort: &'a Sort,
    /// The dimensions besides the axis.
    outer: Vec<usize>,
    entries: Entries,
}

impl Elements<'_> {
    fn coordinates(&self, kernel: &mut KernelWriter, row: &Value, place: &Value) -> Vec<Value> {
        let sizes: Vec<usize> = self.outer.iter().map(|&dim| self.sort.shape[dim]).collect();
        let mut all = vec![place.clone(); self.sort.shape.len()];
        if sizes.is_empty() {
            return all;
        }
        for (&dim, at) in self.outer.iter().zip(coordinates(&mut kernel.emitter, row, &sizes)) {
            all[dim] = at;
        }
        all
    }

    fn element(&self, kernel: &mut KernelWriter, row: &Value, place: &Value) -> Value {
        let at = self.coordinates(kernel, row, place);
        let element = storage_type(self.sort.dtype);
        kernel.load(0, element, &self.sort.accesses[0], &at)
    }
}

impl Ends for Elements<'_> {
    fn open(&self, symbol: &str) -> KernelWriter {
        KernelWriter::new(symbol, 2, 0)
    }

    fn read(&self, kernel: &mut KernelWriter, row: &Value, place: &Value) -> Entry {
        let element = self.element(kernel, row, place);
        let e = &mut kernel.emitter;
        let value = scalar::from_storage(e, self.sort.dtype, &element);
        let key = entry::ordered(e, self.sort.dtype, self.sort.descending, &value);
        let position = e.resize(place, "index", "i32");
        self.entries.make(e, &key, &position)
    }

    fn write(&self, kernel: &mut KernelWriter, row: &Value, place: &Value, entry: &Entry) {
        let e = &mut kernel.emitter;
        let position = self.entries.position(e, entry);
        let (element, dtype) = match self.sort.index_dtype {
            Some(dtype) => {
                let wide = e.resize(&position, "i32", "i64");
                (scalar::cast(e, DType::I64, dtype, &wide), dtype)
            }
            // The element itself: the entry does not have the bits of a NaN.
            None => {
                let from = e.resize(&position, "i32", "index");
                (self.element(kernel, row, &from), self.sort.dtype)
            }
        };
        let at = self.coordinates(kernel, row, place);
        kernel.store(1, storage_type(dtype), &self.sort.accesses[1], &at, &element);
    }
}
