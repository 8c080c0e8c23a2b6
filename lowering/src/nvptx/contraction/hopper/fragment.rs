//! The left operand in registers: for TF32 that is adjacent along rows in memory, which no matrix instruction
//! takes from workgroup memory.

use super::consumer::sums_type;
use super::int::{int_by, int_op};
use super::plan::ROW_BYTES;
use super::ring::{at, byte};
use crate::emit::{Emitter, Value};
use crate::nvptx::writer::WORKGROUP;

/// Rows of a box: 128 bytes.
const BOX_ROWS: usize = 32;

/// Summed points of an instruction.
const STEP: usize = 8;

/// Bytes the swizzle moves.
const PIECE: usize = 16;

/// Registers of an instruction's part of the operand.
pub(super) const REGISTERS: usize = 4;

/// Where a thread's elements are in a stage.
#[derive(Clone, Debug)]
pub(super) struct Fragment {
    /// The warpgroup's rows in the first stage.
    memory: Value,
    /// From there to each element of the first instruction.
    offsets: [Value; REGISTERS],
}

impl Fragment {
    /// Of the `thread`-th of a warpgroup, whose rows start `mine` bytes after `memory`: of a run of 4 lanes,
    /// each has a summed point and the one 4 further on, in the row the run says and the one 8 further down.
    pub fn new(e: &mut Emitter, memory: &Value, mine: &Value, thread: &Value) -> Self {
        let memory = at(e, memory, mine);
        let warp = int_by(e, "shrui", thread, 5);
        let lane = int_by(e, "andi", thread, 31);
        let (in_box, number) = (int_by(e, "andi", &warp, 1), int_by(e, "shrui", &warp, 1));
        let row = int_by(e, "muli", &in_box, 16);
        let run = int_by(e, "shrui", &lane, 2);
        let row = int_op(e, "addi", &row, &run);
        let start = int_by(e, "muli", &number, BOX_ROWS * ROW_BYTES);
        let point = int_by(e, "andi", &lane, 3);
        let offsets = [(0, 0), (8, 0), (0, 4), (8, 4)].map(|(down, further)| {
            let row = int_by(e, "addi", &row, down);
            let point = int_by(e, "addi", &point, further);
            let line = int_by(e, "muli", &point, ROW_BYTES);
            let piece = int_by(e, "shrui", &row, 2);
            let piece = int_op(e, "xori", &piece, &point);
            let piece = int_by(e, "muli", &piece, PIECE);
            let word = int_by(e, "andi", &row, 3);
            let word = int_by(e, "muli", &word, 4);
            [&line, &piece, &word].into_iter().fold(start.clone(), |sum, part| int_op(e, "addi", &sum, part))
        });
        Self { memory, offsets }
    }

    /// The elements for each of `steps` instructions of the stage that begins `offset` bytes after the first.
    pub fn load(&self, e: &mut Emitter, offset: &Value, steps: usize) -> Vec<[Value; REGISTERS]> {
        let stage = at(e, &self.memory, offset);
        let origins = self.offsets.each_ref().map(|offset| at(e, &stage, offset));
        (0..steps)
            .map(|step| {
                origins.each_ref().map(|origin| {
                    let at = byte(e, origin, step * STEP * ROW_BYTES);
                    e.op(format_args!("llvm.load {at} : {WORKGROUP} -> i32"))
                })
            })
            .collect()
    }
}

/// A matrix instruction that takes the left operand from registers.
pub(super) fn multiply(
    e: &mut Emitter,
    left: &[Value; REGISTERS],
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
