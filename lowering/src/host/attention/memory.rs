//! Numbers, vectors and addresses.

use crate::abi::PhaseWriter;
use crate::emit::{Emitter, Value};
use crate::host::lanes::{convert, vector_type};
use crate::host::tiles::{index, index_op, scaled};
use crate::scalar;
use crate::types::{storage_type, value_type};
use burn_mlir_ir::{Attention, AttentionOperand, DType};

/// Writes code on numbers of the type of the sums.
pub(super) struct Code<'a> {
    pub attention: &'a Attention,
    pub phase: PhaseWriter,
    /// The type of scores and sums, and MLIR's names of it and of a vector.
    pub dtype: DType,
    pub element: &'static str,
    pub vector: String,
    /// Addresses of the arguments.
    buffers: Vec<Value>,
}

impl<'a> Code<'a> {
    pub fn new(attention: &'a Attention, lanes: usize, symbol: &str) -> Self {
        let dtype = Attention::scale_dtype(attention.dtype);
        let element = value_type(dtype);
        let mut phase = PhaseWriter::new(symbol);
        let buffers = (0..attention.operands().len()).map(|position| phase.buffer(position)).collect();
        Self { attention, phase, dtype, element, vector: vector_type(lanes, element), buffers }
    }

    pub fn e(&mut self) -> &mut Emitter {
        &mut self.phase.emitter
    }

    pub fn index(&mut self, value: usize) -> Value {
        index(self.e(), value)
    }

    pub fn add(&mut self, a: &Value, b: &Value) -> Value {
        index_op(self.e(), "arith.addi", a, b)
    }

    pub fn scaled(&mut self, a: &Value, factor: usize) -> Value {
        scaled(self.e(), a, factor as i64)
    }

    /// `a · factor + b`.
    pub fn place(&mut self, a: &Value, factor: usize, b: &Value) -> Value {
        let start = self.scaled(a, factor);
        self.add(&start, b)
    }

    /// At most the last of `count`.
    pub fn clamped(&mut self, at: &Value, count: usize) -> Value {
        let last = self.index(count - 1);
        index_op(self.e(), "arith.minui", at, &last)
    }

    /// Whether `at` is one of `count`.
    pub fn is_below(&mut self, at: &Value, count: usize) -> Value {
        let count = self.index(count);
        self.e().op(format_args!("arith.cmpi ult, {at}, {count} : index"))
    }

    /// A constant, by its text in f32 and in f64.
    pub fn number(&mut self, single: &str, double: &str) -> Value {
        let text = if self.dtype == DType::F64 { double } else { single };
        let element = self.element;
        self.e().op(format_args!("arith.constant {text} : {element}"))
    }

    pub fn zero(&mut self) -> Value {
        self.number("0.0", "0.0")
    }

    /// -∞.
    pub fn unseen(&mut self) -> Value {
        self.number("0xFF800000", "0xFFF0000000000000")
    }

    pub fn arith(&mut self, op: &str, a: &Value, b: &Value) -> Value {
        let element = self.element;
        self.e().op(format_args!("arith.{op} {a}, {b} : {element}"))
    }

    pub fn choose(&mut self, condition: &Value, a: &Value, b: &Value) -> Value {
        let element = self.element;
        self.e().op(format_args!("arith.select {condition}, {a}, {b} : {element}"))
    }

    pub fn on_vectors(&mut self, op: &str, a: &Value, b: &Value) -> Value {
        let vector = self.vector.clone();
        self.e().op(format_args!("arith.{op} {a}, {b} : {vector}"))
    }

    pub fn multiply_add(&mut self, a: &Value, b: &Value, c: &Value) -> Value {
        let vector = self.vector.clone();
        self.e().op(format_args!("math.fma {a}, {b}, {c} : {vector}"))
    }

    pub fn spread(&mut self, value: &Value) -> Value {
        let (element, vector) = (self.element, self.vector.clone());
        self.e().op(format_args!("vector.broadcast {value} : {element} to {vector}"))
    }

    /// The address `at` elements after `base`.
    pub fn address(&mut self, base: &Value, at: &Value) -> Value {
        let element = self.element;
        let at = self.e().op(format_args!("arith.index_cast {at} : index to i64"));
        self.e()
            .op(format_args!("llvm.getelementptr {base}[{at}] : (!llvm.ptr, i64) -> !llvm.ptr, {element}"))
    }

    /// The address some elements after `base`.
    pub fn after(&mut self, base: &Value, elements: usize) -> Value {
        let element = self.element;
        self.e()
            .op(format_args!("llvm.getelementptr {base}[{elements}] : (!llvm.ptr) -> !llvm.ptr, {element}"))
    }

    pub fn load(&mut self, address: &Value) -> Value {
        let element = self.element;
        self.e().op(format_args!("llvm.load {address} : !llvm.ptr -> {element}"))
    }

    pub fn store(&mut self, address: &Value, value: &Value) {
        let element = self.element;
        self.e().line(format_args!("llvm.store {value}, {address} : {element}, !llvm.ptr"));
    }

    pub fn load_vector(&mut self, address: &Value) -> Value {
        let (vector, size) = (self.vector.clone(), self.dtype.size());
        self.e().op(format_args!("llvm.load {address} {{alignment = {size} : i64}} : !llvm.ptr -> {vector}"))
    }

    pub fn store_vector(&mut self, address: &Value, value: &Value) {
        let (vector, size) = (self.vector.clone(), self.dtype.size());
        let text =
            format_args!("llvm.store {value}, {address} {{alignment = {size} : i64}} : {vector}, !llvm.ptr");
        self.phase.emitter.line(text);
    }

    /// The address of an operand's element.
    fn operand(&mut self, operand: AttentionOperand, at: &[Value]) -> Option<(Value, DType)> {
        let (position, view) = (self.attention.position(operand)?, self.attention.view(operand)?);
        let dtype = self.attention.operand_dtype(operand);
        let mut sum = self.index(0);
        for (coordinate, &stride) in at.iter().zip(&view.access.strides) {
            let step = scaled(self.e(), coordinate, stride);
            sum = self.add(&sum, &step);
        }
        let base = self.buffers[position].clone();
        let sum = self.e().op(format_args!("arith.index_cast {sum} : index to i64"));
        let element = storage_type(dtype);
        let address = self
            .e()
            .op(format_args!("llvm.getelementptr {base}[{sum}] : (!llvm.ptr, i64) -> !llvm.ptr, {element}"));
        Some((address, dtype))
    }

    /// An element of an operand: a number of the type of the sums, or a truth value.
    pub fn read(&mut self, operand: AttentionOperand, at: &[Value]) -> Option<Value> {
        let (address, dtype) = self.operand(operand, at)?;
        let element = storage_type(dtype);
        let value = self.e().op(format_args!("llvm.load {address} : !llvm.ptr -> {element}"));
        let value = scalar::from_storage(self.e(), dtype, &value);
        let to = self.dtype;
        Some(if dtype == DType::Bool { value } else { convert(self.e(), dtype, to, &value) })
    }

    /// Writes an element of an operand, given in the type of the sums.
    pub fn write(&mut self, operand: AttentionOperand, at: &[Value], value: &Value) {
        let Some((address, dtype)) = self.operand(operand, at) else { return };
        let from = self.dtype;
        let value = convert(self.e(), from, dtype, value);
        let element = storage_type(dtype);
        self.e().line(format_args!("llvm.store {value}, {address} : {element}, !llvm.ptr"));
    }
}
