//! Contractions whose extents the launch says: some rows are summed at the same time (unroll and jam), so that what
//! they share is loaded once for all of them.

use super::accumulate::Accumulator;
use super::extent::Extent;
use super::row::Rows;
use super::tiles::{Cut, Range, index, index_op, open_for};
use super::walk::Adding;
use crate::LoweringError;
use crate::emit::Value;
use burn_mlir_ir::{Instr, Operand};

/// Rows at the same time: with four vectors each, half of 32 registers.
const TOGETHER: usize = 4;

/// Rows of a tile, which read the same columns one after the other, if there are many.
const TILE_ROWS: usize = 16;

/// Rows from which there are many.
const MANY: usize = 512;

/// Rows that share their columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Jam {
    /// The dimension they follow one another along.
    dim: usize,
}

impl Jam {
    /// The rows of an opened contraction with lanes along columns, which only one factor depends on.
    pub fn of(rows: &Rows) -> Option<Self> {
        let block = rows.lanes.block;
        let Instr::Contract(a, b) = block.body[block.contraction()?.0 as usize].instr else { return None };
        let (sets, lane) = (&rows.lanes.sets, rows.lanes.lane);
        let along = |operand: Operand, dim: usize| sets[operand.0 as usize] >> dim & 1 == 1;
        let shared = if along(a, lane) { a } else { b };
        let dim = rows
            .parallel
            .iter()
            .rev()
            .find(|&&dim| !along(shared, dim) && block.domain[dim].size > TOGETHER)?;
        (!rows.across).then_some(Self { dim: *dim })
    }

    /// How the rows are cut into tiles.
    pub fn cut(&self, rows: &mut Rows) -> Cut {
        rows.parallel.retain(|&dim| dim != self.dim);
        let others = Extent::product(rows.parallel.iter().map(|&dim| rows.lanes.extent(dim)));
        let extent = rows.lanes.extent(self.dim);
        let part = if extent.most() < MANY { TOGETHER } else { TILE_ROWS };
        Cut::in_parts(others, extent, part)
    }

    /// The rows `range`, column by column.
    pub fn rows(&self, rows: &mut Rows, range: &Range) -> Result<(), LoweringError> {
        let width = rows.width(0);
        rows.chunks(Adding::NOTHING, width, None, vec![], &mut |rows, width, _| {
            let together = if width < rows.native { 1 } else { TOGETHER };
            let step = index(rows.lanes.e(), together);
            let length = index_op(rows.lanes.e(), "arith.subi", &range.to, &range.from);
            let rest = index_op(rows.lanes.e(), "arith.remui", &length, &step);
            let whole = index_op(rows.lanes.e(), "arith.subi", &range.to, &rest);
            for (from, to, together) in [(&range.from, &whole, together), (&whole, &range.to, 1)] {
                let first = open_for(rows.lanes.e(), from, to, together);
                self.group(rows, &first, together, width)?;
                rows.lanes.e().close("}");
            }
            Ok(vec![])
        })?;
        Ok(())
    }

    /// `count` rows from `first` on, in a chunk of columns.
    fn group(&self, rows: &mut Rows, first: &Value, count: usize, width: usize) -> Result<(), LoweringError> {
        let places: Vec<Value> = (0..count)
            .map(|nth| {
                let nth = index(rows.lanes.e(), nth);
                index_op(rows.lanes.e(), "arith.addi", first, &nth)
            })
            .collect();
        let accumulators = rows.accumulators(0);
        let wanted: Vec<Operand> = accumulators.iter().flat_map(Accumulator::operands).collect();
        let start: Vec<_> = places.iter().flat_map(|_| rows.identities(&accumulators, width)).collect();
        let each = start.len() / count;
        let dims = rows.reductions.clone();
        let sums = rows.nest(Adding::NOTHING, width, &dims, None, start, &mut |rows, _, carried| {
            let mut next = Vec::new();
            for (place, carried) in places.iter().zip(carried.chunks(each)) {
                rows.lanes.coordinates[self.dim] = place.clone();
                let mut known = rows.lanes.environment();
                rows.lanes.invariants(&mut known, &wanted, !0)?;
                next.extend(rows.step(&accumulators, &[], &mut known, width, width, carried.to_vec())?);
            }
            Ok(next)
        })?;
        for (place, sums) in places.iter().zip(sums.chunks(each)) {
            rows.lanes.coordinates[self.dim] = place.clone();
            let mut known = rows.lanes.environment();
            rows.finish(0, width, &mut known, sums);
            rows.row_stores(width, &mut known)?;
        }
        Ok(())
    }
}
