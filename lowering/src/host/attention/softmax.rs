//! Scores of a block on their way to weights.

use super::geometry::Array;
use super::kernel::{Kernel, Place};
use crate::emit::Value;
use crate::host::tiles::open_for;
use crate::scalar;
use burn_mlir_ir::{AttentionOperand, UnaryOp};

impl Kernel<'_> {
    /// Caps, masks and biases the scores of the block of keys from `key` on.
    pub fn edit(&mut self, place: &Place, key: &Value) {
        let attention = self.code.attention;
        let all = attention.softcap || attention.mask.is_some() || attention.bias.is_some();
        if all {
            return self.edit_block(place, key);
        }
        let keys = self.geometry.keys();
        let mut partial: Option<Value> = None;
        if !attention.sizes.keys.is_multiple_of(keys) {
            let last = attention.sizes.keys / keys * keys;
            let last = self.code.index(last);
            partial = Some(self.code.e().op(format_args!("arith.cmpi eq, {key}, {last} : index")));
        }
        if attention.causal {
            // The first query does not see the last key.
            let reach = self.ahead() - keys as i64 + 1;
            let reach = self.code.e().op(format_args!("arith.constant {reach} : index"));
            let limit = self.code.add(&place.row, &reach);
            let hides = self.code.e().op(format_args!("arith.cmpi sgt, {key}, {limit} : index"));
            partial = Some(match partial {
                Some(partial) => self.code.e().op(format_args!("arith.ori {partial}, {hides} : i1")),
                None => hides,
            });
        }
        if let Some(partial) = partial {
            self.code.e().open(format_args!("scf.if {partial} {{"));
            self.edit_block(place, key);
            self.code.e().close("}");
        }
    }

    fn edit_block(&mut self, place: &Place, key: &Value) {
        let (zero, rows) = (self.code.index(0), self.code.index(self.geometry.rows()));
        let keys = self.geometry.keys();
        let nth = open_for(self.code.e(), &zero, &rows, 1);
        let query = self.code.add(&place.row, &nth);
        let count = self.code.index(keys);
        let column = open_for(self.code.e(), &zero, &count, 1);
        let at = self.code.place(&nth, keys, &column);
        let scores = self.array(Array::Scores);
        let address = self.code.address(&scores, &at);
        let score = self.code.load(&address);
        let key = self.code.add(key, &column);
        let score = self.edited(place, score, &query, &key);
        self.code.store(&address, &score);
        self.code.e().close("}");
        self.code.e().close("}");
    }

    fn edited(&mut self, place: &Place, mut score: Value, query: &Value, key: &Value) -> Value {
        let attention = self.code.attention;
        let (sizes, dtype) = (attention.sizes, self.code.dtype);
        let unseen = self.code.unseen();
        if let Some(cap) = self.cap.clone() {
            let ratio = self.code.arith("divf", &score, &cap);
            let bent = scalar::unary(self.code.e(), UnaryOp::Tanh, dtype, &ratio);
            score = self.code.arith("mulf", &bent, &cap);
        }
        let inner_query = self.code.clamped(query, sizes.queries);
        let inner_key = self.code.clamped(key, sizes.keys);
        let at = [place.batch.clone(), place.head.clone(), inner_query, inner_key];
        if attention.mask.is_some() {
            let hides = self.code.read(AttentionOperand::Mask, &at).unwrap_or_default();
            score = self.code.choose(&hides, &unseen, &score);
        }
        let exists = self.code.is_below(key, sizes.keys);
        score = self.code.choose(&exists, &score, &unseen);
        if attention.causal {
            let ahead = self.ahead();
            let ahead = self.code.e().op(format_args!("arith.constant {ahead} : index"));
            let limit = self.code.add(query, &ahead);
            let later = self.code.e().op(format_args!("arith.cmpi sgt, {key}, {limit} : index"));
            score = self.code.choose(&later, &unseen, &score);
        }
        if attention.bias.is_some() {
            let bias = self.code.read(AttentionOperand::Bias, &at).unwrap_or_default();
            score = self.code.arith("addf", &score, &bias);
        }
        score
    }

    /// Scores become exponentials of their distance from the largest of their row so far.
    pub fn softmax(&mut self) {
        let (lanes, keys, dtype) = (self.geometry.lanes, self.geometry.keys(), self.code.dtype);
        let (zero, rows) = (self.code.index(0), self.code.index(self.geometry.rows()));
        let nth = open_for(self.code.e(), &zero, &rows, 1);
        let at = self.code.scaled(&nth, keys);
        let scores = self.array(Array::Scores);
        let scores = self.code.address(&scores, &at);
        let (element, vector) = (self.code.element, self.code.vector.clone());
        let mut largest: Option<Value> = None;
        for column in (0..keys).step_by(lanes) {
            let from = self.code.after(&scores, column);
            let run = self.code.load_vector(&from);
            largest = Some(match largest {
                Some(largest) => self.code.on_vectors("maxnumf", &largest, &run),
                None => run,
            });
        }
        let largest = largest.unwrap_or_default();
        let largest =
            self.code.e().op(format_args!("vector.reduction <maxnumf>, {largest} : {vector} into {element}"));
        let max = self.array(Array::Max);
        let max = self.code.address(&max, &nth);
        let before = self.code.load(&max);
        let largest = self.code.arith("maxnumf", &largest, &before);
        self.code.store(&max, &largest);
        // A row that sees no key yet subtracts 0, so that its exponentials are 0, not NaN.
        let (unseen, nothing) = (self.code.unseen(), self.code.zero());
        let none = self.code.e().op(format_args!("arith.cmpf oeq, {largest}, {unseen} : {element}"));
        let shift = self.code.choose(&none, &nothing, &largest);
        let below = self.code.arith("subf", &before, &shift);
        let factor = scalar::unary(self.code.e(), UnaryOp::Exp, dtype, &below);
        let factors = self.array(Array::Factors);
        let factors = self.code.address(&factors, &nth);
        self.code.store(&factors, &factor);

        // LLVM makes vectors of this.
        let count = self.code.index(keys);
        let column = open_for(self.code.e(), &zero, &count, 1);
        let address = self.code.address(&scores, &column);
        let score = self.code.load(&address);
        let below = self.code.arith("subf", &score, &shift);
        let weight = scalar::unary(self.code.e(), UnaryOp::Exp, dtype, &below);
        self.code.store(&address, &weight);
        self.code.e().close("}");

        let totals = self.array(Array::Totals);
        let at = self.code.scaled(&nth, lanes);
        let totals = self.code.address(&totals, &at);
        let total = self.code.load_vector(&totals);
        let factor = self.code.spread(&factor);
        let mut total = self.code.on_vectors("mulf", &total, &factor);
        for column in (0..keys).step_by(lanes) {
            let from = self.code.after(&scores, column);
            let run = self.code.load_vector(&from);
            total = self.code.on_vectors("addf", &total, &run);
        }
        self.code.store_vector(&totals, &total);
        self.code.e().close("}");
    }
}
