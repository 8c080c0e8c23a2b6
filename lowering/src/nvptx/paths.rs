//! Sums over monotone paths: a block takes a sequence, a thread some of its states.

use super::writer::{GLOBAL, KernelWriter, WORKGROUP};
use super::{WARP, code::Code, grid, kernels};
use crate::emit::{Emitter, Value};
use crate::host::tiles::{Carried, open_carrying_for};
use crate::loops::paths::{BEFORE, entered, impossible};
use crate::types::{storage_type, value_type};
use crate::{LoweringError, Payload, scalar};
use burn_mlir_ir::{DType, Paths, Phase};

/// Threads of a block, at most.
const THREADS: usize = 512;

/// Bytes of a block's memory for the last two steps, at most; where they need more they are in the launch's memory.
const BLOCK_BYTES: usize = 48 << 10;

/// Lowers paths.
pub(super) fn lower(paths: &Paths) -> Result<Payload, LoweringError> {
    let &[steps, sequences, states] = &paths.shape[..] else {
        return Err(LoweringError::Unsupported(format!("paths over {:?}", paths.shape)));
    };
    let kind = scalar::accumulator(paths.dtype);
    let threads = states.next_multiple_of(WARP).clamp(WARP, THREADS);
    let row = states + BEFORE;
    let bytes = 2 * row * kind.size();
    let mut kernel = KernelWriter::new("paths", 3, 0);
    let sequence = kernel.block('x');
    let thread = kernel.thread();
    let in_block = bytes <= BLOCK_BYTES;
    let (memory, space) = if in_block {
        (kernel.workgroup(bytes), WORKGROUP)
    } else {
        let base = kernel.scratch(0);
        let e = &mut kernel.emitter;
        let size = e.int("index", 2 * row);
        let at = e.arith("muli", "index", &sequence, &size);
        (kernel.element(&base, GLOBAL, &at, storage_type(kind)), GLOBAL)
    };
    let walk = Walk { paths, kind, memory, space, sequence, row };
    walk.write(&mut kernel, &thread, threads, steps, states);
    let phase = Phase {
        symbol: "paths".into(),
        grid: grid(sequences)?,
        block: [threads as u32, 1, 1],
        ..Phase::default()
    };
    let shared = if in_block { 0 } else { sequences * bytes };
    Ok(kernels(vec![(kernel.finish(), phase)], shared))
}

struct Walk<'a> {
    paths: &'a Paths,
    /// The type in which sums are computed.
    kind: DType,
    /// Two rows of states, each behind [`BEFORE`] that no path is in.
    memory: Value,
    space: &'static str,
    sequence: Value,
    /// Elements of a row.
    row: usize,
}

/// A state of a thread.
struct State {
    at: Value,
    /// Whether there is such a state.
    exists: Value,
    /// Whether it can be entered from the one but last before it.
    skips: Value,
}

impl Walk<'_> {
    fn ty(&self) -> &'static str {
        value_type(self.kind)
    }

    fn write(&self, kernel: &mut KernelWriter, thread: &Value, threads: usize, steps: usize, states: usize) {
        let ty = "index";
        self.clear(kernel, thread);
        let zero = kernel.emitter.int(ty, 0);
        let mine: Vec<State> = (0..states.div_ceil(threads))
            .map(|number| {
                let e = &mut kernel.emitter;
                let (shift, count, last) =
                    (e.int(ty, number * threads), e.int(ty, states), e.int(ty, states - 1));
                let at = e.arith("addi", ty, thread, &shift);
                let exists = e.compare("ult", ty, &at, &count);
                let at = e.arith("minui", ty, &at, &last);
                let place = [zero.clone(), self.sequence.clone(), at.clone()];
                let skips = kernel.load(1, storage_type(DType::Bool), &self.paths.accesses[1], &place);
                let skips = scalar::from_storage(&mut kernel.emitter, DType::Bool, &skips);
                State { at, exists, skips }
            })
            .collect();
        // The first step.
        let e = &mut kernel.emitter;
        let (one, limit) = (e.int(ty, 1), e.int(ty, BEFORE));
        let none = impossible(e, self.kind);
        let mut carried = Vec::new();
        for state in &mine {
            let score = self.score(kernel, &zero, state);
            let e = &mut kernel.emitter;
            let starts = e.compare("ult", ty, &state.at, &limit);
            let value = scalar::select(e, self.kind, &starts, &score, &none);
            self.leave(kernel, [&zero, &zero], state, &value);
            carried.push(value);
        }
        // Scores are read a step ahead: they are not what a step waits for.
        let e = &mut kernel.emitter;
        let last = e.int(ty, steps - 1);
        let next = e.arith("minui", ty, &one, &last);
        for state in &mine {
            carried.push(self.score(kernel, &next, state));
        }
        kernel.barrier();
        let carry = |values: &[Value]| -> Vec<Carried> {
            values.iter().map(|value| Carried { value: value.clone(), ty: self.ty().into() }).collect()
        };
        let e = &mut kernel.emitter;
        let end = e.int(ty, steps);
        let open = open_carrying_for(e, &one, &end, 1, &carry(&carried));
        let step = open.variable.clone();
        let parity = e.arith("andi", ty, &step, &one);
        let length = e.int(ty, self.row);
        let to = e.arith("muli", ty, &parity, &length);
        let from = e.arith("subi", ty, &length, &to);
        let ahead = e.arith("addi", ty, &step, &one);
        let ahead = e.arith("minui", ty, &ahead, &last);
        let coming: Vec<Value> = mine.iter().map(|state| self.score(kernel, &ahead, state)).collect();
        let (stays, scores) = open.carried.split_at(mine.len());
        let mut values = Vec::new();
        for ((state, stays), score) in mine.iter().zip(stays).zip(scores) {
            let one_before = self.kept(kernel, &from, state, 1);
            let two_before = self.kept(kernel, &from, state, 2);
            let e = &mut kernel.emitter;
            let skipped = scalar::select(e, self.kind, &state.skips, &two_before, &none);
            let value = entered(e, self.kind, [&stays.value, &one_before, &skipped], &score.value);
            self.leave(kernel, [&step, &to], state, &value);
            values.push(value);
        }
        kernel.barrier();
        values.extend(coming);
        open.close(&mut kernel.emitter, &carry(&values));
    }

    /// Fills what lies before the first state in both rows.
    fn clear(&self, kernel: &mut KernelWriter, thread: &Value) {
        let e = &mut kernel.emitter;
        let limit = e.int("index", BEFORE);
        let some = e.compare("ult", "index", thread, &limit);
        e.open(format_args!("scf.if {some} {{"));
        let none = impossible(e, self.kind);
        for row in 0..2 {
            let e = &mut kernel.emitter;
            let start = e.int("index", row * self.row);
            let at = e.arith("addi", "index", &start, thread);
            let address = kernel.element(&self.memory, self.space, &at, self.ty());
            kernel.emitter.line(format_args!("llvm.store {none}, {address} : {}, {}", self.ty(), self.space));
        }
        kernel.emitter.close("}");
    }

    fn score(&self, kernel: &mut KernelWriter, step: &Value, state: &State) -> Value {
        let place = [step.clone(), self.sequence.clone(), state.at.clone()];
        let dtype = self.paths.dtype;
        let element = kernel.load(0, storage_type(dtype), &self.paths.accesses[0], &place);
        let e = &mut kernel.emitter;
        let value = scalar::from_storage(e, dtype, &element);
        if dtype == self.kind { value } else { scalar::cast(e, dtype, self.kind, &value) }
    }

    /// The place of a state in the row that starts at `row`.
    fn place(&self, e: &mut Emitter, row: &Value, state: &State, back: usize) -> Value {
        let shift = e.int("index", BEFORE - back);
        let at = e.arith("addi", "index", row, &state.at);
        e.arith("addi", "index", &at, &shift)
    }

    /// What was kept of the state `back` before this one.
    fn kept(&self, kernel: &mut KernelWriter, row: &Value, state: &State, back: usize) -> Value {
        let at = self.place(&mut kernel.emitter, row, state, back);
        let address = kernel.element(&self.memory, self.space, &at, self.ty());
        kernel.emitter.op(format_args!("llvm.load {address} : {} -> {}", self.space, self.ty()))
    }

    /// Keeps a value for the next step and writes it.
    fn leave(&self, kernel: &mut KernelWriter, [step, row]: [&Value; 2], state: &State, value: &Value) {
        kernel.emitter.open(format_args!("scf.if {} {{", state.exists));
        let at = self.place(&mut kernel.emitter, row, state, 0);
        let address = kernel.element(&self.memory, self.space, &at, self.ty());
        let e = &mut kernel.emitter;
        e.line(format_args!("llvm.store {value}, {address} : {}, {}", self.ty(), self.space));
        let dtype = self.paths.dtype;
        let narrow = if dtype == self.kind {
            scalar::to_storage(e, dtype, value)
        } else {
            let value = scalar::cast(e, self.kind, dtype, value);
            scalar::to_storage(e, dtype, &value)
        };
        let place = [step.clone(), self.sequence.clone(), state.at.clone()];
        kernel.store(2, storage_type(dtype), &self.paths.accesses[2], &place, &narrow);
        kernel.emitter.close("}");
    }
}
