//! The second phase: a loop over tiles of queries, and in each over the blocks of keys.

use super::geometry::{Array, Geometry};
use super::memory::Code;
use crate::abi::Scratch;
use crate::emit::Value;
use crate::host::tiles::{delinearize, index_op, open_for};
use crate::scalar;
use burn_mlir_ir::{Attention, AttentionOperand, UnaryOp};

/// The function's name.
pub(super) const SYMBOL: &str = "attention";

/// The function being written.
pub(super) struct Kernel<'a> {
    pub code: Code<'a>,
    pub geometry: &'a Geometry,
    pub scale: Value,
    pub cap: Option<Value>,
    packed: Value,
    arrays: [Value; 6],
}

/// Where a tile is.
#[derive(Clone)]
pub(super) struct Place {
    pub batch: Value,
    pub head: Value,
    /// First query.
    pub row: Value,
}

impl<'a> Kernel<'a> {
    pub fn new(attention: &'a Attention, geometry: &'a Geometry) -> Self {
        let mut code = Code::new(attention, geometry.lanes, SYMBOL);
        let dtype = code.dtype;
        let scale = code.phase.scalar(0, dtype);
        let cap = attention.softcap.then(|| code.phase.scalar(1, dtype));
        let packed = code.phase.scratch(Scratch::Shared, 0);
        let arrays = [Array::Queries, Array::Scores, Array::Sums, Array::Totals, Array::Max, Array::Factors];
        let arrays =
            arrays.map(|array| code.phase.scratch(Scratch::Worker, geometry.offset(attention, array) as u64));
        Self { code, geometry, scale, cap, packed, arrays }
    }

    /// The address of an array.
    pub fn array(&self, array: Array) -> Value {
        self.arrays[array as usize].clone()
    }

    /// How much later than a query the last key is that it sees.
    pub fn ahead(&self) -> i64 {
        let sizes = &self.code.attention.sizes;
        sizes.keys as i64 - sizes.queries as i64
    }

    /// Writes the function and returns its text.
    pub fn write(mut self) -> String {
        let (attention, geometry) = (self.code.attention, self.geometry);
        let sizes = &attention.sizes;
        let rows = sizes.queries.div_ceil(geometry.rows());
        let (begin, end) = (self.code.phase.begin(), self.code.phase.end());
        let tile = open_for(self.code.e(), &begin, &end, 1);
        let at = delinearize(self.code.e(), &tile, &[sizes.batch, sizes.heads, rows]);
        let row = self.code.scaled(&at[2], geometry.rows());
        let place = Place { batch: at[0].clone(), head: at[1].clone(), row };
        let shared = self.code.index(sizes.heads / sizes.kv_heads);
        let kv_head = index_op(self.code.e(), "arith.divui", &place.head, &shared);
        let kv_head = self.code.place(&place.batch, sizes.kv_heads, &kv_head);
        let first = self.code.scaled(&kv_head, geometry.blocks(sizes.keys));
        self.start(&place);

        let (zero, blocks) = (self.code.index(0), self.blocks(&place));
        let block = open_for(self.code.e(), &zero, &blocks, 1);
        let number = self.code.add(&first, &block);
        let offset = self.code.scaled(&number, geometry.block_elements(attention));
        let packed = self.packed.clone();
        let keys = self.code.address(&packed, &offset);
        let values = self.code.after(&keys, geometry.keys() * sizes.width);
        let key = self.code.scaled(&block, geometry.keys());
        self.scores(&keys);
        self.edit(&place, &key);
        self.softmax();
        self.add_values(&values);
        self.code.e().close("}");

        self.finish(&place);
        self.code.e().close("}");
        self.code.phase.finish()
    }

    /// The number of blocks of keys that a tile sees.
    fn blocks(&mut self, place: &Place) -> Value {
        let (rows, keys) = (self.geometry.rows() as i64, self.geometry.keys());
        let all = self.geometry.blocks(self.code.attention.sizes.keys);
        let all = self.code.index(all);
        if !self.code.attention.causal {
            return all;
        }
        let reach = rows + self.ahead() + keys as i64 - 1;
        let reach = self.code.e().op(format_args!("arith.constant {reach} : index"));
        let beyond = self.code.add(&place.row, &reach);
        let (none, keys) = (self.code.index(0), self.code.index(keys));
        let beyond = index_op(self.code.e(), "arith.maxsi", &beyond, &none);
        let blocks = index_op(self.code.e(), "arith.divui", &beyond, &keys);
        index_op(self.code.e(), "arith.minui", &blocks, &all)
    }

    /// Scaled queries, and sums of nothing. Rows beyond the last query are taken for it.
    fn start(&mut self, place: &Place) {
        let sizes = self.code.attention.sizes;
        let (rows, lanes, columns) = (self.geometry.rows(), self.geometry.lanes, self.geometry.columns);
        let (zero, rows) = (self.code.index(0), self.code.index(rows));
        let nth = open_for(self.code.e(), &zero, &rows, 1);
        let row = self.code.add(&place.row, &nth);
        let row = self.code.clamped(&row, sizes.queries);
        let width = self.code.index(sizes.width);
        let column = open_for(self.code.e(), &zero, &width, 1);
        let at = [place.batch.clone(), place.head.clone(), row, column.clone()];
        let value = self.code.read(AttentionOperand::Query, &at).unwrap_or_default();
        let scale = self.scale.clone();
        let value = self.code.arith("mulf", &value, &scale);
        let to = self.code.place(&nth, sizes.width, &column);
        let queries = self.array(Array::Queries);
        let to = self.code.address(&queries, &to);
        self.code.store(&to, &value);
        self.code.e().close("}");

        let nothing = self.code.zero();
        let nothing = self.code.spread(&nothing);
        for (array, width) in [(Array::Sums, columns), (Array::Totals, lanes)] {
            let base = self.array(array);
            let at = self.code.scaled(&nth, width);
            let base = self.code.address(&base, &at);
            for column in (0..width).step_by(lanes) {
                let to = self.code.after(&base, column);
                self.code.store_vector(&to, &nothing);
            }
        }
        let unseen = self.code.unseen();
        let max = self.array(Array::Max);
        let max = self.code.address(&max, &nth);
        self.code.store(&max, &unseen);
        self.code.e().close("}");
    }

    /// Divides the sums by the sums of weights and stores them.
    fn finish(&mut self, place: &Place) {
        let attention = self.code.attention;
        let (sizes, dtype) = (attention.sizes, self.code.dtype);
        let (rows, lanes, columns) = (self.geometry.rows(), self.geometry.lanes, self.geometry.columns);
        // The tile's queries that there are.
        let count = self.code.index(sizes.queries);
        let left = index_op(self.code.e(), "arith.subi", &count, &place.row);
        let (zero, rows) = (self.code.index(0), self.code.index(rows));
        let rows = index_op(self.code.e(), "arith.minui", &left, &rows);
        let nth = open_for(self.code.e(), &zero, &rows, 1);
        let row = self.code.add(&place.row, &nth);
        let total = self.array(Array::Totals);
        let at = self.code.scaled(&nth, lanes);
        let total = self.code.address(&total, &at);
        let mut sum = self.code.zero();
        for lane in 0..lanes {
            let address = self.code.after(&total, lane);
            let value = self.code.load(&address);
            sum = self.code.arith("addf", &sum, &value);
        }
        let (nothing, one) = (self.code.zero(), self.code.number("1.0", "1.0"));
        let element = self.code.element;
        let none = self.code.e().op(format_args!("arith.cmpf oeq, {sum}, {nothing} : {element}"));
        let share = self.code.arith("divf", &one, &sum);
        let share = self.code.choose(&none, &nothing, &share);
        if attention.lse.is_some() {
            let max = self.array(Array::Max);
            let max = self.code.address(&max, &nth);
            let max = self.code.load(&max);
            let logarithm = scalar::unary(self.code.e(), UnaryOp::Log, dtype, &sum);
            let logarithm = self.code.arith("addf", &max, &logarithm);
            let at = [place.batch.clone(), place.head.clone(), row.clone()];
            self.code.write(AttentionOperand::Lse, &at, &logarithm);
        }
        let width = self.code.index(sizes.value_width);
        let column = open_for(self.code.e(), &zero, &width, 1);
        let from = self.code.place(&nth, columns, &column);
        let sums = self.array(Array::Sums);
        let from = self.code.address(&sums, &from);
        let value = self.code.load(&from);
        let value = self.code.arith("mulf", &value, &share);
        let at = [place.batch.clone(), place.head.clone(), row, column];
        self.code.write(AttentionOperand::Output, &at, &value);
        self.code.e().close("}");
        self.code.e().close("}");
    }
}
