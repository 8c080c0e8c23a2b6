//! Matrix instructions: queries times keys from the memory of the block, weights in registers times values.

use super::code::{Ty, typed};
use super::consumer::{Place, State};
use super::kernel::{Kernel, Turn};
use crate::emit::Value;

/// Bit 62: rows of 128 bytes with permuted pieces.
const SWIZZLED: i64 = 1 << 62;

impl Kernel<'_> {
    /// Describes a matrix in the memory of the block, in rows of 128 bytes: `leading` is a sixteenth of the
    /// bytes between 64-column parts of a matrix whose rows are summed over.
    pub fn descriptor(&mut self, address: &Value, leading: i64) -> Value {
        let c = &mut self.c;
        let low = c.with("andi", address, 0x3FFFF);
        let low = c.with("shrui", &low, 4);
        let low = c.extended(&low);
        let rest = SWIZZLED | 64 << 32 | leading << 16;
        let rest = c.op(format_args!("arith.constant {rest} : i64"));
        c.op(format_args!("arith.ori {low}, {rest} : i64"))
    }

    /// A descriptor moved by `stage` buffers of `bytes`.
    pub fn staged(&mut self, descriptor: &Value, stage: &Value, bytes: usize) -> Value {
        let steps = self.c.with("muli", stage, bytes as i64 >> 4);
        let steps = self.c.extended(&steps);
        self.c.op(format_args!("arith.addi {descriptor}, {steps} : i64"))
    }

    fn moved_by(&mut self, descriptor: &Value, steps: usize) -> Value {
        if steps == 0 {
            return descriptor.clone();
        }
        let steps = self.c.op(format_args!("arith.constant {steps} : i64"));
        self.c.op(format_args!("arith.addi {descriptor}, {steps} : i64"))
    }

    /// Starts the scores of a block: queries times the keys of a buffer.
    pub fn start_scores(&mut self, place: &Place, queries: &Value, key: &Turn) -> Vec<Value> {
        let (rows, keys) = (self.tiling.queries(), self.tiling.keys);
        let [count, _] = self.tiling.accumulators();
        let element = self.element();
        let base = self.staged(&place.keys, &key.stage, self.tiling.key_bytes());
        let accumulators: Vec<String> = (0..count).map(|index| format!("${index}")).collect();
        let accumulators = accumulators.join(", ");
        let mut scores: Vec<Value> = Vec::new();
        for step in 0..self.tiling.steps {
            let (part, within) = (step / 4, 2 * (step % 4));
            let a = self.moved_by(queries, 8 * part * rows + within);
            let b = self.moved_by(&base, 8 * part * keys + within);
            let operands = [(a, Ty::I64), (b, Ty::I64)];
            let at = if step == 0 { count } else { 2 * count };
            let text = format!(
                "{{ .reg .pred p; setp.ne.b32 p, {}, 0; wgmma.mma_async.sync.aligned.m64n{keys}k16.f32.{element}\
                 .{element} {{{accumulators}}}, ${at}, ${}, p, 1, 1, 0, 0; }}",
                u8::from(step > 0),
                at + 1
            );
            scores = if step == 0 {
                self.c.asm_results(&text, &vec![Ty::F32; count], &operands)
            } else {
                self.c.asm_tied(&text, &typed(&scores, Ty::F32), &operands)
            };
        }
        self.c.asm("wgmma.commit_group.sync.aligned;", &[]);
        scores
    }

    /// Starts adding weights times the values of a buffer to the sums.
    pub fn start_sums(&mut self, place: &Place, state: &mut State) {
        let [_, count] = self.tiling.accumulators();
        let element = self.element();
        let base = self.staged(&place.values, &state.value.stage, self.tiling.value_bytes());
        let accumulators: Vec<String> = (0..count).map(|index| format!("${index}")).collect();
        let accumulators = accumulators.join(", ");
        let at = 2 * count;
        let text = format!(
            "{{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n{}k16.f32.{element}.{element} \
             {{{accumulators}}}, {{${}, ${}, ${}, ${}}}, ${}, p, 1, 1, 1; }}",
            self.tiling.columns,
            at,
            at + 1,
            at + 2,
            at + 3,
            at + 4
        );
        for step in 0..self.tiling.keys / 16 {
            let b = self.moved_by(&base, 128 * step);
            let mut operands = typed(&state.weights[4 * step..4 * step + 4], Ty::I32);
            operands.push((b, Ty::I64));
            state.sums = self.c.asm_tied(&text, &typed(&state.sums, Ty::F32), &operands);
        }
        self.c.asm("wgmma.commit_group.sync.aligned;", &[]);
    }

    /// Orders earlier accesses to sums and weights before the matrix instructions that come.
    pub fn fence(&mut self, state: &mut State) {
        let mut all = typed(&state.sums, Ty::F32);
        all.extend(typed(&state.weights, Ty::I32));
        let mut all = self.c.asm_tied("wgmma.fence.sync.aligned;", &all, &[]);
        state.weights = all.split_off(state.sums.len());
        state.sums = all;
    }

    /// Waits until at most `pending` groups of matrix instructions are under way; `values` may be used after
    /// that only.
    pub fn settle(&mut self, pending: usize, values: &[Value]) -> Vec<Value> {
        let text = format!("wgmma.wait_group.sync.aligned {pending};");
        self.c.asm_tied(&text, &typed(values, Ty::F32), &[])
    }
}
