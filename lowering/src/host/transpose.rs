//! Loads that are contiguous along another dimension than the lanes: a square of the buffer is transposed in
//! registers into scratch, where it is contiguous along the lanes.

use super::lanes::{Kept, Lanes, vector_type};
use super::tiles::{Range, index, index_op, open_for, scaled};
use crate::abi::Scratch;
use crate::emit::{Emitter, Value};
use crate::types::storage_type;
use burn_mlir_ir::{Block, DimKind, Instr};

/// Extent of the squares.
pub(super) const SQUARE: usize = 64;

/// Sizes below which nothing is transposed.
const LEAST: usize = 8;

/// The loads of a block that are transposed.
#[derive(Clone, Debug)]
pub(super) struct Transposed {
    /// The dimension they are contiguous along.
    pub dim: usize,
    /// The statements.
    pub loads: Vec<usize>,
    /// Extent of the blocks transposed in registers.
    width: usize,
}

impl Transposed {
    /// The transposed loads of a block with lanes along `lane`, if there are any.
    pub fn of(block: &Block, lane: usize, native: usize) -> Option<Self> {
        let along = |dim: usize| -> Vec<usize> {
            let is_transposed = |statement: &usize| match &block.body[*statement].instr {
                Instr::Load { access, .. } => {
                    access.strides[dim] == 1 && access.strides[lane].unsigned_abs() >= LEAST as u64
                }
                _ => false,
            };
            (0..block.body.len()).filter(is_transposed).collect()
        };
        let dims = (0..block.domain.len()).filter(|&dim| {
            dim != lane && block.domain[dim].kind == DimKind::Parallel && block.domain[dim].size >= LEAST
        });
        let (dim, loads) = dims.map(|dim| (dim, along(dim))).max_by_key(|(_, loads)| loads.len())?;
        let width = native.min(16);
        (!loads.is_empty() && block.domain[lane].size >= LEAST && width > 1).then_some(Self {
            dim,
            loads,
            width,
        })
    }

    /// Assigns scratch to the loads; gives its size.
    pub fn reserve(&self, lanes: &mut Lanes) -> u64 {
        let mut offset = 0;
        let mut strides = vec![0; lanes.block.domain.len()];
        strides[self.dim] = SQUARE as i64;
        strides[lanes.lane] = 1;
        for &load in &self.loads {
            let dtype = lanes.block.body[load].dtype;
            let (element, size) = (storage_type(dtype), (SQUARE * SQUARE) as i64);
            let address = lanes.phase.scratch(Scratch::Worker, offset);
            let memref = lanes.phase.flat(&address, 0, element, size);
            let kept = Kept { memref, ty: format!("memref<{size}x{element}>"), strides: strides.clone() };
            lanes.kept.insert(load, kept);
            offset += (SQUARE * SQUARE * dtype.size()) as u64;
        }
        offset
    }

    /// Transposes the square `rows` × `columns` (along the lanes) of every load into its scratch.
    pub fn fill(&self, lanes: &mut Lanes, rows: &Range, columns: &Range) {
        let (dim, lane, width) = (self.dim, lanes.lane, self.width);
        lanes.kept_from = vec![(dim, rows.from.clone()), (lane, columns.from.clone())];
        let whole = |lanes: &mut Lanes, range: &Range| {
            let width = index(lanes.e(), width);
            let length = index_op(lanes.e(), "arith.subi", &range.to, &range.from);
            let rest = index_op(lanes.e(), "arith.remui", &length, &width);
            index_op(lanes.e(), "arith.subi", &range.to, &rest)
        };
        let (rows_whole, columns_whole) = (whole(lanes, rows), whole(lanes, columns));
        let column = open_for(lanes.e(), &columns.from, &columns_whole, width);
        let row = open_for(lanes.e(), &rows.from, &rows_whole, width);
        (lanes.coordinates[dim], lanes.coordinates[lane]) = (row, column);
        for load in self.loads.clone() {
            self.block(lanes, load);
        }
        lanes.e().close("}");
        lanes.e().close("}");
        self.elements(lanes, &Range { from: rows_whole.clone(), to: rows.to.clone() }, columns);
        let rest = Range { from: columns_whole, to: columns.to.clone() };
        self.elements(lanes, &Range { from: rows.from.clone(), to: rows_whole }, &rest);
    }

    /// Transposes one block in registers.
    fn block(&self, lanes: &mut Lanes, load: usize) {
        let width = self.width;
        let element = storage_type(lanes.block.body[load].dtype);
        let vector = vector_type(width, element);
        let (memref, ty, at, stride) = lanes.place(load);
        let mut vectors: Vec<Value> = (0..width)
            .map(|position| {
                let e = lanes.e();
                let offset = index(e, position);
                let step = scaled(e, &offset, stride);
                let from = index_op(e, "arith.addi", &at, &step);
                e.op(format_args!("vector.load {memref}[{from}] : {ty}, {vector}"))
            })
            .collect();
        vectors = transposed(lanes.e(), vectors, &vector);
        let kept = lanes.kept[&load].clone();
        let base = lanes.kept_address(&kept);
        for (position, value) in vectors.iter().enumerate() {
            let e = lanes.e();
            let offset = index(e, position * SQUARE);
            let to = index_op(e, "arith.addi", &base, &offset);
            e.line(format_args!("vector.store {value}, {}[{to}] : {}, {vector}", kept.memref, kept.ty));
        }
    }

    /// Copies a rectangle element by element.
    fn elements(&self, lanes: &mut Lanes, rows: &Range, columns: &Range) {
        let column = open_for(lanes.e(), &columns.from, &columns.to, 1);
        let row = open_for(lanes.e(), &rows.from, &rows.to, 1);
        let lane = lanes.lane;
        (lanes.coordinates[self.dim], lanes.coordinates[lane]) = (row, column);
        for load in self.loads.clone() {
            let (memref, ty, at, _) = lanes.place(load);
            let kept = lanes.kept[&load].clone();
            let to = lanes.kept_address(&kept);
            let e = lanes.e();
            let value = e.op(format_args!("memref.load {memref}[{at}] : {ty}"));
            e.line(format_args!("memref.store {value}, {}[{to}] : {}", kept.memref, kept.ty));
        }
        lanes.e().close("}");
        lanes.e().close("}");
    }
}

/// As many vectors of a type as they have lanes, transposed: rounds that interleave the first half of the vectors
/// with the second.
pub(crate) fn transposed(e: &mut Emitter, mut vectors: Vec<Value>, vector: &str) -> Vec<Value> {
    let width = vectors.len();
    let half = width / 2;
    let interleave =
        |first: usize| -> Vec<usize> { (0..half).flat_map(|i| [first + i, width + first + i]).collect() };
    for _ in 0..width.trailing_zeros() {
        let mut next = Vec::with_capacity(width);
        for (a, b) in vectors[..half].iter().zip(&vectors[half..]) {
            for first in [0, half] {
                let order = interleave(first);
                next.push(e.op(format_args!("vector.shuffle {a}, {b} {order:?} : {vector}, {vector}")));
            }
        }
        vectors = next;
    }
    vectors
}
