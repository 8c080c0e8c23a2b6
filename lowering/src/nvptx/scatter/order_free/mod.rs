//! Updates that come to the same in any order: every thread takes one, atomically.
//!
//! Those of [integers] are what the hardware has instructions for. Those of floats become integers: [sums] are
//! in fixed point, relative to the largest update of the element, and [extremes] of integers in the order of
//! the floats. An element of data has a place of its own in scratch memory for that, at its number in the order
//! of the dimensions.

mod extremes;
mod integers;
mod sums;

use super::{Columns, THREADS, coordinates};
use crate::emit::{Emitter, Value};
use crate::nvptx::code::Code;
use crate::nvptx::grid;
use crate::nvptx::sort::Sorting;
use crate::nvptx::writer::{GLOBAL, KernelWriter};
use crate::types::storage_type;
use crate::{LoweringError, Payload};
use burn_mlir_ir::{DType, DTypeKind, Phase, ScatterOp};

/// Updates of an element on the average, above which it pays to sort them: few elements are a bottleneck.
const CROWD: usize = 64;

/// Columns of a list at most, if floats are updated: sorting costs the same for any number of them, and atomic
/// operations grow with it.
const COLUMNS: usize = 4;

/// Elements for an update, above which it does not pay to prepare and to finish all of them: both take about a
/// tenth of the time that sorting an index and its part of the passes takes.
const SPARSE: usize = 8;

/// Elements or updates of a thread if they are many.
const ITEMS: usize = 4;

/// Lowers a scatter so, if order does not matter or can be made not to, and if it pays.
pub(super) fn lower(columns: &Columns<'_>) -> Result<Option<Payload>, LoweringError> {
    let scatter = columns.scatter;
    if columns.inner_count() == 1 && columns.axis_size() / CROWD > scatter.extent {
        return Ok(None);
    }
    if let Some(operation) = integers::operation(scatter.op, scatter.dtype) {
        return integers::lower(columns, operation).map(Some);
    }
    if scatter.dtype.kind() != DTypeKind::Float || !floats_pay(columns) {
        return Ok(None);
    }
    match scatter.op {
        ScatterOp::Add if sums::can(columns) => sums::lower(columns).map(Some),
        ScatterOp::Max => extremes::lower(columns, "umax").map(Some),
        ScatterOp::Min => extremes::lower(columns, "umin").map(Some),
        _ => Ok(None),
    }
}

/// Whether to update floats as integers pays, in comparison with sorting indices. Rows that one launch sorts
/// take fewer launches than this.
fn floats_pay(columns: &Columns<'_>) -> bool {
    let size = columns.axis_size();
    columns.inner_count() <= COLUMNS
        && columns.scatter.extent / SPARSE <= size
        && !Sorting::is_one_launch(size)
}

/// The sizes of data's dimensions.
fn data_shape(columns: &Columns<'_>) -> Vec<usize> {
    let mut shape = columns.scatter.shape.to_vec();
    shape[columns.scatter.axis] = columns.scatter.extent;
    shape
}

/// Number of elements of data.
fn data_count(columns: &Columns<'_>) -> usize {
    data_shape(columns).iter().product()
}

/// The number of an element of data.
fn data_number(columns: &Columns<'_>, e: &mut Emitter, at: &[Value]) -> Value {
    let mut parts = at.iter().zip(data_shape(columns));
    let Some((first, _)) = parts.next() else { return e.int("index", 0) };
    parts.fold(first.clone(), |number, (at, size)| {
        let size = e.int("index", size);
        let number = e.arith("muli", "index", &number, &size);
        e.arith("addi", "index", &number, at)
    })
}

/// One of a thread's elements or updates.
struct Item {
    number: Value,
    /// Whether there is one; otherwise the number is the last one's.
    valid: Option<Value>,
}

/// A kernel over `count` elements or updates. A thread has a [few](turns) of them, in turns with those of its
/// block, so that it can read all of them before it needs the first.
fn each_item(
    columns: &Columns<'_>,
    symbol: &str,
    count: usize,
    body: impl FnOnce(&mut KernelWriter, Vec<Item>),
) -> Result<(String, Phase), LoweringError> {
    let turns = turns(columns, count);
    let (ty, tile) = ("index", THREADS * turns);
    let mut kernel = columns.open(symbol);
    let (block, thread) = (kernel.block('x'), kernel.thread());
    let e = &mut kernel.emitter;
    let size = e.int(ty, tile);
    let first = e.arith("muli", ty, &block, &size);
    let first = e.arith("addi", ty, &first, &thread);
    let item = |turn: usize| {
        let shift = e.int(ty, turn * THREADS);
        let number = e.arith("addi", ty, &first, &shift);
        if count.is_multiple_of(tile) {
            return Item { number, valid: None };
        }
        let (limit, last) = (e.int(ty, count), e.int(ty, count - 1));
        let valid = e.compare("ult", ty, &number, &limit);
        Item { number: e.arith("minui", ty, &number, &last), valid: Some(valid) }
    };
    let items = (0..turns).map(item).collect();
    body(&mut kernel, items);
    let (grid, block) = (grid(count.div_ceil(tile))?, [THREADS as u32, 1, 1]);
    Ok((kernel.finish(), Phase { symbol: symbol.into(), grid, block, ..Phase::default() }))
}

/// Items of a thread: as many as hide how long memory takes, if there are threads enough.
fn turns(columns: &Columns<'_>, count: usize) -> usize {
    if count >= ITEMS * columns.enough_threads() { ITEMS } else { 1 }
}

/// An update that was read.
struct Update {
    /// As it is in memory.
    element: Value,
    /// The number of its element of data; any other if it has none.
    number: Value,
    /// Whether it has an element.
    inside: Value,
}

/// Reads updates; reports indices that are none.
fn updates(columns: &Columns<'_>, kernel: &mut KernelWriter, items: Vec<Item>) -> Vec<Update> {
    let scatter = columns.scatter;
    let read = items.into_iter().map(|Item { number, valid }| {
        let at = coordinates(&mut kernel.emitter, &number, &scatter.shape);
        let element = kernel.load(2, storage_type(scatter.dtype), &scatter.accesses[2], &at);
        (element, columns.index(kernel, &at, "i64"), at, valid)
    });
    let read: Vec<_> = read.collect();
    let e = &mut kernel.emitter;
    let (extent, last) = (e.int("i64", scatter.extent), e.int("i64", scatter.extent - 1));
    let mut any_outside = e.op("arith.constant false");
    let mut updates = Vec::new();
    for (element, index, mut at, valid) in read {
        let outside = e.compare("eq", "i64", &index, &extent);
        any_outside = e.arith("ori", "i1", &any_outside, &outside);
        let mut inside = e.not(&outside);
        if let Some(valid) = &valid {
            inside = e.both(&inside, valid);
        }
        let index = e.arith("minui", "i64", &index, &last);
        at[scatter.axis] = e.resize(&index, "i64", "index");
        let number = data_number(columns, e, &at);
        updates.push(Update { element, number, inside });
    }
    kernel.report(&any_outside);
    updates
}

/// The bits of a float in memory as an integer of `to`.
fn float_bits(e: &mut Emitter, dtype: DType, element: &Value, to: &str) -> Value {
    let (ty, bits) = (storage_type(dtype), format!("i{}", 8 * dtype.size()));
    let element = if ty == bits {
        element.clone()
    } else {
        e.op(format_args!("arith.bitcast {element} : {ty} to {bits}"))
    };
    e.resize(&element, &bits, to)
}

/// An atomic operation on an integer.
fn atomic(e: &mut Emitter, operation: &str, at: &Value, value: &Value, ty: &str) {
    e.op(format_args!(
        "llvm.atomicrmw {operation} {at}, {value} syncscope(\"device\") monotonic : {GLOBAL}, {ty}"
    ));
}
