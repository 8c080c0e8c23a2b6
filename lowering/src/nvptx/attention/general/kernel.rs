//! The function: where a block of threads is, and the loop over the keys.

use super::SYMBOL;
use super::geometry::{Geometry, SIDE};
use crate::emit::{Emitter, Value};
use crate::host::lanes::vector_type;
use crate::host::tiles::{Carried, index, index_op, open_carrying_for, scaled};
use crate::nvptx::map::coordinates;
use crate::nvptx::writer::KernelWriter;
use crate::types::value_type;
use burn_mlir_ir::{Attention, DType};

/// The function being written.
pub(super) struct Kernel<'a> {
    pub attention: &'a Attention,
    pub geometry: Geometry,
    pub writer: KernelWriter,
    /// Element type of scores and sums, and MLIR's names of it and of a run of it.
    pub dtype: DType,
    pub element: &'static str,
    pub vector: String,
    pub batch: Value,
    pub head: Value,
    /// Head of keys and values.
    pub shared_head: Value,
    /// First query of the tile, first column of the values.
    pub row: Value,
    pub column: Value,
    /// Position in the block of threads, and there along queries and along columns.
    pub thread: Value,
    pub place: [Value; 2],
    /// Memory of the block: slices of operands, weights.
    pub slices: Value,
    pub weights: Value,
}

/// Sums and what is known of a thread's rows.
#[derive(Clone)]
pub(super) struct State {
    /// Largest score of each row.
    pub max: Vec<Value>,
    /// Sum of exponentials of each row, of this thread's keys.
    pub total: Vec<Value>,
    /// For each row, sums of its runs of columns.
    pub sums: Vec<Vec<Value>>,
}

impl<'a> Kernel<'a> {
    pub fn new(attention: &'a Attention, geometry: Geometry) -> Self {
        let dtype = Attention::scale_dtype(attention.dtype);
        let element = value_type(dtype);
        let mut writer = KernelWriter::new(SYMBOL, attention.operands().len(), attention.scalars().len());
        let slices = writer.workgroup(geometry.slice_bytes());
        let weights = writer.workgroup(geometry.weight_bytes());
        let (thread, block) = (writer.thread(), writer.block('x'));
        let sizes = &attention.sizes;
        let rows = sizes.queries.div_ceil(geometry.tile());
        let e = &mut writer.emitter;
        let mut at = coordinates(e, &block, &[rows, sizes.batch, sizes.heads, geometry.parts]).into_iter();
        let mut next = || at.next().unwrap_or_default();
        let (mut tile, batch, head, part) = (next(), next(), next(), next());
        if attention.causal {
            // Tiles that see most keys come first.
            let last = index(e, rows - 1);
            tile = index_op(e, "arith.subi", &last, &tile);
        }
        let shared = index(e, sizes.heads / sizes.kv_heads);
        let shared_head = index_op(e, "arith.divui", &head, &shared);
        let row = scaled(e, &tile, geometry.tile() as i64);
        let column = scaled(e, &part, geometry.columns() as i64);
        let side = index(e, SIDE);
        let place = [index_op(e, "arith.divui", &thread, &side), index_op(e, "arith.remui", &thread, &side)];
        let vector = vector_type(geometry.lanes, element);
        Self {
            attention,
            geometry,
            writer,
            dtype,
            element,
            vector,
            batch,
            head,
            shared_head,
            row,
            column,
            thread,
            place,
            slices,
            weights,
        }
    }

    /// Writes the function and returns its text.
    pub fn write(mut self) -> String {
        let (lanes, runs) = (self.geometry.lanes, self.geometry.runs);
        let unseen = self.number("0xFF800000", "0xFFF0000000000000");
        let zero = self.number("0.0", "0.0");
        let nothing = self.zeros();
        let initial = State {
            max: vec![unseen; lanes],
            total: vec![zero; lanes],
            sums: vec![vec![nothing; runs]; lanes],
        };
        let blocks = self.blocks();
        let from = index(self.e(), 0);
        let carried = self.carried(&initial);
        let open = open_carrying_for(self.e(), &from, &blocks, 1, &carried);
        let mut state = self.uncarried(&open.carried);
        let tile = self.geometry.tile() as i64;
        let key = scaled(self.e(), &open.variable, tile);
        let scores = self.scores(&key);
        let scores = self.edited(scores, &key);
        let weights = self.softmax(&mut state, scores);
        self.store_weights(&weights);
        self.add_values(&mut state, &key);
        let carried = self.carried(&state);
        let carried = open.close(self.e(), &carried);
        let state = self.uncarried(&carried);
        self.finish(&state);
        self.writer.finish()
    }

    pub fn e(&mut self) -> &mut Emitter {
        &mut self.writer.emitter
    }

    /// A constant, by its text in f32 and in f64.
    pub fn number(&mut self, single: &str, double: &str) -> Value {
        let text = if self.dtype == DType::F64 { double } else { single };
        let element = self.element;
        self.e().op(format_args!("arith.constant {text} : {element}"))
    }

    /// A run of zeros.
    pub fn zeros(&mut self) -> Value {
        let vector = self.vector.clone();
        self.e().op(format_args!("arith.constant dense<0.0> : {vector}"))
    }

    /// An operation of the arith dialect on two numbers.
    pub fn arith(&mut self, op: &str, a: &Value, b: &Value) -> Value {
        let element = self.element;
        self.e().op(format_args!("arith.{op} {a}, {b} : {element}"))
    }

    /// An element of a run.
    pub fn lane(&mut self, run: &Value, lane: usize) -> Value {
        let (element, vector) = (self.element, self.vector.clone());
        self.e().op(format_args!("vector.extract {run}[{lane}] : {element} from {vector}"))
    }

    /// A run of one number.
    pub fn spread(&mut self, value: &Value) -> Value {
        let (element, vector) = (self.element, self.vector.clone());
        self.e().op(format_args!("vector.broadcast {value} : {element} to {vector}"))
    }

    /// `a · b + c` on runs, rounded once.
    pub fn multiply_add(&mut self, a: &Value, b: &Value, c: &Value) -> Value {
        let vector = self.vector.clone();
        self.e().op(format_args!("math.fma {a}, {b}, {c} : {vector}"))
    }

    /// How much later than a query the last key is that it sees.
    pub fn ahead(&self) -> i64 {
        self.attention.sizes.keys as i64 - self.attention.sizes.queries as i64
    }

    /// The number of blocks of keys that the tile sees, an `index`.
    fn blocks(&mut self) -> Value {
        let tile = self.geometry.tile() as i64;
        let all = self.attention.sizes.keys.div_ceil(self.geometry.tile());
        let ahead = self.ahead();
        let (causal, row) = (self.attention.causal, self.row.clone());
        let e = self.e();
        let all = index(e, all);
        if !causal {
            return all;
        }
        let beyond = index(e, 2 * tile - 1 + ahead);
        let beyond = index_op(e, "arith.addi", &row, &beyond);
        let none = index(e, 0);
        let beyond = index_op(e, "arith.maxsi", &beyond, &none);
        let tile = index(e, tile);
        let blocks = index_op(e, "arith.divui", &beyond, &tile);
        index_op(e, "arith.minui", &blocks, &all)
    }

    fn carried(&self, state: &State) -> Vec<Carried> {
        let numbers = state.max.iter().chain(&state.total);
        let numbers = numbers.map(|value| Carried { value: value.clone(), ty: self.element.into() });
        let runs = state.sums.iter().flatten();
        numbers.chain(runs.map(|value| Carried { value: value.clone(), ty: self.vector.clone() })).collect()
    }

    fn uncarried(&self, carried: &[Carried]) -> State {
        let (lanes, runs) = (self.geometry.lanes, self.geometry.runs);
        let values: Vec<Value> = carried.iter().map(|carried| carried.value.clone()).collect();
        let (max, rest) = values.split_at(lanes);
        let (total, sums) = rest.split_at(lanes);
        State {
            max: max.into(),
            total: total.into(),
            sums: sums.chunks(runs).map(<[Value]>::to_vec).collect(),
        }
    }
}
