//! Evaluating the statements of a block for a run of consecutive coordinates along one dimension.
//!
//! That dimension is the *lane* dimension; a run is a *chunk* of static width. Values that do not depend
//! on the lane dimension are scalar code outside; what depends on it is `linalg.generic` on
//! tensors of the chunk's width, which the schedule turns into vectors.

mod form;
mod gather;
mod generic;
mod memory;

pub(crate) use form::{Form, convert, tensor_type, vector_type, zero_of};

use super::extent::Extent;
use super::tiles::{index, index_op};
use crate::abi::PhaseWriter;
use crate::body::{self, Surroundings};
use crate::emit::{Emitter, Value};
use crate::error::LoweringError;
use crate::scalar;
use crate::types::{storage_type, value_type};
use burn_mlir_ir::{Access, Block, DomainDim, Instr, Operand, ParamId};
use memory::View;
use std::collections::HashMap;

/// Extent of a view whose strides are numbers of the launch: no memory is larger.
const ANYWHERE: i64 = 1 << 40;

/// A value that was evaluated.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    /// A value type's scalar, the same for all lanes.
    Scalar(Value),
    /// A tensor with one element a lane.
    Lanes(Value, Form),
    /// To be computed inside the linalg operation that uses it.
    Deferred,
}

/// What is known of each statement.
pub(crate) type Environment = Vec<Option<Known>>;

/// Values of an earlier pass that were kept in scratch memory.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// Flat view of the scratch, of storage type.
    pub memref: Value,
    /// Its type.
    pub ty: String,
    /// Elements to step per coordinate; 1 for the lane dimension.
    pub strides: Vec<i64>,
}

/// Evaluates a block's statements inside a phase.
pub(crate) struct Lanes<'a> {
    /// The block.
    pub block: &'a Block,
    /// The dimensions each statement depends on.
    pub sets: Vec<u32>,
    /// The lane dimension.
    pub lane: usize,
    /// The function that is written.
    pub phase: PhaseWriter,
    /// Where each dimension is; for the lane dimension, its first lane.
    pub coordinates: Vec<Value>,
    /// Statements whose values are in scratch.
    pub kept: HashMap<usize, Kept>,
    /// Scratch for statements, whether their values are there yet or not.
    pub reserved: HashMap<usize, Kept>,
    /// What is subtracted from coordinates in a scratch address, where the scratch holds a part.
    pub kept_from: Vec<(usize, Value)>,
    /// The numbers of the launch, each an `index`.
    pub numbers: Vec<Value>,
    /// Bytes of a result from which on it is written past the caches.
    pub stream_bytes: Option<usize>,
    views: HashMap<(ParamId, Access), View>,
    scalars: Vec<Value>,
    zero: Value,
}

/// The coordinates and arguments inside a linalg region or outside any.
pub(crate) struct Around<'a> {
    /// The lane dimension, inside a region over its lanes.
    pub lane: Option<usize>,
    /// Where each dimension is; for the lane dimension, its first lane.
    pub coordinates: &'a [Value],
    /// The scalar arguments.
    pub scalars: &'a [Value],
}

impl Surroundings for Around<'_> {
    fn coordinate(&mut self, e: &mut Emitter, dim: usize) -> Value {
        if self.lane == Some(dim) {
            let lane = e.op("linalg.index 0 : index");
            return index_op(e, "arith.addi", &lane, &self.coordinates[dim]);
        }
        self.coordinates[dim].clone()
    }

    fn scalar(&mut self, _: &mut Emitter, slot: usize) -> Value {
        self.scalars[slot].clone()
    }

    fn element(
        &mut self,
        _: &mut Emitter,
        index: usize,
        _: &[Option<Value>],
    ) -> Result<Value, LoweringError> {
        Err(LoweringError::Unsupported(format!("statement {index} where it is used")))
    }
}

impl<'a> Lanes<'a> {
    /// Opens a phase for a block; `lane` is the lane dimension.
    pub fn new(block: &'a Block, lane: usize, symbol: &str) -> Self {
        let mut phase = PhaseWriter::new(symbol);
        let zero = index(&mut phase.emitter, 0);
        let scalars =
            block.scalars.iter().enumerate().map(|(slot, &dtype)| phase.scalar(slot, dtype)).collect();
        let numbers = (0..block.numbers()).map(|number| phase.number(block.scalars.len() + number)).collect();
        let buffers: Vec<_> = (0..block.params.len()).map(|position| phase.buffer(position)).collect();
        let mut views = HashMap::new();
        let mut view = |param: ParamId, access: &Access, extra: i64| {
            let element = storage_type(block.params[param.0 as usize].dtype);
            let key = (param, access.clone());
            let (mut low, mut high) = (extra.min(0), extra.max(0));
            for (stride, dim) in access.strides.iter().zip(&block.domain) {
                let reach = stride * (dim.size as i64 - 1).max(0);
                low += reach.min(0);
                high += reach.max(0);
            }
            if !access.arguments.is_empty() {
                high = ANYWHERE;
            }
            let size = high - low + 1;
            if views.get(&key).is_some_and(|old: &View| old.origin >= -low && old.size >= size) {
                return;
            }
            let memref = phase.flat(&buffers[param.0 as usize], low, element, size);
            views.insert(key, View { memref, size, element, origin: -low });
        };
        for statement in &block.body {
            match &statement.instr {
                Instr::Load { param, access } => view(*param, access, 0),
                Instr::Gather(gather) => {
                    view(gather.param, &gather.access, gather.stride * (gather.extent as i64 - 1).max(0));
                }
                _ => {}
            }
        }
        for store in &block.stores {
            view(store.param, &store.access, 0);
        }
        let coordinates = vec![zero.clone(); block.domain.len()];
        let kept = HashMap::new();
        Self {
            block,
            sets: block.dependences(),
            lane,
            phase,
            coordinates,
            kept,
            reserved: HashMap::new(),
            kept_from: Vec::new(),
            numbers,
            stream_bytes: None,
            views,
            scalars,
            zero,
        }
    }

    /// The function's emitter.
    pub fn e(&mut self) -> &mut Emitter {
        &mut self.phase.emitter
    }

    /// The extent of a dimension.
    pub fn extent(&self, dim: usize) -> Extent {
        let DomainDim { size, argument, .. } = self.block.domain[dim];
        match argument {
            Some(argument) => Extent::open(argument, size, self.numbers[argument as usize].clone()),
            None => size.into(),
        }
    }

    /// The `index` 0.
    pub fn zero(&self) -> Value {
        self.zero.clone()
    }

    /// An environment that knows nothing.
    pub fn environment(&self) -> Environment {
        vec![None; self.block.body.len()]
    }

    /// Makes the results of reductions, and what follows from them, depend on the lane dimension: each lane
    /// reduces a row of its own, even if rows are equal.
    pub fn reductions_vary(&mut self) {
        let lane = 1 << self.lane;
        for (index, statement) in self.block.body.iter().enumerate() {
            let reduction =
                matches!(statement.instr, Instr::Reduce(..) | Instr::ArgReduce(..) | Instr::Contract(..));
            let follows = operands(&statement.instr).iter().any(|o| self.sets[o.0 as usize] & lane != 0);
            if reduction || follows {
                self.sets[index] |= lane;
            }
        }
    }

    fn varies(&self, statement: usize) -> bool {
        self.sets[statement] & (1 << self.lane) != 0
    }

    /// Whether a chunk of a parameter may be stored before another store reads what it was.
    fn overwritten(&self, param: ParamId) -> bool {
        self.block.stores.len() > 1 && self.block.stores.iter().any(|store| store.param == param)
    }

    /// The statements not known yet that `wanted` need, in order.
    fn missing(&self, known: &Environment, wanted: &[Operand]) -> Vec<usize> {
        let mut needed = vec![false; self.block.body.len()];
        let mut stack: Vec<usize> = wanted.iter().map(|w| w.0 as usize).collect();
        while let Some(statement) = stack.pop() {
            if needed[statement] || matches!(known[statement], Some(Known::Scalar(_) | Known::Lanes(..))) {
                continue;
            }
            needed[statement] = true;
            if !self.kept.contains_key(&statement) {
                stack.extend(operands(&self.block.body[statement].instr).iter().map(|o| o.0 as usize));
            }
        }
        (0..needed.len()).filter(|&s| needed[s]).collect()
    }

    /// Evaluates what `wanted` need and does not depend on the lane dimension nor on any dimension
    /// outside the bit set `dims`.
    pub fn invariants(
        &mut self,
        known: &mut Environment,
        wanted: &[Operand],
        dims: u32,
    ) -> Result<(), LoweringError> {
        let dims = dims & !(1 << self.lane);
        for statement in self.missing(known, wanted) {
            let operands = operands(&self.block.body[statement].instr);
            let ready = operands.iter().all(|o| matches!(known[o.0 as usize], Some(Known::Scalar(_))));
            let reduction = matches!(
                self.block.body[statement].instr,
                Instr::Reduce(..) | Instr::ArgReduce(..) | Instr::Contract(..)
            );
            if ready && !reduction && self.sets[statement] & !dims == 0 && !self.kept.contains_key(&statement)
            {
                self.scalar(known, statement)?;
            }
        }
        Ok(())
    }

    /// Evaluates `wanted` for a chunk of `width` lanes as far as linalg cannot: afterwards the rest
    /// is [`Known::Deferred`].
    fn prepare(
        &mut self,
        known: &mut Environment,
        width: usize,
        wanted: &[Operand],
    ) -> Result<(), LoweringError> {
        for statement in self.missing(known, wanted) {
            if let Some(kept) = self.kept.get(&statement).cloned() {
                let at = self.kept_address(&kept);
                let dtype = self.block.body[statement].dtype;
                let element = storage_type(dtype);
                if !self.varies(statement) {
                    // Every lane has it, and what follows from it may be scalar code.
                    let value = self.e().op(format_args!("memref.load {}[{at}] : {}", kept.memref, kept.ty));
                    known[statement] = Some(Known::Scalar(scalar::from_storage(self.e(), dtype, &value)));
                    continue;
                }
                let tensor = self.contiguous(&kept.memref, &kept.ty, element, &at, width);
                known[statement] = Some(Known::Lanes(tensor, Form::Storage));
            } else if !self.varies(statement) {
                self.scalar(known, statement)?;
            } else {
                match &self.block.body[statement].instr {
                    Instr::Load { param, access } => {
                        let view = self.views[&(*param, access.clone())].clone();
                        let at = self.address(&view, access);
                        let stride = access.strides[self.lane];
                        let tensor = if stride == 1 && self.overwritten(*param) {
                            self.snapshot(&view, &at, width)
                        } else {
                            self.load(&view, &at, access, width)
                        };
                        known[statement] = Some(Known::Lanes(tensor, Form::Storage));
                    }
                    Instr::Gather(gather) => {
                        let tensor = self.gather(known, width, gather)?;
                        known[statement] = Some(Known::Lanes(tensor, Form::Storage));
                    }
                    Instr::Reduce(..) | Instr::ArgReduce(..) | Instr::Contract(..) => {
                        return Err(LoweringError::Unsupported(format!(
                            "reduction {statement} before its pass"
                        )));
                    }
                    _ => known[statement] = Some(Known::Deferred),
                }
            }
        }
        Ok(())
    }

    /// Evaluates a statement that is the same for all lanes.
    fn scalar(&mut self, known: &mut Environment, statement: usize) -> Result<(), LoweringError> {
        let dtype = self.block.body[statement].dtype;
        let value = match &self.block.body[statement].instr {
            Instr::Load { param, access } => {
                let view = self.views[&(*param, access.clone())].clone();
                let at = self.address(&view, access);
                let value = self.e().op(format_args!("memref.load {}[{at}] : {}", view.memref, view.ty()));
                scalar::from_storage(self.e(), dtype, &value)
            }
            Instr::Gather(gather) => {
                let view = self.views[&(gather.param, gather.access.clone())].clone();
                if gather.extent == 0 {
                    let always = self.e().op("arith.constant true");
                    self.phase.report(&always);
                    self.e().op(format_args!(
                        "arith.constant {} : {}",
                        zero_of(value_type(dtype)),
                        value_type(dtype)
                    ))
                } else {
                    let at = self.gather_address(known, gather, &view)?;
                    let value =
                        self.e().op(format_args!("memref.load {}[{at}] : {}", view.memref, view.ty()));
                    scalar::from_storage(self.e(), dtype, &value)
                }
            }
            _ => {
                let mut values: Vec<_> = known
                    .iter()
                    .map(|k| if let Some(Known::Scalar(value)) = k { Some(value.clone()) } else { None })
                    .collect();
                let mut around =
                    Around { lane: None, coordinates: &self.coordinates, scalars: &self.scalars };
                body::statements(
                    &mut self.phase.emitter,
                    self.block,
                    statement..statement + 1,
                    &mut values,
                    &mut around,
                )?;
                values[statement].clone().unwrap_or_default()
            }
        };
        known[statement] = Some(Known::Scalar(value));
        Ok(())
    }
}

/// The operands of an instruction.
pub(crate) fn operands(instr: &Instr) -> Vec<Operand> {
    match instr {
        Instr::Load { .. }
        | Instr::Scalar { .. }
        | Instr::Constant { .. }
        | Instr::Index { .. }
        | Instr::Random { .. } => vec![],
        Instr::Gather(gather) => vec![gather.index],
        Instr::Unary(_, a)
        | Instr::Cast(a)
        | Instr::Bitcast(a)
        | Instr::Reduce(_, a)
        | Instr::ArgReduce(_, a) => {
            vec![*a]
        }
        Instr::Binary(_, a, b) | Instr::Compare(_, a, b) | Instr::Contract(a, b) => vec![*a, *b],
        Instr::Select(c, a, b) => vec![*c, *a, *b],
    }
}
