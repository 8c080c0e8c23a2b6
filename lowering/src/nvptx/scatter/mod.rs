//! Updates combined into a buffer at indices.
//!
//! What a column is — a place in the dimensions other than the axis — is never updated from another column.
//! Short or many columns are [walked](walk), each by a thread. Integers are updated in [any order](order_free),
//! and so are sums and extremes of floats in few columns; replaced elements by their [last] update. Otherwise the
//! indices are sorted, and the [runs] or, in few columns, [segments] of equal ones combined in parallel: every
//! column's updates of an element stay in their order.

mod chunks;
mod last;
mod order_free;
mod runs;
mod segments;
mod sorted;
mod walk;

use super::map::coordinates;
use super::sort::Entries;
use super::writer::KernelWriter;
use super::{grid, kernels};
use crate::emit::{Emitter, Value};
use crate::loops::combination;
use crate::nvptx::code::Code;
use crate::types::{storage_type, value_type};
use crate::{LoweringError, Payload, scalar};
use burn_mlir_ir::{Access, DType, DTypeKind, NvptxTarget, Phase, Scatter};

/// Updates of a column that one thread takes at most, if columns are few.
const SHORT: usize = 32;

/// Threads of a block that takes an update each.
const THREADS: usize = 256;

/// Threads of a multiprocessor, of those that wait for memory now and then, that keep it busy.
const BUSY: usize = 256;

/// Lowers a scatter.
pub(super) fn lower(scatter: &Scatter, target: &NvptxTarget) -> Result<Payload, LoweringError> {
    let columns = Columns::of(scatter, target);
    let size = scatter.shape[scatter.axis];
    if scatter.extent == 0 {
        // No index is one.
        let every = columns.each("scatter", scatter.shape.iter().product(), |kernel, _| {
            let yes = kernel.emitter.op("arith.constant true");
            kernel.report(&yes);
        })?;
        return Ok(kernels(vec![every], 0));
    }
    if size <= SHORT || columns.count() >= columns.enough_threads() {
        return walk::lower(&columns);
    }
    if let Some(payload) = order_free::lower(&columns)? {
        return Ok(payload);
    }
    match () {
        () if last::pays(&columns) => last::lower(&columns),
        () if segments::pays(&columns) => segments::lower(&columns),
        () => runs::lower(&columns),
    }
}

/// A scatter's dimensions by what they do.
struct Columns<'a> {
    scatter: &'a Scatter,
    target: &'a NvptxTarget,
    /// Along these the indices differ.
    lists: Vec<usize>,
    /// Along these they are the same.
    inner: Vec<usize>,
}

impl<'a> Columns<'a> {
    fn of(scatter: &'a Scatter, target: &'a NvptxTarget) -> Self {
        let others = (0..scatter.shape.len()).filter(|&dim| dim != scatter.axis);
        let (inner, lists) = others.partition(|&dim| scatter.accesses[1].strides[dim] == 0);
        Self { scatter, target, lists, inner }
    }

    /// Threads that keep the GPU busy.
    fn enough_threads(&self) -> usize {
        BUSY * self.target.multiprocessors
    }

    fn sizes(&self, dims: &[usize]) -> Vec<usize> {
        dims.iter().map(|&dim| self.scatter.shape[dim]).collect()
    }

    /// Number of lists of indices.
    fn list_count(&self) -> usize {
        self.sizes(&self.lists).iter().product()
    }

    /// Columns of a list.
    fn inner_count(&self) -> usize {
        self.sizes(&self.inner).iter().product()
    }

    fn count(&self) -> usize {
        self.list_count() * self.inner_count()
    }

    fn axis_size(&self) -> usize {
        self.scatter.shape[self.scatter.axis]
    }

    /// Opens a kernel.
    fn open(&self, symbol: &str) -> KernelWriter {
        KernelWriter::new(symbol, 3, 0)
    }

    /// A kernel of `count` threads, each with its number.
    fn each(
        &self,
        symbol: &str,
        count: usize,
        body: impl FnOnce(&mut KernelWriter, &Value),
    ) -> Result<(String, Phase), LoweringError> {
        let ty = "index";
        let mut kernel = self.open(symbol);
        let (block, thread) = (kernel.block('x'), kernel.thread());
        let e = &mut kernel.emitter;
        let (threads, limit) = (e.int(ty, THREADS), e.int(ty, count));
        let first = e.arith("muli", ty, &block, &threads);
        let number = e.arith("addi", ty, &first, &thread);
        let valid = e.compare("ult", ty, &number, &limit);
        e.open(format_args!("scf.if {valid} {{"));
        body(&mut kernel, &number);
        kernel.emitter.close("}");
        let (grid, block) = (grid(count.div_ceil(THREADS))?, [THREADS as u32, 1, 1]);
        Ok((kernel.finish(), Phase { symbol: symbol.into(), grid, block, ..Phase::default() }))
    }

    /// Opens a conditional on the index for a place being one, reporting it otherwise; gives the index.
    fn open_inside(&self, kernel: &mut KernelWriter, at: &[Value]) -> Value {
        let index = self.index(kernel, at, "i64");
        let e = &mut kernel.emitter;
        let extent = e.int("i64", self.scatter.extent);
        let outside = e.compare("eq", "i64", &index, &extent);
        kernel.report(&outside);
        let e = &mut kernel.emitter;
        let inside = e.not(&outside);
        e.open(format_args!("scf.if {inside} {{"));
        e.resize(&index, "i64", "index")
    }

    /// Bits of an index or the extent, which stands for an index that is none.
    fn index_bits(&self) -> usize {
        (usize::BITS - self.scatter.extent.leading_zeros()) as usize
    }

    /// Coordinates of a list and a column of it (numbers of type `index`), 0 on the axis.
    fn place(&self, e: &mut Emitter, list: Option<&Value>, column: Option<&Value>) -> Vec<Value> {
        let zero = e.int("index", 0);
        let mut all = vec![zero; self.scatter.shape.len()];
        for (dims, number) in [(&self.lists, list), (&self.inner, column)] {
            if let Some(number) = number
                && !dims.is_empty()
            {
                for (&dim, at) in dims.iter().zip(coordinates(e, number, &self.sizes(dims))) {
                    all[dim] = at;
                }
            }
        }
        all
    }

    /// The index for a place, an integer of `to` (`i32` or `i64`, as the extent needs) that is the extent if it
    /// was not below that.
    fn index(&self, kernel: &mut KernelWriter, at: &[Value], to: &str) -> Value {
        let dtype = self.scatter.index_dtype;
        let element = kernel.load(1, storage_type(dtype), &self.scatter.accesses[1], at);
        let e = &mut kernel.emitter;
        let cast = if dtype.kind() == DTypeKind::Unsigned { "extui" } else { "extsi" };
        let ty = value_type(dtype);
        let wide =
            if ty == "i64" { element } else { e.op(format_args!("arith.{cast} {element} : {ty} to i64")) };
        let extent = e.int("i64", self.scatter.extent);
        // A negative one is large.
        let index = e.arith("minui", "i64", &wide, &extent);
        e.resize(&index, "i64", to)
    }

    /// The type of keys when indices are sorted.
    fn entries(&self) -> Entries {
        if self.scatter.extent < u32::MAX as usize { Entries::Narrow } else { Entries::Wide }
    }

    /// The type in which updates are combined.
    fn accumulator(&self) -> DType {
        scalar::accumulator(self.scatter.dtype)
    }

    /// The element of data (0) or updates (2) at a place, as it is accumulated.
    fn value(&self, kernel: &mut KernelWriter, buffer: usize, at: &[Value]) -> Value {
        let dtype = self.scatter.dtype;
        let element = kernel.load(buffer, storage_type(dtype), &self.scatter.accesses[buffer], at);
        let e = &mut kernel.emitter;
        let value = scalar::from_storage(e, dtype, &element);
        let to = self.accumulator();
        if to == dtype { value } else { scalar::cast(e, dtype, to, &value) }
    }

    /// Replaces an element of data.
    fn replace(&self, kernel: &mut KernelWriter, at: &[Value], value: &Value) {
        let (dtype, from) = (self.scatter.dtype, self.accumulator());
        let e = &mut kernel.emitter;
        let value = if from == dtype { value.clone() } else { scalar::cast(e, from, dtype, value) };
        let element = scalar::to_storage(e, dtype, &value);
        let access: &Access = &self.scatter.accesses[0];
        kernel.store(0, storage_type(dtype), access, at, &element);
    }

    /// What an update makes of what was there.
    fn combine(&self, e: &mut Emitter, old: &Value, update: &Value) -> Value {
        match combination(self.scatter.op) {
            Some(op) => scalar::combine(e, op, self.accumulator(), old, update),
            None => update.clone(),
        }
    }

    /// Whether an update needs what was there.
    fn reads_data(&self) -> bool {
        combination(self.scatter.op).is_some()
    }
}
