//! Scores on their way to weights, and sums on their way to memory.

use super::geometry::SIDE;
use super::kernel::{Kernel, State};
use crate::emit::Value;
use crate::host::lanes::convert;
use crate::host::tiles::{index, index_op, scaled};
use crate::nvptx::shuffle::{Shuffle, shuffle};
use crate::scalar;
use crate::types::storage_type;
use burn_mlir_ir::{AttentionOperand, UnaryOp};

impl Kernel<'_> {
    /// Scores of the block of keys from `key` on, scaled, capped, masked and biased, element by element.
    pub fn edited(&mut self, scores: Vec<Value>, key: &Value) -> Vec<Vec<Value>> {
        let lanes = self.geometry.lanes;
        let dtype = self.dtype;
        let scale = self.writer.scalar(0, dtype);
        let cap = self.attention.softcap.then(|| self.writer.scalar(1, dtype));
        let [rows, keys] = self.points(key);
        let mut edited = Vec::new();
        for (run, row) in scores.iter().zip(&rows) {
            let mut line = Vec::new();
            for (lane, key) in (0..lanes).zip(&keys) {
                let score = self.lane(run, lane);
                let mut score = self.arith("mulf", &score, &scale);
                if let Some(cap) = &cap {
                    let ratio = self.arith("divf", &score, cap);
                    let bent = scalar::unary(self.e(), UnaryOp::Tanh, dtype, &ratio);
                    score = self.arith("mulf", &bent, cap);
                }
                line.push(self.seen(&score, row, key));
            }
            edited.push(line);
        }
        edited
    }

    /// The thread's queries, and its keys of the block from `key` on.
    fn points(&mut self, key: &Value) -> [Vec<Value>; 2] {
        let lanes = self.geometry.lanes;
        let starts = [self.row.clone(), key.clone()];
        let mut places = self.place.clone().into_iter();
        starts.map(|start| {
            let place = places.next().unwrap_or_default();
            let e = self.e();
            let place = scaled(e, &place, lanes as i64);
            let first = index_op(e, "arith.addi", &start, &place);
            let nth = |lane| {
                let lane = index(e, lane);
                index_op(e, "arith.addi", &first, &lane)
            };
            (0..lanes).map(nth).collect()
        })
    }

    /// A score with mask and bias; -∞ if the query does not see the key.
    fn seen(&mut self, score: &Value, query: &Value, key: &Value) -> Value {
        let attention = self.attention;
        let sizes = &attention.sizes;
        let mut score = score.clone();
        let [inner_query, inner_key] = [(query, sizes.queries), (key, sizes.keys)].map(|(at, count)| {
            let last = index(self.e(), count - 1);
            index_op(self.e(), "arith.minui", at, &last)
        });
        let at = [self.batch.clone(), self.head.clone(), inner_query, inner_key];
        let mask = attention.position(AttentionOperand::Mask).zip(attention.mask.as_ref());
        if let Some((position, view)) = mask {
            let hides = self.writer.load(position, "i8", &view.access, &at);
            let zero = self.e().op("arith.constant 0 : i8");
            let hides = self.e().op(format_args!("arith.cmpi ne, {hides}, {zero} : i8"));
            score = self.hidden(&hides, &score);
        }
        if !sizes.keys.is_multiple_of(self.geometry.tile()) {
            let count = index(self.e(), sizes.keys);
            let beyond = self.e().op(format_args!("arith.cmpi uge, {key}, {count} : index"));
            score = self.hidden(&beyond, &score);
        }
        if attention.causal {
            let ahead = self.ahead();
            let ahead = index(self.e(), ahead);
            let limit = index_op(self.e(), "arith.addi", query, &ahead);
            let later = self.e().op(format_args!("arith.cmpi sgt, {key}, {limit} : index"));
            score = self.hidden(&later, &score);
        }
        if attention.bias.is_some() {
            let bias = self.element_of(AttentionOperand::Bias, &at);
            score = self.arith("addf", &score, &bias);
        }
        score
    }

    fn hidden(&mut self, condition: &Value, score: &Value) -> Value {
        let unseen = self.number("0xFF800000", "0xFFF0000000000000");
        let element = self.element;
        self.e().op(format_args!("arith.select {condition}, {unseen}, {score} : {element}"))
    }

    /// Exponentials of scores less the largest of their row so far, as runs; sums so far are rescaled.
    pub fn softmax(&mut self, state: &mut State, scores: Vec<Vec<Value>>) -> Vec<Value> {
        let mut weights = Vec::new();
        for (row, scores) in scores.iter().enumerate() {
            let mut max = scores[0].clone();
            for score in &scores[1..] {
                max = self.larger(&max, score);
            }
            let max = self.across(&max, Self::larger);
            let max = self.larger(&max, &state.max[row]);
            // A row that sees no key yet subtracts 0, so that its exponentials are 0, not NaN.
            let unseen = self.number("0xFF800000", "0xFFF0000000000000");
            let zero = self.number("0.0", "0.0");
            let element = self.element;
            let none = self.e().op(format_args!("arith.cmpf oeq, {max}, {unseen} : {element}"));
            let shift = self.e().op(format_args!("arith.select {none}, {zero}, {max} : {element}"));
            let factor = self.exponential(&state.max[row].clone(), &shift);
            let mut total = self.arith("mulf", &state.total[row].clone(), &factor);
            let mut line = Vec::new();
            for score in scores {
                let weight = self.exponential(score, &shift);
                total = self.arith("addf", &total, &weight);
                line.push(weight);
            }
            let factor = self.spread(&factor);
            let vector = self.vector.clone();
            for sum in &mut state.sums[row] {
                *sum = self.e().op(format_args!("arith.mulf {sum}, {factor} : {vector}"));
            }
            (state.max[row], state.total[row]) = (max, total);
            let elements = line.join(", ");
            weights.push(self.e().op(format_args!("vector.from_elements {elements} : {vector}")));
        }
        weights
    }

    fn exponential(&mut self, x: &Value, shift: &Value) -> Value {
        let below = self.arith("subf", x, shift);
        let dtype = self.dtype;
        scalar::unary(self.e(), UnaryOp::Exp, dtype, &below)
    }

    /// The larger; the other one if one is NaN.
    fn larger(&mut self, a: &Value, b: &Value) -> Value {
        let element = self.element;
        self.e().op(format_args!("llvm.intr.maxnum({a}, {b}) : ({element}, {element}) -> {element}"))
    }

    fn sum(&mut self, a: &Value, b: &Value) -> Value {
        self.arith("addf", a, b)
    }

    /// A reduction over the threads that share a row.
    fn across(&mut self, value: &Value, f: fn(&mut Self, &Value, &Value) -> Value) -> Value {
        let mut value = value.clone();
        let mut distance = SIDE / 2;
        while distance > 0 {
            let element = self.element;
            let other = shuffle(self.e(), &value, element, Shuffle::Butterfly(distance));
            value = f(self, &value, &other);
            distance /= 2;
        }
        value
    }

    /// Divides the sums by the sums of weights and stores them.
    pub fn finish(&mut self, state: &State) {
        let attention = self.attention;
        let (lanes, sizes) = (self.geometry.lanes, attention.sizes);
        let start = self.column.clone();
        let [rows, columns] = self.points(&start);
        let dtype = attention.dtype;
        let (from, storage) = (self.dtype, storage_type(dtype));
        let Some(position) = attention.position(AttentionOperand::Output) else { return };
        for (row, query) in rows.iter().enumerate() {
            let total = self.across(&state.total[row].clone(), Self::sum);
            self.store_lse(query, &state.max[row], &total);
            let (zero, one) = (self.number("0.0", "0.0"), self.number("1.0", "1.0"));
            let element = self.element;
            let none = self.e().op(format_args!("arith.cmpf oeq, {total}, {zero} : {element}"));
            let share = self.arith("divf", &one, &total);
            let share = self.e().op(format_args!("arith.select {none}, {zero}, {share} : {element}"));
            let exists = self.below(query, sizes.queries);
            self.e().open(format_args!("scf.if {exists} {{"));
            for (run, sums) in state.sums[row].iter().enumerate() {
                for (lane, column) in (0..lanes).zip(&columns) {
                    let value = self.lane(sums, lane);
                    let value = self.arith("mulf", &value, &share);
                    let value = convert(self.e(), from, dtype, &value);
                    let shift = index(self.e(), run * SIDE * lanes);
                    let column = index_op(self.e(), "arith.addi", column, &shift);
                    let inside = self.below(&column, sizes.value_width);
                    self.e().open(format_args!("scf.if {inside} {{"));
                    let at = [self.batch.clone(), self.head.clone(), query.clone(), column];
                    self.writer.store(position, storage, &attention.output.access, &at, &value);
                    self.e().close("}");
                }
            }
            self.e().close("}");
        }
    }

    fn below(&mut self, at: &Value, count: usize) -> Value {
        let count = index(self.e(), count);
        self.e().op(format_args!("arith.cmpi ult, {at}, {count} : index"))
    }

    /// Stores the logarithm of a row's sum of exponentials, if it is wanted: by one thread, for one part.
    fn store_lse(&mut self, query: &Value, max: &Value, total: &Value) {
        let attention = self.attention;
        let lse = attention.position(AttentionOperand::Lse).zip(attention.lse.as_ref());
        let Some((position, view)) = lse else { return };
        let dtype = self.dtype;
        let logarithm = scalar::unary(self.e(), UnaryOp::Log, dtype, total);
        let logarithm = self.arith("addf", max, &logarithm);
        let exists = self.below(query, attention.sizes.queries);
        let place = self.place[1].clone();
        let (first, part) = (self.below(&place, 1), self.column.clone());
        let part = self.below(&part, 1);
        let writes = self.e().op(format_args!("arith.andi {exists}, {first} : i1"));
        let writes = self.e().op(format_args!("arith.andi {writes}, {part} : i1"));
        self.e().open(format_args!("scf.if {writes} {{"));
        let at = [self.batch.clone(), self.head.clone(), query.clone()];
        let element = self.element;
        self.writer.store(position, element, &view.access, &at, &logarithm);
        self.e().close("}");
    }
}
