//! Results that leave through workgroup memory: 64 rows of 64 columns of 16 bits at a time, swizzled, stored by
//! the copy engine.

use super::super::consumer::Consumer;
use super::super::int::{int_by, int_op, split};
use super::super::kernel::Kernel;
use super::super::place::{Place, coordinates};
use super::super::plan::{ROW_BYTES, ROWS, STORE_BYTES, WARPGROUP};
use super::super::results::{COLUMNS, Staged};
use super::super::ring::{at, byte};
use super::super::view::Axis;
use crate::emit::{Emitter, Value};
use crate::nvptx::writer::WORKGROUP;

/// Bytes the swizzle moves.
const PIECE: usize = 16;

/// Where a thread puts its results.
#[derive(Clone, Debug)]
pub(super) struct Staging {
    /// This warpgroup's buffers.
    memory: Value,
    /// From a buffer's start to what this thread writes at each of the four times it does.
    offsets: Vec<Value>,
    /// The barrier of this warpgroup.
    barrier: Value,
    threads: Value,
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
        let offsets = (0..COLUMNS / 16)
            .map(|part| {
                let piece = int_by(e, "addi", &piece, 2 * part);
                let piece = int_op(e, "xori", &piece, &swizzle);
                let piece = int_by(e, "muli", &piece, PIECE);
                int_op(e, "addi", &line, &piece)
            })
            .collect();
        // Barrier 0 is that of the whole block.
        let barrier = int_by(e, "addi", &consumer.number, 1);
        let threads = super::super::int::int(e, WARPGROUP);
        Self { memory, offsets, barrier, threads }
    }

    /// Waits until buffer number `slot` of `slots` a tile may be written.
    pub fn acquire(&self, e: &mut Emitter, elected: &Value, slot: usize, slots: usize, buffers: usize) {
        let cyclic = slots > buffers && slots.is_multiple_of(buffers);
        let pending = match slot {
            _ if cyclic || slot >= buffers => buffers - 1,
            0 => 0,
            // The first wait of the tile was for all.
            _ => return,
        };
        e.open(format_args!("scf.if {elected} {{"));
        e.line(format_args!("nvvm.cp.async.bulk.wait_group {pending} {{read}}"));
        e.close("}");
        self.meet(e);
    }

    /// Writes 16 columns: `values` are a thread's pairs in its rows of the first 8 and of the second 8.
    pub fn write(&self, e: &mut Emitter, buffer: usize, part: usize, values: &[Value; 4]) {
        let target = byte(e, &self.memory, buffer * STORE_BYTES);
        let target = at(e, &target, &self.offsets[part]);
        e.line(format_args!(
            "nvvm.stmatrix {target}, {} {{layout = #nvvm.mma_layout<row>, \
             shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>, eltType = #nvvm.ld_st_matrix_elt_type<b16>}} : \
             {WORKGROUP}, i32, i32, i32, i32",
            values.join(", ")
        ));
    }

    /// Stores a buffer as the columns from `shift` on of the tile at `place`.
    pub fn send(
        &self,
        e: &mut Emitter,
        consumer: &Consumer,
        staged: &Staged,
        place: &Place,
        [buffer, shift]: [usize; 2],
    ) {
        e.line("nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}");
        self.meet(e);
        e.open(format_args!("scf.if {} {{", consumer.elected));
        let row = int_by(e, "muli", &consumer.number, ROWS);
        let row = int_op(e, "addi", &place.row, &row);
        let rows = split(e, &row, &staged.rows);
        let column = int_by(e, "addi", &place.column, shift);
        let columns = split(e, &column, &staged.columns);
        let zero = super::super::int::int(e, 0);
        let at = coordinates(&staged.view, |axis| match axis {
            Axis::Row(part) => rows[part].clone(),
            Axis::Column(part) => columns[part].clone(),
            Axis::Batch(dim) => place.batch[dim].clone(),
            Axis::One | Axis::Side | Axis::Sum | Axis::Outer(_) => zero.clone(),
        });
        let source = byte(e, &self.memory, buffer * STORE_BYTES);
        e.line(format_args!(
            "nvvm.cp.async.bulk.tensor.global.shared.cta %map{}, {source}, box[{at}] : !llvm.ptr, {WORKGROUP}",
            2 + staged.map
        ));
        e.line("nvvm.cp.async.bulk.commit.group");
        e.close("}");
    }

    /// Waits until all that was stored is there; at the end of the function.
    pub fn drain(&self, e: &mut Emitter, elected: &Value) {
        e.open(format_args!("scf.if {elected} {{"));
        e.line("nvvm.cp.async.bulk.wait_group 0");
        e.close("}");
    }

    /// Waits for all threads of the warpgroup.
    fn meet(&self, e: &mut Emitter) {
        e.line(format_args!("nvvm.barrier id = {} number_of_threads = {}", self.barrier, self.threads));
    }
}
