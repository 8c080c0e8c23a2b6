//! Blocks without reductions.

use super::lanes::Lanes;
use super::tiles::{Cut, Range, delinearize, index, index_op, open_for};
use super::{SCHEDULE, TILE_ELEMENTS, lane_dimension, native_lanes};
use crate::{LoweringError, Payload};
use burn_mlir_ir::{Block, HostTarget, Operand, Phase, Program, Store};

/// Tiles a launch should have at least, if that leaves each with [`LEAST_ELEMENTS`].
const TILES: usize = 64;
const LEAST_ELEMENTS: usize = 2 << 10;

/// Lowers a block without reductions: one phase; a tile is some whole rows (runs of the lane
/// dimension), or part of one row if rows are long.
pub(super) fn lower(block: &Block, target: &HostTarget) -> Result<Payload, LoweringError> {
    let width = native_lanes(block, target);
    let lane = lane_dimension(block, width);
    let size = block.domain[lane].size;
    let outer: Vec<usize> = (0..block.domain.len()).filter(|&dim| dim != lane).collect();
    let outer_sizes: Vec<usize> = outer.iter().map(|&dim| block.domain[dim].size).collect();
    let rows: usize = outer_sizes.iter().product();
    let elements = (rows * size / TILES).clamp(LEAST_ELEMENTS, TILE_ELEMENTS);

    let mut map = Map { lanes: Lanes::new(block, lane, "map"), size, width, outer };
    let (begin, end) = (map.lanes.phase.begin(), map.lanes.phase.end());
    let cut = Cut::new(rows, size, elements, width);
    let (row, range) = cut.open(map.lanes.e(), &begin, &end);
    map.row(&row, &outer_sizes, range)?;
    cut.close(map.lanes.e());

    let phase = Phase { symbol: "map".into(), tiles: cut.tiles() as u64, grid: [0; 3], block: [0; 3] };
    Ok(Payload {
        text: map.lanes.phase.finish(),
        program: Program { phases: vec![phase], shared_bytes: 0, worker_bytes: 0 },
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
    /// One row, or a range of it.
    fn row(&mut self, row: &str, sizes: &[usize], range: Option<Range>) -> Result<(), LoweringError> {
        let lanes = &mut self.lanes;
        let coordinates = delinearize(lanes.e(), &row.to_owned(), sizes);
        for (&dim, coordinate) in self.outer.iter().zip(coordinates) {
            lanes.coordinates[dim] = coordinate;
        }
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
