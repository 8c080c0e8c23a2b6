//! What happens to the accumulators: the statements after the contraction, and the stores.

use super::super::drain::finish_chunks;
use super::super::place::located;
use super::geometry::Side;
use super::kernel::Kernel;
use crate::LoweringError;
use crate::contraction::{Group, epilogue};
use crate::emit::Value;
use crate::host::lanes::{Form, vector_type};
use crate::host::tiles::{index, index_op};
use crate::nvptx::chunk::{Chunk, Environment, Known};
use crate::types::value_type;
use burn_mlir_ir::{Instr, Operand};

/// Columns of a thread that make one chunk of each row.
struct Columns {
    /// Run of the thread's columns, and first lane in it.
    run: usize,
    lane: usize,
    /// Coordinates of the batch element and the first column.
    coordinates: Vec<Value>,
    /// Whether they are the domain's, where that is not certain.
    valid: Option<Value>,
    /// What is the same for all rows.
    known: Environment,
}

impl Kernel<'_> {
    /// Computes and stores a thread's results, row by row.
    pub fn finish_rows(&mut self, sums: &[Vec<Value>]) -> Result<(), LoweringError> {
        let contraction = self.contraction;
        let width = self.chunk_width();
        let zero = vec![self.evaluator.zero(); self.evaluator.block.domain.len()];
        let batch = self.batch.clone();
        let origin = located(self.evaluator.e(), &zero, &contraction.batch, &batch);
        let columns = self.columns(&origin, width);
        let side = self.geometry.rows;
        for (row, sums) in sums.iter().enumerate() {
            let shift = row / side.lanes * side.apart() + row % side.lanes;
            let (place, row_valid) = self.place(&origin, &contraction.rows, &side, 0, shift, 1);
            let mut chunks = Vec::new();
            for part in &columns {
                let mut coordinates = place.clone();
                for &dim in &contraction.columns.dims {
                    coordinates[dim] = part.coordinates[dim].clone();
                }
                let valid = match (&row_valid, &part.valid) {
                    (Some(a), Some(b)) => {
                        Some(self.evaluator.e().op(format_args!("arith.andi {a}, {b} : i1")))
                    }
                    (a, b) => a.clone().or(b.clone()),
                };
                let mut known = part.known.clone();
                let result = self.result(&sums[part.run], part.lane, width);
                known[contraction.statement.0 as usize] = Some(result);
                chunks.push((Chunk { coordinates, width, valid }, known));
            }
            finish_chunks(&mut self.evaluator, &mut chunks)?;
        }
        Ok(())
    }

    /// Lanes of a chunk: so many that each is in one run of the innermost columns.
    fn chunk_width(&self) -> usize {
        let inner = self.contraction.columns.sizes.last().copied().unwrap_or(1);
        let mut width = self.geometry.columns.lanes;
        while !inner.is_multiple_of(width) {
            width /= 2;
        }
        width
    }

    /// The chunks of a thread's columns; what does not depend on the row is loaded.
    fn columns(&mut self, origin: &[Value], width: usize) -> Vec<Columns> {
        let (side, group) = (self.geometry.columns, &self.contraction.columns);
        let block = self.evaluator.block;
        let rows = self.contraction.rows.dims.iter().fold(0u32, |set, dim| set | 1 << dim);
        let for_all_rows: Vec<Operand> = epilogue(block, self.contraction.statement)
            .into_iter()
            .filter(|&s| {
                matches!(block.body[s].instr, Instr::Load { .. }) && self.evaluator.sets[s] & rows == 0
            })
            .map(|statement| Operand(statement as u32))
            .collect();
        let mut columns = Vec::new();
        for run in 0..side.runs {
            for lane in (0..side.lanes).step_by(width) {
                let shift = run * side.apart() + lane;
                let (coordinates, valid) = self.place(origin, group, &side, 1, shift, width);
                let mut known = self.evaluator.environment();
                let chunk = Chunk { coordinates: coordinates.clone(), width, valid: None };
                self.evaluator.load(&mut known, &chunk, &for_all_rows);
                columns.push(Columns { run, lane, coordinates, valid, known });
            }
        }
        columns
    }

    /// The coordinates of the `count` points `shift` after this thread's first along a side, the rest as in
    /// `origin`, and whether they are the domain's where that is not certain. They can be read in any case.
    fn place(
        &mut self,
        origin: &[Value],
        group: &Group,
        side: &Side,
        axis: usize,
        shift: usize,
        count: usize,
    ) -> (Vec<Value>, Option<Value>) {
        let e = self.evaluator.e();
        let shift = index(e, shift);
        let mut point = index_op(e, "arith.addi", &self.first[axis], &shift);
        let mut valid = None;
        if side.ragged() {
            let last = index(e, side.points - count);
            valid = Some(e.op(format_args!("arith.cmpi ule, {point}, {last} : index")));
            point = index_op(e, "arith.minui", &point, &last);
        }
        (located(e, origin, group, &point), valid)
    }

    /// The contraction's result for some lanes of accumulators.
    fn result(&mut self, sums: &Value, lane: usize, width: usize) -> Known {
        let statement = self.contraction.statement.0 as usize;
        let dtype = self.evaluator.block.body[statement].dtype;
        let element = value_type(self.contraction.accumulator);
        let lanes = self.geometry.columns.lanes;
        let whole = vector_type(lanes, element);
        if !self.evaluator.varies(statement) {
            let e = self.evaluator.e();
            let sum = e.op(format_args!("vector.extract {sums}[{lane}] : {element} from {whole}"));
            return Known::Scalar(Form::Accumulator.to_value(e, dtype, &sum));
        }
        if width == lanes {
            return Known::Lanes(sums.clone(), Form::Accumulator);
        }
        let part = self.evaluator.e().op(format_args!(
            "vector.extract_strided_slice {sums} {{offsets = [{lane}], sizes = [{width}], strides = [1]}} : \
             {whole} to {}",
            vector_type(width, element)
        ));
        Known::Lanes(part, Form::Accumulator)
    }
}
