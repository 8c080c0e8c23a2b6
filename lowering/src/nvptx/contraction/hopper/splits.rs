//! A sum cut into parts, each of another block of threads: the warpgroup that is done last with its rows of a
//! tile adds all parts, in their order, and goes on with the epilogue.

use super::consumer::Consumer;
use super::int::{int, int_by, int_is, int_op};
use super::kernel::Kernel;
use super::place::Place;
use super::plan::{Plan, WARPGROUP};
use super::products::sums_type;
use super::ring::at;
use crate::emit::{Emitter, Value};
use crate::nvptx::writer::{GLOBAL, WORKGROUP};

/// Accumulators of a thread that are stored at once.
const LANES: usize = 4;
const VECTOR: &str = "vector<4xf32>";
const VECTOR_BYTES: usize = 16;

/// Bytes of scratch for all parts of all tiles.
pub(super) fn scratch_bytes(plan: &Plan, matrices: usize) -> usize {
    if plan.splits == 1 {
        return 0;
    }
    matrices * plan.matrix_tiles() * plan.consumers * plan.splits * part_bytes(plan)
}

/// Bytes of a warpgroup's part.
fn part_bytes(plan: &Plan) -> usize {
    plan.columns / 2 * WARPGROUP * 4
}

impl Kernel<'_> {
    /// Leaves a part where the last warpgroup finds it. What follows, up to
    /// [`close_splits`](Self::close_splits), is done by that one only, with the sums returned.
    pub fn open_splits(&mut self, consumer: &Consumer, place: &Place, sums: Vec<Value>) -> Vec<Value> {
        let plan = self.plan;
        if plan.splits == 1 {
            return sums;
        }
        let memory = self.memory.clone();
        let e = self.e();
        // Which of all warpgroups' rows of tiles these are.
        let rows = int_by(e, "muli", &place.tile, plan.consumers);
        let rows = int_op(e, "addi", &rows, &consumer.number);
        let first = int_by(e, "muli", &rows, plan.splits);
        let number = int_op(e, "addi", &first, &place.part);
        let own = part(e, plan, &number, consumer);
        for (position, sums) in sums.chunks(LANES).enumerate() {
            let vector = e.op(format_args!("vector.from_elements {} : {VECTOR}", sums.join(", ")));
            let to = vector_address(e, &own, position);
            e.line(format_args!(
                "llvm.store {vector}, {to} {{alignment = {VECTOR_BYTES} : i64}} : {VECTOR}, {GLOBAL}"
            ));
        }
        fence(e);
        consumer.meet(e);
        let ticket = int_by(e, "muli", &consumer.number, 4);
        let ticket = int_by(e, "addi", &ticket, plan.ticket_offset());
        let ticket = at(e, &memory, &ticket);
        e.open(format_args!("scf.if {} {{", consumer.elected));
        let position = e.op(format_args!("arith.extui {rows} : i32 to i64"));
        let counter =
            e.op(format_args!("llvm.getelementptr %counters[{position}] : ({GLOBAL}, i64) -> {GLOBAL}, i32"));
        // The last one makes it zero again.
        let taken = e.op(format_args!(
            "llvm.inline_asm has_side_effects asm_dialect = att \"atom.acq_rel.gpu.global.inc.u32 $0, [$1], {};\", \
             \"=r,l,~{{memory}}\" {counter} : ({GLOBAL}) -> i32",
            plan.splits - 1
        ));
        e.line(format_args!("llvm.store {taken}, {ticket} : i32, {WORKGROUP}"));
        e.close("}");
        consumer.meet(e);
        let taken = e.op(format_args!("llvm.load {ticket} : {WORKGROUP} -> i32"));
        let last = int_is(e, "eq", &taken, plan.splits - 1);
        e.open(format_args!("scf.if {last} {{"));
        fence(e);
        add_parts(e, plan, &first, consumer)
    }

    /// Ends what only the last warpgroup does.
    pub fn close_splits(&mut self) {
        if self.plan.splits > 1 {
            self.e().close("}");
        }
    }
}

/// The sums of all parts from part number `first` on.
fn add_parts(e: &mut Emitter, plan: &Plan, first: &Value, consumer: &Consumer) -> Vec<Value> {
    let (count, structure) = (plan.columns / 2, sums_type(plan.columns));
    let read = |e: &mut Emitter, number: &Value| -> Vec<Value> {
        let from = part(e, plan, number, consumer);
        let vectors: Vec<Value> = (0..count / LANES)
            .map(|position| {
                let from = vector_address(e, &from, position);
                e.op(format_args!(
                    "llvm.load {from} {{alignment = {VECTOR_BYTES} : i64}} : {GLOBAL} -> {VECTOR}"
                ))
            })
            .collect();
        (0..count)
            .map(|position| {
                let (vector, lane) = (&vectors[position / LANES], position % LANES);
                e.op(format_args!("vector.extract {vector}[{lane}] : f32 from {VECTOR}"))
            })
            .collect()
    };
    let pack = |e: &mut Emitter, values: &[Value]| -> Value {
        let mut all = e.op(format_args!("llvm.mlir.undef : {structure}"));
        for (position, value) in values.iter().enumerate() {
            all = e.op(format_args!("llvm.insertvalue {value}, {all}[{position}] : {structure}"));
        }
        all
    };
    let unpack = |e: &mut Emitter, all: &Value| -> Vec<Value> {
        (0..count).map(|part| e.op(format_args!("llvm.extractvalue {all}[{part}] : {structure}"))).collect()
    };
    let values = read(e, first);
    let initial = pack(e, &values);
    let (one, parts) = (int(e, 1), int(e, plan.splits));
    let [number, carried, result] = [(); 3].map(|()| e.fresh());
    e.open(format_args!(
        "{result} = scf.for {number} = {one} to {parts} step {one} iter_args({carried} = {initial}) -> \
         ({structure}) : i32 {{"
    ));
    let number = int_op(e, "addi", first, &number);
    let values = read(e, &number);
    let sums: Vec<Value> = unpack(e, &carried)
        .iter()
        .zip(&values)
        .map(|(sum, value)| e.op(format_args!("arith.addf {sum}, {value} : f32")))
        .collect();
    let next = pack(e, &sums);
    e.line(format_args!("scf.yield {next} : {structure}"));
    e.close("}");
    unpack(e, &result)
}

/// Address of this thread's first vector of part `number` of all.
fn part(e: &mut Emitter, plan: &Plan, number: &Value, consumer: &Consumer) -> Value {
    let number = e.op(format_args!("arith.extui {number} : i32 to i64"));
    // Behind operands that were copied.
    let scratch = e
        .op(format_args!("llvm.getelementptr %shared[{}] : ({GLOBAL}) -> {GLOBAL}, i8", plan.scratch_offset));
    let bytes = e.op(format_args!("arith.constant {} : i64", part_bytes(plan)));
    let offset = e.op(format_args!("arith.muli {number}, {bytes} : i64"));
    let mine = int_by(e, "muli", &consumer.thread, VECTOR_BYTES);
    let mine = e.op(format_args!("arith.extui {mine} : i32 to i64"));
    let offset = e.op(format_args!("arith.addi {offset}, {mine} : i64"));
    e.op(format_args!("llvm.getelementptr {scratch}[{offset}] : ({GLOBAL}, i64) -> {GLOBAL}, i8"))
}

/// Address of the `position`-th vector: those of all threads follow each other.
fn vector_address(e: &mut Emitter, first: &Value, position: usize) -> Value {
    let offset = position * WARPGROUP * VECTOR_BYTES;
    e.op(format_args!("llvm.getelementptr {first}[{offset}] : ({GLOBAL}) -> {GLOBAL}, i8"))
}

/// Orders this thread's accesses for all threads of the device.
fn fence(e: &mut Emitter) {
    e.line(
        "llvm.inline_asm has_side_effects asm_dialect = att \"fence.acq_rel.gpu;\", \"~{memory}\" : () -> ()",
    );
}
