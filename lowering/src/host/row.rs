//! Blocks that reduce.
//!
//! The lane dimension is either a reduction dimension, then a row is reduced by vectors along it whose lanes
//! a tree combines at the end; or a parallel one, then each lane reduces a row of its own. In each lane a
//! [cascade](crate::cascade) adds.

use super::accumulate::Accumulator;
use super::extent::Extent;
use super::jam::Jam;
use super::lanes::{Environment, Form, Kept, Lanes, vector_type};
use super::stages::{Stages, cost_of};
use super::tiles::{Carried, Cut, Range, delinearize_in};
use super::walk::{Adding, Part};
use super::{SCHEDULE, TILE_ELEMENTS, lane_dimension, native_lanes, partial};
use crate::abi::Scratch;
use crate::emit::Value;
use crate::types::storage_type;
use crate::{LoweringError, Payload};
use burn_mlir_ir::{Block, DimKind, HostTarget, Operand, Phase, Program, Store};

/// Scratch a worker may use to keep values between passes; beyond they are computed again.
const KEPT_BYTES: usize = 4 << 20;

/// Cost of a pass, in simple instructions, up to which several vectors are in flight.
const LIGHT: usize = 6;

/// What the code of one row needs to know.
pub(super) struct Rows<'a> {
    pub lanes: Lanes<'a>,
    pub stages: Stages,
    /// Lanes of a native vector.
    pub native: usize,
    /// Vectors in flight in a light pass.
    pub unroll: usize,
    /// The reduction dimensions, without the lane dimension.
    pub reductions: Vec<usize>,
    /// The parallel dimensions, without the lane dimension.
    pub parallel: Vec<usize>,
    /// Whether the lane dimension is reduced.
    pub across: bool,
}

/// Lowers a block that reduces.
pub(super) fn lower(block: &Block, target: &HostTarget) -> Result<Payload, LoweringError> {
    let mut rows = Rows::new(block, target, "row");
    if let Some(split) = partial::Split::of(&rows) {
        return partial::lower(block, target, split);
    }
    let worker_bytes = rows.reserve_kept();
    let jam = Jam::of(&rows);
    let cut = match jam {
        Some(jam) => jam.cut(&mut rows),
        None => rows.cut(rows.reduced_points()),
    };
    let (begin, end) = (rows.lanes.phase.begin(), rows.lanes.phase.end());
    let (row, range) = cut.open(rows.lanes.e(), &begin, &end);
    rows.locate(&row);
    match (jam, &range) {
        (Some(jam), Some(range)) => jam.rows(&mut rows, range)?,
        _ => rows.row(range)?,
    }
    cut.close(rows.lanes.e());
    let (tiles, factors) = (cut.tiles() as u64, cut.factors());
    let phase = Phase { symbol: "row".into(), tiles, factors, ..Phase::default() };
    Ok(Payload {
        text: rows.lanes.phase.finish(),
        program: Program { phases: vec![phase], shared_bytes: 0, worker_bytes },
        schedule: SCHEDULE.into(),
        lower_sequence: false,
    })
}

impl<'a> Rows<'a> {
    /// Opens the phase `symbol` of a block.
    pub fn new(block: &'a Block, target: &HostTarget, symbol: &str) -> Self {
        let native = native_lanes(block, target);
        let lane = lane_dimension(block, native);
        let of_kind = |kind| -> Vec<usize> {
            (0..block.domain.len()).filter(|&d| d != lane && block.domain[d].kind == kind).collect()
        };
        let across = block.domain[lane].kind == DimKind::Reduction;
        let mut lanes = Lanes::new(block, lane, symbol);
        lanes.stream_bytes = target.stream_bytes;
        if !across {
            lanes.reductions_vary();
        }
        Self {
            lanes,
            stages: Stages::of(block),
            native,
            unroll: if target.vector_registers >= 32 { 4 } else { 2 },
            reductions: of_kind(DimKind::Reduction),
            parallel: of_kind(DimKind::Parallel),
            across,
        }
    }

    /// The size of a dimension.
    pub fn size(&self, dim: usize) -> usize {
        self.lanes.block.domain[dim].size
    }

    /// The size of the lane dimension.
    pub fn lane_size(&self) -> usize {
        self.size(self.lanes.lane)
    }

    /// Points each row reduces.
    pub fn reduced_points(&self) -> usize {
        let outer: usize = self.reductions.iter().map(|&d| self.size(d)).product();
        outer * if self.across { self.lane_size() } else { 1 }
    }

    /// The number of rows, or of groups of rows beside each other.
    pub fn count(&self) -> usize {
        self.parallel.iter().map(|&d| self.size(d)).product()
    }

    /// How the rows are cut into tiles if a row's lane costs `cost` elements.
    pub fn cut(&self, cost: usize) -> Cut {
        let rows = Extent::product(self.parallel.iter().map(|&dim| self.lanes.extent(dim)));
        let lanes = if self.across { 1.into() } else { self.lanes.extent(self.lanes.lane) };
        let total = rows.most().saturating_mul(lanes.most()).saturating_mul(cost);
        let elements = (total / 64).clamp(2 << 10, TILE_ELEMENTS);
        Cut::new(rows, lanes, (elements / cost.max(1)).max(1), if self.across { 1 } else { self.width(0) })
    }

    /// Lanes of a chunk in a pass.
    pub fn width(&self, pass: usize) -> usize {
        let wanted = |pass| self.stages.wanted(self.lanes.block, pass);
        let light = if self.across {
            pass < self.stages.passes.len() && cost_of(self.lanes.block, &wanted(pass)) <= LIGHT
        } else {
            // One width for all passes: the lanes of a chunk are rows.
            self.stages.passes.iter().map(Vec::len).sum::<usize>() <= 3
                && (0..=self.stages.passes.len())
                    .all(|pass| cost_of(self.lanes.block, &wanted(pass)) <= LIGHT)
        };
        let mut unroll = if light { self.unroll } else { 1 };
        while unroll > 1 && self.native * unroll > self.lane_size() {
            unroll /= 2;
        }
        self.native * unroll
    }

    /// Sets the parallel coordinates to those of a row.
    pub fn locate(&mut self, row: &str) {
        let sizes: Vec<_> = self.parallel.iter().map(|&dim| self.lanes.extent(dim)).collect();
        let coordinates = delinearize_in(self.lanes.e(), &row.to_owned(), &sizes);
        for (&dim, coordinate) in self.parallel.iter().zip(coordinates) {
            self.lanes.coordinates[dim] = coordinate;
        }
    }

    /// Assigns scratch to the values kept between passes; gives its size.
    fn reserve_kept(&mut self) -> u64 {
        let lane = self.lanes.lane;
        let lanes = if self.across { self.lane_size() } else { self.width(0) };
        let mut strides = vec![0i64; self.lanes.block.domain.len()];
        strides[lane] = 1;
        let mut points = lanes as i64;
        for &dim in self.reductions.iter().rev() {
            strides[dim] = points;
            points *= self.size(dim) as i64;
        }
        let bytes: usize = (self.stages.kept.iter())
            .map(|&(statement, _)| self.lanes.block.body[statement].dtype.size() * points as usize)
            .sum();
        if bytes > KEPT_BYTES {
            self.stages.kept.clear();
        }
        let mut offset = 0;
        for &(statement, _) in &self.stages.kept {
            let dtype = self.lanes.block.body[statement].dtype;
            let address = self.lanes.phase.scratch(Scratch::Worker, offset);
            let element = storage_type(dtype);
            let memref = self.lanes.phase.flat(&address, 0, element, points);
            let kept = Kept { memref, ty: format!("memref<{points}x{element}>"), strides: strides.clone() };
            self.lanes.reserved.insert(statement, kept);
            offset += (dtype.size() * points as usize).next_multiple_of(64) as u64;
        }
        offset
    }

    /// One row, or the lanes `range` of a group of rows.
    fn row(&mut self, range: Option<Range>) -> Result<(), LoweringError> {
        if self.across {
            return self.computed(0, &self.lanes.environment());
        }
        let width = self.width(0);
        let known = self.lanes.environment();
        let part = range.map(|range| Part { range, most: self.lane_size() });
        self.chunks(Adding::NOTHING, width, part, vec![], &mut |rows, width, _| {
            let lane = rows.lanes.lane;
            rows.lanes.kept_from = vec![(lane, rows.lanes.coordinates[lane].clone())];
            rows.computed(width, &known)?;
            Ok(vec![])
        })?;
        Ok(())
    }

    /// All passes and stores of a row, or of `width` rows.
    fn computed(&mut self, width: usize, known: &Environment) -> Result<(), LoweringError> {
        let mut known = known.clone();
        for pass in 0..self.stages.passes.len() {
            let carried = self.accumulate(pass, width, &known, None)?;
            self.finish(pass, width, &mut known, &carried);
            for (statement, computed_in) in self.stages.kept.clone() {
                let reserved = self.lanes.reserved.get(&statement).cloned();
                if let Some(kept) = reserved.filter(|_| computed_in == pass) {
                    self.lanes.kept.insert(statement, kept);
                }
            }
        }
        self.full_stores(width, &known)?;
        self.row_stores(width, &mut known)?;
        self.lanes.kept.clear();
        Ok(())
    }

    /// Runs one pass; gives what its reductions carry at the end.
    pub fn accumulate(
        &mut self,
        pass: usize,
        width: usize,
        known: &Environment,
        part: Option<Part>,
    ) -> Result<Vec<Carried>, LoweringError> {
        let accumulators = self.accumulators(pass);
        let width = if self.across { self.width(pass) } else { width };
        let keep: Vec<usize> = self.stages.kept.iter().filter(|k| k.1 == pass).map(|k| k.0).collect();
        let wanted: Vec<Operand> = accumulators.iter().flat_map(Accumulator::operands).collect();
        let mut known = known.clone();
        self.lanes.invariants(&mut known, &wanted, !self.lanes.block.reduction_dims())?;
        let known = known;
        let adding = Adding { accumulators: &accumulators, width };
        let identities = self.identities(&accumulators, width);
        self.space(adding, width, part, identities, &wanted, &known, &mut |rows, known, chunk, carried| {
            rows.step(&accumulators, &keep, &mut known.clone(), chunk, width, carried)
        })
    }

    /// What reductions carry at first.
    pub fn identities(&mut self, accumulators: &[Accumulator], width: usize) -> Vec<Carried> {
        let mut carried = Vec::new();
        for accumulator in accumulators {
            carried.extend(accumulator.initial(&mut self.lanes, width));
        }
        carried
    }

    /// The reductions of a pass.
    pub fn accumulators(&self, pass: usize) -> Vec<Accumulator> {
        self.stages.passes[pass].iter().filter_map(|&s| Accumulator::of(&self.lanes, s)).collect()
    }

    /// Combines one chunk of `chunk` lanes into carried vectors of `width` lanes.
    pub fn step(
        &mut self,
        accumulators: &[Accumulator],
        keep: &[usize],
        known: &mut Environment,
        chunk: usize,
        width: usize,
        carried: Vec<Carried>,
    ) -> Result<Vec<Carried>, LoweringError> {
        let elements = |a: &Accumulator| a.operands().map(|operand| (operand, a.form())).collect::<Vec<_>>();
        let mut wanted: Vec<_> = accumulators.iter().flat_map(elements).collect();
        wanted.extend(keep.iter().map(|&s| (Operand(s as u32), Form::Storage)));
        let tensors = self.lanes.tensors(known, chunk, &wanted)?;
        let mut tensors = tensors.iter();
        let (mut next, mut position) = (Vec::new(), 0);
        let positions = if accumulators.iter().any(Accumulator::is_position) {
            Some(self.positions(width))
        } else {
            None
        };
        for accumulator in accumulators {
            let mut elements = Vec::new();
            for tensor in tensors.by_ref().take(accumulator.operands().count()) {
                elements.push(self.padded(accumulator, tensor, chunk, width));
            }
            let mine = &carried[position..position + accumulator.carries()];
            position += accumulator.carries();
            next.extend(accumulator.step(&mut self.lanes, mine, &elements, positions.as_ref()));
        }
        for (&statement, tensor) in keep.iter().zip(tensors) {
            self.lanes.keep_reserved(statement, tensor, chunk);
        }
        Ok(next)
    }

    /// A chunk of elements as a vector of `width` lanes, those beyond the chunk without effect.
    fn padded(&mut self, accumulator: &Accumulator, tensor: &Value, chunk: usize, width: usize) -> Value {
        let x = self.lanes.vector_of(tensor, chunk, accumulator.element());
        if chunk == width {
            return x;
        }
        let identities = accumulator.identities(&mut self.lanes, width);
        self.lanes.e().op(format_args!(
            "vector.insert_strided_slice {x}, {identities} {{offsets = [0], strides = [1]}} : {} into {}",
            vector_type(chunk, accumulator.element()),
            vector_type(width, accumulator.element())
        ))
    }

    /// Makes the results of a pass known.
    pub fn finish(&mut self, pass: usize, width: usize, known: &mut Environment, carried: &[Carried]) {
        let mut position = 0;
        for accumulator in self.accumulators(pass) {
            let mine = &carried[position..position + accumulator.carries()];
            position += accumulator.carries();
            let result = if self.across {
                let carried_width = self.width(pass);
                let mine = accumulator.tree(&mut self.lanes, mine, carried_width);
                accumulator.scalar(&mut self.lanes, &mine)
            } else {
                accumulator.lanes(&mut self.lanes, mine, width)
            };
            known[accumulator.statement] = Some(result);
        }
    }

    /// Combines the lanes of what a pass carries; gives vectors of one lane.
    pub fn combined(&mut self, pass: usize, carried: &[Carried]) -> Vec<Carried> {
        let (mut combined, mut position) = (Vec::new(), 0);
        let width = self.width(pass);
        for accumulator in self.accumulators(pass) {
            let mine = &carried[position..position + accumulator.carries()];
            position += accumulator.carries();
            combined.extend(accumulator.tree(&mut self.lanes, mine, width));
        }
        combined
    }

    /// The stores made at every point of the reduction space.
    fn full_stores(&mut self, width: usize, known: &Environment) -> Result<(), LoweringError> {
        if self.stages.full.is_empty() {
            return Ok(());
        }
        let block = self.lanes.block;
        let stores: Vec<&Store> = self.stages.full.iter().map(|&s| &block.stores[s]).collect();
        let wanted: Vec<Operand> = stores.iter().map(|s| s.value).collect();
        let width = if self.across { self.native } else { width };
        let mut known = known.clone();
        self.lanes.invariants(&mut known, &wanted, !block.reduction_dims())?;
        let nothing = Adding::NOTHING;
        self.space(nothing, width, None, vec![], &wanted, &known, &mut |rows, known, chunk, _| {
            rows.lanes.store(&mut known.clone(), chunk, &stores)?;
            Ok(vec![])
        })?;
        Ok(())
    }

    /// The stores made once a row.
    pub fn row_stores(&mut self, width: usize, known: &mut Environment) -> Result<(), LoweringError> {
        let block = self.lanes.block;
        let stores: Vec<&Store> = self.stages.rows.iter().map(|&s| &block.stores[s]).collect();
        self.lanes.store(known, width.max(1), &stores)
    }
}
