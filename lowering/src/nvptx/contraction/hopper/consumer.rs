//! The warpgroups that multiply: each has 64 rows of a tile.

use super::descriptor::{Descriptor, STEPS, stage_units};
use super::epilogue::Finisher;
use super::fragment::{self, Fragment};
use super::int::{int, int_by, int_is, int_op};
use super::kernel::{Kernel, address};
use super::place::Place;
use super::plan::{ROW_BYTES, ROWS, STEP_COLUMNS, WARPGROUP};
use super::problem::Major;
use super::ring::Turn;
use crate::LoweringError;
use crate::emit::{Emitter, Value};
use burn_mlir_ir::DType;

/// Registers of each thread that multiplies.
const REGISTERS: usize = 240;

/// What a consuming thread knows of itself.
#[derive(Clone, Debug)]
pub(super) struct Consumer {
    /// Number of its warpgroup among the consumers.
    pub number: Value,
    /// Position in the warpgroup.
    pub thread: Value,
    /// Whether it speaks for its warpgroup.
    pub elected: Value,
    /// Whether it says that a stage is done with: for its warpgroup, or for its warp.
    releasing: Value,
    /// The barrier of its warpgroup, and the threads that meet there.
    barrier: [Value; 2],
    left: Left,
    right: Descriptor,
}

impl Consumer {
    /// Waits for all threads of the warpgroup.
    pub fn meet(&self, e: &mut Emitter) {
        let [barrier, threads] = &self.barrier;
        e.line(format_args!("nvvm.barrier id = {barrier} number_of_threads = {threads}"));
    }
}

/// Where a warpgroup finds the left operand.
#[derive(Clone, Debug)]
enum Left {
    Memory(Descriptor),
    Registers(Fragment),
}

impl Kernel<'_> {
    /// Writes what the consuming warpgroups do.
    pub fn consume(&mut self) -> Result<(), LoweringError> {
        self.e().line(format_args!("nvvm.setmaxregister increase {REGISTERS}"));
        let consumer = self.consumer();
        let mut finish = self.finisher(&consumer)?;
        let e = self.e();
        let turn = Turn { stage: int(e, 0), parity: int(e, 0) };
        if self.plan.deferred {
            self.consume_deferred(&consumer, &mut finish, turn)?;
        } else {
            let work = self.open_work(turn);
            let place = self.place(&work.number);
            let products = self.products(&consumer, &place.slices, &work.turn, None)?;
            finish.locate(self, &place, None)?;
            finish.load_early(self, &place);
            let sums = self.sums(&consumer, &products);
            let sums = self.open_splits(&consumer, &place, sums);
            finish.write(self, &place, &sums)?;
            self.close_splits();
            work.close(self.e(), &products.turn);
        }
        finish.end(self);
        Ok(())
    }

    /// Finishes each tile while the next one is multiplied.
    fn consume_deferred(
        &mut self,
        consumer: &Consumer,
        finish: &mut Finisher<'_>,
        turn: Turn,
    ) -> Result<(), LoweringError> {
        let grid = self.plan.grid;
        let work = self.open_work(turn);
        let e = self.e();
        let previous = int_by(e, "subi", &work.number, grid);
        let first = int(e, 0);
        let any = e.op(format_args!("arith.cmpi sge, {previous}, {first} : i32"));
        let previous = e.op(format_args!("arith.select {any}, {previous}, {} : i32", work.number));
        // All tiles have the same slices.
        let place = self.place(&previous);
        finish.locate(self, &place, Some(any))?;
        let products = self.products(consumer, &place.slices, &work.turn, Some((&*finish, &place)))?;
        let sums = self.sums(consumer, &products);
        finish.keep(self, &sums);
        work.close(self.e(), &products.turn);
        let last = self.last_work();
        let place = self.place(&last);
        finish.locate(self, &place, None)?;
        finish.finish_last(self, &place)
    }

    /// The sums, when all products are there.
    fn sums(&mut self, consumer: &Consumer, products: &Products) -> Vec<Value> {
        let columns = self.plan.columns;
        let sums = settled(self.e(), &products.sums, columns);
        if self.overlaps() {
            self.ring.release(&mut self.writer.emitter, &products.last, &consumer.releasing);
        }
        sums
    }

    fn consumer(&mut self) -> Consumer {
        let (thread, warpgroup, memory) = (self.thread.clone(), self.warpgroup.clone(), self.memory.clone());
        let (left_bytes, problem) = (self.plan.left_bytes(), self.problem);
        let e = self.e();
        let number = int_by(e, "subi", &warpgroup, 1);
        let thread = int_by(e, "andi", &thread, WARPGROUP - 1);
        let elected = int_is(e, "eq", &thread, 0);
        let start = address(e, &memory);
        // 64 rows, whether they are 64 rows of memory or a box.
        let mine = int_by(e, "muli", &number, ROWS * ROW_BYTES);
        let (left, releasing) = if problem.left_in_registers() {
            // Warps read on their own.
            let lane = int_by(e, "andi", &thread, 31);
            let releasing = int_is(e, "eq", &lane, 0);
            (Left::Registers(Fragment::new(e, &memory, &mine, &thread)), releasing)
        } else {
            let mine = int_op(e, "addi", &start, &mine);
            (Left::Memory(Descriptor::new(e, &mine, problem.left.major)), elected.clone())
        };
        let start = int_by(e, "addi", &start, left_bytes);
        let right = Descriptor::new(e, &start, problem.right.major);
        // Barrier 0 is that of the whole block.
        let barrier = [int_by(e, "addi", &number, 1), int(e, WARPGROUP)];
        Consumer { number, thread, elected, releasing, barrier, left, right }
    }

    /// Whether a consumer has products of two slices under way. Registers that one slice is multiplied from are
    /// not loaded with the next meanwhile.
    fn overlaps(&self) -> bool {
        self.plan.two_under_way() && !self.problem.left_in_registers()
    }

    /// Multiplies the slices of a part of the sum; what is given finishes another tile meanwhile.
    fn products(
        &mut self,
        consumer: &Consumer,
        [from, to]: &[Value; 2],
        turn: &Turn,
        other: Option<(&Finisher<'_>, &Place)>,
    ) -> Result<Products, LoweringError> {
        let overlap = self.overlaps();
        let structure = sums_type(self.plan.columns);
        // The first slice is not summed to anything: accumulators that were set to zero would make the
        // assembler wait between the instructions.
        let undefined = self.e().op(format_args!("llvm.mlir.undef : {structure}"));
        let sums = self.slice(consumer, turn, &undefined, true);
        let e = &mut self.writer.emitter;
        if !overlap {
            e.line("nvvm.wgmma.wait.group.sync.aligned 0");
            self.ring.release(e, &turn.stage, &consumer.releasing);
        }
        let next = self.ring.next(e, turn);
        let mut products = Products { sums, last: turn.stage.clone(), turn: next };
        let mut second = int_by(e, "addi", from, 1);
        if other.is_some() {
            let (first, steps) = (second, self.plan.columns / STEP_COLUMNS);
            second = int_by(self.e(), "addi", &first, steps);
            products = self.more(consumer, [&first, &second], products, other)?;
        }
        self.more(consumer, [&second, to], products, None)
    }

    /// Multiplies more slices.
    fn more(
        &mut self,
        consumer: &Consumer,
        [from, to]: [&Value; 2],
        products: Products,
        other: Option<(&Finisher<'_>, &Place)>,
    ) -> Result<Products, LoweringError> {
        let overlap = self.overlaps();
        let structure = sums_type(self.plan.columns);
        let e = &mut self.writer.emitter;
        let one = int(e, 1);
        let [number, stage, parity, last, sums, result] = [(); 6].map(|()| e.fresh());
        e.open(format_args!(
            "{result}:4 = scf.for {number} = {from} to {to} step {one} iter_args({stage} = {}, \
             {parity} = {}, {last} = {}, {sums} = {}) -> (i32, i32, i32, {structure}) : i32 {{",
            products.turn.stage, products.turn.parity, products.last, products.sums
        ));
        let turn = Turn { stage, parity };
        let step = int_op(e, "subi", &number, from);
        let begun = other.map(|(finish, place)| finish.begin_step(self, place, &step));
        let next_sums = self.slice(consumer, &turn, &sums, false);
        if let (Some((finish, place)), Some(begun)) = (other, begun) {
            finish.finish_step(self, place, &step, begun)?;
        }
        let e = &mut self.writer.emitter;
        e.line(format_args!("nvvm.wgmma.wait.group.sync.aligned {}", usize::from(overlap)));
        let done = if overlap { &last } else { &turn.stage };
        self.ring.release(e, done, &consumer.releasing);
        let next = self.ring.next(e, &turn);
        e.line(format_args!(
            "scf.yield {}, {}, {}, {next_sums} : i32, i32, i32, {structure}",
            next.stage, next.parity, turn.stage
        ));
        e.close("}");
        let part = |position: usize| format!("{result}#{position}");
        Ok(Products { sums: part(3), last: part(2), turn: Turn { stage: part(0), parity: part(1) } })
    }

    /// Multiplies a slice, once it is there, and adds the products to `sums`; does not wait for them.
    fn slice(&mut self, consumer: &Consumer, turn: &Turn, sums: &Value, first: bool) -> Value {
        let (bytes, columns) = (self.plan.stage_bytes(), self.plan.columns);
        let e = &mut self.writer.emitter;
        self.ring.wait_full(e, turn);
        let offset = stage_units(e, &turn.stage, bytes);
        let right = consumer.right.at(e, &offset);
        let left = match &consumer.left {
            Left::Memory(descriptor) => {
                let at = descriptor.at(e, &offset);
                (0..STEPS).map(|step| Factor::Memory(descriptor.step(e, &at, step))).collect::<Vec<_>>()
            }
            Left::Registers(fragment) => {
                let offset = int_by(e, "muli", &turn.stage, bytes);
                fragment.load(e, &offset, STEPS).into_iter().map(Factor::Registers).collect()
            }
        };
        e.line("nvvm.wgmma.fence.aligned");
        let mut sums = sums.clone();
        for (step, left) in left.iter().enumerate() {
            let e = &mut self.writer.emitter;
            let right = consumer.right.step(e, &right, step);
            let first = first && step == 0;
            sums = match left {
                Factor::Memory(left) => self.multiply([left, &right], &sums, first),
                Factor::Registers(left) => fragment::multiply(e, left, &right, &sums, columns, first),
            };
        }
        let e = &mut self.writer.emitter;
        e.line("nvvm.wgmma.commit.group.sync.aligned");
        sums
    }

    /// A matrix instruction on operands in workgroup memory, by their descriptors.
    fn multiply(&mut self, [left, right]: [&Value; 2], sums: &Value, first: bool) -> Value {
        let columns = self.plan.columns;
        let structure = sums_type(columns);
        let scale = if first { "zero" } else { "one" };
        let (ty, k) = match self.problem.element {
            DType::BF16 => ("bf16", 16),
            DType::F16 => ("f16", 16),
            _ => ("tf32", 8),
        };
        let left_layout = if self.problem.left.major == Major::Sum { "row" } else { "col" };
        let right_layout = if self.problem.right.major == Major::Sum { "col" } else { "row" };
        let operand = |layout| format!("[<{ty}>, #nvvm.wgmma_scale_in<one>, #nvvm.mma_layout<{layout}>]");
        self.e().op(format_args!(
            "nvvm.wgmma.mma_async {left}, {right}, {sums}, #nvvm.shape<m = 64, n = {columns}, k = {k}>, \
             D [<f32>, #nvvm.wgmma_scale_out<{scale}>], A {}, B {} : {structure} -> {structure}",
            operand(left_layout),
            operand(right_layout)
        ))
    }
}

/// The left operand of one instruction.
enum Factor {
    Memory(Value),
    Registers([Value; fragment::REGISTERS]),
}

/// What the loop over the sum leaves.
struct Products {
    sums: Value,
    /// The stage of the last slice.
    last: Value,
    turn: Turn,
}

/// Accumulators of a thread: for each run of 8 columns two of the row a quarter of its lane says and two of
/// the row 8 further down.
pub(super) fn sums_type(columns: usize) -> String {
    format!("!llvm.struct<({})>", vec!["f32"; columns / 2].join(", "))
}

/// Waits for all products. Every accumulator goes through the wait: nothing else says that they are not to be
/// read before.
fn settled(e: &mut Emitter, sums: &Value, columns: usize) -> Vec<Value> {
    let count = columns / 2;
    let structure = sums_type(columns);
    let parts: Vec<Value> =
        (0..count).map(|part| e.op(format_args!("llvm.extractvalue {sums}[{part}] : {structure}"))).collect();
    let constraints: Vec<String> =
        (0..count).map(|_| "=f".to_string()).chain((0..count).map(|part| part.to_string())).collect();
    let settled = e.op(format_args!(
        "llvm.inline_asm has_side_effects asm_dialect = att \"wgmma.wait_group.sync.aligned 0;\", \"{}\" {} : \
         ({}) -> {structure}",
        constraints.join(","),
        parts.join(", "),
        vec!["f32"; count].join(", ")
    ));
    (0..count).map(|part| e.op(format_args!("llvm.extractvalue {settled}[{part}] : {structure}"))).collect()
}
