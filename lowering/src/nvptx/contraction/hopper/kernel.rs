//! The function: a block of threads walks over tiles; its first warpgroup copies, the others multiply.

use super::SYMBOL;
use super::int::{int, int_by, int_is, int_op};
use super::place::Place;
use super::plan::{Plan, WARPGROUP};
use super::problem::{Problem, points};
use super::results::Results;
use super::ring::{Ring, Turn};
use crate::LoweringError;
use crate::emit::{Emitter, Value};
use crate::nvptx::writer::{KernelWriter, WORKGROUP};

/// The function being written.
pub(super) struct Kernel<'a> {
    pub problem: &'a Problem<'a>,
    pub plan: &'a Plan,
    pub results: &'a Results,
    pub writer: KernelWriter,
    pub ring: Ring,
    /// Start of the workgroup memory.
    pub memory: Value,
    /// Position in the block of threads, an `i32`.
    pub thread: Value,
    /// Number of the warpgroup, an `i32` that is known to be the same for all threads of a warp.
    pub warpgroup: Value,
    /// The scalar arguments.
    pub scalars: Vec<Value>,
    /// The `index` 0.
    pub zero: Value,
}

/// The loop over the work of a block of threads.
pub(super) struct Work {
    /// Number of the piece of work, an `i32`.
    pub number: Value,
    /// Place in the ring when it is begun.
    pub turn: Turn,
}

impl Work {
    /// Closes the loop, with the place in the ring when the piece of work is done.
    pub fn close(self, e: &mut Emitter, turn: &Turn) {
        e.line(format_args!("scf.yield {}, {} : i32, i32", turn.stage, turn.parity));
        e.close("}");
    }
}

impl<'a> Kernel<'a> {
    pub fn new(problem: &'a Problem<'a>, plan: &'a Plan, results: &'a Results) -> Self {
        let block = problem.block;
        let maps = 2 + results.maps.len();
        let threads = plan.threads() as u32;
        let mut writer =
            KernelWriter::with_tensor_maps(SYMBOL, block.params.len(), block.scalars.len(), maps, threads);
        let memory = writer.workgroup(0);
        let scalars =
            block.scalars.iter().enumerate().map(|(slot, &dtype)| writer.scalar(slot, dtype)).collect();
        let e = &mut writer.emitter;
        let thread = e.op("nvvm.read.ptx.sreg.tid.x : i32");
        let ring = Ring::new(e, &memory, plan.barrier_offset(), plan.stages);
        let number = int_by(e, "divui", &thread, WARPGROUP);
        let (all, first, last) = (e.op("arith.constant -1 : i32"), int(e, 0), int(e, 31));
        let warpgroup =
            e.op(format_args!("nvvm.shfl.sync idx {all}, {number}, {first}, {last} : i32 -> i32"));
        let zero = e.op("arith.constant 0 : index");
        Self { problem, plan, results, writer, ring, memory, thread, warpgroup, scalars, zero }
    }

    pub fn e(&mut self) -> &mut Emitter {
        &mut self.writer.emitter
    }

    /// Writes the function.
    pub fn write(mut self) -> Result<String, LoweringError> {
        let thread = self.thread.clone();
        let e = &mut self.writer.emitter;
        let first = int_is(e, "eq", &thread, 0);
        e.open(format_args!("scf.if {first} {{"));
        for map in 0..2 + self.results.maps.len() {
            e.line(format_args!("nvvm.prefetch tensormap, %map{map} : !llvm.ptr"));
        }
        // Warpgroups are done with a stage, or their four warps.
        let arrivals = self.plan.consumers * if self.problem.left_in_registers() { 4 } else { 1 };
        self.ring.initialize(e, arrivals);
        e.close("}");
        self.writer.barrier();
        let warpgroup = self.warpgroup.clone();
        let producing = int_is(self.e(), "eq", &warpgroup, 0);
        self.e().open(format_args!("scf.if {producing} {{"));
        self.produce();
        self.e().close("} else {");
        self.e().open("// warpgroups that multiply");
        self.consume()?;
        self.e().close("}");
        Ok(self.writer.finish())
    }

    /// Pieces of work of all blocks.
    fn work(&self) -> usize {
        self.plan.matrix_tiles() * points(&self.problem.batch) * self.plan.splits
    }

    /// The number of this block's last piece of work.
    pub fn last_work(&mut self) -> Value {
        let (last, grid) = (self.work() - 1, self.plan.grid);
        let e = self.e();
        let first = e.op("nvvm.read.ptx.sreg.ctaid.x : i32");
        let last = int(e, last);
        let rest = int_op(e, "subi", &last, &first);
        let rest = int_by(e, "remui", &rest, grid);
        int_op(e, "subi", &last, &rest)
    }

    /// Opens the loop over this block's work, from a place in the ring on.
    pub fn open_work(&mut self, turn: Turn) -> Work {
        let all = self.work();
        let grid = self.plan.grid;
        let e = self.e();
        let first = e.op("nvvm.read.ptx.sreg.ctaid.x : i32");
        let (all, grid) = (int(e, all), int(e, grid));
        let (number, stage, parity, result) = (e.fresh(), e.fresh(), e.fresh(), e.fresh());
        e.open(format_args!(
            "{result}:2 = scf.for {number} = {first} to {all} step {grid} iter_args({stage} = {}, {parity} = {}) \
             -> (i32, i32) : i32 {{",
            turn.stage, turn.parity
        ));
        Work { number, turn: Turn { stage, parity } }
    }

    /// The place of a piece of work.
    pub fn place(&mut self, number: &Value) -> Place {
        Place::new(&mut self.writer.emitter, self.problem, self.plan, number)
    }
}

/// Address of workgroup memory as an `i32`.
pub(super) fn address(e: &mut Emitter, pointer: &Value) -> Value {
    e.op(format_args!("llvm.ptrtoint {pointer} : {WORKGROUP} to i32"))
}
