//! The C signature of a host phase, and how a payload gets at its arguments.
//!
//! A phase is written with [`PhaseWriter`]: [`PhaseWriter::new`] opens the function; [`buffer`], [`flat`],
//! [`scalar`] and [`scratch`] hand out what it works on; code goes to [`PhaseWriter::emitter`]; the
//! range of tiles is [`begin`]`..`[`end`] (of type `index`); [`finish`] closes the function.
//!
//! [`buffer`]: PhaseWriter::buffer
//! [`flat`]: PhaseWriter::flat
//! [`scalar`]: PhaseWriter::scalar
//! [`scratch`]: PhaseWriter::scratch
//! [`begin`]: PhaseWriter::begin
//! [`end`]: PhaseWriter::end
//! [`finish`]: PhaseWriter::finish

use crate::emit::{Emitter, Value};
use crate::scalar;
use crate::types::storage_type;
use burn_mlir_ir::DType;
use std::fmt::Display;

/// Scratch memory of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scratch {
    /// Common to all phases and workers.
    Shared,
    /// Of the calling worker.
    Worker,
}

/// Writes one phase function.
pub(crate) struct PhaseWriter {
    /// Where the function's code goes.
    pub emitter: Emitter,
    begin: Value,
    end: Value,
    streams: bool,
}

impl PhaseWriter {
    /// Opens the function `symbol`.
    pub fn new(symbol: &str) -> Self {
        let mut emitter = Emitter::new(0);
        // Without builtins LLVM does not turn loops into calls of memset and memcpy.
        emitter.open(format_args!(
            "func.func @{symbol}(%buffers: !llvm.ptr, %scalars: !llvm.ptr, %shared: !llvm.ptr, \
             %worker: !llvm.ptr, %status: !llvm.ptr, %first: i64, %last: i64) \
             attributes {{passthrough = [\"no-builtins\"]}} {{"
        ));
        let begin = emitter.op("arith.index_cast %first : i64 to index");
        let end = emitter.op("arith.index_cast %last : i64 to index");
        Self { emitter, begin, end, streams: false }
    }

    /// The first tile to compute, an `index`.
    pub fn begin(&self) -> Value {
        self.begin.clone()
    }

    /// The tile after the last one to compute, an `index`.
    pub fn end(&self) -> Value {
        self.end.clone()
    }

    /// The address of parameter `position`, an `!llvm.ptr`.
    pub fn buffer(&mut self, position: usize) -> Value {
        let e = &mut self.emitter;
        let place = e.op(format_args!(
            "llvm.getelementptr %buffers[{position}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr"
        ));
        e.op(format_args!("llvm.load {place} : !llvm.ptr -> !llvm.ptr"))
    }

    /// The scalar argument `position` as a value of `dtype`.
    pub fn scalar(&mut self, position: usize, dtype: DType) -> Value {
        let e = &mut self.emitter;
        let ty = storage_type(dtype);
        let place =
            e.op(format_args!("llvm.getelementptr %scalars[{position}] : (!llvm.ptr) -> !llvm.ptr, i64"));
        let value = e.op(format_args!("llvm.load {place} : !llvm.ptr -> {ty}"));
        scalar::from_storage(e, dtype, &value)
    }

    /// What follows the scalars at `position`, a number of the launch, as an `index`.
    pub fn number(&mut self, position: usize) -> Value {
        let e = &mut self.emitter;
        let place =
            e.op(format_args!("llvm.getelementptr %scalars[{position}] : (!llvm.ptr) -> !llvm.ptr, i64"));
        let value = e.op(format_args!("llvm.load {place} : !llvm.ptr -> i64"));
        e.op(format_args!("arith.index_cast {value} : i64 to index"))
    }

    /// The address `bytes` into a scratch memory, an `!llvm.ptr`.
    pub fn scratch(&mut self, scratch: Scratch, bytes: u64) -> Value {
        let base = match scratch {
            Scratch::Shared => "%shared",
            Scratch::Worker => "%worker",
        };
        self.emitter.op(format_args!("llvm.getelementptr {base}[{bytes}] : (!llvm.ptr) -> !llvm.ptr, i8"))
    }

    /// A view `memref<size x element>` of the memory that starts `offset` elements after `address`.
    pub fn flat(&mut self, address: &Value, offset: i64, element: &str, size: i64) -> Value {
        self.strided(address, offset, element, &[size], &[1])
    }

    /// A view of the memory that starts `offset` elements after `address`, with static extents and
    /// strides. Its type is [`memref_type`]. Strides must not be negative: memref addressing assumes
    /// that nothing lies before the start.
    pub fn strided(
        &mut self,
        address: &Value,
        offset: i64,
        element: &str,
        sizes: &[i64],
        strides: &[i64],
    ) -> Value {
        const DESCRIPTOR: &str = "!llvm.struct<(ptr, ptr, i64)>";
        let e = &mut self.emitter;
        let address = if offset == 0 {
            address.clone()
        } else {
            e.op(format_args!("llvm.getelementptr {address}[{offset}] : (!llvm.ptr) -> !llvm.ptr, {element}"))
        };
        let zero = e.op("llvm.mlir.constant(0 : i64) : i64");
        let mut descriptor = e.op(format_args!("llvm.mlir.poison : {DESCRIPTOR}"));
        for (position, field) in [&address, &address, &zero].into_iter().enumerate() {
            descriptor =
                e.op(format_args!("llvm.insertvalue {field}, {descriptor}[{position}] : {DESCRIPTOR}"));
        }
        let point = e.op(format_args!(
            "builtin.unrealized_conversion_cast {descriptor} : {DESCRIPTOR} to memref<{element}>"
        ));
        e.op(format_args!(
            "memref.reinterpret_cast {point} to offset: [0], sizes: {sizes:?}, strides: {strides:?} : \
             memref<{element}> to {}",
            memref_type(element, sizes, strides)
        ))
    }

    /// Reports an index out of range if the `i1` `condition` holds.
    pub fn report(&mut self, condition: &Value) {
        report(&mut self.emitter, condition);
    }

    /// Stores a vector past the caches of an x86 processor: `place` is `memref[index]`, aligned to that many bytes;
    /// `types` those of the memref and the vector.
    pub fn stream(&mut self, vector: &Value, place: impl Display, alignment: usize, types: impl Display) {
        self.streams = true;
        self.emitter.line(format_args!(
            "vector.store {vector}, {place} {{nontemporal = true, alignment = {alignment} : i64}} : {types}"
        ));
    }

    /// Closes the function and returns its text.
    pub fn finish(mut self) -> String {
        if self.streams {
            // Such stores are not ordered with others, even those that say that the work is done.
            self.emitter.line("llvm.call_intrinsic \"llvm.x86.sse.sfence\"() : () -> ()");
        }
        self.emitter.line("return");
        self.emitter.close("}");
        self.emitter.finish()
    }
}

/// Reports an index out of range if the `i1` `condition` holds.
pub(crate) fn report(e: &mut Emitter, condition: &Value) {
    e.open(format_args!("scf.if {condition} {{"));
    let one = e.op("llvm.mlir.constant(1 : i32) : i32");
    e.line(format_args!("llvm.store {one}, %status : i32, !llvm.ptr"));
    e.close("}");
}

/// The type of a memref with static extents and strides at offset 0.
pub(crate) fn memref_type(element: &str, sizes: &[i64], strides: &[i64]) -> String {
    use std::fmt::Write;
    let mut text = String::from("memref<");
    for size in sizes {
        // Writing to a string does not fail.
        let _ = write!(text, "{size}x");
    }
    text.push_str(element);
    let mut dense = 1;
    let contiguous = sizes.iter().zip(strides).rev().all(|(&size, &stride)| {
        let ok = stride == dense;
        dense *= size;
        ok
    });
    if !contiguous {
        let _ = write!(text, ", strided<{strides:?}>");
    }
    text.push('>');
    text
}
