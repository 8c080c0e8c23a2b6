//! Blocks without reductions.

use super::extent::Extent;
use super::lanes::{Environment, Lanes};
use super::tiles::{Cut, Range, delinearize, delinearize_in, index, index_op, open_for, part_range};
use super::transpose::{SQUARE, Transposed};
use super::{SCHEDULE, TILE_ELEMENTS, lane_dimension, native_lanes};
use crate::emit::Value;
use crate::{LoweringError, Payload};
use burn_mlir_ir::{Block, HostTarget, Instr, Operand, Phase, Program, Store};

/// Tiles a launch should have at least, if that leaves each with [`LEAST_ELEMENTS`].
const TILES: usize = 64;
const LEAST_ELEMENTS: usize = 2 << 10;

/// Lowers a block without reductions: one phase; a tile is some whole rows (runs of the lane dimension), part
/// of one row if rows are long, or a square if loads are contiguous along another dimension.
pub(super) fn lower(block: &Block, target: &HostTarget) -> Result<Payload, LoweringError> {
    let width = native_lanes(block, target);
    let lane = lane_dimension(block, width);
    let outer: Vec<usize> = (0..block.domain.len()).filter(|&dim| dim != lane).collect();
    let mut lanes = Lanes::new(block, lane, "map");
    lanes.stream_bytes = target.stream_bytes;
    let mut map = Map { size: lanes.extent(lane), lanes, width, outer };
    let transposed = Transposed::of(block, lane, width).filter(|_| !block.is_opened());
    let (phase, worker_bytes) = match transposed {
        Some(transposed) => map.squares(&transposed)?,
        None => (map.rows()?, 0),
    };
    let phase = Phase { symbol: "map".into(), ..phase };
    Ok(Payload {
        text: map.lanes.phase.finish(),
        program: Program { phases: vec![phase], shared_bytes: 0, worker_bytes },
        schedule: SCHEDULE.into(),
        lower_sequence: false,
    })
}

struct Map<'a> {
    lanes: Lanes<'a>,
    size: Extent,
    width: usize,
    outer: Vec<usize>,
}

impl Map<'_> {
    /// Tiles of rows, or of parts of a row; gives their number.
    fn rows(&mut self) -> Result<Phase, LoweringError> {
        let sizes = self.extents(&self.outer);
        let rows = Extent::product(sizes.iter().cloned());
        let all = rows.most().saturating_mul(self.size.most());
        let elements = (all / TILES).clamp(LEAST_ELEMENTS, TILE_ELEMENTS);
        let cut = Cut::new(rows.clone(), self.size.clone(), elements, self.width);
        let (begin, end) = (self.lanes.phase.begin(), self.lanes.phase.end());
        let (row, range) = cut.open(self.lanes.e(), &begin, &end);
        let gathers = self.lanes.block.body.iter().any(|s| matches!(s.instr, Instr::Gather(_)));
        if range.is_none() && gathers {
            // The row after this one, or this one if it is the last.
            let one = index(self.lanes.e(), 1);
            let rows = rows.value(self.lanes.e());
            let last = index_op(self.lanes.e(), "arith.subi", &rows, &one);
            let next = index_op(self.lanes.e(), "arith.addi", &row, &one);
            let next = index_op(self.lanes.e(), "arith.minsi", &next, &last);
            self.locate(&next, &sizes);
            self.lanes.prefetch_gathers()?;
        }
        self.locate(&row, &sizes);
        self.row(range)?;
        cut.close(self.lanes.e());
        Ok(Phase { tiles: cut.tiles() as u64, factors: cut.factors(), ..Phase::default() })
    }

    /// Sets the coordinates to those of a row.
    fn locate(&mut self, row: &Value, sizes: &[Extent]) {
        let coordinates = delinearize_in(self.lanes.e(), row, sizes);
        for (&dim, coordinate) in self.outer.iter().zip(coordinates) {
            self.lanes.coordinates[dim] = coordinate;
        }
    }

    /// Tiles of squares, transposed first where loads need it; gives their number and the scratch a
    /// worker needs.
    fn squares(&mut self, transposed: &Transposed) -> Result<(Phase, u64), LoweringError> {
        let dim = transposed.dim;
        let others: Vec<usize> = self.outer.iter().copied().filter(|&d| d != dim).collect();
        let (rows, columns) = (self.lanes.block.domain[dim].size, self.size.most());
        let size = |&dim: &usize| self.lanes.block.domain[dim].size;
        let mut sizes: Vec<usize> = others.iter().map(size).collect();
        sizes.extend([rows.div_ceil(SQUARE), columns.div_ceil(SQUARE)]);
        let worker_bytes = transposed.reserve(&mut self.lanes);
        let (begin, end) = (self.lanes.phase.begin(), self.lanes.phase.end());
        let e = self.lanes.e();
        let tile = open_for(e, &begin, &end, 1);
        let at = delinearize(e, &tile, &sizes);
        let row_range = part_range(e, &at[others.len()], SQUARE, rows);
        let column_range = part_range(e, &at[others.len() + 1], SQUARE, columns);
        for (&other, coordinate) in others.iter().zip(&at) {
            self.lanes.coordinates[other] = coordinate.clone();
        }
        transposed.fill(&mut self.lanes, &row_range, &column_range);
        self.lanes.coordinates[dim] = open_for(self.lanes.e(), &row_range.from, &row_range.to, 1);
        self.row(Some(column_range))?;
        self.lanes.e().close("}");
        self.lanes.e().close("}");
        let tiles = sizes.iter().product::<usize>() as u64;
        Ok((Phase { tiles, ..Phase::default() }, worker_bytes))
    }

    fn extents(&self, dims: &[usize]) -> Vec<Extent> {
        dims.iter().map(|&dim| self.lanes.extent(dim)).collect()
    }

    /// The row at the coordinates, or a range of it.
    fn row(&mut self, range: Option<Range>) -> Result<(), LoweringError> {
        let lanes = &mut self.lanes;
        let stores: Vec<&Store> = lanes.block.stores.iter().collect();
        let wanted: Vec<Operand> = stores.iter().map(|store| store.value).collect();
        let mut known = lanes.environment();
        lanes.invariants(&mut known, &wanted, !0)?;

        if !self.size.is_known() {
            return self.open_row(range, &known, &stores);
        }
        let lanes = &mut self.lanes;
        let size = self.size.most();
        let whole = size / self.width * self.width;
        let rest = size - whole;
        if whole > 0 {
            let limit = index(lanes.e(), whole);
            let (from, to) = match &range {
                Some(range) => (range.from.clone(), index_op(lanes.e(), "arith.minsi", &range.to, &limit)),
                None => (lanes.zero(), limit),
            };
            lanes.coordinates[lanes.lane] = open_for(lanes.e(), &from, &to, self.width);
            lanes.store(&mut known.clone(), self.width, &stores)?;
            lanes.e().close("}");
        }
        if rest > 0 {
            if let Some(range) = &range {
                let size = index(lanes.e(), size);
                let last = lanes.e().op(format_args!("arith.cmpi eq, {}, {size} : index", range.to));
                lanes.e().open(format_args!("scf.if {last} {{"));
            }
            lanes.coordinates[lanes.lane] = index(lanes.e(), whole);
            lanes.store(&mut known.clone(), rest, &stores)?;
            if range.is_some() {
                lanes.e().close("}");
            }
        }
        Ok(())
    }

    /// The row at the coordinates, or a range of it, of a length that the launch says: lanes that do not fill a vector
    /// are stored one by one.
    fn open_row(
        &mut self,
        range: Option<Range>,
        known: &Environment,
        stores: &[&Store],
    ) -> Result<(), LoweringError> {
        let lanes = &mut self.lanes;
        let (size, whole) = (self.size.value(lanes.e()), self.size.whole(lanes.e(), self.width));
        let Range { from, to } = range.unwrap_or_else(|| Range { from: lanes.zero(), to: size });
        let middle = index_op(lanes.e(), "arith.minsi", &to, &whole);
        let rest = index_op(lanes.e(), "arith.maxsi", &from, &whole);
        for (from, to, width) in [(&from, &middle, self.width), (&rest, &to, 1)] {
            lanes.coordinates[lanes.lane] = open_for(lanes.e(), from, to, width);
            lanes.store(&mut known.clone(), width, stores)?;
            lanes.e().close("}");
        }
        Ok(())
    }
}
