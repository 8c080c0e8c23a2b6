//! An epilogue that runs while the next tile is multiplied.
//!
//! What a long one computes would leave the matrix unit idle. So the rounded sums of a tile are left in the
//! buffers for results, and a step of 16 columns is finished in their place with each slice of the next tile,
//! between handing its products to the matrix unit and waiting for them.

use super::super::int::{int, int_by, int_is, int_op};
use super::super::kernel::Kernel;
use super::super::place::Place;
use super::super::plan::STEP_COLUMNS;
use super::super::results::COLUMNS;
use super::pair::{Pair, converted};
use super::{Finisher, Run};
use crate::LoweringError;
use crate::emit::Value;

/// Steps of a buffer.
const STEPS: usize = COLUMNS / STEP_COLUMNS;

impl Finisher<'_> {
    /// Leaves the sums of a tile in the buffers.
    pub fn keep(&self, kernel: &mut Kernel<'_>, sums: &[Value]) {
        let Some(staging) = &self.staging else { return };
        let dtype = kernel.problem.result_type();
        let e = kernel.e();
        staging.reuse(e, &self.consumer);
        for (step, sums) in sums.chunks(STEP_COLUMNS / 2).enumerate() {
            let values: [Value; 4] = std::array::from_fn(|part| {
                let pair = [sums[2 * part].clone(), sums[2 * part + 1].clone()];
                converted(e, dtype, &pair).bits(e, dtype)
            });
            staging.write(e, step / STEPS, step % STEPS, &values);
        }
        // They are read by other threads of the warp than have written them.
        let all = e.op("arith.constant -1 : i32");
        e.line(format_args!("nvvm.bar.warp.sync {all} : i32"));
    }

    /// Loads what step number `step` (an `i32`) of the tile at `place` needs.
    pub fn begin_step(&self, kernel: &mut Kernel<'_>, place: &Place, step: &Value) -> [Run; 2] {
        let (problem, plan) = (kernel.problem, kernel.plan);
        let e = kernel.e();
        let shift = int_by(e, "muli", step, STEP_COLUMNS);
        let at = int_op(e, "addi", &place.column, &self.column);
        let at = int_op(e, "addi", &at, &shift);
        [0, 8].map(|shift| {
            let spot = super::spot::columns(kernel.e(), problem, plan, &at, shift);
            self.begin(kernel, spot, None)
        })
    }

    /// Evaluates and stores a step.
    pub fn finish_step(
        &self,
        kernel: &mut Kernel<'_>,
        place: &Place,
        step: &Value,
        runs: [Run; 2],
    ) -> Result<(), LoweringError> {
        let Some(staging) = &self.staging else { return Ok(()) };
        let dtype = kernel.problem.result_type();
        let e = kernel.e();
        // The assembler would put what follows between the matrix instructions, and the matrix unit would wait for
        // what was loaded.
        let all = e.op("arith.constant -1 : i32");
        e.line(format_args!("nvvm.bar.warp.sync {all} : i32"));
        let at = staging.step(e, step);
        let kept = staging.read(e, &at);
        let mut results = Vec::new();
        for (run, kept) in runs.into_iter().zip(kept.chunks(2)) {
            let sums: [Pair; 2] = std::array::from_fn(|row| Pair::of_bits(kernel.e(), dtype, &kept[row]));
            results.extend(self.finish(kernel, run, sums)?.into_iter().flatten());
        }
        let Some(staged) = kernel.results.staged.iter().flatten().next() else { return Ok(()) };
        let dtype = staged.view.dtype;
        let e = kernel.e();
        let values: [Value; 4] = std::array::from_fn(|at| results[at].bits(e, dtype));
        staging.write_at(e, &at, &values);
        // The last step of a buffer sends it.
        let last = int_by(e, "andi", step, STEPS - 1);
        let last = int_is(e, "eq", &last, STEPS - 1);
        let last = super::spot::both(e, &Some(last), &self.enabled).unwrap_or_default();
        e.open(format_args!("scf.if {last} {{"));
        let buffer = int_by(e, "divui", step, STEPS);
        let shift = int_by(e, "muli", &buffer, COLUMNS);
        staging.publish(e, &self.consumer);
        let zero = int(e, 0);
        staging.send(e, &self.consumer, staged, place, &buffer, [&zero, &shift]);
        e.close("}");
        Ok(())
    }

    /// Finishes the last tile, when there is no other to be multiplied meanwhile.
    pub fn finish_last(&self, kernel: &mut Kernel<'_>, place: &Place) -> Result<(), LoweringError> {
        let steps = kernel.plan.columns / STEP_COLUMNS;
        let e = kernel.e();
        let (zero, one, steps, step) = (int(e, 0), int(e, 1), int(e, steps), e.fresh());
        e.open(format_args!("scf.for {step} = {zero} to {steps} step {one} : i32 {{"));
        let runs = self.begin_step(kernel, place, &step);
        self.finish_step(kernel, place, &step, runs)?;
        kernel.e().close("}");
        Ok(())
    }
}
