//! What only Hopper has: barriers in the memory of a block that count bytes, the copy engine, and matrix
//! instructions of four warps. Copies and products are done at once, so nothing is learned here about
//! what has to wait for them but for the barriers; but threads that wait for ever are found.

use super::Memory;
use super::arithmetic::{bf16_to_f64, f16_to_f64};
use super::parse::{Function, Instruction, Operand, Type};
use super::thread::{Block, Stop, Thread, warp_operation};
use burn_mlir_ir::{DType, TensorMap};
use std::collections::HashMap;

/// Stands for the address of the first tensor map; the next ones follow.
pub const MAPS: u64 = 1 << 60;

/// Threads of a matrix instruction.
const GROUP: usize = 128;

/// Makes one instruction of each line of assembly written inline.
pub fn flattened(ptx: &str) -> String {
    let mut added = false;
    let mut line = |line: &str| {
        let text = line.trim();
        // What the operation for a product becomes.
        if let Some(flag) = text.strip_prefix("setp.ne.b32 p, ") {
            added = flag.starts_with('1');
            return String::new();
        }
        if text == ".reg .pred p;" {
            return String::new();
        }
        if text.starts_with("wgmma.mma_async") && text.contains(", p,") {
            return text.replace(", p,", if added { ", 1," } else { ", 0," });
        }
        if let Some((_, predicate)) = text.strip_prefix("elect.sync").and_then(|rest| rest.split_once('|')) {
            return format!("elect.sync {predicate}");
        }
        // What the operation that waits for a barrier becomes.
        let waiting =
            [".reg .pred       P1;", "LAB_WAIT:", "@P1 bra.uni DONE;", "bra.uni     LAB_WAIT;", "DONE:"];
        if waiting.contains(&text) {
            return String::new();
        }
        if text.starts_with("mbarrier.try_wait") && text.contains(" P1,") {
            return text.replacen("try_wait", "wait", 1).replace(" P1,", "");
        }
        if !text.starts_with("{ .reg .pred p;") {
            return line.to_string();
        }
        let statements: Vec<&str> =
            text.trim_start_matches('{').trim_end_matches('}').split(';').map(str::trim).collect();
        let find = |name: &str| statements.iter().find_map(|s| Some(&s[s.find(name)?..]));
        if let Some(wait) = find("mbarrier.try_wait") {
            return format!("{};", wait.replacen("try_wait", "wait", 1).replace(" p,", ""));
        }
        if let (Some(arrive), Some(test)) = (find("mbarrier.arrive"), find("setp.eq.u32 p, ")) {
            let position = test.trim_start_matches("setp.eq.u32 p, ").trim_end_matches(", 0");
            return format!("{};", arrive.replacen("arrive", "arrive.first", 1) + ", " + position);
        }
        let adds = find("setp.ne.b32 p, 1").is_some();
        let product = find("wgmma.mma_async").expect("a matrix instruction");
        format!("{};", product.replace(", p,", if adds { ", 1," } else { ", 0," }))
    };
    ptx.lines().map(&mut line).collect::<Vec<_>>().join("\n")
}

/// A barrier in the memory of a block.
#[derive(Clone, Copy, Debug, Default)]
struct Barrier {
    phase: u64,
    count: i64,
    pending: i64,
    bytes: i64,
}

impl Barrier {
    fn settle(&mut self) {
        if self.pending == 0 && self.bytes == 0 {
            self.phase += 1;
            self.pending = self.count;
        }
        assert!(self.pending >= 0, "more arrivals than a barrier counts");
    }
}

/// Runs a block of threads.
pub fn run_block(mut block: Block<'_>, maps: &[(TensorMap, u64)]) {
    let count = block.threads as usize;
    let mut threads: Vec<Thread> = (0..block.threads).map(|n| Thread::new(block.function, n)).collect();
    let mut stops = vec![Stop::Running; count];
    let mut barriers: HashMap<u64, Barrier> = HashMap::new();
    // Threads that came to a numbered barrier, and how many more arrived without waiting.
    let mut named: HashMap<u64, (Vec<usize>, usize)> = HashMap::new();
    while stops.iter().any(|&stop| stop != Stop::Done) {
        let mut moved = false;
        for (thread, stop) in threads.iter_mut().zip(&mut stops) {
            if *stop == Stop::Running {
                moved = true;
                *stop = match thread.run(&mut block) {
                    Stop::Barrier(pc) => Stop::Special(pc),
                    stop => stop,
                };
            }
        }
        for first in (0..count).step_by(32) {
            if let Stop::Warp(pc) = stops[first] {
                let lanes = &mut stops[first..first + 32];
                if lanes.iter().all(|&stop| stop == Stop::Warp(pc)) {
                    warp_operation(&block.function.code[pc], &mut threads[first..first + 32]);
                    lanes.fill(Stop::Running);
                    moved = true;
                }
            }
        }
        for first in (0..count).step_by(GROUP) {
            let Stop::Special(pc) = stops[first] else { continue };
            let instruction = &block.function.code[pc];
            let group = first..first + GROUP;
            let together = stops[group.clone()].iter().all(|&stop| stop == Stop::Special(pc));
            if is_product(instruction) && together {
                multiply(instruction, &mut threads[group.clone()], &block);
                stops[group].fill(Stop::Running);
                moved = true;
            }
        }
        for number in 0..count {
            let Stop::Special(pc) = stops[number] else { continue };
            let function: &Function = block.function;
            let instruction = &function.code[pc];
            let thread = &mut threads[number];
            let operands: Vec<u64> = instruction
                .operands
                .iter()
                .map(|operand| match operand {
                    Operand::Memory(base, offset) => thread.value(&block, base).wrapping_add_signed(*offset),
                    Operand::Vector(_) | Operand::Tensor(..) | Operand::Nothing => 0,
                    operand => thread.value(&block, operand),
                })
                .collect();
            let part = |n: usize| instruction.modifiers.get(n).map(String::as_str);
            let all = |text: &str| instruction.modifiers.iter().any(|part| part == text);
            let done = match instruction.name.as_str() {
                "mbarrier" if part(0) == Some("init") => {
                    let count = operands[1] as i64;
                    barriers.insert(operands[0], Barrier { count, pending: count, ..Barrier::default() });
                    true
                }
                // Only if its last operand is 0.
                "mbarrier" if all("first") && operands.last() != Some(&0) => true,
                "mbarrier" if part(0) == Some("arrive") => {
                    let barrier = barriers.get_mut(&operands[1]).expect("a barrier");
                    barrier.bytes += if all("expect_tx") { operands[2] as i64 } else { 0 };
                    barrier.pending -= 1;
                    barrier.settle();
                    true
                }
                "mbarrier" => barriers[&operands[0]].phase & 1 != operands[1] & 1,
                "bar" | "barrier" => {
                    let needed = operands.get(1).map_or(count, |&count| count as usize);
                    let (waiting, arrived) = named.entry(operands[0]).or_default();
                    let waits = !all("arrive");
                    if waits && !waiting.contains(&number) {
                        waiting.push(number);
                    } else if !waits {
                        *arrived += 1;
                    }
                    assert!(waiting.len() + *arrived <= needed, "{}", instruction.text);
                    if waiting.len() + *arrived == needed {
                        *arrived = 0;
                        for other in std::mem::take(waiting) {
                            stops[other] = Stop::Running;
                        }
                        moved = true;
                    }
                    !waits
                }
                "elect" => {
                    thread.write(&instruction.operands[0], u64::from(number % 32 == 0));
                    true
                }
                "cp" if all("tensor") => {
                    let into = matches!(instruction.operands[1], Operand::Tensor(..));
                    let (tensor, at) = if into {
                        (&instruction.operands[1], operands[0])
                    } else {
                        (&instruction.operands[0], operands[1])
                    };
                    let Operand::Tensor(map, corner) = tensor else { panic!("{}", instruction.text) };
                    let corner: Vec<i64> =
                        corner.iter().map(|at| i64::from(thread.value(&block, at) as i32)).collect();
                    let (map, base) = &maps[(thread.value(&block, map) - MAPS) as usize];
                    let bytes = copy(into, &mut block, map, *base, at, &corner);
                    if into {
                        let barrier = barriers.get_mut(&operands[2]).expect("a barrier");
                        barrier.bytes -= bytes;
                        barrier.settle();
                    }
                    true
                }
                "stmatrix" => false,
                "wgmma" => !is_product(instruction),
                // Fences, groups of copies, numbers of registers: all is done at once.
                _ => true,
            };
            if done {
                stops[number] = Stop::Running;
                moved = true;
            }
        }
        for first in (0..count).step_by(32) {
            let Stop::Special(pc) = stops[first] else { continue };
            let instruction = &block.function.code[pc];
            let lanes = first..first + 32;
            if instruction.name == "stmatrix"
                && stops[lanes.clone()].iter().all(|&stop| stop == Stop::Special(pc))
            {
                store_matrices(instruction, &threads[lanes.clone()], &mut block);
                stops[lanes].fill(Stop::Running);
                moved = true;
            }
        }
        assert!(moved, "all threads wait: {}", describe(&stops, block.function));
    }
}

fn describe(stops: &[Stop], function: &Function) -> String {
    let text = |stop: &Stop| match stop {
        Stop::Special(pc) | Stop::Warp(pc) => function.code[*pc].text.clone(),
        other => format!("{other:?}"),
    };
    stops.iter().step_by(32).map(text).collect::<Vec<_>>().join("\n")
}

fn is_product(instruction: &Instruction) -> bool {
    instruction.name == "wgmma" && instruction.modifiers.iter().any(|part| part == "mma_async")
}

/// Where a byte of 128-byte rows is whose 16-byte pieces are permuted.
fn swizzled(address: u64) -> usize {
    (address ^ (address >> 7 & 7) << 4) as usize
}

/// Copies a box of 16-bit elements and gives its bytes. What is outside the tensor is read as 0 and not written.
fn copy(into: bool, block: &mut Block<'_>, map: &TensorMap, base: u64, at: u64, corner: &[i64]) -> i64 {
    let boxes: Vec<i64> = map.box_sizes.iter().map(|&size| i64::from(size)).collect();
    let total: i64 = boxes.iter().product();
    assert_eq!(at % 128, 0, "a box in memory of a block");
    for number in 0..total {
        let mut rest = number;
        let mut inside = true;
        let mut address = base as i64;
        for (dim, size) in boxes.iter().enumerate() {
            let coordinate = corner[dim] + rest % size;
            rest /= size;
            inside &= (0..map.sizes[dim] as i64).contains(&coordinate);
            address += coordinate * if dim == 0 { 2 } else { map.strides[dim - 1] as i64 };
        }
        let place = swizzled(at + 2 * number as u64);
        if into {
            let bytes = if inside { block.memory.find(address as u64, 2).to_vec() } else { vec![0; 2] };
            block.shared[place..place + 2].copy_from_slice(&bytes);
        } else if inside {
            let bytes = block.shared[place..place + 2].to_vec();
            block.memory.find(address as u64, 2).copy_from_slice(&bytes);
        }
    }
    2 * total
}

/// Four 8×8 matrices of 16-bit elements: lane `8m + r` has the address of row `r` of matrix `m`.
fn store_matrices(instruction: &Instruction, lanes: &[Thread], block: &mut Block<'_>) {
    let [Operand::Memory(base, offset), Operand::Vector(registers)] = &instruction.operands[..] else {
        panic!("{}", instruction.text)
    };
    let addresses: Vec<u64> =
        lanes.iter().map(|lane| lane.value(block, base).wrapping_add_signed(*offset)).collect();
    for (matrix, register) in registers.iter().enumerate() {
        for (lane, thread) in lanes.iter().enumerate() {
            let value = thread.value(block, register) as u32;
            let place = addresses[8 * matrix + lane / 4] as usize + 4 * (lane % 4);
            block.shared[place..place + 4].copy_from_slice(&value.to_le_bytes());
        }
    }
}

/// A matrix instruction of four warps: 64 rows, 16 summed elements.
fn multiply(instruction: &Instruction, threads: &mut [Thread], block: &Block<'_>) {
    let shape = instruction.modifiers.iter().find_map(|part| part.strip_prefix('m')?.strip_suffix("k16"));
    let columns: usize =
        shape.and_then(|shape| shape.strip_prefix("64n")?.parse().ok()).expect("a shape of 16-bit elements");
    let number = |bits: u16| {
        if instruction.types.contains(&Type::Brief) { bf16_to_f64(bits) } else { f16_to_f64(bits) }
    };
    let operands = &instruction.operands;
    let Operand::Vector(sums) = &operands[0] else { panic!("{}", instruction.text) };
    assert_eq!(sums.len(), columns / 2);
    let flags: Vec<u64> = operands[3..].iter().map(|operand| threads[0].value(block, operand)).collect();
    let half = |address: u64| {
        let place = swizzled(address);
        number(u16::from_le_bytes([block.shared[place], block.shared[place + 1]]))
    };
    let field = |descriptor: u64, from: u32| (descriptor >> from & 0x3fff) << 4;
    let check = |descriptor: u64| assert_eq!(descriptor >> 62, 1, "rows of 128 bytes");
    let mut left = vec![[0f64; 16]; 64];
    if let Operand::Vector(fragments) = &operands[1] {
        for (at, thread) in threads.iter().enumerate() {
            let (row, k) = (at / 32 * 16 + at % 32 / 4, 2 * (at % 4));
            for (index, fragment) in fragments.iter().enumerate() {
                let bits = thread.value(block, fragment);
                let (row, k) = (row + 8 * (index % 2), k + 8 * (index / 2));
                left[row][k] = number(bits as u16);
                left[row][k + 1] = number((bits >> 16) as u16);
            }
        }
    } else {
        let descriptor = threads[0].value(block, &operands[1]);
        check(descriptor);
        let (start, apart) = (field(descriptor, 0), field(descriptor, 32));
        for (row, values) in left.iter_mut().enumerate() {
            let row = row as u64;
            for (k, value) in values.iter_mut().enumerate() {
                *value = half(start + row / 8 * apart + row % 8 * 128 + 2 * k as u64);
            }
        }
    }
    let descriptor = threads[0].value(block, &operands[2]);
    check(descriptor);
    let (start, leading, apart) = (field(descriptor, 0), field(descriptor, 16), field(descriptor, 32));
    let transposed = flags.last() == Some(&1);
    let mut right = vec![vec![0f64; columns]; 16];
    for (k, row) in right.iter_mut().enumerate() {
        let k = k as u64;
        for (n, value) in row.iter_mut().enumerate() {
            let n = n as u64;
            *value = half(if transposed {
                start + n / 64 * leading + k / 8 * apart + k % 8 * 128 + n % 64 * 2
            } else {
                start + n / 8 * apart + n % 8 * 128 + 2 * k
            });
        }
    }
    for (at, thread) in threads.iter_mut().enumerate() {
        for (index, register) in sums.iter().enumerate() {
            let row = at / 32 * 16 + at % 32 / 4 + 8 * (index / 2 % 2);
            let column = 8 * (index / 4) + 2 * (at % 4) + index % 2;
            let before =
                if flags[0] == 1 { f32::from_bits(thread.value(block, register) as u32) } else { 0.0 };
            let sum: f64 = (0..16).map(|k| left[row][k] * right[k][column]).sum();
            let sum = (f64::from(before) + sum) as f32;
            thread.write(register, u64::from(sum.to_bits()));
        }
    }
}

/// The address that a tensor map's coordinates start at.
pub fn base(memory: &Memory, map: &TensorMap, origins: &[usize]) -> u64 {
    assert!(matches!(map.dtype, DType::F16 | DType::BF16));
    memory.address(map.param as usize) + origins[map.param as usize] as u64 + map.offset
}
