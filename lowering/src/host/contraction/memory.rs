//! Buffers and scratch of a phase as memrefs, and slices of them.

use super::index::Index;
use crate::abi::{PhaseWriter, Scratch, memref_type};
use crate::emit::{Emitter, Value};
use crate::types::storage_type;
use burn_mlir_ir::{Access, Block, DType, ParamId};

/// A buffer as a one-dimensional memref, and the position in it of domain coordinate 0: accesses
/// that run backwards start behind the first element they reach.
#[derive(Clone, Debug)]
pub(crate) struct View {
    memref: Value,
    memref_type: String,
    /// Type of an element in memory.
    pub element: &'static str,
    origin: i64,
}

/// Scratch as a row-major memref.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    /// The memref.
    pub memref: Value,
    /// Its type.
    pub memref_type: String,
    /// Type of an element.
    pub element: &'static str,
}

impl Array {
    /// Emits the view of `shape` elements that starts `bytes` into `scratch`.
    pub fn of(
        phase: &mut PhaseWriter,
        scratch: Scratch,
        bytes: i64,
        shape: &[i64],
        element: &'static str,
    ) -> Self {
        let mut strides = vec![1; shape.len()];
        for d in (1..shape.len()).rev() {
            strides[d - 1] = strides[d] * shape[d];
        }
        let address = phase.scratch(scratch, bytes.unsigned_abs());
        let memref = phase.strided(&address, 0, element, shape, &strides);
        Self { memref, memref_type: memref_type(element, shape, &strides), element }
    }

    /// Emits the slice of `sizes` at `position`, without its leading dimensions of size 1; returns it with its
    /// type. `strides` are those of the dimensions that stay.
    pub fn slice(
        &self,
        e: &mut Emitter,
        position: &[&Index],
        sizes: &[&Index],
        strides: &[i64],
    ) -> (Value, String) {
        let list = |items: Vec<String>| items.join(", ");
        let kept = &sizes[sizes.len() - strides.len()..];
        let extents: String = kept.iter().map(|size| size.extent() + "x").collect();
        // The offset is in the type: `?` even where it is known keeps the types of all slices equal.
        let dynamic: Vec<String> = position.iter().map(|p| p.value(e)).collect();
        let slice_type = format!("memref<{extents}{}, strided<{strides:?}, offset: ?>>", self.element);
        let slice = e.op(format_args!(
            "memref.subview {}[{}] [{}] [{}] : {} to {slice_type}",
            self.memref,
            list(dynamic),
            list(sizes.iter().map(|s| s.operand()).collect()),
            list(vec!["1".into(); sizes.len()]),
            self.memref_type
        ));
        (slice, slice_type)
    }
}

/// Emits a mask of the first `length` of `lanes`; none if that is all of them.
fn mask(e: &mut Emitter, length: &Index, lanes: i64) -> Option<Value> {
    if matches!(length, Index::Known(n) if *n == lanes) {
        return None;
    }
    let length = length.value(e);
    Some(e.op(format_args!("vector.create_mask {length} : vector<{lanes}xi1>")))
}

impl Array {
    /// Emits the load of one element.
    pub fn load(&self, e: &mut Emitter, position: &[&Index]) -> Value {
        let position: Vec<String> = position.iter().map(|p| p.value(e)).collect();
        e.op(format_args!("memref.load {}[{}] : {}", self.memref, position.join(", "), self.memref_type))
    }

    /// Emits the store of one element.
    pub fn store(&self, e: &mut Emitter, position: &[&Index], value: &Value) {
        let position: Vec<String> = position.iter().map(|p| p.value(e)).collect();
        e.line(format_args!(
            "memref.store {value}, {}[{}] : {}",
            self.memref,
            position.join(", "),
            self.memref_type
        ));
    }

    /// Emits the load of `lanes` elements at `position`.
    pub fn read(&self, e: &mut Emitter, position: &[&Index], lanes: i64) -> Value {
        let position: Vec<String> = position.iter().map(|p| p.value(e)).collect();
        e.op(format_args!(
            "vector.load {}[{}] : {}, vector<{lanes}x{}>",
            self.memref,
            position.join(", "),
            self.memref_type,
            self.element
        ))
    }

    /// Emits the store of the first `count` lanes of `value`, a number known now, at `position`.
    pub fn write_first(&self, e: &mut Emitter, position: &[&Index], value: &Value, count: i64, lanes: i64) {
        let element = self.element;
        let part = if count == lanes {
            value.clone()
        } else {
            e.op(format_args!(
                "vector.extract_strided_slice {value} {{offsets = [0], sizes = [{count}], strides = [1]}} : vector<{lanes}x{element}> to vector<{count}x{element}>"
            ))
        };
        self.write(e, position, &part, &Index::Known(count), count);
    }

    /// Emits the store of the first `length` lanes of `value` at `position`.
    pub fn write(&self, e: &mut Emitter, position: &[&Index], value: &Value, length: &Index, lanes: i64) {
        let position: Vec<String> = position.iter().map(|p| p.value(e)).collect();
        let (memref, memref_type, vector) =
            (&self.memref, &self.memref_type, format!("vector<{lanes}x{}>", self.element));
        let place = format!("{memref}[{}]", position.join(", "));
        match mask(e, length, lanes) {
            None => e.line(format_args!("vector.store {value}, {place} : {memref_type}, {vector}")),
            Some(mask) => e.line(format_args!(
                "vector.maskedstore {place}, {mask}, {value} : {memref_type}, vector<{lanes}xi1>, {vector}"
            )),
        }
    }
}

impl View {
    /// Emits the load of `length` consecutive elements into a vector of `lanes`.
    pub fn read(&self, e: &mut Emitter, offset: &Index, length: &Index, lanes: i64) -> Value {
        let position = offset.add(e, &Index::Known(self.origin)).value(e);
        let (memref, memref_type, element) = (&self.memref, &self.memref_type, self.element);
        let vector = format!("vector<{lanes}x{element}>");
        let Some(mask) = mask(e, length, lanes) else {
            return e.op(format_args!("vector.load {memref}[{position}] : {memref_type}, {vector}"));
        };
        let rest = e.op(format_args!("arith.constant dense<{}> : {vector}", zero(element)));
        e.op(format_args!(
            "vector.maskedload {memref}[{position}], {mask}, {rest} : {memref_type}, vector<{lanes}xi1>, {vector} into {vector}"
        ))
    }

    /// Emits the view of `param` for `access`.
    pub fn of(phase: &mut PhaseWriter, block: &Block, param: ParamId, access: &Access) -> Self {
        let reach = |backwards: bool| -> i64 {
            let steps = access.strides.iter().zip(&block.domain);
            steps.filter(|(s, _)| (**s < 0) == backwards).map(|(&s, d)| s * (d.size as i64 - 1).max(0)).sum()
        };
        let dtype = block.params[param.0 as usize].dtype;
        let (element, origin) = (storage_type(dtype), -reach(true));
        let size = origin + reach(false) + 1;
        let base = phase.buffer(param.0 as usize);
        let memref = phase.flat(&base, -origin, element, size);
        Self { memref, memref_type: memref_type(element, &[size], &[1]), element, origin }
    }

    /// Emits `length` elements from `offset` as a tensor; returns it and its type.
    pub fn tensor(&self, e: &mut Emitter, offset: &Index, length: &Index) -> (Value, String) {
        let (slice, slice_type) = self.slice(e, offset, length);
        to_tensor(e, &slice, &slice_type, &[length], self.element)
    }

    /// Emits `length` elements from `offset` on; returns the memref and its type.
    pub fn slice(&self, e: &mut Emitter, offset: &Index, length: &Index) -> (Value, String) {
        let position = Index::Computed(offset.add(e, &Index::Known(self.origin)).value(e));
        let slice_type = format!("memref<{}x{}, strided<[1], offset: ?>>", length.extent(), self.element);
        let slice = e.op(format_args!(
            "memref.subview {}[{}] [{}] [1] : {} to {slice_type}",
            self.memref,
            position.operand(),
            length.operand(),
            self.memref_type
        ));
        (slice, slice_type)
    }

    /// Emits the store of one element.
    pub fn store(&self, e: &mut Emitter, offset: &Index, value: &Value) {
        let position = offset.add(e, &Index::Known(self.origin)).value(e);
        e.line(format_args!("memref.store {value}, {}[{position}] : {}", self.memref, self.memref_type));
    }

    /// Emits the load of one element.
    pub fn load(&self, e: &mut Emitter, offset: &Index) -> Value {
        let position = offset.add(e, &Index::Known(self.origin)).value(e);
        e.op(format_args!("memref.load {}[{position}] : {}", self.memref, self.memref_type))
    }
}

/// Emits a memref as a tensor; returns it and its type.
pub(crate) fn to_tensor(
    e: &mut Emitter,
    memref: &Value,
    memref_type: &str,
    shape: &[&Index],
    element: &str,
) -> (Value, String) {
    let extents: String = shape.iter().map(|size| size.extent() + "x").collect();
    let tensor = format!("tensor<{extents}{element}>");
    (e.op(format_args!("bufferization.to_tensor {memref} restrict : {memref_type} to {tensor}")), tensor)
}

/// Emits a memref as a tensor whose elements are going to be replaced; returns it and its type.
pub(crate) fn target(
    e: &mut Emitter,
    memref: &Value,
    memref_type: &str,
    length: &Index,
    element: &str,
) -> (Value, String) {
    let tensor = format!("tensor<{}x{element}>", length.extent());
    (
        e.op(format_args!("bufferization.to_tensor {memref} restrict writable : {memref_type} to {tensor}")),
        tensor,
    )
}

/// Emits an uninitialised vector-sized tensor; returns it and its type.
pub(crate) fn empty(e: &mut Emitter, length: &Index, element: &str) -> (Value, String) {
    let tensor = format!("tensor<{}x{element}>", length.extent());
    let size = if let Index::Computed(n) = length { n.clone() } else { String::new() };
    (e.op(format_args!("tensor.empty({size}) : {tensor}")), tensor)
}

/// Emits the write of a tensor to a memref.
pub(crate) fn write(e: &mut Emitter, tensor: (&str, &str), memref: (&str, &str)) {
    e.line(format_args!(
        "bufferization.materialize_in_destination {} in restrict writable {} : ({}, {}) -> ()",
        tensor.0, memref.0, tensor.1, memref.1
    ));
}

/// Zero of a type, as MLIR writes it.
pub(crate) fn zero(element: &str) -> &'static str {
    if element.starts_with('i') { "0" } else { "0.0" }
}

/// Emits the conversion of loaded floats of `dtype`, one or a vector of `lanes`, to the wider type `to`.
pub(crate) fn extended(e: &mut Emitter, dtype: DType, to: &str, lanes: Option<i64>, x: Value) -> Value {
    let shaped = |element: &str| lanes.map_or(element.to_string(), |n| format!("vector<{n}x{element}>"));
    let (from, result) = (shaped(storage_type(dtype)), shaped(to));
    if storage_type(dtype) == to {
        return x;
    }
    match dtype {
        DType::BF16 => {
            let (wide, single) = (shaped("i32"), shaped("f32"));
            let bits = e.op(format_args!("arith.extui {x} : {from} to {wide}"));
            let places = if lanes.is_some() { "dense<16>" } else { "16" };
            let places = e.op(format_args!("arith.constant {places} : {wide}"));
            let bits = e.op(format_args!("arith.shli {bits}, {places} : {wide}"));
            let value = e.op(format_args!("arith.bitcast {bits} : {wide} to {single}"));
            if to == "f32" { value } else { e.op(format_args!("arith.extf {value} : {single} to {result}")) }
        }
        DType::F16 => {
            let half = shaped("f16");
            let value = e.op(format_args!("arith.bitcast {x} : {from} to {half}"));
            e.op(format_args!("arith.extf {value} : {half} to {result}"))
        }
        _ => e.op(format_args!("arith.extf {x} : {from} to {result}")),
    }
}
