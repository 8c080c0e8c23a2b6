//! Blocks without reductions.

use super::lanes::Lanes;
use super::tiles::{Cut, Range, delinearize, index, index_op, open_for, part_range};
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
    let size = block.domain[lane].size;
    let outer: Vec<usize> = (0..block.domain.len()).filter(|&dim| dim != lane).collect();
    let mut map = Map { lanes: Lanes::new(block, lane, "map"), size, width, outer };
    let (tiles, worker_bytes) = match Transposed::of(block, lane, width) {
        Some(transposed) => map.squares(&transposed)?,
        None => (map.rows()?, 0),
    };
    let phase = Phase { symbol: "map".into(), tiles: tiles as u64, ..Phase::default() };
    Ok(Payload {
        text: map.lanes.phase.finish(),
        program: Program { phases: vec![phase], shared_bytes: 0, worker_bytes },
        schedule: SCHEDULE.into(),
        lower_sequence: false,
    })
}

struct Map<'a> {
    lanes: Lanes<'a>,
    size: usize,
    width: usize,
    outer: Vec<usize>,
}

impl Map<'_> {
    /// Tiles of rows, or of parts of a row; gives their number.
    fn rows(&mut self) -> Result<usize, LoweringError> {
        let sizes = self.sizes(&self.outer);
        let rows: usize = sizes.iter().product();
        let elements = (rows * self.size / TILES).clamp(LEAST_ELEMENTS, TILE_ELEMENTS);
        let cut = Cut::new(rows, self.size, elements, self.width);
        let (begin, end) = (self.lanes.phase.begin(), self.lanes.phase.end());
        let (row, range) = cut.open(self.lanes.e(), &begin, &end);
        let gathers = self.lanes.block.body.iter().any(|s| matches!(s.instr, Instr::Gather(_)));
        if range.is_none() && gathers {
            // The row after this one, or this one if it is the last.
            let (one, last) = (index(self.lanes.e(), 1), index(self.lanes.e(), rows.saturating_sub(1)));
            let next = index_op(self.lanes.e(), "arith.addi", &row, &one);
            let next = index_op(self.lanes.e(), "arith.minsi", &next, &last);
            self.locate(&next, &sizes);
            self.lanes.prefetch_gathers()?;
        }
        self.locate(&row, &sizes);
        self.row(range)?;
        cut.close(self.lanes.e());
        Ok(cut.tiles())
    }

    /// Sets the coordinates to those of a row.
    fn locate(&mut self, row: &Value, sizes: &[usize]) {
        let coordinates = delinearize(self.lanes.e(), row, sizes);
        for (&dim, coordinate) in self.outer.iter().zip(coordinates) {
            self.lanes.coordinates[dim] = coordinate;
        }
    }

    /// Tiles of squares, transposed first where loads need it; gives their number and the scratch a
    /// worker needs.
    fn squares(&mut self, transposed: &Transposed) -> Result<(usize, u64), LoweringError> {
        let dim = transposed.dim;
        let others: Vec<usize> = self.outer.iter().copied().filter(|&d| d != dim).collect();
        let rows = self.lanes.block.domain[dim].size;
        let mut sizes = self.sizes(&others);
        sizes.extend([rows.div_ceil(SQUARE), self.size.div_ceil(SQUARE)]);
        let worker_bytes = transposed.reserve(&mut self.lanes);
        let (begin, end) = (self.lanes.phase.begin(), self.lanes.phase.end());
        let e = self.lanes.e();
        let tile = open_for(e, &begin, &end, 1);
        let at = delinearize(e, &tile, &sizes);
        let row_range = part_range(e, &at[others.len()], SQUARE, rows);
        let column_range = part_range(e, &at[others.len() + 1], SQUARE, self.size);
        for (&other, coordinate) in others.iter().zip(&at) {
            self.lanes.coordinates[other] = coordinate.clone();
        }
        transposed.fill(&mut self.lanes, &row_range, &column_range);
        self.lanes.coordinates[dim] = open_for(self.lanes.e(), &row_range.from, &row_range.to, 1);
        self.row(Some(column_range))?;
        self.lanes.e().close("}");
        self.lanes.e().close("}");
        Ok((sizes.iter().product(), worker_bytes))
    }

    fn sizes(&self, dims: &[usize]) -> Vec<usize> {
        dims.iter().map(|&dim| self.lanes.block.domain[dim].size).collect()
    }

    /// The row at the coordinates, or a range of it.
    fn row(&mut self, range: Option<Range>) -> Result<(), LoweringError> {
        let lanes = &mut self.lanes;
        let stores: Vec<&Store> = lanes.block.stores.iter().collect();
        let wanted: Vec<Operand> = stores.iter().map(|store| store.value).collect();
        let mut known = lanes.environment();
        lanes.invariants(&mut known, &wanted, !0)?;

        let whole = self.size / self.width * self.width;
        let rest = self.size - whole;
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
                let size = index(lanes.e(), self.size);
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
}
