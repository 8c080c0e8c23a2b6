//! The warp that copies slices of the operands to workgroup memory.

use super::int::{int, int_by, int_is};
use super::kernel::Kernel;
use super::place::{Slice, coordinates};
use super::plan::{ROW_BYTES, depth};
use super::problem::{Major, Operand};
use super::ring::{Turn, at, byte};
use super::view::Axis;
use crate::emit::{Emitter, Value};
use crate::nvptx::writer::WORKGROUP;
use burn_mlir_ir::TensorMap;

/// Registers left to each thread of the producing warpgroup.
const REGISTERS: usize = 24;
const REGISTERS_BESIDE_ONE: usize = 40;

/// The tensor map of an operand of which a tile has `side` rows or columns.
pub(super) fn map(operand: &Operand, side: usize, depth: usize) -> TensorMap {
    match operand.major {
        Major::Sum => operand.view.map(depth, side),
        // Square: a row of either has 128 bytes.
        Major::Side => operand.view.map(depth, depth),
    }
}

impl Kernel<'_> {
    /// Writes what the producing warpgroup does: one thread copies, the others end.
    pub fn produce(&mut self) {
        let registers = if self.plan.consumers > 1 { REGISTERS } else { REGISTERS_BESIDE_ONE };
        let thread = self.thread.clone();
        let e = self.e();
        e.line(format_args!("nvvm.setmaxregister decrease {registers}"));
        let first_warp = int_is(e, "ult", &thread, 32);
        e.open(format_args!("scf.if {first_warp} {{"));
        let elected = e.op("nvvm.elect.sync -> i1");
        e.open(format_args!("scf.if {elected} {{"));
        self.copy_tiles();
        let e = self.e();
        e.close("}");
        e.close("}");
    }

    fn copy_tiles(&mut self) {
        let bytes = self.plan.stage_bytes();
        // The first round of the ring need not wait: the pass before the first counts as done.
        let e = self.e();
        let bytes = int(e, bytes);
        let turn = Turn { stage: int(e, 0), parity: int(e, 1) };
        let work = self.open_work(turn);
        let place = self.place(&work.number);
        let e = &mut self.writer.emitter;
        let one = int(e, 1);
        let [from, to] = &place.slices;
        let (number, stage, parity, result) = (e.fresh(), e.fresh(), e.fresh(), e.fresh());
        e.open(format_args!(
            "{result}:2 = scf.for {number} = {from} to {to} step {one} iter_args({stage} = {}, {parity} = {}) \
             -> (i32, i32) : i32 {{",
            work.turn.stage, work.turn.parity
        ));
        let turn = Turn { stage, parity };
        self.ring.wait_empty(e, &turn);
        let full = self.ring.full(e, &turn.stage);
        e.line(format_args!("nvvm.mbarrier.arrive.expect_tx {full}, {bytes} : {WORKGROUP}, i32"));
        let offset = int_by(e, "muli", &turn.stage, self.plan.stage_bytes());
        let stage = at(e, &self.memory, &offset);
        let depth = depth(self.problem);
        let slice = Slice::new(e, self.problem, depth, &number);
        let right = byte(e, &stage, self.plan.left_bytes());
        let (rows, columns) = (self.plan.rows(), self.plan.columns);
        let parts = [
            (&self.problem.left, stage, &place.row, rows, "%map0"),
            (&self.problem.right, right, &place.column, columns, "%map1"),
        ];
        for (operand, target, side, extent, map) in parts {
            let boxes = match operand.major {
                Major::Sum => 1,
                Major::Side => extent / depth,
            };
            for part in 0..boxes {
                let side = int_by(e, "addi", side, part * depth);
                let target = byte(e, &target, part * depth * ROW_BYTES);
                let zero = int(e, 0);
                let at = coordinates(&operand.view, |axis| match axis {
                    Axis::Side => side.clone(),
                    Axis::Line => int_by(e, "divui", &side, self.problem.line.unwrap_or(1)),
                    Axis::Sum => slice.along.clone(),
                    Axis::Batch(dim) => place.batch[dim].clone(),
                    Axis::Outer(dim) => slice.outer[dim].clone(),
                    Axis::One | Axis::InLine | Axis::Row(_) | Axis::Column(_) => zero.clone(),
                });
                copy(e, &target, map, &full, &at);
            }
        }
        let next = self.ring.next(e, &turn);
        e.line(format_args!("scf.yield {}, {} : i32, i32", next.stage, next.parity));
        e.close("}");
        let turn = Turn { stage: format!("{result}#0"), parity: format!("{result}#1") };
        work.close(e, &turn);
    }
}

/// A copy of a box to workgroup memory, whose arrival `barrier` counts.
fn copy(e: &mut Emitter, target: &Value, map: &str, barrier: &Value, coordinates: &str) {
    // PTX before 8.6 has no copy to the memory of a block, only to that of a cluster: here, one block.
    let target = e.op(format_args!("llvm.addrspacecast {target} : {WORKGROUP} to !llvm.ptr<7>"));
    e.line(format_args!(
        "nvvm.cp.async.bulk.tensor.shared.cluster.global {target}, {map}, {barrier}, box[{coordinates}] : \
         !llvm.ptr<7>, !llvm.ptr"
    ));
}
