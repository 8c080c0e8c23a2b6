//! Inclusive prefix combinations along an axis.
//!
//! A team of threads shares a row. Where the axis is contiguous it takes a [tile](along) of the row at a time,
//! the threads side by side; otherwise every thread takes a [segment](across) of a row of its own, and rows lie side by
//! side. Few long rows are split over blocks: a kernel before leaves what each of their parts comes to. The
//! tree in which elements are combined is fixed by the shape.

mod across;
mod along;
mod team;

use super::map::coordinates;
use super::writer::KernelWriter;
use super::{code::Code, grid, kernels};
use crate::emit::{Emitter, Value};
use crate::host::tiles::{Carried, open_carrying_for};
use crate::nvptx::writer::GLOBAL;
use crate::types::{storage_type, value_type};
use crate::{LoweringError, Payload, scalar};
use burn_mlir_ir::{DType, Phase, Scan};

/// Lowers a scan.
pub(super) fn lower(scan: &Scan) -> Result<Payload, LoweringError> {
    let rows = Rows::of(scan);
    if rows.side_by_side() { across::lower(&rows) } else { along::lower(&rows) }
}

/// The rows of a scan.
struct Rows<'a> {
    scan: &'a Scan,
    /// The dimensions besides the axis, the one along which rows lie side by side last.
    outer: Vec<usize>,
    /// Number of rows.
    count: usize,
    /// Elements of a row.
    size: usize,
    /// The type in which elements are combined.
    accumulator: DType,
}

impl<'a> Rows<'a> {
    fn of(scan: &'a Scan) -> Self {
        let mut outer: Vec<usize> = scan.outer().collect();
        let stride = |dim: usize| scan.accesses[1].strides[dim].unsigned_abs();
        if let Some(side) = outer.iter().position(|&dim| stride(dim) == 1) {
            let side = outer.remove(side);
            outer.push(side);
        }
        let size = scan.shape[scan.axis];
        Self { scan, outer, count: scan.rows(), size, accumulator: scalar::accumulator(scan.dtype) }
    }

    /// Whether neighbouring rows lie closer to each other than neighbouring elements of a row.
    fn side_by_side(&self) -> bool {
        let Some(&side) = self.outer.last() else { return false };
        let sum = |dim: usize| -> u64 {
            self.scan.accesses.iter().map(|access| access.strides[dim].unsigned_abs().min(8)).sum()
        };
        self.scan.shape[side] >= 8 && sum(side) < sum(self.scan.axis)
    }

    /// The type of a value that is combined.
    fn ty(&self) -> &'static str {
        value_type(self.accumulator)
    }

    /// The coordinates of a row, 0 on the axis.
    fn place(&self, e: &mut Emitter, row: &Value) -> Vec<Value> {
        let zero = e.int("index", 0);
        let mut all = vec![zero; self.scan.shape.len()];
        if !self.outer.is_empty() {
            let sizes: Vec<usize> = self.outer.iter().map(|&dim| self.scan.shape[dim]).collect();
            for (&dim, at) in self.outer.iter().zip(coordinates(e, row, &sizes)) {
                all[dim] = at;
            }
        }
        all
    }

    fn identity(&self, e: &mut Emitter) -> Value {
        scalar::constant(e, self.accumulator, scalar::identity(self.scan.op, self.accumulator))
    }

    fn combine(&self, e: &mut Emitter, a: &Value, b: &Value) -> Value {
        scalar::combine(e, self.scan.op, self.accumulator, a, b)
    }

    /// An element of the input as it is combined.
    fn widen(&self, e: &mut Emitter, element: &Value) -> Value {
        let value = scalar::from_storage(e, self.scan.dtype, element);
        if self.accumulator == self.scan.dtype {
            return value;
        }
        scalar::cast(e, self.scan.dtype, self.accumulator, &value)
    }

    /// A combined value as an element of the output.
    fn narrow(&self, e: &mut Emitter, value: &Value) -> Value {
        if self.accumulator == self.scan.dtype {
            return scalar::to_storage(e, self.scan.dtype, value);
        }
        let value = scalar::cast(e, self.accumulator, self.scan.dtype, value);
        scalar::to_storage(e, self.scan.dtype, &value)
    }

    fn read(&self, kernel: &mut KernelWriter, place: &[Value]) -> Value {
        let element = kernel.load(0, storage_type(self.scan.dtype), &self.scan.accesses[0], place);
        self.widen(&mut kernel.emitter, &element)
    }

    fn write(&self, kernel: &mut KernelWriter, place: &[Value], value: &Value) {
        let element = self.narrow(&mut kernel.emitter, value);
        kernel.store(1, storage_type(self.scan.dtype), &self.scan.accesses[1], place, &element);
    }

    /// The place in scratch memory of what part `split` of a row comes to.
    fn partial(&self, kernel: &mut KernelWriter, split: &Value, row: &Value) -> Value {
        let base = kernel.scratch(0);
        let e = &mut kernel.emitter;
        let rows = e.int("index", self.count);
        let first = e.arith("muli", "index", split, &rows);
        let at = e.arith("addi", "index", &first, row);
        kernel.element(&base, GLOBAL, &at, self.ty())
    }

    fn leave(&self, kernel: &mut KernelWriter, split: &Value, row: &Value, value: &Value) {
        let at = self.partial(kernel, split, row);
        kernel.emitter.line(format_args!("llvm.store {value}, {at} : {}, {GLOBAL}", self.ty()));
    }

    /// What part `split` of a row comes to.
    fn left(&self, kernel: &mut KernelWriter, split: &Value, row: &Value) -> Value {
        let at = self.partial(kernel, split, row);
        kernel.emitter.op(format_args!("llvm.load {at} : {GLOBAL} -> {}", self.ty()))
    }

    /// What the parts of a row before `split` come to.
    fn before(&self, kernel: &mut KernelWriter, split: &Value, row: &Value) -> Value {
        let e = &mut kernel.emitter;
        let (zero, identity) = (e.int("index", 0), self.identity(e));
        let carried = |value: Value| Carried { value, ty: self.ty().into() };
        let open = open_carrying_for(e, &zero, split, 1, &[carried(identity)]);
        let part = self.left(kernel, &open.variable, row);
        let e = &mut kernel.emitter;
        let sum = self.combine(e, &open.carried[0].value, &part);
        open.close(e, &[carried(sum)]).remove(0).value
    }

    /// The payload of kernels over a grid of blocks and splits: the last one writes, one before it leaves what
    /// splits come to if there is more than one.
    fn payload(
        &self,
        blocks: usize,
        splits: usize,
        threads: usize,
        kernel: impl Fn(&str, bool) -> String,
    ) -> Result<Payload, LoweringError> {
        let mut phases = Vec::new();
        let symbols: &[(&str, bool)] =
            if splits > 1 { &[("parts", false), ("scan", true)] } else { &[("scan", true)] };
        for &(symbol, writes) in symbols {
            let [x, ..] = grid(blocks)?;
            let block = [threads as u32, 1, 1];
            let phase =
                Phase { symbol: symbol.into(), grid: [x, splits as u32, 1], block, ..Phase::default() };
            phases.push((kernel(symbol, writes), phase));
        }
        let bytes = if splits > 1 { splits * self.count * self.accumulator.size() } else { 0 };
        Ok(kernels(phases, bytes))
    }
}
