//! The products of a tile: slices of operands in workgroup memory, handed to the matrix unit.

use super::consumer::{Consumer, Left};
use super::descriptor::{Descriptor, STEPS, stage_units};
use super::epilogue::Finisher;
use super::int::{int, int_by, int_op};
use super::kernel::Kernel;
use super::place::Place;
use super::plan::STEP_COLUMNS;
use super::problem::Major;
use super::ring::Turn;
use crate::LoweringError;
use crate::emit::{Emitter, Value};
use burn_mlir_ir::DType;

/// What the loop over the sum leaves.
pub(super) struct Products {
    pub sums: Value,
    /// The stage of the last slice.
    pub last: Value,
    pub turn: Turn,
}

impl Kernel<'_> {
    /// Whether a consumer has products of two slices under way. Registers that one slice is multiplied from are
    /// not loaded with the next meanwhile.
    pub fn overlaps(&self) -> bool {
        self.plan.two_under_way() && !self.problem.left_in_registers()
    }

    /// Multiplies the slices of a part of the sum; what is given finishes another tile meanwhile.
    pub fn products(
        &mut self,
        consumer: &Consumer,
        [from, to]: &[Value; 2],
        turn: &Turn,
        other: Option<(&Finisher<'_>, &Place)>,
    ) -> Result<Products, LoweringError> {
        let left = match &consumer.left {
            Left::Registers(left) => {
                return Ok(self.products_from_registers(consumer, left, [from, to], turn));
            }
            Left::Memory(left) => left,
        };
        let overlap = self.overlaps();
        let structure = sums_type(self.plan.columns);
        // The first slice is not summed to anything: accumulators that were set to zero would make the
        // assembler wait between the instructions.
        let undefined = self.e().op(format_args!("llvm.mlir.undef : {structure}"));
        let sums = self.slice(consumer, left, turn, &undefined, true);
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
            products = self.more(consumer, left, [&first, &second], products, other)?;
        }
        self.more(consumer, left, [&second, to], products, None)
    }

    /// Multiplies more slices.
    fn more(
        &mut self,
        consumer: &Consumer,
        left: &Descriptor,
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
        let next_sums = self.slice(consumer, left, &turn, &sums, false);
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
    fn slice(
        &mut self,
        consumer: &Consumer,
        left: &Descriptor,
        turn: &Turn,
        sums: &Value,
        first: bool,
    ) -> Value {
        let bytes = self.plan.stage_bytes();
        let e = &mut self.writer.emitter;
        self.ring.wait_full(e, turn);
        let offset = stage_units(e, &turn.stage, bytes);
        let (left_at, right_at) = (left.at(e, &offset), consumer.right.at(e, &offset));
        e.line("nvvm.wgmma.fence.aligned");
        let mut sums = sums.clone();
        for step in 0..STEPS {
            let e = &mut self.writer.emitter;
            let operands = [left.step(e, &left_at, step), consumer.right.step(e, &right_at, step)];
            sums = self.multiply(&operands, &sums, first && step == 0);
        }
        let e = &mut self.writer.emitter;
        e.line("nvvm.wgmma.commit.group.sync.aligned");
        sums
    }

    /// A matrix instruction on operands in workgroup memory, by their descriptors.
    fn multiply(&mut self, [left, right]: &[Value; 2], sums: &Value, first: bool) -> Value {
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

/// Accumulators of a thread: for each run of 8 columns two of the row a quarter of its lane says and two of
/// the row 8 further down.
pub(super) fn sums_type(columns: usize) -> String {
    format!("!llvm.struct<({})>", vec!["f32"; columns / 2].join(", "))
}

/// Waits for all products. Every accumulator goes through the wait: nothing else says that they are not to be
/// read before.
pub(super) fn settled(e: &mut Emitter, sums: &Value, columns: usize) -> Vec<Value> {
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
