//! Partial results of rows that are split over blocks of threads.

use super::accumulator::{Accumulator, Adding, Parts, memory_type, read_from, to_memory};
use super::geometry::Geometry;
use super::kernel::Kernel;
use crate::LoweringError;
use crate::cascade::{Iterations, Sums, cascade};
use crate::emit::Value;
use crate::host::lanes::vector_type;
use crate::host::tiles::{Carried, Range, index, index_op};
use crate::nvptx::chunk::bytes_of;
use crate::nvptx::writer::{GLOBAL, WORKGROUP};

/// Partial results that a thread reads before it combines the first of them.
const AHEAD: usize = 4;

/// Orders memory accesses of this thread before and behind as all threads of the GPU see them.
const FENCE: &str = "llvm.fence syncscope(\"device\") acq_rel";

/// Alignment of a partial result's memory.
const SCRATCH_ALIGNMENT: usize = 256;

/// Where partial results are: for each reduction the offsets of its components, each an array
/// `[split][row][lane]`.
pub(super) struct Scratch {
    offsets: Vec<(usize, Vec<usize>)>,
    /// Bytes in all.
    pub bytes: usize,
}

impl Scratch {
    /// For all reductions of a block; nothing if rows are not split.
    pub fn of(geometry: &Geometry, levels: &[Vec<Accumulator>]) -> Self {
        let mut scratch = Self { offsets: Vec::new(), bytes: 0 };
        if geometry.splits == 1 {
            return scratch;
        }
        let elements = geometry.splits * geometry.rows * geometry.result_width();
        for accumulator in levels.iter().flatten() {
            let mut offsets = Vec::new();
            for ty in accumulator.types() {
                offsets.push(scratch.bytes);
                scratch.bytes += (elements * bytes_of(memory_type(ty))).next_multiple_of(SCRATCH_ALIGNMENT);
            }
            scratch.offsets.push((accumulator.statement, offsets));
        }
        scratch
    }

    fn offsets(&self, accumulator: &Accumulator) -> &[usize] {
        let found = self.offsets.iter().find(|row| row.0 == accumulator.statement);
        found.map_or(&[], |row| &row.1)
    }
}

impl Kernel<'_> {
    /// Address of a component of partial results: of `split`, for this row.
    fn partial(&mut self, offset: usize, split: &Value, ty: &'static str) -> Value {
        let geometry = self.geometry;
        let base = self.evaluator.kernel.scratch(offset);
        let e = self.evaluator.e();
        let rows = index(e, geometry.rows);
        let at = index_op(e, "arith.muli", split, &rows);
        let at = index_op(e, "arith.addi", &at, &self.row);
        let width = index(e, geometry.result_width());
        let at = index_op(e, "arith.muli", &at, &width);
        self.evaluator.kernel.element(&base, GLOBAL, &at, memory_type(ty))
    }

    /// Leaves this block's partial result.
    pub fn leave(&mut self, accumulator: &Accumulator, parts: &[Value]) {
        let width = if self.geometry.along { 0 } else { self.geometry.width };
        let split = self.evaluator.kernel.block('y');
        let first = self.first_share();
        self.evaluator.e().open(format_args!("scf.if {first} {{"));
        for ((part, ty), offset) in
            parts.iter().zip(accumulator.types()).zip(self.scratch.offsets(accumulator))
        {
            let at = self.partial(*offset, &split, ty);
            let (part, ty) = to_memory(self.evaluator.e(), part, ty, width);
            self.evaluator.e().line(format_args!("llvm.store {part}, {at} : {ty}, {GLOBAL}"));
        }
        self.evaluator.e().close("}");
    }

    /// Opens a conditional on this block being the last of those that share its rows to have left its partial
    /// results; all of them can be read then. A block's counter says how many were there before.
    pub fn open_last(&mut self) {
        let splits = self.geometry.splits;
        let block = self.evaluator.kernel.block('x');
        let (thread, zero) = (self.thread.clone(), self.evaluator.zero());
        let kernel = &mut self.evaluator.kernel;
        let memory = kernel.workgroup(4);
        // What a thread has written is seen before its block is counted.
        kernel.emitter.line(FENCE);
        kernel.barrier();
        let first = kernel.emitter.op(format_args!("arith.cmpi eq, {thread}, {zero} : index"));
        kernel.emitter.open(format_args!("scf.if {first} {{"));
        let counter = kernel.element(&"%counters".into(), GLOBAL, &block, "i32");
        let e = &mut kernel.emitter;
        let one = e.op("arith.constant 1 : i32");
        let before = e.op(format_args!(
            "llvm.atomicrmw add {counter}, {one} syncscope(\"device\") monotonic : {GLOBAL}, i32"
        ));
        let others = e.op(format_args!("arith.constant {} : i32", splits - 1));
        let last = e.op(format_args!("arith.cmpi eq, {before}, {others} : i32"));
        e.open(format_args!("scf.if {last} {{"));
        let none = e.op("arith.constant 0 : i32");
        e.line(format_args!("llvm.store {none}, {counter} : i32, {GLOBAL}"));
        e.close("}");
        let last = e.op(format_args!("arith.extui {last} : i1 to i32"));
        e.line(format_args!("llvm.store {last}, {memory} : i32, {WORKGROUP}"));
        e.close("}");
        kernel.barrier();
        let e = &mut kernel.emitter;
        let last = e.op(format_args!("llvm.load {memory} : {WORKGROUP} -> i32"));
        let none = e.op("arith.constant 0 : i32");
        let last = e.op(format_args!("arith.cmpi ne, {last}, {none} : i32"));
        e.open(format_args!("scf.if {last} {{"));
        e.line(FENCE);
    }

    /// Combines the partial results of levels.
    pub fn combine_levels(&mut self, levels: &[Vec<Accumulator>]) -> Result<(), LoweringError> {
        let geometry = self.geometry;
        let width = geometry.result_width();
        for accumulator in levels.iter().flatten() {
            let types = accumulator.types();
            let adding = Adding { level: std::slice::from_ref(accumulator), width };
            let identity = adding.start(self);
            let e = self.evaluator.e();
            let (splits, last) = (index(e, geometry.splits), index(e, geometry.splits - 1));
            let iterations = Iterations {
                range: Range { from: self.share.clone(), to: splits.clone() },
                step: AHEAD * geometry.threads,
                most: geometry.splits.div_ceil(AHEAD * geometry.threads),
                weight: AHEAD,
                rolled: false,
            };
            let sum = cascade(self, &adding, &iterations, identity.clone(), &mut |kernel, at, carried| {
                let mut ahead = Vec::new();
                for number in 0..AHEAD {
                    let e = kernel.evaluator.e();
                    let shift = index(e, number * geometry.threads);
                    let split = index_op(e, "arith.addi", at, &shift);
                    let valid = e.op(format_args!("arith.cmpi ult, {split}, {splits} : index"));
                    let split = index_op(e, "arith.minui", &split, &last);
                    let mut partial = Vec::new();
                    for (ty, offset) in types.iter().zip(kernel.scratch.offsets(accumulator)) {
                        let at = kernel.partial(*offset, &split, ty);
                        let value = read_from(kernel.evaluator.e(), &at, GLOBAL, ty, width);
                        partial.push(Carried { value, ty: vector_type(width, ty) });
                    }
                    ahead.push((valid, partial));
                }
                let mut next = carried;
                for (valid, mut partial) in ahead {
                    for (part, identity) in partial.iter_mut().zip(&identity) {
                        part.value = kernel.evaluator.e().op(format_args!(
                            "arith.select {valid}, {}, {} : {}",
                            part.value, identity.value, part.ty
                        ));
                    }
                    next = adding.merge(kernel, &next, &partial)?;
                }
                Ok(next)
            })?;
            let mut parts: Parts = sum.into_iter().map(|c| c.value).collect();
            let evaluator = &mut self.evaluator;
            parts = if geometry.along {
                let parts = accumulator.across_lanes(evaluator.e(), width, &parts)?;
                let block = geometry.block_threads();
                accumulator.across_neighbours(evaluator, parts, geometry.threads, &self.thread, block)?
            } else {
                let (threads, rows) = (geometry.threads, geometry.block_rows);
                accumulator.across_strangers(evaluator, parts, width, threads, rows, &self.thread)?
            };
            self.learn(accumulator, &parts)?;
        }
        Ok(())
    }
}
