//! Places of f32 results in boxes of 128 bytes by 64: the elements of a thread one by one, or two by two.

use super::super::consumer::Consumer;
use super::super::int::{int_by, int_op};
use super::super::plan::{ROW_BYTES, STORE_BYTES};
use super::super::results::Shape;
use super::super::ring::{at, byte};
use super::staging::{PIECE, Staging};
use crate::emit::{Emitter, Value};
use crate::nvptx::writer::WORKGROUP;

/// Columns of a box whose lines are rows.
const BOX_COLUMNS: usize = 32;

/// Where a thread's elements are, from the start of a group's first box on.
#[derive(Clone, Debug)]
pub(super) enum Wide {
    /// Lines are rows. For each run of 8 columns of a box, the pair in the first row; bytes to the second.
    Columns([Value; 4], usize),
    /// Lines are columns. For both rows and both columns of a pair, the element in the first run of 8 columns.
    Rows([[Value; 2]; 2]),
}

impl Wide {
    /// Of boxes of this shape.
    pub fn new(e: &mut Emitter, consumer: &Consumer, shape: Shape) -> Self {
        // The columns of lane 1 of 4 are the second pair of a run.
        let quarter = int_by(e, "andi", &consumer.thread, 3);
        if shape == Shape::Columns {
            let line = int_by(e, "muli", &consumer.row, ROW_BYTES);
            let swizzle = int_by(e, "andi", &consumer.row, 7);
            let half = int_by(e, "shrui", &quarter, 1);
            let inside = int_by(e, "andi", &quarter, 1);
            let inside = int_by(e, "muli", &inside, PIECE / 2);
            let line = int_op(e, "addi", &line, &inside);
            let places = std::array::from_fn(|run| {
                let piece = int_by(e, "addi", &half, 2 * run);
                swizzled(e, &line, &piece, &swizzle)
            });
            return Self::Columns(places, consumer.down * ROW_BYTES);
        }
        let number = int_by(e, "shrui", &consumer.row, 5);
        let start = int_by(e, "muli", &number, STORE_BYTES);
        Self::Rows([0, consumer.down].map(|down| {
            let row = int_by(e, "addi", &consumer.row, down);
            let row = int_by(e, "andi", &row, 31);
            let piece = int_by(e, "shrui", &row, 2);
            let word = int_by(e, "andi", &row, 3);
            let word = int_by(e, "muli", &word, 4);
            let start = int_op(e, "addi", &start, &word);
            [0, 1].map(|second| {
                let column = int_by(e, "muli", &quarter, 2);
                let column = int_by(e, "addi", &column, second);
                let line = int_by(e, "muli", &column, ROW_BYTES);
                let line = int_op(e, "addi", &start, &line);
                swizzled(e, &line, &piece, &column)
            })
        }))
    }
}

impl Staging {
    /// Writes a thread's pair of the `run`-th 8 columns of a group, in both rows, to the boxes from `buffer` on.
    pub fn write_wide(
        &self,
        e: &mut Emitter,
        wide: &Wide,
        buffer: usize,
        run: usize,
        values: &[[Value; 2]; 2],
    ) {
        match wide {
            Wide::Columns(places, down) => {
                let runs = BOX_COLUMNS / 8;
                let target = byte(e, &self.memory, (buffer + run / runs) * STORE_BYTES);
                let target = at(e, &target, &places[run % runs]);
                for (row, [a, b]) in values.iter().enumerate() {
                    let target = byte(e, &target, row * down);
                    let pair = e.op(format_args!("vector.from_elements {a}, {b} : vector<2xf32>"));
                    e.line(format_args!(
                        "llvm.store {pair}, {target} {{alignment = 8 : i64}} : vector<2xf32>, {WORKGROUP}"
                    ));
                }
            }
            Wide::Rows(places) => {
                let target = byte(e, &self.memory, buffer * STORE_BYTES + run * 8 * ROW_BYTES);
                for (place, value) in places.iter().flatten().zip(values.iter().flatten()) {
                    let target = at(e, &target, place);
                    e.line(format_args!("llvm.store {value}, {target} : f32, {WORKGROUP}"));
                }
            }
        }
    }
}

/// The place of a piece of a line.
fn swizzled(e: &mut Emitter, line: &Value, piece: &Value, swizzle: &Value) -> Value {
    let piece = int_op(e, "xori", piece, swizzle);
    let piece = int_by(e, "muli", &piece, PIECE);
    int_op(e, "addi", line, &piece)
}
