//! Evaluating the statements of a block for one thread's run of consecutive coordinates.
//!
//! The run is a *chunk* of static width along the *lane* dimension. Values that do not depend on the
//! lane dimension are scalar code. What depends on it is a vector: loaded by as few accesses as its
//! alignment allows, computed by a `linalg.generic` on tensors of the chunk's width that the schedule
//! turns back into vectors.

use super::writer::{GLOBAL, KernelWriter};
use super::{division, exponential};
use crate::body;
use crate::emit::{Emitter, Value};
use crate::error::LoweringError;
use crate::host::lanes::{Around, Form, tensor_type, vector_type, zero_of};
use crate::host::tiles::index;
use crate::scalar;
use crate::types::storage_type;
use burn_mlir_ir::{Block, Instr, Operand};

/// Where a chunk is.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    /// One `index` a dimension; for the lane dimension, that of the first lane: a multiple of the width, unless there
    /// is a [leader](Evaluator::leader).
    pub coordinates: Vec<Value>,
    /// Number of lanes.
    pub width: usize,
    /// Whether the chunk is one of the domain (an `i1`), where that is not certain. It can be read in
    /// any case; nothing may be stored if it is not.
    pub valid: Option<Value>,
}

/// A value that was evaluated.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// A value type's scalar, the same for all lanes.
    Scalar(Value),
    /// A vector with one element a lane.
    Lanes(Value, Form),
}

/// What is known of each statement.
pub(super) type Environment = Vec<Option<Known>>;

/// Evaluates a block's statements inside a kernel.
pub(super) struct Evaluator<'a> {
    /// The block.
    pub block: &'a Block,
    /// The dimensions each statement depends on.
    pub sets: Vec<u32>,
    /// The lane dimension.
    pub lane: usize,
    /// Where rows are not multiples of the width: the strides of an access that is a multiple of the width wherever
    /// a chunk begins.
    pub leader: Option<Vec<i64>>,
    /// The function that is written.
    pub kernel: KernelWriter,
    scalars: Vec<Value>,
    zero: Value,
}

impl<'a> Evaluator<'a> {
    /// Opens a kernel for a block; `lane` is the lane dimension.
    pub fn new(block: &'a Block, lane: usize, symbol: &str) -> Self {
        let mut kernel = KernelWriter::new(symbol, block.params.len(), block.scalars.len());
        let zero = index(&mut kernel.emitter, 0);
        let scalars =
            block.scalars.iter().enumerate().map(|(slot, &dtype)| kernel.scalar(slot, dtype)).collect();
        Self { block, sets: block.dependences(), lane, leader: None, kernel, scalars, zero }
    }

    /// The function's emitter.
    pub fn e(&mut self) -> &mut Emitter {
        &mut self.kernel.emitter
    }

    /// The `index` 0.
    pub fn zero(&self) -> Value {
        self.zero.clone()
    }

    /// An environment that knows nothing.
    pub fn environment(&self) -> Environment {
        vec![None; self.block.body.len()]
    }

    /// Whether a statement's value differs between lanes.
    pub fn varies(&self, statement: usize) -> bool {
        self.sets[statement] & (1 << self.lane) != 0
    }

    /// The statements not known yet that `wanted` need, in order.
    fn missing(&self, known: &Environment, wanted: &[Operand]) -> Vec<usize> {
        let mut needed = vec![false; self.block.body.len()];
        let mut stack: Vec<usize> = wanted.iter().map(|w| w.0 as usize).collect();
        while let Some(statement) = stack.pop() {
            if !needed[statement] && known[statement].is_none() {
                needed[statement] = true;
                stack.extend(self.block.body[statement].instr.operands().iter().map(|o| o.0 as usize));
            }
        }
        (0..needed.len()).filter(|&s| needed[s]).collect()
    }

    /// Loads what `wanted` need. Done for all chunks of a thread before anything is computed, so that
    /// many loads are under way.
    pub fn load(&mut self, known: &mut Environment, chunk: &Chunk, wanted: &[Operand]) {
        for statement in self.missing(known, wanted) {
            let Instr::Load { param, access } = &self.block.body[statement].instr else { continue };
            let dtype = self.block.body[statement].dtype;
            let element = storage_type(dtype);
            let at = self.kernel.address(param.0 as usize, element, access, &chunk.coordinates);
            known[statement] = Some(if self.varies(statement) {
                let stride = access.strides[self.lane];
                let piece = self.piece(*param, access, chunk.width);
                Known::Lanes(self.read(&at, element, stride, piece, chunk.width), Form::Storage)
            } else {
                let value = self.e().op(format_args!("llvm.load {at} : {GLOBAL} -> {element}"));
                Known::Scalar(scalar::from_storage(self.e(), dtype, &value))
            });
        }
    }

    /// Evaluates what `wanted` need, so far as it is not a part of one linalg operation: loads,
    /// gathers, and what is the same for all lanes.
    fn prepare(
        &mut self,
        known: &mut Environment,
        chunk: &Chunk,
        wanted: &[Operand],
    ) -> Result<(), LoweringError> {
        self.load(known, chunk, wanted);
        for statement in self.missing(known, wanted) {
            match &self.block.body[statement].instr {
                Instr::Reduce(..) | Instr::ArgReduce(..) | Instr::Contract(..) => {
                    return Err(LoweringError::Unsupported(format!("reduction {statement} before its pass")));
                }
                Instr::Gather(gather) => self.gather(known, chunk, statement, gather)?,
                _ if !self.varies(statement) => self.scalar(known, chunk, statement)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Evaluates a statement that is the same for all lanes.
    fn scalar(
        &mut self,
        known: &mut Environment,
        chunk: &Chunk,
        statement: usize,
    ) -> Result<(), LoweringError> {
        let scalar_of = |known: &Option<Known>| match known {
            Some(Known::Scalar(value)) => Some(value.clone()),
            _ => None,
        };
        let mut values: Vec<_> = known.iter().map(scalar_of).collect();
        let mut around = Around { lane: None, coordinates: &chunk.coordinates, scalars: &self.scalars };
        let e = &mut self.kernel.emitter;
        body::statements(e, self.block, statement..statement + 1, &mut values, &mut around)?;
        known[statement] = values[statement].take().map(Known::Scalar);
        Ok(())
    }

    /// Evaluates `wanted` for a chunk, each in the form asked for: vectors, or scalars of what is the
    /// same for all lanes.
    pub fn evaluate(
        &mut self,
        known: &mut Environment,
        chunk: &Chunk,
        wanted: &[(Operand, Form)],
    ) -> Result<Vec<Value>, LoweringError> {
        let operands: Vec<_> = wanted.iter().map(|w| w.0).collect();
        self.prepare(known, chunk, &operands)?;
        let mut values = vec![Value::new(); wanted.len()];
        let mut computed = Vec::new();
        for (position, &(operand, form)) in wanted.iter().enumerate() {
            let dtype = self.block.body[operand.0 as usize].dtype;
            match &known[operand.0 as usize] {
                Some(Known::Scalar(value)) => {
                    values[position] = form.from_value(&mut self.kernel.emitter, dtype, value);
                }
                Some(Known::Lanes(vector, has)) if has.element(dtype) == form.element(dtype) => {
                    values[position] = vector.clone();
                }
                _ => computed.push((position, operand, form)),
            }
        }
        if !computed.is_empty() {
            let outputs: Vec<_> = computed.iter().map(|&(_, operand, form)| (operand, form)).collect();
            for ((position, ..), result) in computed.iter().zip(self.generic(known, chunk, &outputs)?) {
                values[*position] = result;
            }
        }
        Ok(values)
    }

    /// Computes `outputs`, which depend on the lane, from what is known.
    fn generic(
        &mut self,
        known: &Environment,
        chunk: &Chunk,
        outputs: &[(Operand, Form)],
    ) -> Result<Vec<Value>, LoweringError> {
        let block = self.block;
        let mut used = vec![false; block.body.len()];
        let mut stack: Vec<usize> = outputs.iter().map(|o| o.0.0 as usize).collect();
        while let Some(statement) = stack.pop() {
            if !std::mem::replace(&mut used[statement], true) && known[statement].is_none() {
                stack.extend(block.body[statement].instr.operands().iter().map(|o| o.0 as usize));
            }
        }
        let used: Vec<usize> = (0..used.len()).filter(|&s| used[s]).collect();
        let mut values: Vec<Option<Value>> = vec![None; block.body.len()];
        let (mut inputs, mut read) = (Vec::new(), Vec::new());
        for &statement in &used {
            match &known[statement] {
                Some(Known::Scalar(value)) => values[statement] = Some(value.clone()),
                Some(Known::Lanes(vector, form)) => {
                    inputs.push((vector.clone(), form.element(block.body[statement].dtype)));
                    read.push((statement, *form));
                }
                None => {}
            }
        }
        let dtype = |operand: Operand| block.body[operand.0 as usize].dtype;
        let elements: Vec<_> = outputs.iter().map(|&(operand, form)| form.element(dtype(operand))).collect();
        let (lane, scalars) = (self.lane, self.scalars.clone());
        let mut divisions = Vec::new();
        for &statement in &used {
            if let Some((dividend, divisor)) = division::by_scalar(block, known, statement) {
                let dtype = block.body[dividend].dtype;
                let reciprocal = division::reciprocal(self.e(), dtype, &divisor);
                divisions.push((statement, dividend, reciprocal));
            }
        }
        self.lanewise(chunk.width, &inputs, &elements, |e, arguments| {
            for ((statement, form), argument) in read.iter().zip(arguments) {
                values[*statement] = Some(form.to_value(e, block.body[*statement].dtype, argument));
            }
            let mut around = Around { lane: Some(lane), coordinates: &chunk.coordinates, scalars: &scalars };
            for &statement in &used {
                if let Some((_, dividend, reciprocal)) = divisions.iter().find(|d| d.0 == statement)
                    && let Some(value) = &values[*dividend]
                {
                    values[statement] =
                        Some(division::divide(e, block.body[*dividend].dtype, value, reciprocal));
                }
                if let Some(argument) = exponential::of_nonpositive(block, statement)
                    && values[statement].is_none()
                    && let Some(value) = &values[argument]
                {
                    values[statement] = Some(exponential::exp(e, block.body[argument].dtype, value));
                }
                body::statements(e, block, statement..statement + 1, &mut values, &mut around)?;
            }
            Ok(outputs
                .iter()
                .map(|&(operand, form)| {
                    let value = values[operand.0 as usize].clone().unwrap_or_default();
                    form.from_value(e, dtype(operand), &value)
                })
                .collect())
        })
    }

    /// One `linalg.generic` over the lanes of vectors: `code` computes the elements of the results from
    /// those of the inputs.
    pub fn lanewise(
        &mut self,
        width: usize,
        inputs: &[(Value, &str)],
        outputs: &[&str],
        code: impl FnOnce(&mut Emitter, &[Value]) -> Result<Vec<Value>, LoweringError>,
    ) -> Result<Vec<Value>, LoweringError> {
        let zero = self.zero();
        let e = &mut self.kernel.emitter;
        let list = |types: &mut dyn Iterator<Item = &str>| {
            types.map(|t| tensor_type(width, t)).collect::<Vec<_>>().join(", ")
        };
        let empty =
            |e: &mut Emitter, t: &str| e.op(format_args!("tensor.empty() : {}", tensor_type(width, t)));
        let tensors: Vec<_> = inputs
            .iter()
            .map(|(vector, t)| {
                let empty = empty(e, t);
                e.op(format_args!(
                    "vector.transfer_write {vector}, {empty}[{zero}] {{in_bounds = [true]}} : {}, {}",
                    vector_type(width, t),
                    tensor_type(width, t)
                ))
            })
            .collect();
        let empties: Vec<_> = outputs.iter().map(|t| empty(e, t)).collect();
        let maps = vec!["affine_map<(i) -> (i)>"; inputs.len() + outputs.len()].join(", ");
        let ins = match inputs {
            [] => String::new(),
            _ => format!(" ins({} : {})", tensors.join(", "), list(&mut inputs.iter().map(|i| i.1))),
        };
        let results = list(&mut outputs.iter().copied());
        let result = e.fresh();
        e.open(format_args!(
            "{result}:{} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [\"parallel\"]}}{ins} \
             outs({} : {results}) {{",
            outputs.len(),
            empties.join(", ")
        ));
        let types = inputs.iter().map(|i| i.1).chain(outputs.iter().copied());
        let arguments: Vec<_> = types.map(|t| (e.fresh(), t)).collect();
        let header: Vec<_> = arguments.iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
        e.line(format_args!("^bb0({}):", header.join(", ")));
        let names: Vec<_> = arguments.into_iter().map(|a| a.0).take(inputs.len()).collect();
        let yielded = code(e, &names)?;
        e.line(format_args!("linalg.yield {} : {}", yielded.join(", "), outputs.join(", ")));
        e.close(format_args!("}} -> ({results})"));
        Ok(outputs
            .iter()
            .enumerate()
            .map(|(position, t)| {
                let padding = match *t {
                    "i1" => e.op("arith.constant false"),
                    t => e.op(format_args!("arith.constant {} : {t}", zero_of(t))),
                };
                e.op(format_args!(
                    "vector.transfer_read {result}#{position}[{zero}], {padding} {{in_bounds = [true]}} : {}, {}",
                    tensor_type(width, t),
                    vector_type(width, t)
                ))
            })
            .collect())
    }
}

/// Bytes of an element in memory, by its MLIR type.
pub(super) fn bytes_of(element: &str) -> usize {
    let bits = element.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    bits.parse().map_or(4, |bits: usize| bits.div_ceil(8))
}
