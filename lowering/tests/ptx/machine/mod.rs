//! A machine that runs PTX as the tests of this crate meet it, one thread after the other, so that kernels can be
//! tried without a GPU. Some blocks run at the same time and take turns. Every access is checked: an address outside the buffer it was computed from, or
//! not a multiple of the access's size, ends the test. Memory nobody wrote holds rubbish.

mod arithmetic;
mod hopper;
mod parse;
mod thread;

pub use arithmetic::{bf16_to_f64, f16_to_f64};

use crate::emit_for;
use burn_mlir_ir::{COUNTER_WORDS, NvptxTarget, Phase, Target};
use parse::Function;
use thread::{Block, Stop};

/// Distance of buffers in the address space of the machine.
const DISTANCE: u64 = 1 << 40;

/// What memory holds before it is written.
const RUBBISH: u8 = 0xa5;

/// Global memory: buffers far from each other.
pub struct Memory {
    buffers: Vec<Vec<u8>>,
    /// Bytes by which a buffer's address is off a multiple of 256.
    shifts: Vec<u64>,
}

impl Memory {
    fn address(&self, buffer: usize) -> u64 {
        (buffer as u64 + 1) * DISTANCE + self.shifts[buffer]
    }

    fn find(&mut self, address: u64, bytes: usize) -> &mut [u8] {
        assert!(address.is_multiple_of(bytes as u64), "access of {bytes} bytes at {address:#x}");
        let buffer = (address / DISTANCE).checked_sub(1).expect("address of no buffer") as usize;
        assert!(buffer < self.buffers.len(), "address of no buffer");
        let offset = (address % DISTANCE).checked_sub(self.shifts[buffer]).expect("before a buffer") as usize;
        let memory = &mut self.buffers[buffer];
        let size = memory.len();
        memory.get_mut(offset..offset + bytes).unwrap_or_else(|| {
            panic!("access of {bytes} bytes at {offset} of buffer {buffer}, which has {size}")
        })
    }
}

/// A buffer argument: its bytes, where in them the address of the kernel's argument points, and how far the first
/// byte is off a multiple of 256.
pub struct Buffer {
    /// The contents.
    pub bytes: Vec<u8>,
    /// Byte the argument is the address of.
    pub origin: usize,
    /// Misalignment.
    pub shift: u64,
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, origin: 0, shift: 0 }
    }
}

/// What a launch left behind.
pub struct Ran {
    /// The contents of the buffers.
    pub buffers: Vec<Vec<u8>>,
    /// The status word.
    pub status: u32,
}

/// Compiles a kernel and runs it.
pub fn run(text: &str, buffers: Vec<Buffer>, scalars: &[u64]) -> Ran {
    run_on(&Target::named("sm_90a").unwrap(), text, buffers, scalars)
}

/// Compiles a kernel for a GPU of two multiprocessors, which little fills, and runs it.
pub fn run_on_small(text: &str, buffers: Vec<Buffer>) -> Ran {
    run_on(&Target::Nvptx(NvptxTarget::new("sm_90a", Some(2))), text, buffers, &[])
}

/// Compiles a kernel for a target and runs it.
pub fn run_on(target: &Target, text: &str, buffers: Vec<Buffer>, scalars: &[u64]) -> Ran {
    let emitted = emit_for(text, target);
    let functions = parse::functions(&hopper::flattened(&emitted.ptx));
    let count = buffers.len();
    let origins: Vec<usize> = buffers.iter().map(|buffer| buffer.origin).collect();
    let mut shifts: Vec<u64> = buffers.iter().map(|buffer| buffer.shift).collect();
    shifts.extend([0; 3]);
    let mut all: Vec<Vec<u8>> = buffers.into_iter().map(|buffer| buffer.bytes).collect();
    all.push(vec![RUBBISH; emitted.program.shared_bytes as usize]);
    all.push(vec![0; 4]);
    all.push(vec![0; 4 * COUNTER_WORDS]);
    let mut memory = Memory { buffers: all, shifts };
    let mut arguments: Vec<u64> =
        (0..count).map(|buffer| memory.address(buffer) + origins[buffer] as u64).collect();
    arguments.extend(scalars);
    arguments.extend((count..count + 3).map(|buffer| memory.address(buffer)));
    for phase in &emitted.program.phases {
        let maps: Vec<_> = (phase.tensor_maps.iter())
            .map(|map| (map.clone(), hopper::base(&memory, map, &origins)))
            .collect();
        arguments.truncate(count + scalars.len() + 3);
        arguments.extend((0..maps.len() as u64).map(|map| hopper::MAPS + map));
        let function = functions.iter().find(|function| function.name == phase.symbol).expect("the symbol");
        if maps.is_empty() {
            run_grid(function, phase, &mut memory, &arguments);
        }
        let [columns, rows] = if maps.is_empty() { [0; 2] } else { [phase.grid[0], phase.grid[1]] };
        for y in 0..rows {
            for x in 0..columns {
                let bytes = function.shared_bytes + phase.workgroup_bytes as usize;
                let block = Block {
                    function,
                    memory: &mut memory,
                    arguments: &arguments,
                    at: [x, y],
                    threads: phase.block[0],
                    grid: phase.grid[0],
                    shared: vec![RUBBISH; bytes.next_multiple_of(16)],
                };
                hopper::run_block(block, &maps);
            }
        }
        let counters = &memory.buffers[count + 2];
        assert!(counters.iter().all(|&byte| byte == 0), "counters are left zero");
    }
    let status = u32::from_le_bytes(memory.buffers[count + 1][..].try_into().unwrap());
    memory.buffers.truncate(count);
    Ran { buffers: memory.buffers, status }
}

/// Blocks that run at the same time.
const AT_ONCE: usize = 5;

/// Turns in which blocks that wait for each other get on, at most.
const TURNS: usize = 50_000_000;

/// A block that runs.
struct Running {
    at: [u32; 2],
    threads: Vec<thread::Thread>,
    stops: Vec<Stop>,
    shared: Vec<u8>,
}

impl Running {
    fn new(function: &Function, phase: &Phase, at: [u32; 2]) -> Self {
        let threads = phase.block[0];
        let bytes = function.shared_bytes + phase.workgroup_bytes as usize;
        Self {
            at,
            threads: (0..threads).map(|position| thread::Thread::new(function, position)).collect(),
            stops: vec![Stop::Running; threads as usize],
            shared: vec![RUBBISH; bytes.next_multiple_of(16)],
        }
    }

    /// Runs every thread until it waits for the block, or has looked at memory that another block may
    /// change; whether all are done.
    fn turn(&mut self, block: &mut Block<'_>) -> bool {
        let function = block.function;
        for (lanes, stops) in self.threads.chunks_mut(32).zip(self.stops.chunks_mut(32)) {
            loop {
                for (thread, stop) in lanes.iter_mut().zip(stops.iter_mut()) {
                    if *stop == Stop::Running {
                        *stop = thread.run(block);
                    }
                }
                let Stop::Warp(pc) = stops[0] else { break };
                if stops.contains(&Stop::Looked) {
                    break;
                }
                assert!(stops.iter().all(|&stop| stop == Stop::Warp(pc)), "a warp that is not together");
                assert_eq!(lanes.len(), 32, "a warp operation of part of a warp");
                thread::warp_operation(&function.code[pc], lanes);
                stops.fill(Stop::Running);
            }
        }
        if self.stops.iter().all(|&stop| stop == Stop::Done) {
            return true;
        }
        if self.stops.contains(&Stop::Looked) {
            self.stops
                .iter_mut()
                .filter(|stop| **stop == Stop::Looked)
                .for_each(|stop| *stop = Stop::Running);
            return false;
        }
        let together = self.stops.iter().all(|stop| matches!(stop, Stop::Barrier(_)));
        assert!(together, "threads that wait for others: {:?}", self.stops);
        self.stops.fill(Stop::Running);
        false
    }
}

/// Runs the blocks of a grid, some at the same time, which take turns in no regular order.
fn run_grid(function: &Function, phase: &Phase, memory: &mut Memory, arguments: &[u64]) {
    let mut waiting = (0..phase.grid[1]).flat_map(|y| (0..phase.grid[0]).map(move |x| [x, y]));
    let mut running: Vec<Running> = Vec::new();
    let mut random = 1u64;
    for _ in 0..TURNS {
        while running.len() < AT_ONCE
            && let Some(at) = waiting.next()
        {
            running.push(Running::new(function, phase, at));
        }
        if running.is_empty() {
            return;
        }
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let number = (random >> 33) as usize % running.len();
        let current = &mut running[number];
        let mut block = Block {
            function,
            memory,
            arguments,
            at: current.at,
            threads: phase.block[0],
            grid: phase.grid[0],
            shared: std::mem::take(&mut current.shared),
        };
        let done = current.turn(&mut block);
        current.shared = block.shared;
        if done {
            running.swap_remove(number);
        }
    }
    panic!("blocks that wait for each other");
}
