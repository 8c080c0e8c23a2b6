//! Arrays in scratch memory.

use crate::abi::{PhaseWriter, Scratch};
use crate::emit::{Emitter, Value};
use crate::host::lanes::vector_type;

/// An array in scratch memory.
#[derive(Clone)]
pub(super) struct Array {
    memref: Value,
    ty: String,
    /// The MLIR type of its elements.
    pub element: &'static str,
}

impl Array {
    /// The memory of `count` elements, `place.0` bytes into a scratch memory.
    pub fn new(phase: &mut PhaseWriter, scratch: Scratch, place: Place, element: &'static str) -> Self {
        let address = phase.scratch(scratch, place.offset);
        let memref = phase.flat(&address, 0, element, place.count as i64);
        Self { memref, ty: format!("memref<{}x{element}>", place.count), element }
    }

    /// An element.
    pub fn load(&self, e: &mut Emitter, at: &Value) -> Value {
        e.op(format_args!("memref.load {}[{at}] : {}", self.memref, self.ty))
    }

    /// Writes an element.
    pub fn store(&self, e: &mut Emitter, at: &Value, value: &Value) {
        e.line(format_args!("memref.store {value}, {}[{at}] : {}", self.memref, self.ty));
    }

    /// `width` elements from `at`.
    pub fn load_vector(&self, e: &mut Emitter, at: &Value, width: usize) -> Value {
        let vector = vector_type(width, self.element);
        e.op(format_args!("vector.load {}[{at}] : {}, {vector}", self.memref, self.ty))
    }

    /// Writes `width` elements from `at`.
    pub fn store_vector(&self, e: &mut Emitter, at: &Value, value: &Value, width: usize) {
        let vector = vector_type(width, self.element);
        e.line(format_args!("vector.store {value}, {}[{at}] : {}, {vector}", self.memref, self.ty));
    }
}

/// Where an array lies in scratch memory, and how long it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// Bytes before it.
    pub offset: u64,
    /// Number of elements.
    pub count: usize,
}

/// Hands out scratch memory.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Bytes handed out.
    pub bytes: u64,
}

impl Plan {
    /// Memory for `count` elements of `size` bytes, aligned to a line.
    pub fn place(&mut self, count: usize, size: usize) -> Place {
        let place = Place { offset: self.bytes, count };
        self.bytes += (count as u64 * size as u64).next_multiple_of(64);
        place
    }
}
