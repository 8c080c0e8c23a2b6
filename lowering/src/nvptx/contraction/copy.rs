//! Slices of an operand, from global memory to workgroup memory.
//!
//! A slice is copied in chunks, in rows along the sum or along the side's points as the operand is read. Where a
//! chunk goes in workgroup memory is up to the [`Layout`].

use super::asm::{copy_async, narrowed, shared_pointer, widened, with_word, word, words};
use super::place::{clamped, offset};
use super::reading::{Reading, operand};
use crate::contraction::{Contraction, Factor, Group};
use crate::emit::{Emitter, Value};
use crate::host::lanes::{convert, vector_type, zero_of};
use crate::host::tiles::{index, index_op, scaled};
use crate::nvptx::writer::{GLOBAL, KernelWriter, WORKGROUP};
use crate::scalar;
use crate::types::{storage_type, value_type};
use burn_mlir_ir::DType;

/// How a slice lies in workgroup memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Type of its elements.
    pub kept: DType,
    /// Consecutive elements of a chunk, a multiple of those read at once.
    pub chunk: usize,
    /// Chunks of a row, a power of two.
    pub row_chunks: usize,
    /// Chunks of a slice, a power of two.
    pub chunks: usize,
    /// Bytes from one of a thread's chunks to its next.
    pub apart: usize,
}

/// What of the contraction is copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Whether of the left operand.
    pub left: bool,
    /// Rows or columns in all, and those of a tile.
    pub points: usize,
    pub tile: usize,
    /// Summed points in all, and those of a slice.
    pub sum: usize,
    pub depth: usize,
    /// Threads that copy, a power of two.
    pub threads: usize,
}

/// The chunks of every slice that a thread copies.
pub(super) struct Copies<'a> {
    factor: &'a Factor,
    sum: &'a Group,
    reading: Reading,
    layout: Layout,
    extent: Extent,
    /// Elements between neighbours along the side, within a run.
    step: i64,
    /// Where the first goes in the first slice's memory, an `i32`.
    to: Value,
    /// Addresses at the start of the sum: of the chunks if they run along it, of a chunk's pieces if not.
    origins: Vec<Value>,
    /// Summed point of the first chunk within a slice, in `origins` already if slices are uniform.
    depth_first: Value,
    /// Whether a slice lies in one run of the sum.
    uniform: bool,
    /// Whether this thread copies anything, where that is not certain.
    copying: Option<Value>,
}

impl<'a> Copies<'a> {
    /// Of one side's operand, for the tile from `first` on. `place` gives the address (an `i32`) of a chunk in the
    /// first slice's memory by its row and its position there.
    pub fn new(
        writer: &mut KernelWriter,
        contraction: &'a Contraction,
        (reading, layout, extent): (Reading, Layout, Extent),
        [thread, batch, first]: [&Value; 3],
        place: impl FnOnce(&mut Emitter, &Value, &Value) -> Value,
    ) -> Self {
        let (factor, group) = operand(contraction, extent.left);
        let sum = &contraction.sum;
        let e = &mut writer.emitter;
        let mut number = narrowed(e, thread);
        let copying = (layout.chunks < extent.threads).then(|| {
            let all = word(e, layout.chunks);
            e.op(format_args!("arith.cmpi ult, {number}, {all} : i32"))
        });
        if copying.is_some() {
            number = with_word(e, "arith.andi", &number, layout.chunks - 1);
        }
        let row = with_word(e, "arith.divui", &number, layout.row_chunks);
        let column = with_word(e, "arith.andi", &number, layout.row_chunks - 1);
        let to = place(e, &row, &column);
        let (row, column) = (widened(e, &row), widened(e, &column));
        let start = scaled(e, &column, layout.chunk as i64);
        let (depth_first, point_first) = if reading.along_sum { (start, row) } else { (row, start) };

        let inner = sum.inner(&factor.access);
        let uniform = inner.size % extent.depth as i64 == 0;
        let step = group.inner(&factor.access).stride;
        let origins = Vec::new();
        let mut copies =
            Self { factor, sum, reading, layout, extent, step, to, origins, depth_first, uniform, copying };
        let mut batch = offset(e, &contraction.batch, &factor.access, batch);
        if uniform {
            let along = scaled(e, &copies.depth_first, inner.stride);
            batch = index_op(e, "arith.addi", &batch, &along);
        }
        // What lies beyond the last row or column is read from another one, and never stored.
        let (parts, apart, room) = match (reading.along_sum, copies.whole(group)) {
            (true, _) => (copies.chunks(), copies.rows_apart(), 1),
            (false, true) => (1, 0, layout.chunk),
            (false, false) => (layout.chunk / reading.piece, reading.piece, reading.piece),
        };
        for part in 0..parts {
            let e = &mut writer.emitter;
            let shift = index(e, part * apart);
            let point = index_op(e, "arith.addi", first, &point_first);
            let point = index_op(e, "arith.addi", &point, &shift);
            let ragged = !extent.points.is_multiple_of(extent.tile);
            let point = if ragged { clamped(e, &point, extent.points - room) } else { point };
            let along = offset(e, group, &factor.access, &point);
            let at = index_op(e, "arith.addi", &batch, &along);
            let buffer = format!("%buffer{}", factor.param.0);
            copies.origins.push(writer.element(&buffer, GLOBAL, &at, storage_type(factor.types[0])));
        }
        copies
    }

    /// Chunks of a thread, one every [`rows_apart`](Self::rows_apart) rows.
    fn chunks(&self) -> usize {
        self.layout.chunks.div_ceil(self.extent.threads)
    }

    fn rows_apart(&self) -> usize {
        (self.extent.threads / self.layout.row_chunks).max(1)
    }

    /// Whether every chunk along `group` lies in one run of it.
    fn whole(&self, group: &Group) -> bool {
        group.inner(&self.factor.access).size % self.layout.chunk as i64 == 0
    }

    /// Pieces of a chunk.
    fn pieces(&self) -> usize {
        self.layout.chunk / self.reading.piece
    }

    /// Addresses of all pieces, chunk by chunk, of the slice from summed point `from` on, and whether they are
    /// inside the sum where that is not certain. All can be read.
    fn addresses(&self, writer: &mut KernelWriter, from: &Value) -> Vec<(Value, Option<Value>)> {
        let stored = storage_type(self.factor.types[0]);
        let inner = self.sum.inner(&self.factor.access);
        let uniform = self.uniform.then(|| offset(&mut writer.emitter, self.sum, &self.factor.access, from));
        let mut addresses = Vec::new();
        for chunk in 0..self.chunks() {
            let mut last: Option<(Value, Option<Value>)> = None;
            for piece in 0..self.pieces() {
                let ahead = piece * self.reading.piece;
                let (origin, shift) = match (self.reading.along_sum, self.origins.len()) {
                    (true, _) => (&self.origins[chunk], 0),
                    (false, 1) => (&self.origins[0], ahead as i64),
                    (false, _) => (&self.origins[piece], 0),
                };
                let depth = if self.reading.along_sum { ahead } else { chunk * self.rows_apart() };
                if let Some(uniform) = &uniform {
                    let shift = shift * self.step + depth as i64 * inner.stride;
                    let at = writer.element(origin, GLOBAL, uniform, stored);
                    addresses.push((shifted(&mut writer.emitter, &at, shift, stored), None));
                    continue;
                }
                // The pieces of a chunk in one run follow its first.
                let in_run = self.reading.along_sum && self.whole(self.sum);
                if let (true, Some((at, inside))) =
                    (in_run || !self.reading.along_sum && self.origins.len() == 1, &last)
                {
                    let step = if in_run { inner.stride * ahead as i64 } else { shift * self.step };
                    let at = shifted(&mut writer.emitter, at, step, stored);
                    addresses.push((at, inside.clone()));
                    continue;
                }
                let e = &mut writer.emitter;
                let depth = index(e, depth);
                let point = index_op(e, "arith.addi", from, &self.depth_first);
                let point = index_op(e, "arith.addi", &point, &depth);
                let ragged = !self.extent.sum.is_multiple_of(self.extent.depth);
                let inside = ragged.then(|| {
                    let points = index(e, self.extent.sum);
                    e.op(format_args!("arith.cmpi ult, {point}, {points} : index"))
                });
                let room = match (self.reading.along_sum, in_run) {
                    (true, true) => self.layout.chunk,
                    (true, false) => self.reading.piece,
                    (false, _) => 1,
                };
                let point = if ragged { clamped(e, &point, self.extent.sum - room) } else { point };
                let along = offset(e, self.sum, &self.factor.access, &point);
                let at = writer.element(origin, GLOBAL, &along, stored);
                last.get_or_insert((at.clone(), inside.clone()));
                addresses.push((at, inside));
            }
        }
        addresses
    }

    /// Starts copying the slice from summed point `from` on to the memory `slot` bytes on; what lies beyond the
    /// sum becomes 0.
    pub fn start(&self, writer: &mut KernelWriter, from: &Value, slot: &Value) {
        let bytes = self.reading.piece * self.layout.kept.size();
        self.open_copying(&mut writer.emitter);
        let addresses = self.addresses(writer, from);
        let e = &mut writer.emitter;
        let to = words(e, "arith.addi", &self.to, slot);
        for (number, (at, inside)) in addresses.iter().enumerate() {
            let (chunk, piece) = (number / self.pieces(), number % self.pieces());
            let shift = chunk * self.layout.apart + piece * bytes;
            let count = inside.as_ref().map(|inside| {
                let (all, none) = (word(e, bytes), word(e, 0));
                e.op(format_args!("arith.select {inside}, {all}, {none} : i32"))
            });
            copy_async(e, &to, shift, at, bytes, count.as_ref());
        }
        self.close_copying(e);
    }

    /// Reads the slice from summed point `from` on: this thread's chunks, a vector each.
    pub fn read(&self, writer: &mut KernelWriter, from: &Value) -> Vec<Value> {
        let (stored, kept) = (self.factor.types[0], self.layout.kept);
        let addresses = self.addresses(writer, from);
        let e = &mut writer.emitter;
        let piece = self.reading.piece;
        let ty =
            if piece == 1 { storage_type(stored).into() } else { vector_type(piece, storage_type(stored)) };
        let alignment = piece * stored.size();
        let loaded: Vec<Value> = addresses
            .iter()
            .map(|(at, _)| {
                e.op(format_args!("llvm.load {at} {{alignment = {alignment} : i64}} : {GLOBAL} -> {ty}"))
            })
            .collect();
        let element = value_type(kept);
        let vector = vector_type(self.layout.chunk, element);
        let mut chunks = Vec::new();
        for (loaded, addresses) in loaded.chunks(self.pieces()).zip(addresses.chunks(self.pieces())) {
            let mut elements = Vec::new();
            for (value, (_, inside)) in loaded.iter().zip(addresses) {
                for lane in 0..piece {
                    let value = match piece {
                        1 => value.clone(),
                        _ => e.op(format_args!(
                            "vector.extract {value}[{lane}] : {} from {ty}",
                            storage_type(stored)
                        )),
                    };
                    elements.push(self.kept(e, &value, inside.as_ref()));
                }
            }
            chunks.push(e.op(format_args!("vector.from_elements {} : {vector}", elements.join(", "))));
        }
        chunks
    }

    /// A loaded element in the type of workgroup memory; 0 if it is not `inside` the sum.
    fn kept(&self, e: &mut Emitter, value: &Value, inside: Option<&Value>) -> Value {
        let types = &self.factor.types[..self.factor.types.len() - 1];
        let value = scalar::from_storage(e, types[0], value);
        let value = types.windows(2).fold(value, |value, pair| convert(e, pair[0], pair[1], &value));
        let Some(inside) = inside else { return value };
        let ty = value_type(self.layout.kept);
        let zero = e.op(format_args!("arith.constant {} : {ty}", zero_of(ty)));
        e.op(format_args!("arith.select {inside}, {value}, {zero} : {ty}"))
    }

    /// Writes what [`read`](Self::read) returned to the memory `slot` bytes on.
    pub fn write(&self, e: &mut Emitter, chunks: &[Value], slot: &Value) {
        let vector = vector_type(self.layout.chunk, value_type(self.layout.kept));
        self.open_copying(e);
        let to = words(e, "arith.addi", &self.to, slot);
        let to = shared_pointer(e, &to);
        for (number, chunk) in chunks.iter().enumerate() {
            let shift = number * self.layout.apart;
            let at =
                e.op(format_args!("llvm.getelementptr {to}[{shift}] : ({WORKGROUP}) -> {WORKGROUP}, i8"));
            e.line(format_args!("llvm.store {chunk}, {at} {{alignment = 16 : i64}} : {vector}, {WORKGROUP}"));
        }
        self.close_copying(e);
    }

    /// Whether slices are copied without passing through registers.
    pub fn direct(&self) -> bool {
        self.reading.direct
    }

    fn open_copying(&self, e: &mut Emitter) {
        if let Some(copying) = &self.copying {
            e.open(format_args!("scf.if {copying} {{"));
        }
    }

    fn close_copying(&self, e: &mut Emitter) {
        if self.copying.is_some() {
            e.close("}");
        }
    }
}

/// The address `by` elements after another.
fn shifted(e: &mut Emitter, at: &Value, by: i64, element: &str) -> Value {
    if by == 0 {
        return at.clone();
    }
    e.op(format_args!("llvm.getelementptr {at}[{by}] : ({GLOBAL}) -> {GLOBAL}, {element}"))
}
