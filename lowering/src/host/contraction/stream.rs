//! Products with few rows: bound by reading the right operand, which is read once, where it is.
//!
//! A tile is a range of columns, in pieces as wide as the epilogue's rows. If the operand lies in
//! memory along the columns, a few of its lines at a time are added to the sums of the tile; if it lies
//! along the summed dimensions, each column is a dot product.

use super::blocking::ceil_div;
use super::epilogue::{self, Epilogue};
use super::index::{Index, repeat};
use super::memory::{self, Array, View};
use crate::abi::{PhaseWriter, Scratch};
use crate::contraction::{Contraction, Factor};
use crate::emit::{Emitter, Value};
use crate::types::{same_value, storage_type, value_type};
use crate::{LoweringError, Payload};
use burn_mlir_ir::{Block, HostTarget, Phase, Program};

const SYMBOL: &str = "contract";
/// Most rows for which operands are not packed.
pub(crate) const ROWS: i64 = 4;
/// Most pieces of a tile.
const PIECES: i64 = 64;
/// Tiles to have at least, where there are enough columns.
const TILES: i64 = 8;

/// How the right operand is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Along the columns.
    Columns,
    /// Along the sum.
    Sum,
}

struct Stream<'a> {
    block: &'a Block,
    c: &'a Contraction,
    order: Order,
    /// Columns of a piece, and pieces of a tile.
    width: i64,
    pieces: i64,
    lanes: i64,
}

/// Lowers `block` if it has few rows and its right operand can be read in order.
pub(crate) fn lower(
    block: &Block,
    c: &Contraction,
    target: &HostTarget,
) -> Result<Option<Payload>, LoweringError> {
    let lanes = (target.vector_bytes / c.accumulator.size()).max(1) as i64;
    let width = 2 * lanes;
    let Some(order) = order(c, width) else { return Ok(None) };
    let all = ceil_div(c.columns.len(), width);
    let pieces = ceil_div(all * c.batch.len(), TILES).clamp(1, PIECES).min(all);
    let stream = Stream { block, c, order, width, pieces, lanes };
    let text = stream.emit()?;
    let tiles = stream.column_tiles() * c.batch.len();
    let phase = Phase { symbol: SYMBOL.into(), tiles: tiles.unsigned_abs(), ..Phase::default() };
    let worker_bytes = stream.sums_bytes() + epilogue::scratch_bytes(block, width);
    let program = Program { phases: vec![phase], shared_bytes: 0, worker_bytes: worker_bytes.unsigned_abs() };
    Ok(Some(Payload {
        text,
        program,
        schedule: super::kernel::schedule(width, width, 1),
        lower_sequence: true,
    }))
}

/// Whether elements only become wider floats, if they are converted at all.
pub(crate) fn extends(factor: &Factor) -> bool {
    let types = &factor.types;
    types.windows(2).all(|pair| {
        same_value(pair[0], pair[1])
            || pair[0].is_float() && pair[1].is_float() && pair[0].size() < pair[1].size()
    }) && storage_type(types[0]) == value_type(types[0])
}

fn order(c: &Contraction, width: i64) -> Option<Order> {
    let aligned = c.column_run % width == 0 || c.column_run >= c.columns.len();
    if c.rows.len() > ROWS || !aligned || !extends(&c.left) || !extends(&c.right) {
        return None;
    }
    let (columns, sum) = (c.columns.inner(&c.right.access), c.sum.inner(&c.right.access));
    let left = c.sum.inner(&c.left.access);
    if columns.stride == 1
        && (columns.size % width == 0 || columns.size >= c.columns.len())
        && columns.size > 1
    {
        Some(Order::Columns)
    } else if sum.stride == 1 && left.stride == 1 && sum.size == c.sum.len() && left.size == sum.size {
        Some(Order::Sum)
    } else {
        None
    }
}

/// What one tile works on.
struct Tile<'a> {
    left: &'a View,
    right: &'a View,
    sums: &'a Array,
    /// Offsets of the batch element in both operands.
    bases: [Index; 2],
    /// First column, and the number of columns.
    first: Index,
    count: Index,
}

impl Stream<'_> {
    fn column_tiles(&self) -> i64 {
        ceil_div(self.c.columns.len(), self.width * self.pieces)
    }

    fn sums_bytes(&self) -> i64 {
        let sums = self.pieces * self.c.rows.len() * self.width * self.c.accumulator.size() as i64;
        ceil_div(sums, 64) * 64
    }

    fn element(&self) -> &'static str {
        value_type(self.c.accumulator)
    }

    fn emit(&self) -> Result<String, LoweringError> {
        let mut phase = PhaseWriter::new(SYMBOL);
        let c = self.c;
        let epilogue = Epilogue::prepare(&mut phase, self.block, c, self.width, self.sums_bytes());
        let [left, right] = [&c.left, &c.right].map(|f| View::of(&mut phase, self.block, f.param, &f.access));
        let shape = [self.pieces, c.rows.len(), self.width];
        let sums = Array::of(&mut phase, Scratch::Worker, 0, &shape, self.element());
        let (begin, end) = (Index::Computed(phase.begin()), Index::Computed(phase.end()));
        let mut outcome = Ok(());
        let e = &mut phase.emitter;
        repeat(e, &begin, &end, 1, |e, tile| {
            let (column, batch) = (tile.rem(e, self.column_tiles()), tile.div(e, self.column_tiles()));
            let span = self.width * self.pieces;
            let first = column.mul(e, span);
            let count = match c.columns.len() {
                total if total % span == 0 => Index::Known(span),
                total if total < span => Index::Known(total),
                total => Index::Known(total).sub(e, &first).min(e, &Index::Known(span)),
            };
            let bases = [&c.left, &c.right].map(|f| c.batch.offset(e, &f.access, &batch));
            let tile = Tile { left: &left, right: &right, sums: &sums, bases, first, count };
            match self.order {
                Order::Columns => self.add_lines(e, &tile),
                Order::Sum => self.dot_products(e, &tile),
            }
            self.each_piece(e, &tile, |e, piece, start, length| {
                let last = start.add(e, length);
                let rows = [&Index::Known(0), &Index::Known(c.rows.len())];
                let columns = [start, &last, length];
                outcome = epilogue::tile(e, &epilogue, (&sums, piece), self.width, &batch, rows, columns);
            });
        });
        outcome?;
        Ok(phase.finish())
    }

    /// Emits `body(piece, first column, columns)` for the pieces of a tile.
    fn each_piece(
        &self,
        e: &mut Emitter,
        tile: &Tile,
        body: impl FnOnce(&mut Emitter, &Index, &Index, &Index),
    ) {
        repeat(e, &Index::Known(0), &tile.count, self.width, |e, offset| {
            let length = match &tile.count {
                Index::Known(n) if n % self.width == 0 => Index::Known(self.width),
                count => count.sub(e, &offset).min(e, &Index::Known(self.width)),
            };
            let (piece, start) = (offset.div(e, self.width), tile.first.add(e, &offset));
            body(e, &piece, &start, &length);
        });
    }

    /// Emits the sums of a tile whose right operand lies along the columns.
    fn add_lines(&self, e: &mut Emitter, tile: &Tile) {
        let (width, element) = (self.width, self.element());
        let rows = self.c.rows.len();
        self.each_piece(e, tile, |e, piece, _, _| {
            let vector = format!("vector<{width}x{element}>");
            let zeros = e.op(format_args!("arith.constant dense<{}> : {vector}", memory::zero(element)));
            for row in 0..rows {
                let place = [piece, &Index::Known(row), &Index::Known(0)];
                tile.sums.write(e, &place, &zeros, &Index::Known(width), width);
            }
        });
        let sum = self.c.sum.len();
        let lines = if rows <= 2 { 8 } else { 4 };
        let whole = sum / lines * lines;
        repeat(e, &Index::Known(0), &Index::Known(whole), lines, |e, k| self.add(e, tile, &k, lines));
        repeat(e, &Index::Known(whole), &Index::Known(sum), 1, |e, k| self.add(e, tile, &k, 1));
    }

    /// Emits the addition of `lines` lines of the right operand from step `k` of the sum on.
    fn add(&self, e: &mut Emitter, tile: &Tile, k: &Index, lines: i64) {
        let c = self.c;
        let vector = format!("vector<{}x{}>", self.width, self.element());
        let (mut offsets, mut factors) = (Vec::new(), Vec::new());
        for line in 0..lines {
            let k = k.add(e, &Index::Known(line));
            let [left, right] = [(&c.left, 0), (&c.right, 1)].map(|(f, base): (&Factor, usize)| {
                let step = c.sum.offset(e, &f.access, &k);
                tile.bases[base].add(e, &step)
            });
            offsets.push(right);
            for row in 0..c.rows.len() {
                let step = c.rows.offset(e, &c.left.access, &Index::Known(row));
                let offset = left.add(e, &step);
                let x = tile.left.load(e, &offset);
                let x = memory::extended(e, c.left.types[0], self.element(), None, x);
                factors.push(e.op(format_args!("vector.broadcast {x} : {} to {vector}", self.element())));
            }
        }
        self.each_piece(e, tile, |e, piece, start, length| {
            let column = c.columns.offset(e, &c.right.access, start);
            let values: Vec<Value> = (offsets.iter())
                .map(|line| {
                    let offset = line.add(e, &column);
                    let value = tile.right.read(e, &offset, length, self.width);
                    memory::extended(e, c.right.types[0], self.element(), Some(self.width), value)
                })
                .collect();
            for row in 0..c.rows.len() {
                let place = [piece, &Index::Known(row), &Index::Known(0)];
                let mut sum = tile.sums.read(e, &place, self.width);
                for (line, value) in values.iter().enumerate() {
                    let factor = &factors[line * c.rows.len() as usize + row as usize];
                    sum = self.multiply_add(e, factor, value, &sum, &vector);
                }
                tile.sums.write(e, &place, &sum, &Index::Known(self.width), self.width);
            }
        });
    }

    /// Emits the sums of a tile whose operands lie along the sum.
    fn dot_products(&self, e: &mut Emitter, tile: &Tile) {
        let (c, lanes, element) = (self.c, self.lanes, self.element());
        let rows = c.rows.len();
        let group = if rows <= 2 { 4 } else { 2 };
        let vector = format!("vector<{lanes}x{element}>");
        self.each_piece(e, tile, |e, piece, start, length| {
            repeat(e, &Index::Known(0), length, group, |e, offset| {
                // Behind the last column it is that column again.
                let mut right = Vec::new();
                for column in 0..group {
                    let column = start.add(e, &offset).add(e, &Index::Known(column));
                    let column = column.min(e, &Index::Known(c.columns.len() - 1));
                    let step = c.columns.offset(e, &c.right.access, &column);
                    right.push(tile.bases[1].add(e, &step));
                }
                let mut left = Vec::new();
                for row in 0..rows {
                    let step = c.rows.offset(e, &c.left.access, &Index::Known(row));
                    left.push(tile.bases[0].add(e, &step));
                }
                let mut sums = self.dots(e, tile, &left, &right);
                for (position, sum) in sums.drain(..).enumerate() {
                    let (row, column) = (position as i64 / group, position as i64 % group);
                    let total = self.reduce(e, sum, &vector);
                    let column = offset.add(e, &Index::Known(column));
                    tile.sums.store(e, &[piece, &Index::Known(row), &column], &total);
                }
            });
        });
    }

    /// Emits the products of lines at `left` and `right`, each a vector still to be summed.
    fn dots(&self, e: &mut Emitter, tile: &Tile, left: &[Index], right: &[Index]) -> Vec<Value> {
        let (lanes, element) = (self.lanes, self.element());
        let vector = format!("vector<{lanes}x{element}>");
        let sum = self.c.sum.len();
        let whole = sum / lanes * lanes;
        let zeros = e.op(format_args!("arith.constant dense<{}> : {vector}", memory::zero(element)));
        let count = left.len() * right.len();
        let step = |e: &mut Emitter, k: &Index, length: i64, sums: Vec<Value>| -> Vec<Value> {
            let mut read = |view: &View, factor: &Factor, lines: &[Index]| -> Vec<Value> {
                let read = |line: &Index| {
                    let offset = line.add(e, k);
                    let value = view.read(e, &offset, &Index::Known(length), lanes);
                    memory::extended(e, factor.types[0], element, Some(lanes), value)
                };
                lines.iter().map(read).collect()
            };
            let (x, y) = (read(tile.left, &self.c.left, left), read(tile.right, &self.c.right, right));
            let pairs = x.iter().flat_map(|x| y.iter().map(move |y| (x, y)));
            pairs.zip(sums).map(|((x, y), sum)| self.multiply_add(e, x, y, &sum, &vector)).collect()
        };
        let mut sums = vec![zeros; count];
        if whole > 0 {
            let (lower, upper) = (Index::Known(0).value(e), Index::Known(whole).value(e));
            let (by, k, result) = (Index::Known(lanes).value(e), e.fresh(), e.fresh());
            let carried: Vec<Value> = (0..count).map(|_| e.fresh()).collect();
            let starts: Vec<String> =
                carried.iter().zip(&sums).map(|(name, start)| format!("{name} = {start}")).collect();
            let types = vec![vector.clone(); count].join(", ");
            e.open(format_args!(
                "{result}:{count} = scf.for {k} = {lower} to {upper} step {by} iter_args({}) -> ({types}) {{",
                starts.join(", ")
            ));
            let next = step(e, &Index::Computed(k), lanes, carried);
            e.line(format_args!("scf.yield {} : {types}", next.join(", ")));
            e.close("}");
            sums = (0..count).map(|i| format!("{result}#{i}")).collect();
        }
        if whole < sum {
            sums = step(e, &Index::Known(whole), sum - whole, sums);
        }
        sums
    }

    /// Emits the sum of the lanes of a vector, halves first.
    fn reduce(&self, e: &mut Emitter, mut value: Value, vector: &str) -> Value {
        let element = self.element();
        let mut lanes = self.lanes;
        let mut vector = vector.to_string();
        while lanes > 1 {
            let half = format!("vector<{}x{element}>", lanes / 2);
            let part = |e: &mut Emitter, offset: i64| {
                e.op(format_args!(
                    "vector.extract_strided_slice {value} {{offsets = [{offset}], sizes = [{}], strides = [1]}} : {vector} to {half}",
                    lanes / 2
                ))
            };
            let (a, b) = (part(e, 0), part(e, lanes / 2));
            value = e.op(format_args!("arith.add{} {a}, {b} : {half}", self.kind()));
            (lanes, vector) = (lanes / 2, half);
        }
        e.op(format_args!("vector.extract {value}[0] : {element} from {vector}"))
    }

    fn kind(&self) -> &'static str {
        if self.c.accumulator.is_float() { "f" } else { "i" }
    }

    fn multiply_add(&self, e: &mut Emitter, x: &Value, y: &Value, sum: &Value, vector: &str) -> Value {
        if self.c.accumulator.is_float() {
            return e.op(format_args!("vector.fma {x}, {y}, {sum} : {vector}"));
        }
        let product = e.op(format_args!("arith.muli {x}, {y} : {vector}"));
        e.op(format_args!("arith.addi {sum}, {product} : {vector}"))
    }
}
