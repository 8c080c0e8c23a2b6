//! Chunks in memory: loads, scratch, stores.

use super::{Environment, Form, Kept, Known, Lanes, tensor_type, vector_type, zero_of};
use crate::emit::Value;
use crate::error::LoweringError;
use crate::host::tiles::{index, index_op, scaled};
use crate::scalar;
use crate::types::storage_type;
use burn_mlir_ir::{Access, Instr, ParamMode, Store};
use std::ops::RangeInclusive;

/// Strides up to which lanes are picked from contiguous loads, not gathered.
const SHUFFLED: u64 = 4;

/// Bytes of the smallest and largest vectors that an instruction writes past the caches.
const STREAMED: RangeInclusive<usize> = 16..=64;

/// A flat view of a buffer for one access.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub memref: Value,
    pub size: i64,
    pub element: &'static str,
    /// Elements from the start of the view to coordinate 0.
    pub origin: i64,
}

impl View {
    pub fn ty(&self) -> String {
        format!("memref<{}x{}>", self.size, self.element)
    }
}

impl Lanes<'_> {
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
    pub(super) fn address(&mut self, view: &View, access: &Access) -> Value {
        let mut at = index(self.e(), view.origin);
        for (dim, &stride) in access.strides.iter().enumerate() {
            if stride != 0 {
                let coordinate = self.coordinates[dim].clone();
                let step = match access.argument(dim) {
                    Some(argument) => {
                        let stride = self.numbers[argument].clone();
                        index_op(self.e(), "arith.muli", &coordinate, &stride)
                    }
                    None => scaled(self.e(), &coordinate, stride),
                };
                at = index_op(self.e(), "arith.addi", &at, &step);
            }
        }
        at
    }

    /// A chunk of a view as a tensor of storage type.
    pub(super) fn load(&mut self, view: &View, at: &Value, access: &Access, width: usize) -> Value {
        let stride = access.strides[self.lane];
        if stride == 1 {
            return self.contiguous(&view.memref, &view.ty(), view.element, at, width);
        }
        if stride.unsigned_abs() <= SHUFFLED && width > 1 {
            let vector = self.shuffled(view, at, stride, width);
            return self.tensor_of(&vector, width, view.element);
        }
        let steps = self.lane_steps(access, width);
        self.gathered(view, at, &steps, width)
    }

    /// A contiguous chunk of a view, read here and now: a tensor that stands for the memory itself would show
    /// what is stored there later, if a value to store folds to what was loaded.
    pub(super) fn snapshot(&mut self, view: &View, at: &Value, width: usize) -> Value {
        let vector = vector_type(width, view.element);
        let loaded = self.e().op(format_args!("vector.load {}[{at}] : {}, {vector}", view.memref, view.ty()));
        self.tensor_of(&loaded, width, view.element)
    }

    /// A chunk with a small stride: contiguous loads that together cover it and nothing beyond, from which
    /// shuffles pick the elements.
    pub(super) fn shuffled(&mut self, view: &View, at: &Value, stride: i64, width: usize) -> Value {
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
    pub(super) fn steps(&mut self, width: usize, stride: i64) -> Value {
        let steps: Vec<_> = (0..width as i64).map(|lane| lane * stride).collect();
        self.e().op(format_args!("arith.constant dense<{steps:?}> : vector<{width}xindex>"))
    }

    /// How far the lanes of an access are from the first one, a vector of `index`.
    pub(super) fn lane_steps(&mut self, access: &Access, width: usize) -> Value {
        let Some(argument) = access.argument(self.lane) else {
            return self.steps(width, access.strides[self.lane]);
        };
        let (stride, lanes) = (self.numbers[argument].clone(), self.steps(width, 1));
        let vector = format!("vector<{width}xindex>");
        let stride = self.e().op(format_args!("vector.broadcast {stride} : index to {vector}"));
        self.e().op(format_args!("arith.muli {lanes}, {stride} : {vector}"))
    }

    pub(super) fn gathered(&mut self, view: &View, at: &Value, steps: &Value, width: usize) -> Value {
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

    pub(super) fn contiguous(
        &mut self,
        memref: &Value,
        ty: &str,
        element: &str,
        at: &Value,
        width: usize,
    ) -> Value {
        let view = format!("memref<{width}x{element}, strided<[1], offset: ?>>");
        let e = self.e();
        let part = e.op(format_args!("memref.subview {memref}[{at}] [{width}] [1] : {ty} to {view}"));
        e.op(format_args!(
            "bufferization.to_tensor {part} restrict : {view} to {}",
            tensor_type(width, element)
        ))
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

    /// Evaluates and stores values for a chunk of `width` lanes.
    pub fn store(
        &mut self,
        known: &mut Environment,
        width: usize,
        stores: &[&Store],
    ) -> Result<(), LoweringError> {
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
            if let Some(alignment) = self.streamed(store, width) {
                let vector = self.vector_of(&tensor, width, view.element);
                let ty = vector_type(width, view.element);
                let place = format!("{}[{at}]", view.memref);
                self.phase.stream(&vector, place, alignment, format_args!("{}, {ty}", view.ty()));
            } else if store.access.strides[self.lane] == 1 {
                self.keep(&tensor, &view.memref, &view.ty(), view.element, &at, width);
            } else {
                self.scatter(&tensor, &view, &at, &store.access, width);
            }
        }
        Ok(())
    }

    /// Bytes to which the places of a store are aligned, if it is worth writing past the caches: much is written that
    /// was not read before, in whole vectors at multiples of their size.
    fn streamed(&self, store: &Store, width: usize) -> Option<usize> {
        let least = self.stream_bytes.filter(|_| !self.block.is_opened())?;
        let param = &self.block.params[store.param.0 as usize];
        let element = param.dtype.size();
        let vector = (width * element).min(*STREAMED.end());
        let whole = vector.is_power_of_two() && STREAMED.contains(&vector);
        let elements: usize = self.block.domain.iter().map(|dim| dim.size).product();
        let much = param.mode == ParamMode::Out && elements.saturating_mul(element) >= least;
        let aligned = |stride: i64| stride >= 0 && (stride as usize * element).is_multiple_of(vector);
        let mut strides = store.access.strides.iter().enumerate();
        let fits = strides.all(|(dim, &stride)| if dim == self.lane { stride == 1 } else { aligned(stride) });
        (whole && much && fits && param.alignment.is_multiple_of(vector)).then_some(vector)
    }

    /// Writes a tensor to consecutive elements of a memref.
    pub fn keep(
        &mut self,
        tensor: &Value,
        memref: &Value,
        ty: &str,
        element: &str,
        at: &Value,
        width: usize,
    ) {
        let part_type = format!("memref<{width}x{element}, strided<[1], offset: ?>>");
        let e = self.e();
        let part = e.op(format_args!("memref.subview {memref}[{at}] [{width}] [1] : {ty} to {part_type}"));
        e.line(format_args!(
            "bufferization.materialize_in_destination {tensor} in restrict writable {part} : ({}, {part_type}) -> ()",
            tensor_type(width, element)
        ));
    }

    fn scatter(&mut self, tensor: &Value, view: &View, at: &Value, access: &Access, width: usize) {
        let values = self.vector_of(tensor, width, view.element);
        let steps = self.lane_steps(access, width);
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
