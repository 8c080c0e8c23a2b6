//! A plan with its compiled kernels: what a window's structure becomes, once.

use burn_mlir_ir::plan::{Argument, BufferSource, Plan};
use burn_mlir_ir::{Kernel, ParamMode};
use burn_mlir_runtime::{Batch, Buffer, RuntimeError, Slot};
use smallvec::SmallVec;

pub(crate) struct Executable {
    pub(crate) plan: Plan,
    kernels: Vec<burn_mlir_runtime::Kernel>,
    /// For each buffer of the plan, whether a launch writes it.
    written: Vec<bool>,
    /// Arguments of all launches together.
    arguments: usize,
}

impl Executable {
    pub(crate) fn new(plan: Plan, kernels: Vec<burn_mlir_runtime::Kernel>) -> Self {
        let mut written = vec![false; plan.buffers.len()];
        for launch in &plan.launches {
            let kernel = &plan.kernels[launch.kernel.0 as usize];
            for (index, argument) in launch.arguments.iter().enumerate() {
                written[argument.buffer as usize] |= writes(kernel, index);
            }
        }
        let arguments = plan.launches.iter().map(|launch| launch.arguments.len()).sum();
        Self { plan, kernels, written, arguments }
    }

    /// Whether some launch writes a buffer.
    pub(crate) fn writes(&self, buffer: usize) -> bool {
        self.written[buffer]
    }

    /// The launches with their memory, the inputs' offsets in elements, and scalars.
    pub(crate) fn bind(
        &self,
        buffers: impl IntoIterator<Item = (Buffer, usize)>,
        offsets: &[i64],
        scalars: &[u64],
    ) -> Result<Batch, RuntimeError> {
        let mut batch =
            Batch::with_capacity(self.plan.buffers.len(), self.plan.launches.len(), self.arguments);
        let mut slots: SmallVec<[(Slot, i64); 12]> = SmallVec::new();
        for (buffer, start) in buffers {
            slots.push((batch.bind(buffer), start as i64));
        }
        for launch in &self.plan.launches {
            let place = |argument: &Argument| {
                let index = argument.buffer as usize;
                let base = match self.plan.buffers[index].source {
                    BufferSource::Input(slot) => offsets[slot as usize],
                    _ => 0,
                };
                let bytes = (base + argument.offset) * argument.dtype.size() as i64;
                let (slot, start) = slots[index];
                (slot, (start + bytes) as usize)
            };
            let kernel = self.kernels[launch.kernel.0 as usize].clone();
            let arguments = launch.arguments.iter().map(place);
            let values = launch.scalars.iter().map(|&slot| scalars[slot as usize]);
            let numbers = self.plan.numbers.get(&launch.kernel).into_iter().flatten().copied();
            let values = values.chain(numbers);
            // SAFETY: the planner gives each kernel the parameters it was made for, within the buffers
            // it sized; a window's launches share one stream, and events order it after others.
            unsafe { batch.launch(kernel, arguments, values)? };
        }
        Ok(batch)
    }
}

/// Whether a kernel writes its argument `index`.
fn writes(kernel: &Kernel, index: usize) -> bool {
    match kernel {
        Kernel::Block(block) => block.params[index].mode != ParamMode::In,
        Kernel::Scatter(_) => index == 0,
        Kernel::Sort(_) | Kernel::Scan(_) => index == 1,
        Kernel::Paths(_) => index == 2,
        Kernel::Attention(attention) => attention.operands()[index].is_written(),
    }
}
