//! The two products: queries times keys, and weights times values. Slices of the operands go through the
//! memory of the block, in the type of the sums.

use super::geometry::{SIDE, THREADS, VALUE_KEYS};
use super::kernel::{Kernel, State};
use crate::emit::Value;
use crate::host::lanes::convert;
use crate::host::tiles::{Carried, index, index_op, open_carrying_for, scaled};
use crate::nvptx::ACCESS_BYTES;
use crate::nvptx::writer::WORKGROUP;
use crate::types::storage_type;
use burn_mlir_ir::AttentionOperand;

/// Steps of a product's inner loop that are written out.
const UNROLLED: usize = 8;

impl Kernel<'_> {
    /// Scores of the block of keys from `key` on: for each of the thread's rows, a run.
    pub fn scores(&mut self, key: &Value) -> Vec<Value> {
        let (depth, width, lanes) = (self.geometry.depth, self.attention.sizes.width, self.geometry.lanes);
        let zero = self.zeros();
        let initial: Vec<Carried> =
            (0..lanes).map(|_| Carried { value: zero.clone(), ty: self.vector.clone() }).collect();
        let (from, to) = (index(self.e(), 0), index(self.e(), width));
        let open = open_carrying_for(self.e(), &from, &to, depth, &initial);
        let row = self.row.clone();
        let first = open.variable.clone();
        let queries = self.read_slice(AttentionOperand::Query, &row, &first);
        let keys = self.read_slice(AttentionOperand::Key, key, &first);
        // What was there is no longer used.
        self.writer.barrier();
        self.write_slice(&queries, 0);
        self.write_slice(&keys, depth * self.geometry.pitch());
        self.writer.barrier();
        let scores = self.multiply_slices(&open.carried);
        let scores = open.close(self.e(), &scores);
        scores.into_iter().map(|carried| carried.value).collect()
    }

    /// This thread's elements of a slice `[depth][rows]`: rows of an operand from `row` on, its elements from
    /// `first` on. 0 beyond the last element.
    fn read_slice(&mut self, operand: AttentionOperand, row: &Value, first: &Value) -> Vec<(Value, Value)> {
        let (tile, depth, pitch) = (self.geometry.tile(), self.geometry.depth, self.geometry.pitch());
        let width = self.attention.sizes.width;
        let count = if operand == AttentionOperand::Query {
            self.attention.sizes.queries
        } else {
            self.attention.sizes.keys
        };
        let thread = self.thread.clone();
        let mut slice = Vec::new();
        for part in (0..tile * depth).step_by(THREADS) {
            let e = self.e();
            let shift = index(e, part);
            let number = index_op(e, "arith.addi", &thread, &shift);
            let depth = index(e, depth);
            let along = index_op(e, "arith.remui", &number, &depth);
            let nth = index_op(e, "arith.divui", &number, &depth);
            let element = index_op(e, "arith.addi", first, &along);
            let mine = index_op(e, "arith.addi", row, &nth);
            // Rows beyond the last are never used.
            let last = index(e, count - 1);
            let mine = index_op(e, "arith.minui", &mine, &last);
            let inside = (!width.is_multiple_of(self.geometry.depth)).then_some(width);
            let value = self.read(operand, &mine, &element, inside, None);
            let e = self.e();
            let target = scaled(e, &along, pitch as i64);
            slice.push((index_op(e, "arith.addi", &target, &nth), value));
        }
        slice
    }

    /// An element of queries, keys or values in the type of the sums. With limits, 0 beyond them.
    fn read(
        &mut self,
        operand: AttentionOperand,
        row: &Value,
        column: &Value,
        columns: Option<usize>,
        rows: Option<usize>,
    ) -> Value {
        let mut inside: Option<Value> = None;
        let mut limited = |kernel: &mut Self, at: &Value, limit: Option<usize>| {
            let Some(limit) = limit else { return at.clone() };
            let e = kernel.e();
            let count = index(e, limit);
            let fits = e.op(format_args!("arith.cmpi ult, {at}, {count} : index"));
            inside = Some(match &inside {
                Some(inside) => e.op(format_args!("arith.andi {inside}, {fits} : i1")),
                None => fits,
            });
            let last = index(e, limit - 1);
            index_op(e, "arith.minui", at, &last)
        };
        let row = limited(self, row, rows);
        let column = limited(self, column, columns);
        let head = if operand == AttentionOperand::Query { &self.head } else { &self.shared_head };
        let at = [self.batch.clone(), head.clone(), row, column];
        let value = self.element_of(operand, &at);
        let Some(inside) = inside else { return value };
        let zero = self.number("0.0", "0.0");
        let element = self.element;
        self.e().op(format_args!("arith.select {inside}, {value}, {zero} : {element}"))
    }

    /// An element of an operand in the type of the sums.
    pub fn element_of(&mut self, operand: AttentionOperand, at: &[Value]) -> Value {
        let (attention, dtype) = (self.attention, self.attention.operand_dtype(operand));
        let (Some(position), Some(view)) = (attention.position(operand), attention.view(operand)) else {
            return self.number("0.0", "0.0");
        };
        let value = self.writer.load(position, storage_type(dtype), &view.access, at);
        let to = self.dtype;
        convert(self.e(), dtype, to, &value)
    }

    fn write_slice(&mut self, slice: &[(Value, Value)], offset: usize) {
        let (slices, element) = (self.slices.clone(), self.element);
        let base = self.shifted(&slices, offset);
        for (target, value) in slice {
            let at = self.writer.element(&base, WORKGROUP, target, element);
            self.e().line(format_args!("llvm.store {value}, {at} : {element}, {WORKGROUP}"));
        }
    }

    /// An address some elements on.
    fn shifted(&mut self, base: &Value, elements: usize) -> Value {
        let element = self.element;
        self.e().op(format_args!(
            "llvm.getelementptr {base}[{elements}] : ({WORKGROUP}) -> {WORKGROUP}, {element}"
        ))
    }

    /// A run in the memory of the block, `elements` after `base`.
    fn load_run(&mut self, base: &Value, elements: usize) -> Value {
        let at = self.shifted(base, elements);
        let vector = self.vector.clone();
        self.e()
            .op(format_args!("llvm.load {at} {{alignment = {ACCESS_BYTES} : i64}} : {WORKGROUP} -> {vector}"))
    }

    /// The address `index` elements after `base`.
    fn at(&mut self, base: &Value, index: &Value) -> Value {
        let element = self.element;
        self.writer.element(base, WORKGROUP, index, element)
    }

    /// Adds the products of the slices to scores.
    fn multiply_slices(&mut self, scores: &[Carried]) -> Vec<Carried> {
        let (depth, pitch, lanes) = (self.geometry.depth, self.geometry.pitch(), self.geometry.lanes);
        let (from, to) = (index(self.e(), 0), index(self.e(), depth));
        let open = open_carrying_for(self.e(), &from, &to, UNROLLED, scores);
        let mut scores: Vec<Value> = open.carried.iter().map(|carried| carried.value.clone()).collect();
        let row = scaled(self.e(), &open.variable, pitch as i64);
        let [mine, theirs] = self.place.clone().map(|place| {
            let place = scaled(self.e(), &place, lanes as i64);
            index_op(self.e(), "arith.addi", &row, &place)
        });
        let slices = self.slices.clone();
        let keys = self.shifted(&slices, depth * pitch);
        let (mine, theirs) = (self.at(&slices, &mine), self.at(&keys, &theirs));
        for step in 0..UNROLLED {
            let queries = self.load_run(&mine, step * pitch);
            let keys = self.load_run(&theirs, step * pitch);
            for (lane, score) in scores.iter_mut().enumerate() {
                let query = self.lane(&queries, lane);
                let query = self.spread(&query);
                *score = self.multiply_add(&query, &keys, score);
            }
        }
        let vector = &self.vector;
        let next: Vec<Carried> =
            scores.into_iter().map(|value| Carried { value, ty: vector.clone() }).collect();
        open.close(self.e(), &next)
    }

    /// Puts the thread's weights into the memory of the block: `[query][key]`.
    pub fn store_weights(&mut self, weights: &[Value]) {
        let (lanes, pitch) = (self.geometry.lanes, self.geometry.pitch());
        let [row, column] = self.place.clone().map(|place| scaled(self.e(), &place, lanes as i64));
        let at = scaled(self.e(), &row, pitch as i64);
        let at = index_op(self.e(), "arith.addi", &at, &column);
        let base = self.weights.clone();
        let base = self.at(&base, &at);
        let vector = self.vector.clone();
        for (row, run) in weights.iter().enumerate() {
            let at = self.shifted(&base, row * pitch);
            self.e().line(format_args!(
                "llvm.store {run}, {at} {{alignment = {ACCESS_BYTES} : i64}} : {vector}, {WORKGROUP}"
            ));
        }
    }

    /// Adds weights times the values of the block of keys from `key` on to the sums.
    pub fn add_values(&mut self, state: &mut State, key: &Value) {
        for chunk in (0..self.geometry.tile()).step_by(VALUE_KEYS) {
            let shift = index(self.e(), chunk);
            let first = index_op(self.e(), "arith.addi", key, &shift);
            let values = self.read_values(&first);
            // What was there is no longer used, and all weights are written.
            self.writer.barrier();
            self.write_slice(&values, 0);
            self.writer.barrier();
            self.multiply_values(state, chunk);
        }
    }

    /// This thread's elements of values `[key][column]`, of keys from `first` on. 0 beyond the last key.
    fn read_values(&mut self, first: &Value) -> Vec<(Value, Value)> {
        let columns = self.geometry.columns();
        let (keys, width) = (self.attention.sizes.keys, self.attention.sizes.value_width);
        let (thread, column) = (self.thread.clone(), self.column.clone());
        let ragged = !keys.is_multiple_of(VALUE_KEYS) || !keys.is_multiple_of(self.geometry.tile());
        let mut values = Vec::new();
        for part in (0..VALUE_KEYS * columns).step_by(THREADS) {
            let e = self.e();
            let shift = index(e, part);
            let number = index_op(e, "arith.addi", &thread, &shift);
            let count = index(e, columns);
            let along = index_op(e, "arith.remui", &number, &count);
            let nth = index_op(e, "arith.divui", &number, &count);
            let row = index_op(e, "arith.addi", first, &nth);
            let at = index_op(e, "arith.addi", &column, &along);
            // Columns beyond the last are never stored.
            let last = index(e, width - 1);
            let at = index_op(e, "arith.minui", &at, &last);
            let value = self.read(AttentionOperand::Value, &row, &at, None, ragged.then_some(keys));
            values.push((number, value));
        }
        values
    }

    /// Adds the products with the values in the memory of the block, which are of the keys from `chunk` on.
    fn multiply_values(&mut self, state: &mut State, chunk: usize) {
        let (lanes, runs) = (self.geometry.lanes, self.geometry.runs);
        let (pitch, columns) = (self.geometry.pitch(), self.geometry.columns());
        let carried = |kernel: &Self, sums: &[Vec<Value>]| -> Vec<Carried> {
            let ty = &kernel.vector;
            sums.iter().flatten().map(|value| Carried { value: value.clone(), ty: ty.clone() }).collect()
        };
        let initial = carried(self, &state.sums);
        let (from, to) = (index(self.e(), 0), index(self.e(), VALUE_KEYS));
        let open = open_carrying_for(self.e(), &from, &to, lanes, &initial);
        let inner: Vec<Value> = open.carried.iter().map(|carried| carried.value.clone()).collect();
        let mut sums: Vec<Vec<Value>> = inner.chunks(runs).map(<[Value]>::to_vec).collect();
        let [row, column] = self.place.clone().map(|place| scaled(self.e(), &place, lanes as i64));
        let weight = scaled(self.e(), &row, pitch as i64);
        let weight = index_op(self.e(), "arith.addi", &weight, &open.variable);
        let value = scaled(self.e(), &open.variable, columns as i64);
        let value = index_op(self.e(), "arith.addi", &value, &column);
        let (weights, values) = (self.weights.clone(), self.slices.clone());
        let (weights, values) = (self.at(&weights, &weight), self.at(&values, &value));
        let weights: Vec<Value> =
            (0..lanes).map(|row| self.load_run(&weights, row * pitch + chunk)).collect();
        for step in 0..lanes {
            let values: Vec<Value> =
                (0..runs).map(|run| self.load_run(&values, step * columns + run * SIDE * lanes)).collect();
            for (sums, weights) in sums.iter_mut().zip(&weights) {
                let weight = self.lane(weights, step);
                let weight = self.spread(&weight);
                for (sum, values) in sums.iter_mut().zip(&values) {
                    *sum = self.multiply_add(&weight, values, sum);
                }
            }
        }
        let next = carried(self, &sums);
        let sums = open.close(self.e(), &next);
        let sums: Vec<Value> = sums.into_iter().map(|carried| carried.value).collect();
        state.sums = sums.chunks(runs).map(<[Value]>::to_vec).collect();
    }
}
