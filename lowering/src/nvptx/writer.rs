//! The signature of a GPU kernel, and how a payload gets at its arguments and its place in the grid.

use crate::emit::{Emitter, Value};
use crate::host::tiles::scaled;
use crate::scalar;
use crate::types::storage_type;
use burn_mlir_ir::{Access, DType};

/// Type of an address in global memory.
pub(super) const GLOBAL: &str = "!llvm.ptr<1>";
/// Type of an address in the memory of a block of threads.
pub(super) const WORKGROUP: &str = "!llvm.ptr<3>";

/// Bytes of workgroup memory that a function may declare.
const DECLARED_BYTES: usize = 48 << 10;

/// Bytes of workgroup memory that lie in different banks.
const BANKS_BYTES: usize = 128;

/// Writes one kernel: the functions of [`Program`](burn_mlir_ir::Program) for a GPU.
pub(super) struct KernelWriter {
    /// Where the function's code goes.
    pub emitter: Emitter,
    symbol: String,
    workgroup_bytes: usize,
    /// Whether the memory of a block is reserved by its launch.
    dynamic: bool,
    /// Blocks that a multiprocessor is to have registers for, if that is known.
    resident: Option<usize>,
}

/// Where boxes of a swizzled tensor map must start in the memory of a block.
const BOX_ALIGNMENT: usize = 1024;

impl KernelWriter {
    /// Opens the kernel `symbol`, which has `buffers` buffers and `scalars` scalar arguments.
    pub fn new(symbol: &str, buffers: usize, scalars: usize) -> Self {
        let mut emitter = Emitter::for_gpu();
        let arguments = arguments(buffers, scalars);
        emitter.open(format_args!("func.func @{symbol}({}) {{", arguments.join(", ")));
        Self { emitter, symbol: symbol.into(), workgroup_bytes: 0, dynamic: false, resident: None }
    }

    /// Opens a kernel that has tensor maps `%map0` and so on besides, for blocks of `threads` of which a
    /// multiprocessor need not hold more than one. What [`workgroup`](Self::workgroup) reserves is to be
    /// launched with.
    pub fn with_tensor_maps(symbol: &str, buffers: usize, scalars: usize, maps: usize, threads: u32) -> Self {
        let mut emitter = Emitter::for_gpu();
        let mut arguments = arguments(buffers, scalars);
        // Only functions of the LLVM dialect can be kernels, and only kernels have arguments like these.
        arguments.extend((0..maps).map(|map| {
            format!(
                "%map{map}: !llvm.ptr {{llvm.byval = !llvm.array<128 x i8>, llvm.align = 64 : i64, \
                 nvvm.grid_constant}}"
            )
        }));
        emitter.open(format_args!(
            "llvm.func @{symbol}({}) attributes {{nvvm.kernel, nvvm.reqntid = array<i32: {threads}, 1, 1>, \
             nvvm.minctasm = 1 : i32}} {{",
            arguments.join(", ")
        ));
        Self { emitter, symbol: symbol.into(), workgroup_bytes: 0, dynamic: true, resident: None }
    }

    /// The scalar argument `slot` as a value of `dtype`.
    pub fn scalar(&mut self, slot: usize, dtype: DType) -> Value {
        let e = &mut self.emitter;
        let ty = storage_type(dtype);
        let bits = 8 * dtype.size();
        let mut value = format!("%scalar{slot}");
        if bits < 64 {
            value = e.op(format_args!("arith.trunci {value} : i64 to i{bits}"));
        }
        if !ty.starts_with('i') {
            value = e.op(format_args!("arith.bitcast {value} : i{bits} to {ty}"));
        }
        scalar::from_storage(e, dtype, &value)
    }

    /// Position of the thread in its block, an `index`.
    pub fn thread(&mut self) -> Value {
        self.register("tid.x")
    }

    /// Position of the block in the grid along `x` or `y`, an `index`.
    pub fn block(&mut self, axis: char) -> Value {
        self.register(&format!("ctaid.{axis}"))
    }

    fn register(&mut self, name: &str) -> Value {
        let value = self.emitter.op(format_args!("nvvm.read.ptx.sreg.{name} : i32"));
        self.emitter.op(format_args!("arith.index_castui {value} : i32 to index"))
    }

    /// Address of `element` number `at` (an `index`) of a memory of a block or of the launch.
    pub fn element(&mut self, base: &Value, space: &str, at: &Value, element: &str) -> Value {
        let e = &mut self.emitter;
        let at = e.op(format_args!("arith.index_cast {at} : index to i64"));
        e.op(format_args!("llvm.getelementptr {base}[{at}] : ({space}, i64) -> {space}, {element}"))
    }

    /// The address of an access to buffer `position` at some coordinates.
    pub fn address(
        &mut self,
        position: usize,
        element: &str,
        access: &Access,
        coordinates: &[Value],
    ) -> Value {
        let e = &mut self.emitter;
        let mut sum: Option<Value> = None;
        for (dim, &stride) in access.strides.iter().enumerate().filter(|(_, stride)| **stride != 0) {
            let step = scaled(e, &coordinates[dim], stride);
            sum = Some(match sum {
                Some(sum) => e.op(format_args!("arith.addi {sum}, {step} : index")),
                None => step,
            });
        }
        let base = format!("%buffer{position}");
        match sum {
            Some(sum) => self.element(&base, GLOBAL, &sum, element),
            None => base,
        }
    }

    /// The element of buffer `position` at some coordinates, as it is in memory.
    pub fn load(&mut self, position: usize, element: &str, access: &Access, coordinates: &[Value]) -> Value {
        let at = self.address(position, element, access, coordinates);
        self.emitter.op(format_args!("llvm.load {at} : {GLOBAL} -> {element}"))
    }

    /// Replaces the element of buffer `position` at some coordinates, given as it is in memory.
    pub fn store(
        &mut self,
        position: usize,
        element: &str,
        access: &Access,
        coordinates: &[Value],
        value: &Value,
    ) {
        let at = self.address(position, element, access, coordinates);
        self.emitter.line(format_args!("llvm.store {value}, {at} : {element}, {GLOBAL}"));
    }

    /// `bytes` of the launch's scratch from `offset` on.
    pub fn scratch(&mut self, offset: usize) -> Value {
        let e = &mut self.emitter;
        if i32::try_from(offset).is_ok() {
            return e.op(format_args!("llvm.getelementptr %shared[{offset}] : ({GLOBAL}) -> {GLOBAL}, i8"));
        }
        let offset = e.op(format_args!("arith.constant {offset} : i64"));
        e.op(format_args!("llvm.getelementptr %shared[{offset}] : ({GLOBAL}, i64) -> {GLOBAL}, i8"))
    }

    /// Reserves memory of the block of threads and returns its address.
    pub fn workgroup(&mut self, bytes: usize) -> Value {
        let offset = self.workgroup_bytes;
        self.workgroup_bytes += bytes.next_multiple_of(16);
        let base = self.emitter.op(format_args!("llvm.mlir.addressof @{}_memory : {WORKGROUP}", self.symbol));
        self.emitter
            .op(format_args!("llvm.getelementptr {base}[{offset}] : ({WORKGROUP}) -> {WORKGROUP}, i8"))
    }

    /// Bytes of workgroup memory reserved so far.
    pub fn workgroup_bytes(&self) -> usize {
        self.workgroup_bytes
    }

    /// Workgroup memory in bytes that the launch has to bring, if it is more than a function may declare.
    pub fn dynamic_bytes(&self) -> u32 {
        if self.workgroup_bytes > DECLARED_BYTES { self.workgroup_bytes as u32 } else { 0 }
    }

    /// Says how many blocks a multiprocessor is to have registers for: each thread may have its share of them.
    pub fn keep_resident(&mut self, blocks: usize) {
        self.resident = Some(blocks);
    }

    /// Waits until all threads of the block are here and see each other's writes.
    pub fn barrier(&mut self) {
        self.emitter.line("nvvm.barrier0");
    }

    /// Reports an index out of range if the `i1` `condition` holds.
    pub fn report(&mut self, condition: &Value) {
        let e = &mut self.emitter;
        e.open(format_args!("scf.if {condition} {{"));
        let one = e.op("llvm.mlir.constant(1 : i32) : i32");
        e.line(format_args!("llvm.store {one}, %status : i32, {GLOBAL}"));
        e.close("}");
    }

    /// Closes the kernel and returns its text.
    pub fn finish(mut self) -> String {
        self.emitter.line(if self.dynamic { "llvm.return" } else { "return" });
        self.emitter.close("}");
        let (linkage, bytes, alignment) = match (self.dynamic, self.dynamic_bytes()) {
            (true, _) => ("external", 0, BOX_ALIGNMENT),
            (_, 0) => ("internal", self.workgroup_bytes, BANKS_BYTES),
            _ => ("external", 0, BANKS_BYTES),
        };
        if self.dynamic || self.workgroup_bytes > 0 {
            self.emitter.line(format_args!(
                "llvm.mlir.global {linkage} @{}_memory() {{addr_space = 3 : i32, alignment = {alignment} : i64}} : \
                 !llvm.array<{bytes} x i8>",
                self.symbol
            ));
        }
        let text = self.emitter.finish();
        match self.resident {
            // Behind the arguments.
            Some(blocks) => {
                text.replacen(") {\n", &format!(") attributes {{nvvm.minctasm = {blocks} : i32}} {{\n"), 1)
            }
            None => text,
        }
    }
}

/// The arguments all kernels have.
fn arguments(buffers: usize, scalars: usize) -> Vec<String> {
    (0..buffers)
        .map(|position| format!("%buffer{position}: {GLOBAL}"))
        .chain((0..scalars).map(|slot| format!("%scalar{slot}: i64")))
        .chain(["shared", "status", "counters"].map(|name| format!("%{name}: {GLOBAL}")))
        .collect()
}

/// A kernel's text under another name, with its last buffer, number `buffer`, `offset` bytes into the launch's scratch
/// instead of in an argument.
pub(super) fn moved_to_scratch(text: &str, symbol: &str, name: &str, buffer: usize, offset: usize) -> String {
    let argument = format!("%buffer{buffer}: {GLOBAL}, ");
    let place =
        format!("\n  %buffer{buffer} = llvm.getelementptr %shared[{offset}] : ({GLOBAL}) -> {GLOBAL}, i8\n");
    // The signature, with whatever attributes, is the first line.
    let text = text.replacen(&argument, "", 1).replacen('\n', &place, 1);
    text.replace(&format!("@{symbol}"), &format!("@{name}"))
}
