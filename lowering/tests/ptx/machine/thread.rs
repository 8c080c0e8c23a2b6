//! One thread of the machine.

use super::Memory;
use super::arithmetic::{self, mask};
use super::parse::{Function, Instruction, Operand, Type};

/// Instructions after which a thread is taken to run for ever.
const LIMIT: usize = 50_000_000;

/// A block of threads.
pub struct Block<'a> {
    pub function: &'a Function,
    pub memory: &'a mut Memory,
    pub arguments: &'a [u64],
    pub at: [u32; 2],
    pub threads: u32,
    pub grid: u32,
    pub shared: Vec<u8>,
}

/// Why a thread does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It does.
    Running,
    /// It waits for its warp at an instruction.
    Warp(usize),
    /// It waits for its block at an instruction.
    Barrier(usize),
    /// It has looked at memory that another block may change.
    Looked,
    /// It is at an instruction that only Hopper has.
    Special(usize),
    /// It is done.
    Done,
}

/// One thread.
pub struct Thread {
    position: u32,
    next: usize,
    registers: Vec<u64>,
}

impl Thread {
    pub fn new(function: &Function, position: u32) -> Self {
        Self { position, next: 0, registers: vec![0xdead_beef_dead_beef; function.registers] }
    }

    /// Runs until the thread has to wait.
    pub fn run(&mut self, block: &mut Block<'_>) -> Stop {
        let function = block.function;
        for _ in 0..LIMIT {
            let Some(instruction) = function.code.get(self.next) else { return Stop::Done };
            self.next += 1;
            if let Some((predicate, wanted)) = instruction.guard
                && (self.registers[predicate] & 1 == 1) != wanted
            {
                continue;
            }
            match instruction.name.as_str() {
                "ret" | "exit" => return Stop::Done,
                "bra" => match instruction.operands[0] {
                    Operand::Label(position) => self.next = position,
                    _ => panic!("{}", instruction.text),
                },
                "bar" if instruction.modifiers.iter().any(|part| part == "warp") => {
                    return Stop::Warp(self.next - 1);
                }
                "bar" | "barrier" => return Stop::Barrier(self.next - 1),
                "mbarrier" | "wgmma" | "cp" | "elect" | "stmatrix" | "setmaxnreg" | "prefetch" => {
                    return Stop::Special(self.next - 1);
                }
                "shfl" | "vote" | "redux" => return Stop::Warp(self.next - 1),
                "membar" | "fence" => {}
                "ld" => {
                    self.load(block, instruction);
                    if instruction.modifiers.iter().any(|part| part == "relaxed") {
                        return Stop::Looked;
                    }
                }
                "st" => self.store(block, instruction),
                "atom" => self.atomic(block, instruction),
                _ => self.compute(block, instruction),
            }
        }
        panic!("a thread that does not end");
    }

    /// The value of an operand.
    pub fn value(&self, block: &Block<'_>, operand: &Operand) -> u64 {
        match operand {
            Operand::Register(register) => self.registers[*register],
            Operand::Constant(bits) => *bits,
            Operand::Parameter(position) => block.arguments[*position],
            Operand::Special(name) => u64::from(match name.as_str() {
                "%tid.x" => self.position,
                "%ctaid.x" => block.at[0],
                "%ctaid.y" => block.at[1],
                "%ntid.x" => block.threads,
                "%nctaid.x" => block.grid,
                "%laneid" => self.position % 32,
                _ => 0,
            }),
            other => panic!("{other:?} is no value"),
        }
    }

    /// Changes a register.
    pub fn write(&mut self, operand: &Operand, value: u64) {
        match operand {
            Operand::Register(register) => self.registers[*register] = value,
            Operand::Nothing => {}
            other => panic!("{other:?} is no register"),
        }
    }

    /// The bytes an access reaches.
    fn bytes<'b>(
        &self,
        block: &'b mut Block<'_>,
        instruction: &Instruction,
        operand: &Operand,
        size: usize,
    ) -> &'b mut [u8] {
        let Operand::Memory(base, offset) = operand else { panic!("{}", instruction.text) };
        let address = self.value(block, base).wrapping_add_signed(*offset);
        if !instruction.modifiers.iter().any(|part| part == "shared") {
            return block.memory.find(address, size);
        }
        let address = address & 0xffff_ffff;
        assert!(address.is_multiple_of(size as u64), "{} at {address}", instruction.text);
        let (from, all) = (address as usize, block.shared.len());
        block.shared.get_mut(from..from + size).unwrap_or_else(|| panic!("{from} of {all} bytes of a block"))
    }

    fn load(&mut self, block: &mut Block<'_>, instruction: &Instruction) {
        let [to, from] = &instruction.operands[..] else { panic!("{}", instruction.text) };
        let ty = instruction.types[0];
        if let Operand::Memory(base, 0) = from
            && let Operand::Parameter(position) = **base
        {
            let value = block.arguments[position];
            return self.write(to, value & mask(ty.bits()));
        }
        let targets = std::slice::from_ref(to);
        let targets = if let Operand::Vector(list) = to { &list[..] } else { targets };
        let size = ty.bits() as usize / 8;
        let bytes = self.bytes(block, instruction, from, size * targets.len()).to_vec();
        for (target, bytes) in targets.iter().zip(bytes.chunks(size)) {
            let mut value = [0; 8];
            value[..size].copy_from_slice(bytes);
            let mut value = u64::from_le_bytes(value);
            if matches!(ty, Type::Signed(_)) {
                value = arithmetic::signed(value, ty.bits()) as u64;
            }
            self.write(target, value);
        }
    }

    fn store(&mut self, block: &mut Block<'_>, instruction: &Instruction) {
        let [to, from] = &instruction.operands[..] else { panic!("{}", instruction.text) };
        let sources = std::slice::from_ref(from);
        let sources = if let Operand::Vector(list) = from { &list[..] } else { sources };
        let size = instruction.types[0].bits() as usize / 8;
        let values: Vec<u64> = sources.iter().map(|source| self.value(block, source)).collect();
        let bytes = self.bytes(block, instruction, to, size * values.len());
        for (bytes, value) in bytes.chunks_mut(size).zip(values) {
            bytes.copy_from_slice(&value.to_le_bytes()[..size]);
        }
    }

    fn atomic(&mut self, block: &mut Block<'_>, instruction: &Instruction) {
        let [to, at, by] = &instruction.operands[..] else { panic!("{}", instruction.text) };
        let ty = instruction.types[0];
        let bits = ty.bits();
        let by = self.value(block, by) & mask(bits);
        let bytes = self.bytes(block, instruction, at, bits as usize / 8);
        let mut value = [0; 8];
        value[..bytes.len()].copy_from_slice(bytes);
        let old = u64::from_le_bytes(value);
        let known = ["add", "inc", "exch", "min", "max", "or"];
        let operation = instruction.modifiers.iter().find(|part| known.contains(&part.as_str()));
        let first = |by: u64, old: u64| match ty {
            Type::Signed(_) => arithmetic::signed(by, bits) < arithmetic::signed(old, bits),
            _ => by < old,
        };
        let new = match operation.map(String::as_str) {
            Some("add") => old.wrapping_add(by),
            Some("inc") if old >= by => 0,
            Some("inc") => old + 1,
            Some("exch") => by,
            Some("or") => old | by,
            Some("min") => {
                if first(by, old) {
                    by
                } else {
                    old
                }
            }
            Some("max") => {
                if first(by, old) {
                    old
                } else {
                    by
                }
            }
            _ => panic!("{}", instruction.text),
        };
        let count = bytes.len();
        bytes.copy_from_slice(&new.to_le_bytes()[..count]);
        self.write(to, old);
    }

    fn compute(&mut self, block: &mut Block<'_>, instruction: &Instruction) {
        let operands = &instruction.operands;
        if instruction.name == "mov" {
            return self.mov(block, instruction);
        }
        let values: Vec<u64> = operands[1..].iter().map(|operand| self.value(block, operand)).collect();
        let result = arithmetic::evaluate(instruction, &values);
        self.write(&operands[0], result);
    }

    fn mov(&mut self, block: &mut Block<'_>, instruction: &Instruction) {
        let bits = instruction.types[0].bits();
        match &instruction.operands[..] {
            [Operand::Vector(parts), from] => {
                let (value, each) = (self.value(block, from), bits / parts.len() as u32);
                for (number, part) in parts.iter().enumerate() {
                    self.write(part, value >> (number as u32 * each) & mask(each));
                }
            }
            [to, Operand::Vector(parts)] => {
                let each = bits / parts.len() as u32;
                let all = parts.iter().enumerate().fold(0, |all, (number, part)| {
                    all | (self.value(block, part) & mask(each)) << (number as u32 * each)
                });
                self.write(to, all);
            }
            [to, from] => {
                let value = self.value(block, from);
                self.write(to, value);
            }
            _ => panic!("{}", instruction.text),
        }
    }
}

/// An instruction that the threads of a warp execute together.
pub fn warp_operation(instruction: &Instruction, lanes: &mut [Thread]) {
    let value = |thread: &Thread, operand: &Operand| match operand {
        Operand::Register(register) => thread.registers[*register],
        Operand::Constant(bits) => *bits,
        other => panic!("{other:?}"),
    };
    let operands = &instruction.operands;
    if instruction.name == "bar" {
        return;
    }
    if instruction.name == "vote" {
        let votes = lanes
            .iter()
            .enumerate()
            .fold(0, |votes, (lane, thread)| votes | (value(thread, &operands[1]) & 1) << lane);
        assert!(instruction.modifiers.iter().any(|part| part == "ballot"), "{}", instruction.text);
        lanes.iter_mut().for_each(|thread| thread.write(&operands[0], votes));
        return;
    }
    assert_eq!(instruction.name, "shfl", "{}", instruction.text);
    let values: Vec<u64> = lanes.iter().map(|thread| value(thread, &operands[1])).collect();
    for (lane, thread) in lanes.iter_mut().enumerate() {
        let (b, c) = (value(thread, &operands[2]) as usize & 31, value(thread, &operands[3]) as usize);
        let (clamp, segment) = (c & 31, c >> 8 & 31);
        let highest = lane & segment | clamp & !segment;
        let lowest = lane & segment;
        let from = match instruction.modifiers.iter().find(|part| *part != "sync").map(String::as_str) {
            Some("bfly") => Some(lane ^ b).filter(|&from| from <= highest),
            // The clamp of this kind is the lowest lane.
            Some("up") => lane.checked_sub(b).filter(|&from| from >= lowest | clamp & !segment),
            Some("idx") => Some(lowest | b & !segment).filter(|&from| from <= highest),
            _ => panic!("{}", instruction.text),
        };
        thread.write(&operands[0], values[from.unwrap_or(lane)] & 0xffff_ffff);
    }
}
