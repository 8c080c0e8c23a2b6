//! The left operand in registers: for TF32 that is adjacent along rows in memory, which no matrix instruction
//! takes from workgroup memory.

use super::consumer::Consumer;
use super::descriptor::{STEPS, stage_units};
use super::int::{int, int_by, int_op};
use super::kernel::Kernel;
use super::plan::ROW_BYTES;
use super::products::{Products, sums_type};
use super::ring::{Turn, at, byte};
use crate::emit::{Emitter, Value};
use crate::nvptx::writer::WORKGROUP;

/// Rows of a box: 128 bytes.
const BOX_ROWS: usize = 32;

/// Summed points of an instruction.
const STEP: usize = 8;

/// Bytes the swizzle moves.
const PIECE: usize = 16;

/// Registers of an instruction's part of the operand.
const REGISTERS: usize = 4;

/// Where a thread's elements are in a stage.
#[derive(Clone, Debug)]
pub(super) struct Fragment {
    /// The warpgroup's rows in the first stage.
    memory: Value,
    /// From there to each element of the first instruction.
    offsets: [Value; REGISTERS],
}

impl Fragment {
    /// Of a warpgroup whose rows start `mine` bytes after `memory`: lane number `lane` has, of its two rows, the
    /// summed point its place in a run of 4 says and the one 4 further on.
    pub fn new(
        e: &mut Emitter,
        memory: &Value,
        mine: &Value,
        lane: &Value,
        first_row: &Value,
        down: usize,
    ) -> Self {
        let memory = at(e, memory, mine);
        let point = int_by(e, "andi", lane, 3);
        let offsets = [(0, 0), (down, 0), (0, 4), (down, 4)].map(|(down, further)| {
            let row = int_by(e, "addi", first_row, down);
            let number = int_by(e, "divui", &row, BOX_ROWS);
            let start = int_by(e, "muli", &number, BOX_ROWS * ROW_BYTES);
            let row = int_by(e, "andi", &row, BOX_ROWS - 1);
            let point = int_by(e, "addi", &point, further);
            let line = int_by(e, "muli", &point, ROW_BYTES);
            let piece = int_by(e, "shrui", &row, 2);
            let piece = int_op(e, "xori", &piece, &point);
            let piece = int_by(e, "muli", &piece, PIECE);
            let word = int_by(e, "andi", &row, 3);
            let word = int_by(e, "muli", &word, 4);
            [line, piece, word].iter().fold(start, |sum, part| int_op(e, "addi", &sum, part))
        });
        Self { memory, offsets }
    }

    /// The elements for all instructions of the stage that begins `offset` bytes after the first.
    fn load(&self, e: &mut Emitter, offset: &Value) -> Vec<Value> {
        let stage = at(e, &self.memory, offset);
        let origins = self.offsets.each_ref().map(|offset| at(e, &stage, offset));
        let places = (0..STEPS).flat_map(|step| origins.iter().map(move |origin| (step, origin)));
        places
            .map(|(step, origin)| {
                let at = byte(e, origin, step * STEP * ROW_BYTES);
                e.op(format_args!("llvm.load {at} : {WORKGROUP} -> i32"))
            })
            .collect()
    }
}

impl Kernel<'_> {
    /// Multiplies the slices of a part of the sum. While one is multiplied, what the next one needs is loaded to
    /// registers.
    pub fn products_from_registers(
        &mut self,
        consumer: &Consumer,
        left: &Fragment,
        [from, to]: [&Value; 2],
        turn: &Turn,
    ) -> Products {
        let columns = self.plan.columns;
        let structure = sums_type(columns);
        let e = &mut self.writer.emitter;
        let undefined = e.op(format_args!("llvm.mlir.undef : {structure}"));
        self.ring.wait_full(e, turn);
        let offset = int_by(e, "muli", &turn.stage, self.plan.stage_bytes());
        let registers = left.load(e, &offset);
        let sums = self.slice_from(consumer, &registers, turn, &undefined, true);
        let (next, registers) = self.ahead(consumer, left, from, to, turn);
        let e = &mut self.writer.emitter;
        let one = int(e, 1);
        let second = int_by(e, "addi", from, 1);
        let [number, stage, parity, last, carried, result] = [(); 6].map(|()| e.fresh());
        let names: Vec<Value> = registers.iter().map(|_| e.fresh()).collect();
        let pairs: Vec<String> =
            names.iter().zip(&registers).map(|(name, value)| format!("{name} = {value}")).collect();
        let types = format!("i32, i32, i32, {structure}, {}", vec!["i32"; names.len()].join(", "));
        e.open(format_args!(
            "{result}:{} = scf.for {number} = {second} to {to} step {one} iter_args({stage} = {}, {parity} = {}, \
             {last} = {}, {carried} = {sums}, {}) -> ({types}) : i32 {{",
            4 + names.len(),
            next.stage,
            next.parity,
            turn.stage,
            pairs.join(", ")
        ));
        let turn = Turn { stage, parity };
        let sums = self.slice_from(consumer, &names, &turn, &carried, false);
        let (next, registers) = self.ahead(consumer, left, &number, to, &turn);
        let e = &mut self.writer.emitter;
        e.line(format_args!(
            "scf.yield {}, {}, {}, {sums}, {} : {types}",
            next.stage,
            next.parity,
            turn.stage,
            registers.join(", ")
        ));
        e.close("}");
        let part = |position: usize| format!("{result}#{position}");
        Products { sums: part(3), last: part(2), turn: Turn { stage: part(0), parity: part(1) } }
    }

    /// Hands a slice to the matrix unit.
    fn slice_from(
        &mut self,
        consumer: &Consumer,
        registers: &[Value],
        turn: &Turn,
        sums: &Value,
        first: bool,
    ) -> Value {
        let (bytes, columns) = (self.plan.stage_bytes(), self.plan.columns);
        let e = &mut self.writer.emitter;
        let offset = stage_units(e, &turn.stage, bytes);
        let right = consumer.right.at(e, &offset);
        e.line("nvvm.wgmma.fence.aligned");
        let mut sums = sums.clone();
        for (step, left) in registers.chunks(REGISTERS).enumerate() {
            let right = consumer.right.step(e, &right, step);
            sums = multiply(e, left, &right, &sums, columns, first && step == 0);
        }
        e.line("nvvm.wgmma.commit.group.sync.aligned");
        sums
    }

    /// Loads what the slice after `number` needs, if there is one, and waits for the products of this one.
    fn ahead(
        &mut self,
        consumer: &Consumer,
        left: &Fragment,
        number: &Value,
        to: &Value,
        turn: &Turn,
    ) -> (Turn, Vec<Value>) {
        let e = &mut self.writer.emitter;
        let next = self.ring.next(e, turn);
        let following = int_by(e, "addi", number, 1);
        let more = e.op(format_args!("arith.cmpi slt, {following}, {to} : i32"));
        e.open(format_args!("scf.if {more} {{"));
        self.ring.wait_full(e, &next);
        e.close("}");
        // If there is none, whatever is in its place is loaded, and not used.
        let offset = int_by(e, "muli", &next.stage, self.plan.stage_bytes());
        let loaded = left.load(e, &offset);
        let registers = settled_copies(e, &loaded);
        self.ring.release(e, &turn.stage, &consumer.releasing);
        (next, registers)
    }
}

/// Waits for all products, and copies values to registers that products to come are computed from. Loaded to these
/// while others are under way, they would make the assembler wait between the instructions.
fn settled_copies(e: &mut Emitter, values: &[Value]) -> Vec<Value> {
    let count = values.len();
    let copies: Vec<String> =
        (0..count).map(|position| format!("mov.b32 ${position}, ${};", count + position)).collect();
    let constraints = [vec!["=&r"; count], vec!["r"; count]].concat().join(",");
    let types = vec!["i32"; count].join(", ");
    let structure = format!("!llvm.struct<({types})>");
    let copied = e.op(format_args!(
        "llvm.inline_asm has_side_effects asm_dialect = att \"wgmma.wait_group.sync.aligned 0; {}\", \
         \"{constraints}\" {} : ({types}) -> {structure}",
        copies.join(" "),
        values.join(", ")
    ));
    (0..count)
        .map(|position| e.op(format_args!("llvm.extractvalue {copied}[{position}] : {structure}")))
        .collect()
}

/// A matrix instruction that takes the left operand from registers.
fn multiply(
    e: &mut Emitter,
    left: &[Value],
    right: &Value,
    sums: &Value,
    columns: usize,
    first: bool,
) -> Value {
    let (count, structure) = (columns / 2, sums_type(columns));
    let mut inputs: Vec<Value> =
        (0..count).map(|part| e.op(format_args!("llvm.extractvalue {sums}[{part}] : {structure}"))).collect();
    inputs.extend(left.iter().cloned());
    inputs.push(right.clone());
    let numbered = |from: usize, to: usize| {
        (from..to).map(|position| format!("${position}")).collect::<Vec<_>>().join(", ")
    };
    // Inputs are numbered after the results, the first as many of which they share registers with.
    let registers = numbered(2 * count, 2 * count + REGISTERS);
    let code = format!(
        "{{ .reg .pred p; setp.ne.b32 p, {}, 0; wgmma.mma_async.sync.aligned.m64n{columns}k8.f32.tf32.tf32 \
         {{{}}}, {{{registers}}}, ${}, p, 1, 1; }}",
        u8::from(!first),
        numbered(0, count),
        2 * count + REGISTERS
    );
    let constraints = (0..count)
        .map(|_| "=f".to_string())
        .chain((0..count).map(|position| position.to_string()))
        .chain((0..REGISTERS).map(|_| "r".to_string()))
        .chain(["l".to_string()])
        .collect::<Vec<_>>()
        .join(",");
    let types = std::iter::repeat_n("f32", count)
        .chain(std::iter::repeat_n("i32", REGISTERS))
        .chain(["i64"])
        .collect::<Vec<_>>()
        .join(", ");
    e.op(format_args!(
        "llvm.inline_asm has_side_effects asm_dialect = att \"{code}\", \"{constraints}\" {} : ({types}) -> \
         {structure}",
        inputs.join(", ")
    ))
}
