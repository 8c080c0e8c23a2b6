//! The warpgroups that multiply: each has 64 rows of a tile.

use super::descriptor::Descriptor;
use super::epilogue::Finisher;
use super::fragment::Fragment;
use super::int::{int, int_by, int_is, int_op};
use super::kernel::{Kernel, address};
use super::plan::{ROW_BYTES, ROWS, WARPGROUP};
use super::products::{Products, settled};
use super::ring::Turn;
use crate::LoweringError;
use crate::emit::{Emitter, Value};

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
    pub releasing: Value,
    /// The barrier of its warpgroup, and the threads that meet there.
    barrier: [Value; 2],
    pub left: Left,
    pub right: Descriptor,
    /// The first of the two rows of the warpgroup's 64 that a thread has sums of, and where the second is.
    pub row: Value,
    pub down: usize,
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
pub(super) enum Left {
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
        let lane = int_by(e, "andi", &thread, 31);
        let (row, down) = rows(e, &thread, problem.left_in_registers());
        let (left, releasing) = if problem.left_in_registers() {
            // Warps read on their own.
            let releasing = int_is(e, "eq", &lane, 0);
            (Left::Registers(Fragment::new(e, &memory, &mine, &lane, &row, down)), releasing)
        } else {
            let mine = int_op(e, "addi", &start, &mine);
            (Left::Memory(Descriptor::new(e, &mine, problem.left.major)), elected.clone())
        };
        let start = int_by(e, "addi", &start, left_bytes);
        let right = Descriptor::new(e, &start, problem.right.major);
        // Barrier 0 is that of the whole block.
        let barrier = [int_by(e, "addi", &number, 1), int(e, WARPGROUP)];
        Consumer { number, thread, elected, releasing, barrier, left, right, row, down }
    }
}

/// The first row of a warpgroup's 64 that a thread has sums of, and how far down its second one is. A run of 4
/// lanes has the same rows.
fn rows(e: &mut Emitter, thread: &Value, from_registers: bool) -> (Value, usize) {
    let warp = int_by(e, "shrui", thread, 5);
    let lane = int_by(e, "andi", thread, 31);
    let run = int_by(e, "shrui", &lane, 2);
    if !from_registers {
        let row = int_by(e, "muli", &warp, 16);
        return (int_op(e, "addi", &row, &run), 8);
    }
    // Which row of its operand a thread loads is its own affair. These are read without conflicts: the runs of a
    // warp in two pieces of 16 bytes whose numbers differ by 4, those of one piece by the word.
    let parts = [("shrui", 1, 32), ("andi", 1, 8)].map(|(op, by, scale)| {
        let part = int_by(e, op, &warp, by);
        int_by(e, "muli", &part, scale)
    });
    let piece = int_by(e, "shrui", &run, 2);
    let piece = int_by(e, "muli", &piece, 16);
    let word = int_by(e, "andi", &run, 3);
    let row = parts.into_iter().chain([piece]).fold(word, |row, part| int_op(e, "addi", &row, &part));
    (row, 4)
}
