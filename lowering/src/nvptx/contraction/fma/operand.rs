//! Slices of an operand, from global memory to workgroup memory.

use super::super::place::{clamped, offset};
use super::geometry::{Geometry, Side};
use crate::contraction::{Contraction, Factor, Group};
use crate::emit::{Emitter, Value};
use crate::host::lanes::convert;
use crate::host::tiles::{index, index_op};
use crate::nvptx::chunk::bytes_of;
use crate::nvptx::writer::{GLOBAL, KernelWriter, WORKGROUP};
use crate::scalar;
use crate::types::{storage_type, value_type};

/// An operand, and the elements of a slice that a thread copies.
pub(super) struct Source<'a> {
    factor: &'a Factor,
    sum: &'a Group,
    geometry: &'a Geometry,
    side: Side,
    /// Type in workgroup memory.
    element: &'static str,
    /// What stands for points beyond the sum.
    padding: &'static str,
    /// The slice: `[summed point][row or column]`, rows of the side's pitch.
    pub memory: Value,
    copies: Vec<Copy>,
    /// Whether this thread copies anything, where that is not certain.
    copying: Option<Value>,
}

/// An element of every slice.
struct Copy {
    /// Address at the sum's first point.
    origin: Value,
    /// Point within the slice.
    depth: Value,
    /// Where it goes in workgroup memory.
    target: Value,
}

impl<'a> Source<'a> {
    /// Finds the elements `thread` copies, for the tile from `first` on of a batch element at `batch`.
    pub fn new(
        writer: &mut KernelWriter,
        contraction: &'a Contraction,
        geometry: &'a Geometry,
        left: bool,
        [thread, batch, first]: [&Value; 3],
    ) -> Self {
        let (factor, group, side) = if left {
            (&contraction.left, &contraction.rows, geometry.rows)
        } else {
            (&contraction.right, &contraction.columns, geometry.columns)
        };
        let element = value_type(contraction.accumulator);
        // 0 · -0 is -0, which changes no sum.
        let padding = match (left, contraction.accumulator.is_float()) {
            (true, true) => "0.0",
            (false, true) => "-0.0",
            (_, false) => "0",
        };
        let memory = writer.workgroup(geometry.depth * side.pitch() * bytes_of(element));
        let elements = side.tile() * geometry.depth;
        let threads = geometry.threads();
        let e = &mut writer.emitter;
        let batch = offset(e, &contraction.batch, &factor.access, batch);
        let along_sum = step(&contraction.sum, factor) < step(group, factor);
        let inner = index(e, if along_sum { geometry.depth } else { side.tile() });
        // With more threads than elements some have the same, and the first of them stores it.
        let copying = (elements < threads).then(|| {
            let elements = index(e, elements);
            e.op(format_args!("arith.cmpi ult, {thread}, {elements} : index"))
        });
        let mut copies = Vec::new();
        for part in (0..elements).step_by(threads) {
            let e = &mut writer.emitter;
            let shift = index(e, part);
            let mut number = index_op(e, "arith.addi", thread, &shift);
            if copying.is_some() {
                let elements = index(e, elements);
                number = index_op(e, "arith.remui", &number, &elements);
            }
            let fast = index_op(e, "arith.remui", &number, &inner);
            let slow = index_op(e, "arith.divui", &number, &inner);
            let (depth, place) = if along_sum { (fast, slow) } else { (slow, fast) };
            let point = index_op(e, "arith.addi", first, &place);
            // What lies beyond the last row or column is computed from another one, and never stored.
            let point = if side.ragged() { clamped(e, &point, side.points - 1) } else { point };
            let along = offset(e, group, &factor.access, &point);
            let start = index_op(e, "arith.addi", &batch, &along);
            let pitch = index(e, side.pitch());
            let target = index_op(e, "arith.muli", &depth, &pitch);
            let target = index_op(e, "arith.addi", &target, &place);
            let buffer = format!("%buffer{}", factor.param.0);
            let origin = writer.element(&buffer, GLOBAL, &start, storage_type(factor.types[0]));
            let target = writer.element(&memory, WORKGROUP, &target, element);
            copies.push(Copy { origin, depth, target });
        }
        Self { factor, sum: &contraction.sum, geometry, side, element, padding, memory, copies, copying }
    }

    /// Reads this thread's elements of the slice from the summed point `from` on, in the accumulator's
    /// type. All are elements of the operand.
    pub fn read(&self, writer: &mut KernelWriter, from: &Value) -> Vec<Value> {
        let sum = self.geometry.sum;
        let stored = storage_type(self.factor.types[0]);
        let ragged = !sum.is_multiple_of(self.geometry.depth);
        let mut loaded = Vec::new();
        for copy in &self.copies {
            let e = &mut writer.emitter;
            let point = index_op(e, "arith.addi", from, &copy.depth);
            let inside = ragged.then(|| {
                let sum = index(e, sum);
                e.op(format_args!("arith.cmpi ult, {point}, {sum} : index"))
            });
            let point = if ragged { clamped(e, &point, sum - 1) } else { point };
            let along = offset(e, self.sum, &self.factor.access, &point);
            let at = writer.element(&copy.origin, GLOBAL, &along, stored);
            let value = writer.emitter.op(format_args!("llvm.load {at} : {GLOBAL} -> {stored}"));
            loaded.push((value, inside));
        }
        let e = &mut writer.emitter;
        loaded.into_iter().map(|(value, inside)| self.accumulated(e, &value, inside.as_ref())).collect()
    }

    /// A loaded element in the accumulator's type; padding if it is not `inside` the sum.
    fn accumulated(&self, e: &mut Emitter, value: &Value, inside: Option<&Value>) -> Value {
        let types = &self.factor.types;
        let value = scalar::from_storage(e, types[0], value);
        let value = types.windows(2).fold(value, |value, pair| convert(e, pair[0], pair[1], &value));
        let Some(inside) = inside else { return value };
        let padding = e.op(format_args!("arith.constant {} : {}", self.padding, self.element));
        e.op(format_args!("arith.select {inside}, {value}, {padding} : {}", self.element))
    }

    /// Writes what [`read`](Self::read) returned to workgroup memory.
    pub fn write(&self, writer: &mut KernelWriter, values: &[Value]) {
        let e = &mut writer.emitter;
        if let Some(copying) = &self.copying {
            e.open(format_args!("scf.if {copying} {{"));
        }
        for (copy, value) in self.copies.iter().zip(values) {
            e.line(format_args!("llvm.store {value}, {} : {}, {WORKGROUP}", copy.target, self.element));
        }
        if self.copying.is_some() {
            e.close("}");
        }
    }

    /// A thread's runs of rows or columns at point `depth` of the slice, a vector each; `mine` is the
    /// address of its first at the first point.
    pub fn runs(&self, e: &mut Emitter, mine: &Value, depth: usize) -> Vec<Value> {
        let (element, lanes) = (self.element, self.side.lanes);
        let alignment = (lanes * bytes_of(element)).min(crate::nvptx::ACCESS_BYTES);
        let run = |run: usize| {
            let shift = depth * self.side.pitch() + run * self.side.apart();
            let at = e.op(format_args!(
                "llvm.getelementptr {mine}[{shift}] : ({WORKGROUP}) -> {WORKGROUP}, {element}"
            ));
            e.op(format_args!(
                "llvm.load {at} {{alignment = {alignment} : i64}} : {WORKGROUP} -> vector<{lanes}x{element}>"
            ))
        };
        (0..self.side.runs).map(run).collect()
    }
}

/// Elements between neighbours along a group.
fn step(group: &Group, factor: &Factor) -> u64 {
    match group.inner(&factor.access).stride.unsigned_abs() {
        0 => u64::MAX,
        step => step,
    }
}
