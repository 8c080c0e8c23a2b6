//! Results that leave through workgroup memory: 64 rows of 64 columns of 16 bits at a time, swizzled, stored by
//! the copy engine.

use super::super::consumer::Consumer;
use super::super::int::{int_by, int_op, split};
use super::super::kernel::Kernel;
use super::super::place::{Place, coordinates};
use super::super::plan::{ROW_BYTES, ROWS, STEP_COLUMNS, STORE_BYTES};
use super::super::results::{COLUMNS, Staged};
use super::super::ring::{at, byte};
use super::super::view::Axis;
use crate::emit::{Emitter, Value};
use crate::nvptx::writer::WORKGROUP;

/// Matrices of 8 by 8 elements of 16 bits.
const MATRICES: &str = "layout = #nvvm.mma_layout<row>, shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>, \
     eltType = #nvvm.ld_st_matrix_elt_type<b16>";

/// Bytes the swizzle moves.
pub(super) const PIECE: usize = 16;

/// Where a thread puts its results.
#[derive(Clone, Debug)]
pub(super) struct Staging {
    /// This warpgroup's buffers.
    pub memory: Value,
    /// From a buffer's start to the line this thread names.
    line: Value,
    /// Number of the piece of the line at the first of the four times it does so, and how the swizzle moves it.
    piece: Value,
    swizzle: Value,
}

impl Staging {
    pub fn new(kernel: &mut Kernel<'_>, consumer: &Consumer) -> Self {
        let (plan, memory) = (kernel.plan, kernel.memory.clone());
        let e = kernel.e();
        let mine = int_by(e, "muli", &consumer.number, plan.store_buffers * STORE_BYTES);
        let mine = int_by(e, "addi", &mine, plan.store_offset());
        let memory = at(e, &memory, &mine);
        // A thread names the place of one row of one of four matrices of 8 by 8: both halves of its warp's
        // 16 rows, at two pieces.
        let warp = int_by(e, "shrui", &consumer.thread, 5);
        let row = int_by(e, "muli", &warp, 16);
        let row_in_warp = int_by(e, "andi", &consumer.thread, 15);
        let row = int_op(e, "addi", &row, &row_in_warp);
        let line = int_by(e, "muli", &row, ROW_BYTES);
        let swizzle = int_by(e, "andi", &consumer.thread, 7);
        let lane = int_by(e, "andi", &consumer.thread, 31);
        let piece = int_by(e, "shrui", &lane, 4);
        Self { memory, line, piece, swizzle }
    }

    /// Waits until `count` buffers from number `slot` of the `slots` of a tile on may be written.
    pub fn acquire(
        &self,
        e: &mut Emitter,
        consumer: &Consumer,
        [slot, count]: [usize; 2],
        slots: usize,
        buffers: usize,
    ) {
        let cyclic = slots > buffers && slots.is_multiple_of(buffers);
        let pending = match slot {
            _ if cyclic || slot + count > buffers => buffers - count,
            0 => 0,
            // The first wait of the tile was for all.
            _ => return,
        };
        e.open(format_args!("scf.if {} {{", consumer.elected));
        e.line(format_args!("nvvm.cp.async.bulk.wait_group {pending} {{read}}"));
        e.close("}");
        consumer.meet(e);
    }

    /// Waits until all buffers may be written.
    pub fn reuse(&self, e: &mut Emitter, consumer: &Consumer) {
        e.open(format_args!("scf.if {} {{", consumer.elected));
        e.line("nvvm.cp.async.bulk.wait_group 0 {read}");
        e.close("}");
        consumer.meet(e);
    }

    /// The place of a thread's line in the `part`-th 16 columns of a buffer.
    fn part(&self, e: &mut Emitter, buffer: usize, part: usize) -> Value {
        let piece = int_by(e, "addi", &self.piece, 2 * part);
        let target = byte(e, &self.memory, buffer * STORE_BYTES);
        self.swizzled(e, &target, &piece)
    }

    /// The same in the `step`-th (an `i32`) 16 columns of all buffers.
    pub fn step(&self, e: &mut Emitter, step: &Value) -> Value {
        let steps = COLUMNS / STEP_COLUMNS;
        let part = int_by(e, "andi", step, steps - 1);
        let part = int_by(e, "muli", &part, 2);
        let piece = int_op(e, "addi", &self.piece, &part);
        let buffer = int_by(e, "divui", step, steps);
        let buffer = int_by(e, "muli", &buffer, STORE_BYTES);
        let target = at(e, &self.memory, &buffer);
        self.swizzled(e, &target, &piece)
    }

    fn swizzled(&self, e: &mut Emitter, buffer: &Value, piece: &Value) -> Value {
        let piece = int_op(e, "xori", piece, &self.swizzle);
        let piece = int_by(e, "muli", &piece, PIECE);
        let offset = int_op(e, "addi", &self.line, &piece);
        at(e, buffer, &offset)
    }

    /// Writes 16 columns: `values` are a thread's pairs in its rows of the first 8 and of the second 8.
    pub fn write(&self, e: &mut Emitter, buffer: usize, part: usize, values: &[Value; 4]) {
        let target = self.part(e, buffer, part);
        self.write_at(e, &target, values);
    }

    /// The same with the [place](Self::step) of the line.
    pub fn write_at(&self, e: &mut Emitter, target: &Value, values: &[Value; 4]) {
        e.line(format_args!(
            "nvvm.stmatrix {target}, {} {{{MATRICES}}} : {WORKGROUP}, i32, i32, i32, i32",
            values.join(", ")
        ));
    }

    /// Reads what [`write_at`](Self::write_at) has written.
    pub fn read(&self, e: &mut Emitter, source: &Value) -> Vec<Value> {
        let structure = "!llvm.struct<(i32, i32, i32, i32)>";
        let all = e.op(format_args!(
            "nvvm.ldmatrix {source} {{num = 4 : i32, {MATRICES}}} : ({WORKGROUP}) -> {structure}"
        ));
        (0..4).map(|part| e.op(format_args!("llvm.extractvalue {all}[{part}] : {structure}"))).collect()
    }

    /// Makes what all threads have written visible to the copy engine.
    pub fn publish(&self, e: &mut Emitter, consumer: &Consumer) {
        e.line("nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}");
        consumer.meet(e);
    }

    /// Stores a buffer, once it is public, as a box of the tile at `place`, so many rows and columns further on.
    pub fn send(
        &self,
        e: &mut Emitter,
        consumer: &Consumer,
        staged: &Staged,
        place: &Place,
        buffer: &Value,
        [down, shift]: [&Value; 2],
    ) {
        e.open(format_args!("scf.if {} {{", consumer.elected));
        let row = int_by(e, "muli", &consumer.number, ROWS);
        let row = int_op(e, "addi", &place.row, &row);
        let row = int_op(e, "addi", &row, down);
        let rows = split(e, &row, &staged.rows);
        let column = int_op(e, "addi", &place.column, shift);
        let columns = split(e, &column, &staged.columns);
        let zero = super::super::int::int(e, 0);
        let to = coordinates(&staged.view, |axis| match axis {
            Axis::Row(part) => rows[part].clone(),
            Axis::Column(part) => columns[part].clone(),
            Axis::Batch(dim) => place.batch[dim].clone(),
            _ => zero.clone(),
        });
        let offset = int_by(e, "muli", buffer, STORE_BYTES);
        let source = at(e, &self.memory, &offset);
        e.line(format_args!(
            "nvvm.cp.async.bulk.tensor.global.shared.cta %map{}, {source}, box[{to}] : !llvm.ptr, {WORKGROUP}",
            2 + staged.map
        ));
        e.line("nvvm.cp.async.bulk.commit.group");
        e.close("}");
    }

    /// Waits until all that was stored is there; at the end of the function.
    pub fn drain(&self, e: &mut Emitter, consumer: &Consumer) {
        e.open(format_args!("scf.if {} {{", consumer.elected));
        e.line("nvvm.cp.async.bulk.wait_group 0");
        e.close("}");
    }
}
