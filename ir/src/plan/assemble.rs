//! Putting a plan together: equal kernels once, buffers numbered, results placed.

use super::group::{Home, Storage, StorageId};
use super::memory::Memory;
use super::schedule::Step;
use super::window::Window;
use super::{Argument, Buffer, Launch, Plan, ResultPlace};
use crate::{BufferSource, Kernel, KernelId, Layout};
use rustc_hash::FxHashMap;

/// Bytes that every allocation of ours is a multiple of.
const ALLOCATION_ALIGNMENT: usize = 64;

/// Numbers kernels and buffers in order of first use.
pub(super) fn assemble(
    window: &Window,
    storages: &[Storage],
    memory: &Memory,
    steps: Vec<Step>,
    results: &[Option<Home>],
) -> Plan {
    let mut plan = Plan { arena_bytes: memory.arena_bytes, ..Plan::default() };
    let mut kernels: FxHashMap<Kernel, KernelId> = FxHashMap::default();
    let mut numbers: FxHashMap<StorageId, u32> = FxHashMap::default();
    let mut number = |buffers: &mut Vec<Buffer>, storage: StorageId| {
        let storage = memory.representative[storage.0 as usize];
        *numbers.entry(storage).or_insert_with(|| {
            let index = storage.0 as usize;
            buffers.push(Buffer { source: memory.sources[index], bytes: storages[index].bytes });
            buffers.len() as u32 - 1
        })
    };
    for mut step in steps {
        let mut arguments = Vec::with_capacity(step.args.len());
        for (param, arg) in step.args.iter().enumerate() {
            let buffer = number(&mut plan.buffers, arg.storage);
            if let Some(declared) = declared_alignment(&mut step.kernel, param) {
                let element = arg.dtype.size();
                let known = match plan.buffers[buffer as usize].source {
                    BufferSource::Input(slot) => window.input_alignment(slot),
                    _ => ALLOCATION_ALIGNMENT,
                };
                *declared = known.min(alignment(arg.offset * element as i64)).max(element);
            }
            arguments.push(Argument { buffer, offset: arg.offset, dtype: arg.dtype });
        }
        let known = kernels.get(&step.kernel).copied();
        let kernel = known.unwrap_or_else(|| {
            let id = KernelId(plan.kernels.len() as u32);
            plan.kernels.push(step.kernel.clone());
            kernels.insert(step.kernel, id);
            id
        });
        plan.launches.push(Launch { kernel, arguments, scalars: step.scalars });
    }
    for (&id, home) in window.results.iter().zip(results) {
        let place = match home {
            Some(home) => {
                ResultPlace { buffer: number(&mut plan.buffers, home.storage), layout: home.layout.clone() }
            }
            None => {
                plan.buffers.push(Buffer { source: BufferSource::Fresh, bytes: 0 });
                let layout = Layout::contiguous(&window.node(id).shape);
                ResultPlace { buffer: plan.buffers.len() as u32 - 1, layout }
            }
        };
        plan.results.push(place);
    }
    plan
}

/// The alignment that a kernel states for a parameter, if it states any.
fn declared_alignment(kernel: &mut Kernel, param: usize) -> Option<&mut usize> {
    match kernel {
        Kernel::Block(block) => Some(&mut block.params[param].alignment),
        Kernel::Attention(attention) => {
            let operand = attention.operands()[param];
            attention.view_mut(operand).map(|view| &mut view.alignment)
        }
        Kernel::Scatter(_) | Kernel::Sort(_) | Kernel::Scan(_) | Kernel::Paths(_) => None,
    }
}

/// The largest power of two up to an allocation's alignment that divides a distance in bytes.
fn alignment(bytes: i64) -> usize {
    let zeros = bytes.trailing_zeros().min(ALLOCATION_ALIGNMENT.trailing_zeros());
    1 << zeros
}
