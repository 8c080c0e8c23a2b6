//! From sums in workgroup memory to results: the statements after the contraction, and the stores.
//!
//! The sums of a tile lie in workgroup memory row by row in f32, [`pitch`] elements apart. Threads take chunks of
//! consecutive columns, neighbours neighbouring ones, so that what is loaded and stored is contiguous however the
//! sums were computed.

use super::asm::{narrowed, widened, with_word, words};
use super::place::located;
use crate::LoweringError;
use crate::contraction::{Contraction, epilogue};
use crate::emit::Value;
use crate::host::lanes::{Form, vector_type};
use crate::host::tiles::{index, index_op, open_for};
use crate::nvptx::ACCESS_BYTES;
use crate::nvptx::chunk::{Chunk, Environment, Evaluator, Known};
use crate::nvptx::writer::WORKGROUP;
use burn_mlir_ir::{Block, Instr, Operand};

/// Chunks of a thread that are loaded before the first is computed.
const AT_ONCE: usize = 2;

/// Elements between two rows of sums in workgroup memory: neighbouring rows lie in different banks.
pub(super) fn pitch(columns: usize) -> usize {
    columns + 8
}

/// The sums of a tile.
pub(super) struct Drain<'a> {
    /// Address in workgroup memory.
    pub memory: &'a Value,
    /// Rows and columns of the tile, powers of two, at least 16.
    pub tile: [usize; 2],
    /// Rows and columns of the contraction.
    pub points: [usize; 2],
    /// Threads of the block, a power of two.
    pub threads: usize,
}

impl Drain<'_> {
    /// Computes and stores the results of the tile whose first row and column are `first`.
    pub fn finish(
        &self,
        evaluator: &mut Evaluator,
        contraction: &Contraction,
        thread: &Value,
        batch: &Value,
        first: [&Value; 2],
    ) -> Result<(), LoweringError> {
        let width = chunk_width(evaluator.block, contraction);
        let zero = vec![evaluator.zero(); evaluator.block.domain.len()];
        let e = evaluator.e();
        let origin = located(e, &zero, &contraction.batch, batch);
        let per_row = self.tile[1] / width;
        let turns = self.tile[0] * per_row / self.threads;
        let at_once = AT_ONCE.min(turns);
        let thread = narrowed(e, thread);
        let (from, to) = (index(e, 0), index(e, turns));
        let turn = open_for(e, &from, &to, at_once);
        let turn = narrowed(e, &turn);
        let mut chunks = Vec::new();
        for ahead in 0..at_once {
            let e = evaluator.e();
            let turn = with_word(e, "arith.addi", &turn, ahead);
            let number = with_word(e, "arith.muli", &turn, self.threads);
            let number = words(e, "arith.addi", &number, &thread);
            let row = with_word(e, "arith.divui", &number, per_row);
            let column = with_word(e, "arith.andi", &number, per_row - 1);
            let column = with_word(e, "arith.muli", &column, width);
            let at = with_word(e, "arith.muli", &row, pitch(self.tile[1]));
            let at = words(e, "arith.addi", &at, &column);
            let places = [row, column];
            let mut coordinates = origin.clone();
            let mut valid: Option<Value> = None;
            let groups = [(&contraction.rows, 1), (&contraction.columns, width)];
            for (side, (group, count)) in groups.into_iter().enumerate() {
                let place = widened(e, &places[side]);
                let mut point = index_op(e, "arith.addi", first[side], &place);
                if !self.points[side].is_multiple_of(self.tile[side]) {
                    let last = index(e, self.points[side] - count);
                    let inside = e.op(format_args!("arith.cmpi ule, {point}, {last} : index"));
                    point = index_op(e, "arith.minui", &point, &last);
                    valid = Some(match valid {
                        Some(valid) => e.op(format_args!("arith.andi {valid}, {inside} : i1")),
                        None => inside,
                    });
                }
                coordinates = located(e, &coordinates, group, &point);
            }
            let sums = self.sums(evaluator, &at, width);
            let mut known = evaluator.environment();
            let statement = contraction.statement.0 as usize;
            known[statement] = Some(if evaluator.varies(statement) {
                Known::Lanes(sums, Form::Accumulator)
            } else {
                let ty = vector_type(width, "f32");
                let e = evaluator.e();
                let sum = e.op(format_args!("vector.extract {sums}[0] : f32 from {ty}"));
                let dtype = evaluator.block.body[statement].dtype;
                Known::Scalar(Form::Accumulator.to_value(evaluator.e(), dtype, &sum))
            });
            chunks.push((Chunk { coordinates, width, valid }, known));
        }
        finish_chunks(evaluator, &mut chunks)?;
        evaluator.e().close("}");
        Ok(())
    }

    /// Sums of neighbouring columns, from element `at` on.
    fn sums(&self, evaluator: &mut Evaluator, at: &Value, width: usize) -> Value {
        let e = evaluator.e();
        let piece = width.min(ACCESS_BYTES / size_of::<f32>());
        let (whole, part) = (vector_type(width, "f32"), vector_type(piece, "f32"));
        let at = e.op(format_args!(
            "llvm.getelementptr {}[{at}] : ({WORKGROUP}, i32) -> {WORKGROUP}, f32",
            self.memory
        ));
        let bytes = piece * size_of::<f32>();
        let mut sums: Option<Value> = None;
        for lane in (0..width).step_by(piece) {
            let at =
                e.op(format_args!("llvm.getelementptr {at}[{lane}] : ({WORKGROUP}) -> {WORKGROUP}, f32"));
            let loaded =
                e.op(format_args!("llvm.load {at} {{alignment = {bytes} : i64}} : {WORKGROUP} -> {part}"));
            if piece == width {
                return loaded;
            }
            let before = sums.unwrap_or_else(|| e.op(format_args!("arith.constant dense<0.0> : {whole}")));
            sums = Some(e.op(format_args!(
                "vector.insert_strided_slice {loaded}, {before} {{offsets = [{lane}], strides = [1]}} : \
                 {part} into {whole}"
            )));
        }
        sums.unwrap_or_default()
    }
}

/// Columns of a chunk: as many as make the widest contiguous access 16 bytes, in one run of the innermost columns.
fn chunk_width(block: &Block, contraction: &Contraction) -> usize {
    let Some(&lane) = contraction.columns.dims.last() else { return 1 };
    let stores = block.stores.iter();
    let stores = stores.map(|store| (&store.access, block.params[store.param.0 as usize].dtype));
    let loads = epilogue(block, contraction.statement).into_iter().filter_map(|statement| {
        match &block.body[statement].instr {
            Instr::Load { access, .. } => Some((access, block.body[statement].dtype)),
            _ => None,
        }
    });
    let contiguous = stores.chain(loads).filter(|(access, _)| access.strides[lane] == 1);
    let mut width = contiguous.map(|(_, dtype)| (ACCESS_BYTES / dtype.size()).min(8)).min().unwrap_or(1);
    while !block.domain[lane].size.is_multiple_of(width) {
        width /= 2;
    }
    width
}

/// Loads, computes, then stores.
pub(super) fn finish_chunks(
    evaluator: &mut Evaluator,
    chunks: &mut [(Chunk, Environment)],
) -> Result<(), LoweringError> {
    let stores = &evaluator.block.stores;
    let wanted: Vec<Operand> = stores.iter().map(|store| store.value).collect();
    for (chunk, known) in chunks.iter_mut() {
        evaluator.load(known, chunk, &wanted);
    }
    let forms: Vec<_> = wanted.iter().map(|&value| (value, Form::Storage)).collect();
    let mut values = Vec::new();
    for (chunk, known) in chunks.iter_mut() {
        values.push(evaluator.evaluate(known, chunk, &forms)?);
    }
    for ((chunk, _), values) in chunks.iter().zip(values) {
        evaluator.store_valid(chunk, stores, &values);
    }
    Ok(())
}
