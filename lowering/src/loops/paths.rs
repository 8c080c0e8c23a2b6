//! Sums over monotone paths.

use super::payload;
use super::view::View;
use crate::abi::{PhaseWriter, Scratch};
use crate::emit::{Emitter, Value};
use crate::host::tiles::{index, index_op, open_for};
use crate::types::storage_type;
use crate::{LoweringError, Payload, scalar};
use burn_mlir_ir::{BinaryOp, CompareOp, DType, Literal, Paths, UnaryOp};

/// States that no path of a sequence is in: before the first one, so that every state has two before it.
pub(crate) const BEFORE: usize = 2;

/// Lowers paths: a tile is one sequence. The last two steps are kept in scratch memory; a step is a loop without
/// branches over the states.
pub(crate) fn paths(paths: &Paths) -> Result<Payload, LoweringError> {
    let &[steps, sequences, states] = &paths.shape[..] else {
        return Err(LoweringError::Unsupported(format!("paths over {:?}", paths.shape)));
    };
    let kind = scalar::accumulator(paths.dtype);
    let row_bytes = ((states + BEFORE) * kind.size()).next_multiple_of(64);
    let mut phase = PhaseWriter::new("paths");
    let scores = View::new(&mut phase, 0, paths.dtype, &paths.accesses[0], &paths.shape);
    let skips = View::new(&mut phase, 1, DType::Bool, &paths.accesses[1], &paths.shape);
    let output = View::new(&mut phase, 2, paths.dtype, &paths.accesses[2], &paths.shape);
    let rows: [Row; 2] = [0, 1].map(|row| Row::new(&mut phase, row * row_bytes, kind, states + BEFORE));
    let (begin, end) = (phase.begin(), phase.end());
    let e = &mut phase.emitter;
    let (zero, one, before) = (index(e, 0), index(e, 1), index(e, BEFORE));
    let (count, all) = (index(e, states), index(e, steps));
    let sequence = open_for(e, &begin, &end, 1);
    // Nothing comes before the first state; the first step begins as if all paths were about to enter state 0 or 1.
    for row in &rows {
        let at = open_for(e, &zero, &before, 1);
        let none = impossible(e, kind);
        row.store(e, &at, &none);
        e.close("}");
    }
    let first = Step { paths, kind, scores: &scores, skips: &skips, output: &output };
    first.begin(e, &sequence, &count, &rows[0]);
    // Two steps a round, so that each row has a name of its own.
    let two = index(e, 2);
    let rounds = index_op(e, "arith.divui", &all, &two);
    let round = open_for(e, &zero, &rounds, 1);
    let odd = index_op(e, "arith.muli", &round, &two);
    let odd = index_op(e, "arith.addi", &odd, &one);
    first.go(e, [&odd, &sequence, &count], &rows[0], &rows[1]);
    let even = index_op(e, "arith.addi", &odd, &one);
    let is_step = e.op(format_args!("arith.cmpi ult, {even}, {all} : index"));
    e.open(format_args!("scf.if {is_step} {{"));
    first.go(e, [&even, &sequence, &count], &rows[1], &rows[0]);
    e.close("}");
    e.close("}");
    e.close("}");
    Ok(payload("paths", phase, sequences, 2 * row_bytes as u64))
}

/// -∞: what no path is worth.
pub(crate) fn impossible(e: &mut Emitter, kind: DType) -> Value {
    scalar::constant(e, kind, Literal::of(kind, f64::NEG_INFINITY))
}

/// The sum of all paths that enter a state, from those that end in it, in the one before, and in the one before that
/// (-∞ if that may not be skipped), plus the state's score. The same for all targets.
pub(crate) fn entered(e: &mut Emitter, kind: DType, from: [&Value; 3], score: &Value) -> Value {
    let [a, b, c] = from;
    let most = scalar::binary(e, BinaryOp::Max, kind, a, b);
    let most = scalar::binary(e, BinaryOp::Max, kind, &most, c);
    let none = impossible(e, kind);
    let unreached = scalar::compare(e, CompareOp::Eq, kind, &most, &none);
    // Differences of infinities are not used.
    let zero = scalar::constant(e, kind, Literal::of(kind, 0.0));
    let base = scalar::select(e, kind, &unreached, &zero, &most);
    let parts = from.map(|part| {
        let less = scalar::binary(e, BinaryOp::Sub, kind, part, &base);
        scalar::unary(e, UnaryOp::Exp, kind, &less)
    });
    let sum = scalar::binary(e, BinaryOp::Add, kind, &parts[0], &parts[1]);
    let sum = scalar::binary(e, BinaryOp::Add, kind, &sum, &parts[2]);
    let log = scalar::unary(e, UnaryOp::Log, kind, &sum);
    let all = scalar::binary(e, BinaryOp::Add, kind, &base, &log);
    scalar::binary(e, BinaryOp::Add, kind, &all, score)
}

/// One step of one sequence.
struct Step<'a> {
    paths: &'a Paths,
    kind: DType,
    scores: &'a View,
    skips: &'a View,
    output: &'a View,
}

impl Step<'_> {
    /// The first step, into a row.
    fn begin(&self, e: &mut Emitter, sequence: &Value, count: &Value, to: &Row) {
        let (zero, limit) = (index(e, 0), index(e, BEFORE));
        let state = open_for(e, &zero, count, 1);
        let place = [zero, sequence.clone(), state.clone()];
        let score = self.score(e, &place);
        let none = impossible(e, self.kind);
        let is_start = e.op(format_args!("arith.cmpi ult, {state}, {limit} : index"));
        let value = scalar::select(e, self.kind, &is_start, &score, &none);
        self.leave(e, &place, to, &value);
        e.close("}");
    }

    /// A later step, from one row into the other.
    fn go(&self, e: &mut Emitter, [step, sequence, count]: [&Value; 3], from: &Row, to: &Row) {
        let (zero, one, two) = (index(e, 0), index(e, 1), index(e, BEFORE));
        let state = open_for(e, &zero, count, 1);
        let none = impossible(e, self.kind);
        let near = [&two, &one, &zero].map(|shift| {
            let at = index_op(e, "arith.addi", &state, shift);
            from.load(e, &at)
        });
        let skips = self.skips.load(e, &[zero.clone(), sequence.clone(), state.clone()]);
        let far = scalar::select(e, self.kind, &skips, &near[2], &none);
        let place = [step.clone(), sequence.clone(), state];
        let score = self.score(e, &place);
        let value = entered(e, self.kind, [&near[0], &near[1], &far], &score);
        self.leave(e, &place, to, &value);
        e.close("}");
    }

    fn score(&self, e: &mut Emitter, place: &[Value]) -> Value {
        let score = self.scores.load(e, place);
        if self.kind == self.paths.dtype {
            return score;
        }
        scalar::cast(e, self.paths.dtype, self.kind, &score)
    }

    /// Keeps a value for the next step and writes it.
    fn leave(&self, e: &mut Emitter, place: &[Value; 3], to: &Row, value: &Value) {
        let shift = index(e, BEFORE);
        let at = index_op(e, "arith.addi", &place[2], &shift);
        to.store(e, &at, value);
        if self.kind == self.paths.dtype {
            return self.output.store(e, place, value);
        }
        let value = scalar::cast(e, self.kind, self.paths.dtype, value);
        self.output.store(e, place, &value);
    }
}

/// The states of a step in scratch memory, behind those that no path is in.
struct Row {
    memref: Value,
    ty: String,
}

impl Row {
    fn new(phase: &mut PhaseWriter, offset: usize, kind: DType, size: usize) -> Self {
        let address = phase.scratch(Scratch::Worker, offset as u64);
        let (element, size) = (storage_type(kind), size as i64);
        Self { memref: phase.flat(&address, 0, element, size), ty: format!("memref<{size}x{element}>") }
    }

    fn load(&self, e: &mut Emitter, at: &Value) -> Value {
        e.op(format_args!("memref.load {}[{at}] : {}", self.memref, self.ty))
    }

    fn store(&self, e: &mut Emitter, at: &Value, value: &Value) {
        e.line(format_args!("memref.store {value}, {}[{at}] : {}", self.memref, self.ty));
    }
}
