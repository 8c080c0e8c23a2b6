//! Prefixes over the threads of a team.

use super::Rows;
use crate::emit::Value;
use crate::nvptx::WARP;
use crate::nvptx::code::Code;
use crate::nvptx::shuffle::{Shuffle, shuffle};
use crate::nvptx::writer::{KernelWriter, WORKGROUP};

/// Teams of `threads` neighbouring threads, a power of two.
pub(super) struct Team<'a> {
    pub rows: &'a Rows<'a>,
    /// Threads of a team.
    pub threads: usize,
    /// Position in the block, an `i32`.
    pub thread: Value,
    /// Memory for a value of every warp of the block.
    pub memory: Option<Value>,
}

impl<'a> Team<'a> {
    pub fn new(rows: &'a Rows<'a>, kernel: &mut KernelWriter, threads: usize, block: usize) -> Self {
        let thread = kernel.thread();
        let thread = kernel.emitter.resize(&thread, "index", "i32");
        let memory = (threads > WARP).then(|| kernel.workgroup(block / WARP * rows.accumulator.size()));
        Self { rows, threads, thread, memory }
    }

    /// The combination of what the threads of the team before this one have, and of all of them.
    pub fn prefix(&self, kernel: &mut KernelWriter, value: &Value) -> (Value, Value) {
        let (ty, width) = (self.rows.ty(), self.threads.min(WARP));
        let e = &mut kernel.emitter;
        let mask = e.int("i32", width - 1);
        let lane = e.arith("andi", "i32", &self.thread, &mask);
        let mut sum = value.clone();
        let mut distance = 1;
        while distance < width {
            let other = shuffle(e, &sum, ty, Shuffle::Up(distance, width));
            let far = e.int("i32", distance);
            let exists = e.compare("uge", "i32", &lane, &far);
            let both = self.rows.combine(e, &other, &sum);
            sum = e.choose(&exists, ty, &both, &sum);
            distance *= 2;
        }
        let identity = self.rows.identity(e);
        let before = if width > 1 { shuffle(e, &sum, ty, Shuffle::Up(1, width)) } else { identity.clone() };
        let zero = e.int("i32", 0);
        let first = e.compare("eq", "i32", &lane, &zero);
        let before = e.choose(&first, ty, &identity, &before);
        let Some(memory) = &self.memory else {
            let all = shuffle(e, &sum, ty, Shuffle::Last(width));
            return (before, all);
        };
        let (bits, last) = (e.int("i32", 5), e.int("i32", WARP - 1));
        let warp = e.arith("shrui", "i32", &self.thread, &bits);
        let is_last = e.compare("eq", "i32", &lane, &last);
        let element = |e: &mut crate::emit::Emitter, at: &Value| {
            e.op(format_args!("llvm.getelementptr {memory}[{at}] : ({WORKGROUP}, i32) -> {WORKGROUP}, {ty}"))
        };
        // Others may still read what was there.
        kernel.barrier();
        let e = &mut kernel.emitter;
        e.open(format_args!("scf.if {is_last} {{"));
        let at = element(e, &warp);
        e.line(format_args!("llvm.store {sum}, {at} : {ty}, {WORKGROUP}"));
        e.close("}");
        kernel.barrier();
        let e = &mut kernel.emitter;
        let warps = self.threads / WARP;
        let mask = e.int("i32", warps - 1);
        let in_team = e.arith("andi", "i32", &warp, &mask);
        let from = e.arith("subi", "i32", &warp, &in_team);
        let (mut all, mut prefix) = (identity.clone(), identity);
        for number in 0..warps {
            let shift = e.int("i32", number);
            let is_mine = e.compare("eq", "i32", &in_team, &shift);
            prefix = e.choose(&is_mine, ty, &all, &prefix);
            let at = e.arith("addi", "i32", &from, &shift);
            let at = element(e, &at);
            let part = e.op(format_args!("llvm.load {at} : {WORKGROUP} -> {ty}"));
            all = self.rows.combine(e, &all, &part);
        }
        (self.rows.combine(e, &prefix, &before), all)
    }
}
