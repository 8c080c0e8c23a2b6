//! What happens to scores before their softmax: cap, mask, bias, and keys that are not seen.

use super::consumer::Place;
use super::kernel::{Kernel, Tile};
use super::softmax::LOG2_E;
use crate::emit::Value;
use crate::host::tiles::scaled;
use crate::nvptx::writer::GLOBAL;
use burn_mlir_ir::{Access, AttentionOperand, DType};

/// Truth values of masks, elements of biases.
struct Source {
    operand: AttentionOperand,
    /// Addresses of the thread's two rows.
    rows: [Value; 2],
    stride: i64,
}

impl Kernel<'_> {
    /// Whether the first (newest) block of a tile has scores that are changed.
    pub fn edits_first(&self) -> bool {
        self.edits_all() || self.attention.causal || self.tail()
    }

    /// Whether more blocks may have keys that are later than a query.
    pub fn edits_more(&self) -> bool {
        let keys = self.tiling.keys;
        let aligned = keys == self.tiling.queries() && self.ahead().rem_euclid(keys as i64) == 0;
        self.attention.causal && !aligned && !self.edits_all()
    }

    /// Whether the scores of all blocks are changed.
    pub fn edits_all(&self) -> bool {
        self.attention.softcap || self.attention.mask.is_some() || self.attention.bias.is_some()
    }

    /// Whether the last block of keys is not full.
    fn tail(&self) -> bool {
        !self.attention.sizes.keys.is_multiple_of(self.tiling.keys)
    }

    /// What scores are multiplied with to become exponents of 2; those that are edited are that already.
    pub fn factor(&mut self) -> Value {
        if self.edits_all() { self.c.f32("1.0") } else { self.exponent_scale() }
    }

    fn exponent_scale(&mut self) -> Value {
        let scale = self.c.writer.scalar(0, DType::F32);
        let log2_e = self.c.f32(LOG2_E);
        self.c.fmul(&scale, &log2_e)
    }

    /// The scores of block `number` of the keys as exponents of 2.
    pub fn edit(&mut self, place: &Place, mut scores: Vec<Value>, tile: &Tile, number: &Value) -> Vec<Value> {
        if self.edits_all() {
            scores = self.exponents(scores);
        }
        let start = self.c.with("muli", number, self.tiling.keys as i64);
        let column = self.c.add(&start, &place.column);
        let rows = [0, 8].map(|below| {
            let row = self.c.with("addi", &place.row, below);
            self.c.add(&tile.row, &row)
        });
        if let Some(mask) = self.source(AttentionOperand::Mask, tile, &rows) {
            scores = self.mask(scores, &mask, &column);
        }
        if self.attention.causal || self.tail() {
            scores = self.hide(scores, &rows, &column);
        }
        if let Some(bias) = self.source(AttentionOperand::Bias, tile, &rows) {
            scores = self.bias(scores, &bias, &column);
        }
        scores
    }

    /// Scaled and capped scores: `cap · tanh(scale · s / cap)`, with `tanh x = 1 - 2 / (e^2x + 1)`.
    fn exponents(&mut self, scores: Vec<Value>) -> Vec<Value> {
        let scale = self.exponent_scale();
        if !self.attention.softcap {
            return scores.iter().map(|score| self.c.fmul(score, &scale)).collect();
        }
        let cap = self.c.writer.scalar(1, DType::F32);
        let twice = self.c.f32("2.0");
        let inner = self.c.fmul(&scale, &twice);
        let inner = self.c.op(format_args!("arith.divf {inner}, {cap} : f32"));
        let log2_e = self.c.f32(LOG2_E);
        let outer = self.c.fmul(&cap, &log2_e);
        let fall = self.c.fmul(&outer, &twice);
        let fall = self.c.op(format_args!("arith.negf {fall} : f32"));
        let one = self.c.f32("1.0");
        let capped = |score: &Value| {
            let exponent = self.c.fmul(score, &inner);
            let power = self.c.approximate("ex2", &exponent);
            let below = self.c.fadd(&power, &one);
            let share = self.c.approximate("rcp", &below);
            self.c.fma(&share, &fall, &outer)
        };
        scores.iter().map(capped).collect()
    }

    /// Keys later than the query, and those beyond the last, are not seen.
    fn hide(&mut self, scores: Vec<Value>, rows: &[Value; 2], column: &Value) -> Vec<Value> {
        let last = self.attention.sizes.keys as i64 - 1;
        let unseen = self.c.f32("0xFF800000");
        let limits = rows.each_ref().map(|row| {
            let limit = if self.attention.causal {
                let limit = self.c.with("addi", row, self.ahead());
                self.c.with("minsi", &limit, last)
            } else {
                self.c.i32(last)
            };
            self.c.sub(&limit, column)
        });
        let hidden = |(index, score): (usize, &Value)| {
            let beyond = self.c.cmp_with("slt", &limits[index / 2 % 2], column_of(index));
            self.c.select(&beyond, &unseen, score, "f32")
        };
        scores.iter().enumerate().map(hidden).collect()
    }

    /// A mask or bias, if there is one, at the thread's rows. Rows beyond the last are taken for the last.
    fn source(&mut self, operand: AttentionOperand, tile: &Tile, rows: &[Value; 2]) -> Option<Source> {
        let strides = &self.attention.view(operand)?.access.strides;
        let outer = Access::new(strides[..3].iter().copied());
        let position = self.attention.position(operand)?;
        let last = self.attention.sizes.queries as i64 - 1;
        let element = memory_type(self.attention.operand_dtype(operand));
        let rows = rows.each_ref().map(|row| {
            let row = self.c.with("minui", row, last);
            let at = [&tile.batch, &tile.head, &row].map(|coordinate| self.c.indexed(coordinate));
            self.c.writer.address(position, element, &outer, &at)
        });
        Some(Source { operand, rows, stride: strides[3] })
    }

    /// The element of a source that belongs to a thread's score. Columns beyond the last are taken for it.
    fn load(&mut self, source: &Source, index: usize, column: &Value) -> Value {
        let element = memory_type(self.attention.operand_dtype(source.operand));
        let mut at = self.c.with("addi", column, column_of(index));
        if self.tail() {
            at = self.c.with("minui", &at, self.attention.sizes.keys as i64 - 1);
        }
        let at = self.c.indexed(&at);
        let at = scaled(self.c.e(), &at, source.stride);
        let address = self.c.writer.element(&source.rows[index / 2 % 2], GLOBAL, &at, element);
        self.c.op(format_args!("llvm.load {address} invariant : !llvm.ptr<1> -> {element}"))
    }

    fn mask(&mut self, scores: Vec<Value>, mask: &Source, column: &Value) -> Vec<Value> {
        let unseen = self.c.f32("0xFF800000");
        let masked = |(index, score): (usize, &Value)| {
            let hides = self.load(mask, index, column);
            let nothing = self.c.op("arith.constant 0 : i8");
            let hides = self.c.op(format_args!("arith.cmpi ne, {hides}, {nothing} : i8"));
            self.c.select(&hides, &unseen, score, "f32")
        };
        scores.iter().enumerate().map(masked).collect()
    }

    fn bias(&mut self, scores: Vec<Value>, bias: &Source, column: &Value) -> Vec<Value> {
        let log2_e = self.c.f32(LOG2_E);
        let element = memory_type(self.attention.dtype);
        let biased = |(index, score): (usize, &Value)| {
            let more = self.load(bias, index, column);
            let more = self.c.op(format_args!("arith.extf {more} : {element} to f32"));
            self.c.fma(&more, &log2_e, score)
        };
        scores.iter().enumerate().map(biased).collect()
    }
}

/// The column of a thread's score from its first one on.
fn column_of(index: usize) -> i64 {
    (8 * (index / 4) + index % 2) as i64
}

fn memory_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "i8",
        DType::F16 => "f16",
        _ => "bf16",
    }
}
