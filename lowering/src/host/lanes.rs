//! Evaluating the statements of a block for a run of consecutive coordinates along one dimension.
//!
//! That dimension is the *lane* dimension; a run is a *chunk* of static width. Values that do not depend
//! on the lane dimension are scalar code outside; what depends on it is `linalg.generic` on
//! tensors of the chunk's width, which the schedule turns into vectors.

use super::tiles::{index, index_op, scaled};
use crate::abi::{PhaseWriter, report};
use crate::body::{self, Surroundings};
use crate::emit::{Emitter, Value};
use crate::error::LoweringError;
use crate::scalar;
use crate::types::{storage_type, value_type};
use burn_mlir_ir::{Access, Block, DType, DTypeKind, Gather, Instr, Operand, ParamId, Store};
use std::collections::HashMap;

/// Strides up to which lanes are picked from contiguous loads, not gathered.
const SHUFFLED: u64 = 4;

/// In which type a value is at hand or wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The value type.
    Value,
    /// The type in memory.
    Storage,
    /// The type reductions accumulate in.
    Accumulator,
}

impl Form {
    /// The element type of a value of `dtype` in this form.
    pub fn element(self, dtype: DType) -> &'static str {
        match self {
            Self::Value => value_type(dtype),
            Self::Storage => storage_type(dtype),
            Self::Accumulator => value_type(scalar::accumulator(dtype)),
        }
    }

    pub fn to_value(self, e: &mut Emitter, dtype: DType, x: &Value) -> Value {
        match self {
            Self::Value => x.clone(),
            Self::Storage => scalar::from_storage(e, dtype, x),
            Self::Accumulator => convert(e, scalar::accumulator(dtype), dtype, x),
        }
    }

    pub fn from_value(self, e: &mut Emitter, dtype: DType, x: &Value) -> Value {
        match self {
            Self::Value => x.clone(),
            Self::Storage => scalar::to_storage(e, dtype, x),
            Self::Accumulator => convert(e, dtype, scalar::accumulator(dtype), x),
        }
    }
}

/// Conversion between a type and the one it accumulates in.
pub(crate) fn convert(e: &mut Emitter, from: DType, to: DType, x: &Value) -> Value {
    if from == to { x.clone() } else { scalar::cast(e, from, to, x) }
}

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

/// A flat view of a buffer for one access.
#[derive(Clone, Debug)]
struct View {
    memref: Value,
    size: i64,
    element: &'static str,
    /// Elements from the start of the view to coordinate 0.
    origin: i64,
}

impl View {
    fn ty(&self) -> String {
        format!("memref<{}x{}>", self.size, self.element)
    }
}

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
    views: HashMap<(ParamId, Access), View>,
    scalars: Vec<Value>,
    zero: Value,
}

/// The coordinates and arguments inside a linalg region or outside any.
struct Around<'a> {
    lane: Option<usize>,
    coordinates: &'a [Value],
    scalars: &'a [Value],
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

    fn element(&mut self, _: &mut Emitter, index: usize, _: &[Option<Value>]) -> Result<Value, LoweringError> {
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
            views,
            scalars,
            zero,
        }
    }

    /// The function's emitter.
    pub fn e(&mut self) -> &mut Emitter {
        &mut self.phase.emitter
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
            let reduction = matches!(statement.instr, Instr::Reduce(..) | Instr::ArgReduce(..));
            let follows = operands(&statement.instr).iter().any(|o| self.sets[o.0 as usize] & lane != 0);
            if reduction || follows {
                self.sets[index] |= lane;
            }
        }
    }

    fn varies(&self, statement: usize) -> bool {
        self.sets[statement] & (1 << self.lane) != 0
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
    pub fn invariants(&mut self, known: &mut Environment, wanted: &[Operand], dims: u32) -> Result<(), LoweringError> {
        let dims = dims & !(1 << self.lane);
        for statement in self.missing(known, wanted) {
            let operands = operands(&self.block.body[statement].instr);
            let ready = operands.iter().all(|o| matches!(known[o.0 as usize], Some(Known::Scalar(_))));
            let reduction = matches!(
                self.block.body[statement].instr,
                Instr::Reduce(..) | Instr::ArgReduce(..) | Instr::Contract(..)
            );
            if ready && !reduction && self.sets[statement] & !dims == 0 && !self.kept.contains_key(&statement) {
                self.scalar(known, statement)?;
            }
        }
        Ok(())
    }

    /// Evaluates `wanted` for a chunk of `width` lanes as far as linalg cannot: afterwards the rest
    /// is [`Known::Deferred`].
    fn prepare(&mut self, known: &mut Environment, width: usize, wanted: &[Operand]) -> Result<(), LoweringError> {
        for statement in self.missing(known, wanted) {
            if let Some(kept) = self.kept.get(&statement).cloned() {
                let at = self.kept_address(&kept);
                let element = storage_type(self.block.body[statement].dtype);
                let tensor = self.contiguous(&kept.memref, &kept.ty, element, &at, width);
                known[statement] = Some(Known::Lanes(tensor, Form::Storage));
            } else if !self.varies(statement) {
                self.scalar(known, statement)?;
            } else {
                match &self.block.body[statement].instr {
                    Instr::Load { param, access } => {
                        let view = self.views[&(*param, access.clone())].clone();
                        let at = self.address(&view, access);
                        let tensor = self.load(&view, &at, access.strides[self.lane], width);
                        known[statement] = Some(Known::Lanes(tensor, Form::Storage));
                    }
                    Instr::Gather(gather) => {
                        let tensor = self.gather(known, width, gather)?;
                        known[statement] = Some(Known::Lanes(tensor, Form::Storage));
                    }
                    Instr::Reduce(..) | Instr::ArgReduce(..) | Instr::Contract(..) => {
                        return Err(LoweringError::Unsupported(format!("reduction {statement} before its pass")));
                    }
                    _ => known[statement] = Some(Known::Deferred),
                }
            }
        }
        Ok(())
    }

    /// Writes values of a statement to the scratch reserved for it.
    pub fn keep_reserved(&mut self, statement: usize, tensor: &Value, width: usize) {
        if let Some(kept) = self.reserved.get(&statement).cloned() {
            let at = self.kept_address(&kept);
            let element = storage_type(self.block.body[statement].dtype);
            self.keep(tensor, &kept.memref, &kept.ty, element, &at, width);
        }
    }

    /// The flat index in scratch at the coordinates.
    pub fn kept_address(&mut self, kept: &Kept) -> Value {
        let mut at = self.zero();
        for (dim, &stride) in kept.strides.iter().enumerate().filter(|(_, stride)| **stride != 0) {
            let mut coordinate = self.coordinates[dim].clone();
            if let Some((_, from)) = self.kept_from.iter().find(|(of, _)| *of == dim).cloned() {
                coordinate = index_op(self.e(), "arith.subi", &coordinate, &from);
            }
            let step = scaled(self.e(), &coordinate, stride);
            at = index_op(self.e(), "arith.addi", &at, &step);
        }
        at
    }

    /// The flat memref of a load, its type, the index at the coordinates and the stride of the lanes.
    pub fn place(&mut self, load: usize) -> (Value, String, Value, i64) {
        let Instr::Load { param, access } = &self.block.body[load].instr else {
            return (Value::new(), String::new(), Value::new(), 0);
        };
        let view = self.views[&(*param, access.clone())].clone();
        let at = self.address(&view, access);
        (view.memref.clone(), view.ty(), at, access.strides[self.lane])
    }

    /// The flat index of an access at the coordinates.
    fn address(&mut self, view: &View, access: &Access) -> Value {
        let mut at = index(self.e(), view.origin);
        for (dim, &stride) in access.strides.iter().enumerate() {
            if stride != 0 {
                let coordinate = self.coordinates[dim].clone();
                let step = scaled(self.e(), &coordinate, stride);
                at = index_op(self.e(), "arith.addi", &at, &step);
            }
        }
        at
    }

    /// A chunk of a view as a tensor of storage type.
    fn load(&mut self, view: &View, at: &Value, stride: i64, width: usize) -> Value {
        if stride == 1 {
            return self.contiguous(&view.memref, &view.ty(), view.element, at, width);
        }
        let element = view.element;
        if stride.unsigned_abs() <= SHUFFLED && width > 1 {
            let vector = self.shuffled(view, at, stride, width);
            return self.tensor_of(&vector, width, view.element);
        }
        let steps = self.steps(width, stride);
        self.gathered(view, at, &steps, width)
    }

    /// A chunk with a small stride: contiguous loads that together cover it and nothing beyond, from which
    /// shuffles pick the elements.
    fn shuffled(&mut self, view: &View, at: &Value, stride: i64, width: usize) -> Value {
        let step = stride.unsigned_abs() as usize;
        let span = step * (width - 1) + 1;
        let vector = vector_type(width, view.element);
        let low = if stride < 0 {
            let back = index(self.e(), span - 1);
            index_op(self.e(), "arith.subi", at, &back)
        } else {
            at.clone()
        };
        let element_of = |lane: usize| step * if stride < 0 { width - 1 - lane } else { lane };
        let mut picked: Option<Value> = None;
        for part in 0..step {
            let start = (part * width).min(span - width);
            let offset = index(self.e(), start);
            let from = index_op(self.e(), "arith.addi", &low, &offset);
            let loaded =
                self.e().op(format_args!("vector.load {}[{from}] : {}, {vector}", view.memref, view.ty()));
            let before = picked.clone().unwrap_or_else(|| loaded.clone());
            // Lane by lane: from this part, or what was picked so far.
            let order: Vec<usize> = (0..width)
                .map(|lane| match element_of(lane).checked_sub(start) {
                    Some(place) if place < width => width + place,
                    _ => lane,
                })
                .collect();
            picked = Some(
                self.e().op(format_args!("vector.shuffle {before}, {loaded} {order:?} : {vector}, {vector}")),
            );
        }
        picked.unwrap_or_default()
    }

    /// `[0, stride, 2 stride, …]` as a vector of `index`.
    fn steps(&mut self, width: usize, stride: i64) -> Value {
        let steps: Vec<_> = (0..width as i64).map(|lane| lane * stride).collect();
        self.e().op(format_args!("arith.constant dense<{steps:?}> : vector<{width}xindex>"))
    }

    fn gathered(&mut self, view: &View, at: &Value, steps: &Value, width: usize) -> Value {
        let (element, ty, memref) = (view.element, view.ty(), view.memref.clone());
        let vector = vector_type(width, element);
        let e = self.e();
        let mask = e.op(format_args!("arith.constant dense<true> : vector<{width}xi1>"));
        let pass = e.op(format_args!("arith.constant dense<{}> : {vector}", zero_of(element)));
        let values = e.op(format_args!(
            "vector.gather {memref}[{at}] [{steps}], {mask}, {pass} : {ty}, vector<{width}xindex>, \
             vector<{width}xi1>, {vector} into {vector}"
        ));
        self.tensor_of(&values, width, element)
    }

    fn contiguous(&mut self, memref: &Value, ty: &str, element: &str, at: &Value, width: usize) -> Value {
        let view = format!("memref<{width}x{element}, strided<[1], offset: ?>>");
        let e = self.e();
        let part = e.op(format_args!("memref.subview {memref}[{at}] [{width}] [1] : {ty} to {view}"));
        e.op(format_args!("bufferization.to_tensor {part} restrict : {view} to {}", tensor_type(width, element)))
    }

    /// A vector as a tensor.
    pub fn tensor_of(&mut self, vector: &Value, width: usize, element: &str) -> Value {
        let (tensor, zero) = (tensor_type(width, element), self.zero());
        let e = self.e();
        let empty = e.op(format_args!("tensor.empty() : {tensor}"));
        e.op(format_args!(
            "vector.transfer_write {vector}, {empty}[{zero}] {{in_bounds = [true]}} : {}, {tensor}",
            vector_type(width, element)
        ))
    }

    /// A tensor as a vector.
    pub fn vector_of(&mut self, tensor: &Value, width: usize, element: &str) -> Value {
        let zero = self.zero();
        let e = self.e();
        let padding = e.op(format_args!("arith.constant {} : {element}", zero_of(element)));
        e.op(format_args!(
            "vector.transfer_read {tensor}[{zero}], {padding} {{in_bounds = [true]}} : {}, {}",
            tensor_type(width, element),
            vector_type(width, element)
        ))
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
                    self.e().op(format_args!("arith.constant {} : {}", zero_of(value_type(dtype)), value_type(dtype)))
                } else {
                    let at = self.gather_address(known, gather, &view)?;
                    let value = self.e().op(format_args!("memref.load {}[{at}] : {}", view.memref, view.ty()));
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

    /// The flat index of a gather whose index is the same for all lanes.
    fn gather_address(&mut self, known: &Environment, gather: &Gather, view: &View) -> Result<Value, LoweringError> {
        let Some(Known::Scalar(value)) = &known[gather.index.0 as usize] else {
            return Err(LoweringError::Unsupported("a gather before its index".into()));
        };
        let dtype = self.block.body[gather.index.0 as usize].dtype;
        let e = &mut self.phase.emitter;
        let position = e.op(format_args!("{} {value} : {} to index", index_cast(dtype), value_type(dtype)));
        let (low, high) = (index(e, 0), index(e, gather.extent - 1));
        let clamped = index_op(e, "arith.maxsi", &position, &low);
        let clamped = index_op(e, "arith.minsi", &clamped, &high);
        let outside = e.op(format_args!("arith.cmpi ne, {clamped}, {position} : index"));
        report(e, &outside);
        let step = scaled(e, &clamped, gather.stride);
        let at = self.address(view, &gather.access);
        Ok(index_op(self.e(), "arith.addi", &at, &step))
    }

    fn gather(&mut self, known: &mut Environment, width: usize, gather: &Gather) -> Result<Value, LoweringError> {
        let view = self.views[&(gather.param, gather.access.clone())].clone();
        let stride = gather.access.strides[self.lane];
        if gather.extent == 0 {
            let always = self.e().op("arith.constant true");
            self.phase.report(&always);
            let vector = vector_type(width, view.element);
            let zeros = self.e().op(format_args!("arith.constant dense<{}> : {vector}", zero_of(view.element)));
            return Ok(self.tensor_of(&zeros, width, view.element));
        }
        if matches!(known[gather.index.0 as usize], Some(Known::Scalar(_))) {
            let at = self.gather_address(known, gather, &view)?;
            return Ok(self.load(&view, &at, stride, width));
        }
        let dtype = self.block.body[gather.index.0 as usize].dtype;
        let indices = self.tensors(known, width, &[(gather.index, Form::Value)])?.remove(0);
        let indices = self.vector_of(&indices, width, value_type(dtype));
        let steps = self.steps(width, stride);
        let vector = vector_type(width, "index");
        let e = &mut self.phase.emitter;
        let position =
            e.op(format_args!("{} {indices} : {} to {vector}", index_cast(dtype), vector_type(width, value_type(dtype))));
        let low = e.op(format_args!("arith.constant dense<0> : {vector}"));
        let high = e.op(format_args!("arith.constant dense<{}> : {vector}", gather.extent - 1));
        let clamped = e.op(format_args!("arith.maxsi {position}, {low} : {vector}"));
        let clamped = e.op(format_args!("arith.minsi {clamped}, {high} : {vector}"));
        let outside = e.op(format_args!("arith.cmpi ne, {clamped}, {position} : {vector}"));
        let outside = e.op(format_args!("vector.reduction <or>, {outside} : vector<{width}xi1> into i1"));
        report(e, &outside);
        let factor = e.op(format_args!("arith.constant dense<{}> : {vector}", gather.stride));
        let step = e.op(format_args!("arith.muli {clamped}, {factor} : {vector}"));
        let steps = e.op(format_args!("arith.addi {step}, {steps} : {vector}"));
        let at = self.address(&view, &gather.access);
        Ok(self.gathered(&view, &at, &steps, width))
    }

    /// Evaluates `wanted` for a chunk of `width` lanes, each in the form asked for, as tensors.
    pub fn tensors(
        &mut self,
        known: &mut Environment,
        width: usize,
        wanted: &[(Operand, Form)],
    ) -> Result<Vec<Value>, LoweringError> {
        let operands: Vec<_> = wanted.iter().map(|w| w.0).collect();
        self.prepare(known, width, &operands)?;
        let mut tensors = vec![Value::new(); wanted.len()];
        let mut computed = Vec::new();
        for (position, (operand, form)) in wanted.iter().enumerate() {
            let dtype = self.block.body[operand.0 as usize].dtype;
            match &known[operand.0 as usize] {
                Some(Known::Lanes(tensor, has)) if has.element(dtype) == form.element(dtype) => {
                    tensors[position] = tensor.clone();
                }
                _ => computed.push((position, *operand, *form)),
            }
        }
        if !computed.is_empty() {
            let outputs: Vec<_> = computed.iter().map(|&(_, operand, form)| (operand, form)).collect();
            let results = self.generic(known, width, &outputs)?;
            for ((position, ..), result) in computed.iter().zip(results) {
                tensors[*position] = result;
            }
        }
        Ok(tensors)
    }

    /// One `linalg.generic` that computes `outputs` from what is known.
    fn generic(
        &mut self,
        known: &Environment,
        width: usize,
        outputs: &[(Operand, Form)],
    ) -> Result<Vec<Value>, LoweringError> {
        let body = &self.block.body;
        let mut used = vec![false; body.len()];
        let mut stack: Vec<usize> = outputs.iter().map(|o| o.0.0 as usize).collect();
        while let Some(statement) = stack.pop() {
            if !std::mem::replace(&mut used[statement], true)
                && matches!(known[statement], Some(Known::Deferred) | None)
            {
                stack.extend(operands(&body[statement].instr).iter().map(|o| o.0 as usize));
            }
        }
        let mut inputs = Vec::new();
        let mut values: Vec<Option<Value>> = vec![None; body.len()];
        for (statement, _) in used.iter().enumerate().filter(|(_, used)| **used) {
            match &known[statement] {
                Some(Known::Scalar(value)) => values[statement] = Some(value.clone()),
                Some(Known::Lanes(tensor, form)) => inputs.push((statement, tensor.clone(), *form)),
                _ => {}
            }
        }
        let e = &mut self.phase.emitter;
        let elements: Vec<_> =
            outputs.iter().map(|&(operand, form)| form.element(body[operand.0 as usize].dtype)).collect();
        let empties: Vec<_> =
            elements.iter().map(|t| e.op(format_args!("tensor.empty() : {}", tensor_type(width, t)))).collect();
        let result = e.fresh();
        let maps = vec!["affine_map<(i) -> (i)>"; inputs.len() + outputs.len()].join(", ");
        let list = |types: &[&str]| types.iter().map(|t| tensor_type(width, t)).collect::<Vec<_>>().join(", ");
        let input_types: Vec<_> = inputs.iter().map(|(s, _, form)| form.element(body[*s].dtype)).collect();
        let ins = if inputs.is_empty() {
            String::new()
        } else {
            let names: Vec<_> = inputs.iter().map(|i| i.1.as_str()).collect();
            format!(" ins({} : {})", names.join(", "), list(&input_types))
        };
        e.open(format_args!(
            "{result}:{} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [\"parallel\"]}}{ins} \
             outs({} : {}) {{",
            outputs.len(),
            empties.join(", "),
            list(&elements)
        ));
        let arguments: Vec<_> = input_types.iter().chain(&elements).map(|t| (e.fresh(), *t)).collect();
        let header: Vec<_> = arguments.iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
        e.line(format_args!("^bb0({}):", header.join(", ")));
        for ((statement, _, form), (name, _)) in inputs.iter().zip(&arguments) {
            values[*statement] = Some(form.to_value(e, body[*statement].dtype, name));
        }
        let mut around =
            Around { lane: Some(self.lane), coordinates: &self.coordinates, scalars: &self.scalars };
        for statement in (0..body.len()).filter(|&s| used[s]) {
            body::statements(e, self.block, statement..statement + 1, &mut values, &mut around)?;
        }
        let yielded: Vec<_> = outputs
            .iter()
            .map(|&(operand, form)| {
                let value = values[operand.0 as usize].clone().unwrap_or_default();
                form.from_value(e, body[operand.0 as usize].dtype, &value)
            })
            .collect();
        e.line(format_args!("linalg.yield {} : {}", yielded.join(", "), elements.join(", ")));
        e.close(format_args!("}} -> ({})", list(&elements)));
        Ok((0..outputs.len()).map(|i| format!("{result}#{i}")).collect())
    }

    /// Evaluates and stores values for a chunk of `width` lanes.
    pub fn store(&mut self, known: &mut Environment, width: usize, stores: &[&Store]) -> Result<(), LoweringError> {
        let values: Vec<_> = stores.iter().map(|s| s.value).collect();
        self.prepare(known, width, &values)?;
        let (single, spread): (Vec<&Store>, Vec<&Store>) =
            stores.iter().partition(|s| s.access.strides[self.lane] == 0);
        for store in single {
            let view = self.views[&(store.param, store.access.clone())].clone();
            let at = self.address(&view, &store.access);
            let dtype = self.block.body[store.value.0 as usize].dtype;
            let value = if let Some(Known::Scalar(value)) = known[store.value.0 as usize].clone() {
                scalar::to_storage(self.e(), dtype, &value)
            } else {
                // The place is the same for all lanes, so is the value.
                let tensor = self.tensors(known, width, &[(store.value, Form::Storage)])?.remove(0);
                let vector = self.vector_of(&tensor, width, view.element);
                let ty = vector_type(width, view.element);
                self.e().op(format_args!("vector.extract {vector}[0] : {} from {ty}", view.element))
            };
            self.e().line(format_args!("memref.store {value}, {}[{at}] : {}", view.memref, view.ty()));
        }
        let wanted: Vec<_> = spread.iter().map(|s| (s.value, Form::Storage)).collect();
        let tensors = self.tensors(known, width, &wanted)?;
        for (store, tensor) in spread.iter().zip(tensors) {
            let view = self.views[&(store.param, store.access.clone())].clone();
            let at = self.address(&view, &store.access);
            let stride = store.access.strides[self.lane];
            if stride == 1 {
                self.keep(&tensor, &view.memref, &view.ty(), view.element, &at, width);
            } else {
                self.scatter(&tensor, &view, &at, stride, width);
            }
        }
        Ok(())
    }

    /// Writes a tensor to consecutive elements of a memref.
    pub fn keep(&mut self, tensor: &Value, memref: &Value, ty: &str, element: &str, at: &Value, width: usize) {
        let part_type = format!("memref<{width}x{element}, strided<[1], offset: ?>>");
        let e = self.e();
        let part = e.op(format_args!("memref.subview {memref}[{at}] [{width}] [1] : {ty} to {part_type}"));
        e.line(format_args!(
            "bufferization.materialize_in_destination {tensor} in restrict writable {part} : ({}, {part_type}) -> ()",
            tensor_type(width, element)
        ));
    }

    fn scatter(&mut self, tensor: &Value, view: &View, at: &Value, stride: i64, width: usize) {
        let values = self.vector_of(tensor, width, view.element);
        let steps = self.steps(width, stride);
        let e = self.e();
        let mask = e.op(format_args!("arith.constant dense<true> : vector<{width}xi1>"));
        e.line(format_args!(
            "vector.scatter {}[{at}] [{steps}], {mask}, {values} : {}, vector<{width}xindex>, vector<{width}xi1>, {}",
            view.memref,
            view.ty(),
            vector_type(width, view.element)
        ));
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
        Instr::Unary(_, a) | Instr::Cast(a) | Instr::Bitcast(a) | Instr::Reduce(_, a) | Instr::ArgReduce(_, a) => {
            vec![*a]
        }
        Instr::Binary(_, a, b) | Instr::Compare(_, a, b) | Instr::Contract(a, b) => vec![*a, *b],
        Instr::Select(c, a, b) => vec![*c, *a, *b],
    }
}

/// `vector<width x element>`.
pub(crate) fn vector_type(width: usize, element: &str) -> String {
    format!("vector<{width}x{element}>")
}

/// `tensor<width x element>`.
pub(crate) fn tensor_type(width: usize, element: &str) -> String {
    format!("tensor<{width}x{element}>")
}

/// The zero of an MLIR type as an attribute's text.
pub(crate) fn zero_of(element: &str) -> &'static str {
    match element {
        _ if element.starts_with('i') => "0",
        _ => "0.0",
    }
}

fn index_cast(dtype: DType) -> &'static str {
    if dtype.kind() == DTypeKind::Unsigned { "arith.index_castui" } else { "arith.index_cast" }
}
