//! A strided buffer as a flat memref.

use crate::abi::PhaseWriter;
use crate::emit::{Emitter, Value};
use crate::host::lanes::vector_type;
use crate::host::tiles::{index, index_op, scaled};
use crate::scalar;
use crate::types::storage_type;
use burn_mlir_ir::{Access, DType};

/// A buffer and how coordinates map to it.
pub(super) struct View {
    memref: Value,
    ty: String,
    origin: i64,
    strides: Vec<i64>,
    dtype: DType,
}

impl View {
    /// The view of parameter `position`, whose coordinates run over `shape`.
    pub fn new(
        phase: &mut PhaseWriter,
        position: usize,
        dtype: DType,
        access: &Access,
        shape: &[usize],
    ) -> Self {
        let (mut low, mut high) = (0, 0);
        for (&stride, &size) in access.strides.iter().zip(shape) {
            let reach = stride * (size as i64 - 1).max(0);
            low += reach.min(0);
            high += reach.max(0);
        }
        let address = phase.buffer(position);
        let (element, size) = (storage_type(dtype), high - low + 1);
        let memref = phase.flat(&address, low, element, size);
        let ty = format!("memref<{size}x{element}>");
        Self { memref, ty, origin: -low, strides: access.strides.to_vec(), dtype }
    }

    /// Where in the memref the element at coordinates is.
    pub fn address(&self, e: &mut Emitter, coordinates: &[Value]) -> Value {
        let mut at = index(e, self.origin);
        for (&stride, coordinate) in self.strides.iter().zip(coordinates) {
            if stride != 0 {
                let step = scaled(e, coordinate, stride);
                at = index_op(e, "arith.addi", &at, &step);
            }
        }
        at
    }

    /// The value at coordinates.
    pub fn load(&self, e: &mut Emitter, coordinates: &[Value]) -> Value {
        let at = self.address(e, coordinates);
        let value = e.op(format_args!("memref.load {}[{at}] : {}", self.memref, self.ty));
        scalar::from_storage(e, self.dtype, &value)
    }

    /// Writes a value at coordinates.
    pub fn store(&self, e: &mut Emitter, coordinates: &[Value], value: &Value) {
        let at = self.address(e, coordinates);
        let value = scalar::to_storage(e, self.dtype, value);
        e.line(format_args!("memref.store {value}, {}[{at}] : {}", self.memref, self.ty));
    }

    /// `width` elements in memory from address `at`, as they are stored.
    pub fn load_vector(&self, e: &mut Emitter, at: &Value, width: usize) -> Value {
        let vector = self.vector(width);
        e.op(format_args!("vector.load {}[{at}] : {}, {vector}", self.memref, self.ty))
    }

    /// Writes `width` elements to address `at`, as they are stored.
    pub fn store_vector(&self, e: &mut Emitter, at: &Value, value: &Value, width: usize) {
        let vector = self.vector(width);
        e.line(format_args!("vector.store {value}, {}[{at}] : {}, {vector}", self.memref, self.ty));
    }

    fn vector(&self, width: usize) -> String {
        vector_type(width, storage_type(self.dtype))
    }
}
