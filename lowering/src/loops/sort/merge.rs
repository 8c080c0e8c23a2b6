//! Bottom-up merge sort of each row in the worker's scratch.

use crate::abi::{PhaseWriter, Scratch};
use crate::emit::{Emitter, Value};
use crate::host::tiles::{Carried, Cut, index, index_op, locate_line, open_carrying_for, open_for};
use crate::loops::view::View;
use crate::loops::{TILE_ELEMENTS, payload};
use crate::types::storage_type;
use crate::{LoweringError, Payload, scalar};
use burn_mlir_ir::{CompareOp, DType, Sort, UnaryOp};

/// Type of positions in scratch.
const POSITION: DType = DType::I64;

/// Lowers a sort: a tile is some rows along the axis. Each pass of the merge sort reads one half of a
/// scratch array of twice the row's size and writes the other half.
pub(super) fn lower(sort: &Sort) -> Result<Payload, LoweringError> {
    let size = sort.shape[sort.axis];
    let passes = size.max(1).next_power_of_two().trailing_zeros() as usize;
    let cut = Cut::new(sort.rows(), 1, (TILE_ELEMENTS / (size * (passes + 1)).max(1)).max(1), 1);

    let mut phase = PhaseWriter::new("sort");
    let input = View::new(&mut phase, 0, sort.dtype, &sort.accesses[0], &sort.shape);
    let output_dtype = sort.index_dtype.unwrap_or(sort.dtype);
    let output = View::new(&mut phase, 1, output_dtype, &sort.accesses[1], &sort.shape);
    let keys = Half::new(&mut phase, 0, sort.dtype, size);
    let key_bytes = (2 * size * sort.dtype.size()).next_multiple_of(64) as u64;
    let positions = sort.index_dtype.map(|_| Half::new(&mut phase, key_bytes, POSITION, size));
    let position_bytes = if positions.is_some() { 2 * size * POSITION.size() } else { 0 };

    let (begin, end) = (phase.begin(), phase.end());
    let e = &mut phase.emitter;
    let (zero, one, limit) = (index(e, 0), index(e, 1), index(e, size));
    let (row, _) = cut.open(e, &begin, &end);
    let mut coordinates = locate_line(e, &row, &sort.shape, &[sort.axis], &zero);

    let at = open_for(e, &zero, &limit, 1);
    coordinates[sort.axis] = at.clone();
    let key = input.load(e, &coordinates);
    keys.store(e, &at, &key);
    if let Some(positions) = &positions {
        let position = e.op(format_args!("arith.index_cast {at} : index to i64"));
        positions.store(e, &at, &position);
    }
    e.close("}");

    let count = index(e, passes);
    let pass = open_for(e, &zero, &count, 1);
    let parity = index_op(e, "arith.andi", &pass, &one);
    let source = index_op(e, "arith.muli", &parity, &limit);
    let target = index_op(e, "arith.subi", &limit, &source);
    let width = index_op(e, "arith.shli", &one, &pass);
    let pair = index_op(e, "arith.shli", &width, &one);
    // Runs of `width` elements are merged in pairs.
    let run = index_op(e, "arith.ceildivui", &limit, &pair);
    let run = open_for(e, &zero, &run, 1);
    let start = index_op(e, "arith.muli", &run, &pair);
    let middle = index_op(e, "arith.addi", &start, &width);
    let middle = index_op(e, "arith.minui", &middle, &limit);
    let stop = index_op(e, "arith.addi", &start, &pair);
    let stop = index_op(e, "arith.minui", &stop, &limit);
    let carried = |value: &Value| Carried { value: value.clone(), ty: "index".into() };
    let merge = open_carrying_for(e, &start, &stop, 1, &[carried(&start), carried(&middle)]);
    let (left, right) = (merge.carried[0].value.clone(), merge.carried[1].value.clone());
    let last = index(e, size.saturating_sub(1));
    let address = |e: &mut Emitter, at: &Value| {
        let inside = index_op(e, "arith.minui", at, &last);
        index_op(e, "arith.addi", &source, &inside)
    };
    let (left_at, right_at) = (address(e, &left), address(e, &right));
    let (a, b) = (keys.load(e, &left_at), keys.load(e, &right_at));
    let before = comes_before(e, sort, &b, &a);
    let left_empty = e.op(format_args!("arith.cmpi uge, {left}, {middle} : index"));
    let right_left = e.op(format_args!("arith.cmpi ult, {right}, {stop} : index"));
    let right_first = e.op(format_args!("arith.andi {before}, {right_left} : i1"));
    // Nothing left on the left: then there is something on the right.
    let take_right = e.op(format_args!("arith.ori {right_first}, {left_empty} : i1"));
    let to = index_op(e, "arith.addi", &target, &merge.variable);
    let key = scalar::select(e, sort.dtype, &take_right, &b, &a);
    keys.store(e, &to, &key);
    if let Some(positions) = &positions {
        let (a, b) = (positions.load(e, &left_at), positions.load(e, &right_at));
        let position = scalar::select(e, POSITION, &take_right, &b, &a);
        positions.store(e, &to, &position);
    }
    let left_next = index_op(e, "arith.addi", &left, &one);
    let right_next = index_op(e, "arith.addi", &right, &one);
    let next_left = e.op(format_args!("arith.select {take_right}, {left}, {left_next} : index"));
    let next_right = e.op(format_args!("arith.select {take_right}, {right_next}, {right} : index"));
    merge.close(e, &[carried(&next_left), carried(&next_right)]);
    e.close("}");
    e.close("}");

    let result = index(e, (passes % 2) * size);
    let at = open_for(e, &zero, &limit, 1);
    coordinates[sort.axis] = at.clone();
    let from = index_op(e, "arith.addi", &at, &result);
    let value = match (&positions, sort.index_dtype) {
        (Some(positions), Some(dtype)) => {
            let position = positions.load(e, &from);
            if dtype == POSITION { position } else { scalar::cast(e, POSITION, dtype, &position) }
        }
        _ => keys.load(e, &from),
    };
    output.store(e, &coordinates, &value);
    e.close("}");
    cut.close(e);
    Ok(payload("sort", phase, cut.tiles(), key_bytes + position_bytes as u64))
}

/// Whether key `a` must come before key `b`: NaN is larger than any number.
fn comes_before(e: &mut Emitter, sort: &Sort, a: &Value, b: &Value) -> Value {
    let (first, second) = if sort.descending { (b, a) } else { (a, b) };
    if sort.dtype == DType::Bool {
        let not = scalar::unary(e, UnaryOp::Not, DType::Bool, first);
        return e.op(format_args!("arith.andi {not}, {second} : i1"));
    }
    let less = scalar::compare(e, CompareOp::Lt, sort.dtype, first, second);
    if !sort.dtype.is_float() {
        return less;
    }
    let nan = scalar::unary(e, UnaryOp::IsNan, sort.dtype, second);
    let number = scalar::compare(e, CompareOp::Eq, sort.dtype, first, first);
    let last = e.op(format_args!("arith.andi {nan}, {number} : i1"));
    e.op(format_args!("arith.ori {less}, {last} : i1"))
}

/// A scratch array of two rows.
struct Half {
    memref: Value,
    ty: String,
    dtype: DType,
}

impl Half {
    fn new(phase: &mut PhaseWriter, offset: u64, dtype: DType, size: usize) -> Self {
        let address = phase.scratch(Scratch::Worker, offset);
        let (element, size) = (storage_type(dtype), 2 * size as i64);
        let memref = phase.flat(&address, 0, element, size);
        Self { memref, ty: format!("memref<{size}x{element}>"), dtype }
    }

    fn load(&self, e: &mut Emitter, at: &Value) -> Value {
        let value = e.op(format_args!("memref.load {}[{at}] : {}", self.memref, self.ty));
        scalar::from_storage(e, self.dtype, &value)
    }

    fn store(&self, e: &mut Emitter, at: &Value, value: &Value) {
        let value = scalar::to_storage(e, self.dtype, value);
        e.line(format_args!("memref.store {value}, {}[{at}] : {}", self.memref, self.ty));
    }
}
