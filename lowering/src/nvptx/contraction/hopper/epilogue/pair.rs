//! Evaluating the statements after a contraction for two neighbouring columns: what a thread has of a run of
//! 8 columns. Pairs of f16 and bf16 stay packed, so that one instruction rounds or adds both.

use crate::LoweringError;
use crate::body;
use crate::emit::{Emitter, Value};
use crate::host::lanes::Around;
use crate::scalar;
use crate::types::storage_type;
use burn_mlir_ir::{BinaryOp, Block, DType, Instr};
use std::ops::Range;

/// Two values.
#[derive(Clone, Debug)]
pub(super) enum Pair {
    /// The same value twice.
    Same(Value),
    /// Two of the value type.
    Lanes([Value; 2]),
    /// A vector of two f16 or bf16.
    Packed(Value),
}

/// What is known of each statement.
pub(super) type Known = Vec<Option<Pair>>;

/// Evaluates statements of a block.
#[derive(Clone, Debug)]
pub(super) struct Pairs<'a> {
    pub block: &'a Block,
    pub scalars: Vec<Value>,
}

fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

fn is_single(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::Flex32)
}

/// Two f32 rounded to f16 or bf16.
fn rounded(e: &mut Emitter, dtype: DType, [a, b]: &[Value; 2]) -> Pair {
    let both = e.op(format_args!("vector.from_elements {a}, {b} : vector<2xf32>"));
    Pair::Packed(e.op(format_args!("arith.truncf {both} : vector<2xf32> to vector<2x{dtype}>")))
}

/// Two f32 as values of `dtype`.
pub(super) fn converted(e: &mut Emitter, dtype: DType, values: &[Value; 2]) -> Pair {
    if is_half(dtype) { rounded(e, dtype, values) } else { Pair::Lanes(values.clone()) }
}

impl Pair {
    /// Both values of the value type.
    pub fn lanes(&self, e: &mut Emitter, dtype: DType) -> [Value; 2] {
        match self {
            Self::Same(value) => [value.clone(), value.clone()],
            Self::Lanes(values) => values.clone(),
            Self::Packed(vector) => {
                let bits = e.op(format_args!("arith.bitcast {vector} : vector<2x{dtype}> to vector<2xi16>"));
                [0, 1]
                    .map(|lane| e.op(format_args!("vector.extract {bits}[{lane}] : i16 from vector<2xi16>")))
            }
        }
    }

    /// Both values in the type they are computed in: f32 for f16 and bf16.
    fn wide(&self, e: &mut Emitter, dtype: DType) -> [Value; 2] {
        if !is_half(dtype) {
            return self.lanes(e, dtype);
        }
        let packed = self.packed(e, dtype);
        if dtype == DType::BF16 {
            let bits = e.op(format_args!("llvm.bitcast {packed} : vector<2xbf16> to i32"));
            let sixteen = e.op("arith.constant 16 : i32");
            let high = e.op("arith.constant -65536 : i32");
            let first = e.op(format_args!("arith.shli {bits}, {sixteen} : i32"));
            let second = e.op(format_args!("arith.andi {bits}, {high} : i32"));
            return [first, second].map(|bits| e.op(format_args!("arith.bitcast {bits} : i32 to f32")));
        }
        let wide = e.op(format_args!("arith.extf {packed} : vector<2x{dtype}> to vector<2xf32>"));
        [0, 1].map(|lane| e.op(format_args!("vector.extract {wide}[{lane}] : f32 from vector<2xf32>")))
    }

    /// Both values of f16 or bf16 as one vector.
    fn packed(&self, e: &mut Emitter, dtype: DType) -> Value {
        let bits = match self {
            Self::Packed(vector) => return vector.clone(),
            Self::Same(value) => e.op(format_args!("vector.broadcast {value} : i16 to vector<2xi16>")),
            Self::Lanes([a, b]) => e.op(format_args!("vector.from_elements {a}, {b} : vector<2xi16>")),
        };
        e.op(format_args!("arith.bitcast {bits} : vector<2xi16> to vector<2x{dtype}>"))
    }

    /// Both values of f16 or bf16 as the bits of one `i32`, the first in the low half.
    pub fn bits(&self, e: &mut Emitter, dtype: DType) -> Value {
        let packed = self.packed(e, dtype);
        e.op(format_args!("llvm.bitcast {packed} : vector<2x{dtype}> to i32"))
    }

    /// The opposite of [`bits`](Self::bits).
    pub fn of_bits(e: &mut Emitter, dtype: DType, bits: &Value) -> Self {
        Self::Packed(e.op(format_args!("llvm.bitcast {bits} : i32 to vector<2x{dtype}>")))
    }

    /// Both values as they are in memory, as one vector, with its type.
    pub fn stored(&self, e: &mut Emitter, dtype: DType) -> (Value, String) {
        if is_half(dtype) {
            return (self.packed(e, dtype), format!("vector<2x{dtype}>"));
        }
        let [a, b] = self.lanes(e, dtype).map(|value| scalar::to_storage(e, dtype, &value));
        let ty = format!("vector<2x{}>", storage_type(dtype));
        (e.op(format_args!("vector.from_elements {a}, {b} : {ty}")), ty)
    }

    /// What a vector of two elements in memory is.
    pub fn loaded(e: &mut Emitter, dtype: DType, vector: Value) -> Self {
        if is_half(dtype) {
            return Self::Packed(vector);
        }
        let ty = storage_type(dtype);
        Self::Lanes([0, 1].map(|lane| {
            let value = e.op(format_args!("vector.extract {vector}[{lane}] : {ty} from vector<2x{ty}>"));
            scalar::from_storage(e, dtype, &value)
        }))
    }

    /// The type of a vector of two elements in memory.
    pub fn memory_type(dtype: DType) -> String {
        let element = if is_half(dtype) { dtype.name() } else { storage_type(dtype) };
        format!("vector<2x{element}>")
    }
}

impl Pairs<'_> {
    /// Evaluates statement `at`, whose operands are known; `coordinates` are those of both columns.
    pub fn evaluate(
        &self,
        e: &mut Emitter,
        known: &Known,
        at: usize,
        coordinates: &[Vec<Value>; 2],
    ) -> Result<Pair, LoweringError> {
        let instr = &self.block.body[at].instr;
        let operands = instr.operands();
        let positional = matches!(instr, Instr::Index { .. } | Instr::Random { .. });
        let same = |operand: &burn_mlir_ir::Operand| matches!(known[operand.0 as usize], Some(Pair::Same(_)));
        if !positional && operands.iter().all(same) {
            return Ok(Pair::Same(self.lane(e, known, at, 0, coordinates)?));
        }
        if let Some(pair) = self.of_halves(e, known, at)? {
            return Ok(pair);
        }
        let mut lane = |lane| self.lane(e, known, at, lane, coordinates);
        Ok(Pair::Lanes([lane(0)?, lane(1)?]))
    }

    /// Evaluates a statement for one of the columns.
    fn lane(
        &self,
        e: &mut Emitter,
        known: &Known,
        at: usize,
        lane: usize,
        coordinates: &[Vec<Value>; 2],
    ) -> Result<Value, LoweringError> {
        let mut values: Vec<Option<Value>> = vec![None; self.block.body.len()];
        for operand in self.block.body[at].instr.operands() {
            let position = operand.0 as usize;
            if let Some(pair) = &known[position] {
                let dtype = self.block.body[position].dtype;
                values[position] = Some(pair.lanes(e, dtype)[lane].clone());
            }
        }
        let mut around = Around { lane: None, coordinates: &coordinates[lane], scalars: &self.scalars };
        let range: Range<usize> = at..at + 1;
        body::statements(e, self.block, range, &mut values, &mut around)?;
        values[at].take().ok_or_else(|| missing(at))
    }

    /// Evaluates a statement about f16 or bf16, if it is one.
    fn of_halves(&self, e: &mut Emitter, known: &Known, at: usize) -> Result<Option<Pair>, LoweringError> {
        let statement = &self.block.body[at];
        let dtype = statement.dtype;
        let operand = |operand: &burn_mlir_ir::Operand| -> Result<(&Pair, DType), LoweringError> {
            let position = operand.0 as usize;
            let pair = known[position].as_ref().ok_or_else(|| missing(position))?;
            Ok((pair, self.block.body[position].dtype))
        };
        Ok(Some(match &statement.instr {
            Instr::Unary(op, a) => {
                let (x, from) = operand(a)?;
                if !is_half(from) || !scalar::has_unary(*op, from) {
                    return Ok(None);
                }
                let y = x.wide(e, from).map(|x| scalar::unary_extended(e, *op, from, &x));
                if op.is_predicate() { Pair::Lanes(y) } else { rounded(e, dtype, &y) }
            }
            Instr::Binary(op, a, b) => {
                let ((a, from), (b, _)) = (operand(a)?, operand(b)?);
                if !is_half(from) || !scalar::has_binary(*op, from) {
                    return Ok(None);
                }
                // Rounding once is rounding to f32 first.
                let native = match op {
                    BinaryOp::Add => Some("addf"),
                    BinaryOp::Sub => Some("subf"),
                    BinaryOp::Mul => Some("mulf"),
                    _ => None,
                };
                if let Some(native) = native {
                    let (a, b) = (a.packed(e, from), b.packed(e, from));
                    Pair::Packed(e.op(format_args!("arith.{native} {a}, {b} : vector<2x{from}>")))
                } else {
                    let (a, b) = (a.wide(e, from), b.wide(e, from));
                    let y = [0, 1].map(|lane| scalar::binary(e, *op, DType::F32, &a[lane], &b[lane]));
                    rounded(e, dtype, &y)
                }
            }
            Instr::Compare(op, a, b) => {
                let ((a, from), (b, _)) = (operand(a)?, operand(b)?);
                if !is_half(from) {
                    return Ok(None);
                }
                let (a, b) = (a.wide(e, from), b.wide(e, from));
                Pair::Lanes([0, 1].map(|lane| scalar::compare(e, *op, DType::F32, &a[lane], &b[lane])))
            }
            Instr::Cast(a) => {
                let (x, from) = operand(a)?;
                match (from, dtype) {
                    _ if from == dtype => x.clone(),
                    _ if is_half(from) && is_single(dtype) => Pair::Lanes(x.wide(e, from)),
                    _ if (is_half(from) || is_single(from)) && is_half(dtype) => {
                        let wide = x.wide(e, from);
                        rounded(e, dtype, &wide)
                    }
                    _ => return Ok(None),
                }
            }
            _ => return Ok(None),
        }))
    }
}

fn missing(statement: usize) -> LoweringError {
    LoweringError::Unsupported(format!("statement {statement} used before it is evaluated"))
}
