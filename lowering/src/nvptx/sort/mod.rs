//! Stable sorts.
//!
//! Elements become [entries](entry) that unsigned comparisons order. Short rows are sorted in the memory of a
//! block and [merged](merging); long ones are distributed by one [digit](radix) of their keys after the other.

mod entry;
mod merge;
mod merging;
mod radix;

pub(super) use entry::{Entries, Entry, Place};

use self::{merging::Merging, radix::Radix};
use super::map::coordinates;
use super::writer::KernelWriter;
use super::{code::Code, kernels};
use crate::emit::{Emitter, Value};
use crate::order::bits_type;
use crate::types::storage_type;
use crate::{LoweringError, Payload, scalar};
use burn_mlir_ir::{DType, Phase, Sort};

/// Lowers a sort.
pub(super) fn lower(sort: &Sort) -> Result<Payload, LoweringError> {
    let (outer, rows) = (sort.outer().collect(), sort.rows());
    let (size, bits) = (sort.shape[sort.axis], 8 * sort.dtype.size());
    let elements = Elements { sort, outer, entries: Entries::of(sort.dtype) };
    if sort.index_dtype.is_none() && Sorting::is_radix(size, bits) {
        // A stable distribution needs no positions.
        let sorting = Sorting::new(Entries::keys(sort.dtype), rows, size, bits, 0)?;
        let phases = sorting.phases(&Values(elements))?;
        return Ok(kernels(phases, sorting.scratch_bytes()));
    }
    let sorting = Sorting::new(elements.entries, rows, size, bits, 0)?;
    let phases = sorting.phases(&elements)?;
    Ok(kernels(phases, sorting.scratch_bytes()))
}

/// Where entries come from and where they go. Rows and places in a row are of type `index`.
pub(in crate::nvptx) trait Ends {
    /// Opens a kernel.
    fn open(&self, symbol: &str) -> KernelWriter;
    /// The entry at a place of a row.
    fn read(&self, kernel: &mut KernelWriter, row: &Value, place: &Value) -> Entry;
    /// Reports an entry that must not be; called for each entry once or more.
    fn check(&self, _: &mut KernelWriter, _: &Entry) {}
    /// A key as the unsigned integer by which it is sorted.
    fn order(&self, _: &mut Emitter, key: &Value) -> Value {
        key.clone()
    }
    /// Takes the entry that comes at a place of a row when it is sorted.
    fn write(&self, kernel: &mut KernelWriter, row: &Value, place: &Value, entry: &Entry);
}

/// How rows of entries are sorted.
pub(in crate::nvptx) enum Sorting {
    /// By merging. Entries have positions, and what comes from [`Ends::read`] is in order.
    Merging(Merging),
    /// By digits.
    Radix(Radix),
}

impl Sorting {
    /// Whether rows of `size` entries with keys of `bits` are sorted by digits: if that takes fewer passes.
    pub fn is_radix(size: usize, bits: usize) -> bool {
        Merging::merges(size) > radix::passes(bits)
    }

    /// Whether a launch sorts rows of `size` entries.
    pub fn is_one_launch(size: usize) -> bool {
        Merging::merges(size) == 0
    }

    /// `rows` rows of `size` entries, ordered by the lowest `bits` of their keys; scratch memory is used from
    /// byte `scratch` on.
    pub fn new(
        entries: Entries,
        rows: usize,
        size: usize,
        bits: usize,
        scratch: usize,
    ) -> Result<Self, LoweringError> {
        if size >= u32::MAX as usize {
            return Err(LoweringError::Unsupported(format!("sorting {size} elements on a GPU")));
        }
        Ok(if Self::is_radix(size, bits) {
            Self::Radix(Radix::new(entries, rows, size, bits, scratch))
        } else {
            Self::Merging(Merging::new(entries, rows, size, scratch))
        })
    }

    /// Bytes of scratch memory.
    pub fn scratch_bytes(&self) -> usize {
        match self {
            Self::Merging(merging) => merging.scratch_bytes(),
            Self::Radix(radix) => radix.scratch_bytes(),
        }
    }

    /// The kernels that sort, with how they are launched.
    pub fn phases(&self, ends: &impl Ends) -> Result<Vec<(String, Phase)>, LoweringError> {
        match self {
            Self::Merging(merging) => merging.phases(ends),
            Self::Radix(radix) => radix.phases(ends),
        }
    }
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
        let (e, dtype) = (&mut kernel.emitter, self.sort.dtype);
        let bits = cast_bits(e, &element, storage_type(dtype), &bits_type(dtype));
        let key = entry::ordered(e, dtype, self.sort.descending, &bits);
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

/// The elements of a tensor as they are, without positions.
struct Values<'a>(Elements<'a>);

impl Ends for Values<'_> {
    fn open(&self, symbol: &str) -> KernelWriter {
        self.0.open(symbol)
    }

    fn read(&self, kernel: &mut KernelWriter, row: &Value, place: &Value) -> Entry {
        let element = self.0.element(kernel, row, place);
        let (e, bits) = (&mut kernel.emitter, bits_type(self.0.sort.dtype));
        let key = cast_bits(e, &element, storage_type(self.0.sort.dtype), &bits);
        vec![e.resize(&key, &bits, Entries::keys(self.0.sort.dtype).key_type())]
    }

    fn order(&self, e: &mut Emitter, key: &Value) -> Value {
        let dtype = self.0.sort.dtype;
        let bits = e.resize(key, Entries::keys(dtype).key_type(), &bits_type(dtype));
        entry::ordered(e, dtype, self.0.sort.descending, &bits)
    }

    fn write(&self, kernel: &mut KernelWriter, row: &Value, place: &Value, entry: &Entry) {
        let (dtype, bits) = (self.0.sort.dtype, bits_type(self.0.sort.dtype));
        let e = &mut kernel.emitter;
        let key = e.resize(&entry[0], Entries::keys(dtype).key_type(), &bits);
        let element = cast_bits(e, &key, &bits, storage_type(dtype));
        let at = self.0.coordinates(kernel, row, place);
        kernel.store(1, storage_type(dtype), &self.0.sort.accesses[1], &at, &element);
    }
}

/// The same bits as another type.
fn cast_bits(e: &mut Emitter, value: &Value, from: &str, to: &str) -> Value {
    if from == to { value.clone() } else { e.op(format_args!("arith.bitcast {value} : {from} to {to}")) }
}
