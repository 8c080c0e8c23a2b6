//! The ring of stages between the warp that copies slices of the operands to workgroup memory and the
//! warpgroups that multiply them.
//!
//! Each stage has two barriers. The *full* one is passed when the bytes of both operands have arrived, the
//! *empty* one when all consumers are done with them. Which pass of a barrier is waited for is told by a
//! parity that flips whenever the ring has been gone round.

use super::int::{int, int_by, int_is};
use crate::emit::{Emitter, Value};
use crate::nvptx::writer::WORKGROUP;

/// Nanoseconds a wait may sleep before it looks again.
const WAIT_HINT: usize = 0x98_9680;

/// The barriers.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    stages: usize,
    full: Value,
    empty: Value,
}

/// A place in the ring.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// The stage.
    pub stage: Value,
    /// The parity of the pass to be waited for.
    pub parity: Value,
}

impl Ring {
    /// With barriers from `offset` on in the memory that starts at `memory`.
    pub fn new(e: &mut Emitter, memory: &Value, offset: usize, stages: usize) -> Self {
        let full = byte(e, memory, offset);
        let empty = byte(e, memory, offset + 8 * stages);
        Self { stages, full, empty }
    }

    /// Makes the barriers ready; done by one thread before any other uses them. A stage is empty after so many
    /// `arrivals`.
    pub fn initialize(&self, e: &mut Emitter, arrivals: usize) {
        let (one, arrivals) = (int(e, 1), int(e, arrivals));
        for stage in 0..self.stages {
            for (barriers, count) in [(&self.full, &one), (&self.empty, &arrivals)] {
                let barrier = byte(e, barriers, 8 * stage);
                e.line(format_args!("nvvm.mbarrier.init {barrier}, {count} : {WORKGROUP}, i32"));
            }
        }
        // Enough for the copy engine, too.
        e.line("nvvm.fence.mbarrier.init");
    }

    /// The full barrier of a stage.
    pub fn full(&self, e: &mut Emitter, stage: &Value) -> Value {
        let offset = int_by(e, "muli", stage, 8);
        at(e, &self.full, &offset)
    }

    /// Waits until the operands are in the stage.
    pub fn wait_full(&self, e: &mut Emitter, turn: &Turn) {
        let barrier = self.full(e, &turn.stage);
        wait(e, &barrier, &turn.parity);
    }

    /// Waits until the stage may be filled.
    pub fn wait_empty(&self, e: &mut Emitter, turn: &Turn) {
        let offset = int_by(e, "muli", &turn.stage, 8);
        let barrier = at(e, &self.empty, &offset);
        wait(e, &barrier, &turn.parity);
    }

    /// Says that a consumer is done with a stage; `elected` holds for one of its threads.
    pub fn release(&self, e: &mut Emitter, stage: &Value, elected: &Value) {
        let offset = int_by(e, "muli", stage, 8);
        let barrier = at(e, &self.empty, &offset);
        e.open(format_args!("scf.if {elected} {{"));
        // In the scope of a cluster this would be a fence of the whole device.
        e.op(format_args!("nvvm.mbarrier.arrive {barrier} : {WORKGROUP} -> i64"));
        e.close("}");
    }

    /// The next place.
    pub fn next(&self, e: &mut Emitter, turn: &Turn) -> Turn {
        let next = int_by(e, "addi", &turn.stage, 1);
        let around = int_is(e, "eq", &next, self.stages);
        let zero = int(e, 0);
        let stage = e.op(format_args!("arith.select {around}, {zero}, {next} : i32"));
        let flip = e.op(format_args!("arith.extui {around} : i1 to i32"));
        let parity = e.op(format_args!("arith.xori {}, {flip} : i32", turn.parity));
        Turn { stage, parity }
    }
}

fn wait(e: &mut Emitter, barrier: &Value, parity: &Value) {
    let hint = int(e, WAIT_HINT);
    e.line(format_args!("nvvm.mbarrier.try_wait.parity {barrier}, {parity}, {hint} : {WORKGROUP}, i32, i32"));
}

/// An address some bytes further on in workgroup memory.
pub(super) fn byte(e: &mut Emitter, base: &Value, offset: usize) -> Value {
    e.op(format_args!("llvm.getelementptr {base}[{offset}] : ({WORKGROUP}) -> {WORKGROUP}, i8"))
}

/// An address an `i32` of bytes further on in workgroup memory.
pub(super) fn at(e: &mut Emitter, base: &Value, offset: &Value) -> Value {
    e.op(format_args!("llvm.getelementptr {base}[{offset}] : ({WORKGROUP}, i32) -> {WORKGROUP}, i8"))
}
