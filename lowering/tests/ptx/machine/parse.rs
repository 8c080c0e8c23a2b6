//! PTX as instructions.

use std::collections::HashMap;

/// A type in an instruction's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Any bits.
    Bits(u32),
    /// Unsigned.
    Unsigned(u32),
    /// Signed.
    Signed(u32),
    /// A float.
    Float(u32),
    /// Two 16-bit floats.
    Halves,
    /// Two 16-bit integers.
    Shorts,
    /// A bf16.
    Brief,
    /// Two of those.
    Briefs,
    /// A truth value.
    Predicate,
}

impl Type {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "pred" => Self::Predicate,
            "f16x2" => Self::Halves,
            "s16x2" | "u16x2" => Self::Shorts,
            "bf16" => Self::Brief,
            "bf16x2" => Self::Briefs,
            _ => {
                let bits = text.get(1..)?.parse().ok()?;
                match text.as_bytes()[0] {
                    b'b' => Self::Bits(bits),
                    b'u' => Self::Unsigned(bits),
                    b's' => Self::Signed(bits),
                    b'f' => Self::Float(bits),
                    _ => return None,
                }
            }
        })
    }

    /// Bits of a value.
    pub fn bits(self) -> u32 {
        match self {
            Self::Bits(bits) | Self::Unsigned(bits) | Self::Signed(bits) | Self::Float(bits) => bits,
            Self::Halves | Self::Shorts | Self::Briefs => 32,
            Self::Brief => 16,
            Self::Predicate => 1,
        }
    }
}

/// What an instruction works on.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A register.
    Register(usize),
    /// Bits.
    Constant(u64),
    /// A special register.
    Special(String),
    /// Several, in braces.
    Vector(Vec<Operand>),
    /// What an address in brackets is computed from, and the bytes added.
    Memory(Box<Operand>, i64),
    /// A tensor map in brackets with coordinates.
    Tensor(Box<Operand>, Vec<Operand>),
    /// A parameter's position.
    Parameter(usize),
    /// A label's position in the code.
    Label(usize),
    /// Nothing, as the result of something.
    Nothing,
}

/// One instruction.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// A predicate and whether it must hold.
    pub guard: Option<(usize, bool)>,
    /// The name's parts before types.
    pub name: String,
    /// The other parts of the name that are no types.
    pub modifiers: Vec<String>,
    /// The types in its name.
    pub types: Vec<Type>,
    /// Operands, results first.
    pub operands: Vec<Operand>,
    /// As it is written.
    pub text: String,
}

/// One kernel.
pub struct Function {
    /// Its symbol.
    pub name: String,
    /// Its code.
    pub code: Vec<Instruction>,
    /// Number of registers.
    pub registers: usize,
    /// Bytes of static shared memory.
    pub shared_bytes: usize,
}

#[derive(Default)]
struct Names {
    registers: HashMap<String, usize>,
    labels: HashMap<String, usize>,
    parameters: HashMap<String, usize>,
    shared: HashMap<String, usize>,
}

/// All kernels of a module.
pub fn functions(ptx: &str) -> Vec<Function> {
    let mut all = Vec::new();
    let mut lines = ptx.lines().map(|line| line.split("//").next().unwrap_or_default().trim());
    let mut global_shared: Vec<(String, usize)> = Vec::new();
    while let Some(line) = lines.next() {
        if line.starts_with(".shared") || line.contains(".shared .align") {
            global_shared.push(shared_variable(line));
        }
        let Some(name) = line.strip_prefix(".visible .entry ") else { continue };
        let mut names = Names::default();
        let mut body: Vec<String> = Vec::new();
        let mut shared_bytes = 0usize;
        let mut depth = 0;
        for (name, size) in &global_shared {
            names.shared.insert(name.clone(), shared_bytes);
            shared_bytes = (shared_bytes + size).next_multiple_of(128);
        }
        for line in lines.by_ref() {
            if line.starts_with(".param") {
                let name = line.trim_end_matches(',').rsplit(' ').next().unwrap_or_default();
                let name = name.split('[').next().unwrap_or_default();
                names.parameters.insert(name.into(), names.parameters.len());
            } else if line.starts_with(".shared") {
                let (name, size) = shared_variable(line);
                names.shared.insert(name, shared_bytes);
                shared_bytes = (shared_bytes + size).next_multiple_of(128);
            } else if line == "{" {
                depth += 1;
            } else if line == "}" {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            } else if let Some(label) = line.strip_suffix(':') {
                names.labels.insert(label.into(), body.len());
            } else if depth > 0 && !line.is_empty() && !line.starts_with('.') {
                body.push(line.trim_end_matches(';').into());
            }
        }
        let code = body.iter().map(|line| instruction(line, &mut names)).collect();
        let registers = names.registers.len();
        let name = name.trim_end_matches('(').into();
        all.push(Function { name, code, registers, shared_bytes });
    }
    all
}

fn shared_variable(line: &str) -> (String, usize) {
    let declaration = line.trim_end_matches(';').rsplit(' ').next().unwrap_or_default();
    let (name, rest) = declaration.split_once('[').unwrap_or((declaration, "0]"));
    (name.into(), rest.trim_end_matches(']').parse().unwrap_or(0))
}

fn instruction(line: &str, names: &mut Names) -> Instruction {
    let mut rest = line;
    let mut guard = None;
    if let Some(text) = rest.strip_prefix('@') {
        let (predicate, after) =
            text.split_once(char::is_whitespace).expect("an instruction behind its guard");
        let wanted = !predicate.starts_with('!');
        guard = Some((register(predicate.trim_start_matches('!'), names), wanted));
        rest = after.trim();
    }
    let (opcode, operands) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let mut parts = opcode.split('.');
    let name = parts.next().unwrap_or_default().to_string();
    let (mut types, mut modifiers) = (Vec::new(), Vec::new());
    for part in parts {
        match Type::parse(part) {
            Some(ty) => types.push(ty),
            None => modifiers.push(part.to_string()),
        }
    }
    let operands = split(operands).iter().map(|text| operand(text, names)).collect();
    Instruction { guard, name, modifiers, types, operands, text: line.into() }
}

/// Splits at commas outside braces.
fn split(text: &str) -> Vec<String> {
    let (mut parts, mut depth, mut part) = (Vec::new(), 0, String::new());
    for c in text.chars() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            _ => {}
        }
        part.push(c);
    }
    parts.push(part);
    parts.iter().map(|part| part.trim().to_string()).filter(|part| !part.is_empty()).collect()
}

fn register(name: &str, names: &mut Names) -> usize {
    let next = names.registers.len();
    *names.registers.entry(name.into()).or_insert(next)
}

fn operand(text: &str, names: &mut Names) -> Operand {
    if let Some(list) = text.strip_prefix('{') {
        let list = split(list.trim_end_matches('}'));
        return Operand::Vector(list.iter().map(|text| operand(text, names)).collect());
    }
    if let Some(address) = text.strip_prefix('[') {
        let address = address.trim_end_matches(']');
        if let Some((base, coordinates)) = address.split_once(',') {
            let Operand::Vector(coordinates) = operand(coordinates.trim(), names) else { panic!("{text}") };
            return Operand::Tensor(Box::new(operand(base, names)), coordinates);
        }
        let (base, offset) = match address.split_once('+') {
            Some((base, offset)) => (base, offset.parse().expect("an offset")),
            None => (address, 0),
        };
        return Operand::Memory(Box::new(operand(base, names)), offset);
    }
    if let Some((first, _)) = text.split_once('|') {
        return operand(first, names);
    }
    if text == "_" {
        return Operand::Nothing;
    }
    for special in ["%tid.", "%ctaid.", "%ntid.", "%nctaid.", "%laneid"] {
        if text.starts_with(special) {
            return Operand::Special(text.into());
        }
    }
    if text.starts_with('%') {
        return Operand::Register(register(text, names));
    }
    if let Some(&position) = names.parameters.get(text) {
        return Operand::Parameter(position);
    }
    if let Some(&position) = names.labels.get(text) {
        return Operand::Label(position);
    }
    if let Some(&offset) = names.shared.get(text) {
        return Operand::Constant(offset as u64);
    }
    let bits = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let number = text.strip_prefix("0f").and_then(bits);
    let number = number.or_else(|| text.strip_prefix("0d").and_then(bits));
    let number = number.or_else(|| text.strip_prefix("0x").and_then(|hex| bits(hex.trim_end_matches('U'))));
    let number = number.or_else(|| text.trim_end_matches('U').parse::<i64>().ok().map(|n| n as u64));
    let number = number.or_else(|| text.trim_end_matches('U').parse::<u64>().ok());
    Operand::Constant(number.unwrap_or_else(|| panic!("what is {text}?")))
}
