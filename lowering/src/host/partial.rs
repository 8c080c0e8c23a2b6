//! Reductions of few, long rows: parts of a row are reduced by different workers into shared scratch, then
//! combined in order. How a row is split depends on its size alone, so the result does not depend on
//! the number of workers.

use super::lanes::{Known, vector_type};
use super::row::Rows;
use super::tiles::{Carried, Cut, Range, delinearize, index, index_op, open_for, part_range, scaled};
use super::walk::{Adding, Part, merge_all};
use super::{SCHEDULE, TILE_ELEMENTS};
use crate::abi::Scratch;
use crate::cascade::{CHAIN, Iterations, cascade};
use crate::emit::Value;
use crate::{LoweringError, Payload};
use burn_mlir_ir::{Block, HostTarget, Phase, Program};

/// Tiles from which rows need not be split for the sake of parallelism.
const ENOUGH_TILES: usize = 32;

/// Points of the iteration space below which nothing is split.
const WORTH_SPLITTING: usize = 64 << 10;

/// Rows each lane reduces one after the other from which they are split for the sake of locality and rounding.
const LONG: usize = 128;

/// Iterations reduced in registers before they are added to what is in memory, at least.
const STRIP: usize = 8;

/// Parts of a row at most, where parts may be longer.
const PARTS: usize = 512;

/// How rows are split along their outermost reduction dimension.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    /// Size of that dimension.
    size: usize,
    /// Its iterations in a part.
    length: usize,
}

impl Split {
    /// The split of a block whose rows are few and long; nothing if it has more than one pass or stores
    /// at every point, or if its rows are many or short.
    pub fn of(rows: &Rows) -> Option<Self> {
        let opened = rows.lanes.block.is_opened();
        if opened || rows.stages.passes.len() != 1 || !rows.stages.full.is_empty() {
            return None;
        }
        let reduced = rows.reduced_points();
        let lanes = if rows.across { 1 } else { rows.lane_size() };
        if reduced * lanes * rows.count() < WORTH_SPLITTING {
            return None;
        }
        let few = rows.cut(reduced).tiles() < ENOUGH_TILES;
        if !few && (rows.across || reduced < LONG) {
            return None;
        }
        let size = match rows.reductions.first() {
            Some(&dim) => rows.size(dim),
            None => rows.lane_size(),
        };
        let inner = reduced * lanes / size;
        let mut length = (TILE_ELEMENTS / inner).max(size.div_ceil(PARTS)).max(1);
        if rows.reductions.is_empty() {
            length = length.next_multiple_of(rows.width(0));
        } else if !rows.across {
            length = length.max(64 / (reduced / size).max(1));
        }
        (length < size).then_some(Self { size, length })
    }

    fn parts(&self) -> usize {
        self.size.div_ceil(self.length)
    }

    /// Iterations reduced in registers before they are added to what is in memory.
    fn strip(&self) -> usize {
        STRIP.max(self.length.div_ceil(CHAIN))
    }
}

/// Lowers a block with split rows: one phase reduces the parts, one combines them.
pub(super) fn lower(block: &Block, target: &HostTarget, split: Split) -> Result<Payload, LoweringError> {
    let parts = split.parts();

    let mut rows = Rows::new(block, target, "parts");
    let shared = Shared::new(&mut rows, parts);
    let (begin, end) = (rows.lanes.phase.begin(), rows.lanes.phase.end());
    let tile = open_for(rows.lanes.e(), &begin, &end, 1);
    let count = rows.count();
    let at = delinearize(rows.lanes.e(), &tile, &[count, parts]);
    let range = part_range(rows.lanes.e(), &at[1], split.length, split.size);
    rows.locate(&at[0]);
    let known = rows.lanes.environment();
    if rows.across {
        let carried = rows.accumulate(0, 0, &known, Some(Part { range, most: split.length }))?;
        let carried = rows.combined(0, &carried);
        shared.store(&mut rows, &tile, 1, &carried);
    } else {
        shared.beside_parts(&mut rows, &tile, range, split.strip())?;
    }
    rows.lanes.e().close("}");
    let mut phases =
        vec![Phase { symbol: "parts".into(), tiles: (count * parts) as u64, ..Phase::default() }];
    let mut text = rows.lanes.phase.finish();

    let mut rows = Rows::new(block, target, "whole");
    let shared = Shared::new(&mut rows, parts);
    let lanes = if rows.across { 1 } else { rows.lane_size() };
    let cut_width = if rows.across { 1 } else { rows.width(0) };
    let cut = Cut::new(count, lanes, (TILE_ELEMENTS / parts).max(1), cut_width);
    let (begin, end) = (rows.lanes.phase.begin(), rows.lanes.phase.end());
    let (row, range) = cut.open(rows.lanes.e(), &begin, &end);
    rows.locate(&row);
    let first = scaled(rows.lanes.e(), &row, parts as i64);
    let mut known = rows.lanes.environment();
    if rows.across {
        let carried = shared.across(&mut rows, &first, parts)?;
        for (accumulator, carried) in rows.accumulators(0).iter().zip(&carried) {
            known[accumulator.statement] = Some(accumulator.scalar(&mut rows.lanes, carried));
        }
        rows.row_stores(0, &mut known)?;
    } else {
        let part = range.map(|range| Part { range, most: lanes });
        rows.chunks(Adding::NOTHING, cut_width, part, vec![], &mut |rows, width, _| {
            let mut known = known.clone();
            let carried = shared.beside(rows, &first, parts, width)?;
            for (accumulator, carried) in rows.accumulators(0).iter().zip(&carried) {
                let result: Known = accumulator.lanes(&mut rows.lanes, carried, width);
                known[accumulator.statement] = Some(result);
            }
            rows.row_stores(width, &mut known)?;
            Ok(vec![])
        })?;
    }
    cut.close(rows.lanes.e());
    phases.push(Phase { symbol: "whole".into(), tiles: cut.tiles() as u64, ..Phase::default() });
    text.push_str(&rows.lanes.phase.finish());

    Ok(Payload {
        text,
        program: Program { phases, shared_bytes: shared.bytes, worker_bytes: 0 },
        schedule: SCHEDULE.into(),
        lower_sequence: false,
    })
}

/// The partial results in shared scratch: for each carried value an array `[row][part][lane]`.
struct Shared {
    arrays: Vec<Array>,
    lanes: usize,
    bytes: u64,
}

struct Array {
    memref: Value,
    ty: String,
    element: &'static str,
}

impl Shared {
    fn new(rows: &mut Rows, parts: usize) -> Self {
        let lanes = if rows.across { 1 } else { rows.lane_size() };
        let size = (rows.count() * parts * lanes) as i64;
        let (mut arrays, mut bytes) = (Vec::new(), 0);
        for accumulator in rows.accumulators(0) {
            for element in accumulator.elements() {
                // A truth value takes a byte.
                let width = if element == "i1" { 1 } else { element[1..].parse().unwrap_or(64) / 8 };
                let stored = if element == "i1" { "i8" } else { element };
                let address = rows.lanes.phase.scratch(Scratch::Shared, bytes);
                let memref = rows.lanes.phase.flat(&address, 0, stored, size);
                arrays.push(Array { memref, ty: format!("memref<{size}x{stored}>"), element });
                bytes += (size as u64 * width).next_multiple_of(64);
            }
        }
        Self { arrays, lanes, bytes }
    }

    /// The flat index of the lane coordinate in part `slot`.
    fn address(&self, rows: &mut Rows, slot: &Value) -> Value {
        if self.lanes == 1 && rows.across {
            return slot.clone();
        }
        let base = scaled(rows.lanes.e(), slot, self.lanes as i64);
        let lane = rows.lanes.coordinates[rows.lanes.lane].clone();
        index_op(rows.lanes.e(), "arith.addi", &base, &lane)
    }

    /// Writes the carried vectors of a part.
    fn store(&self, rows: &mut Rows, slot: &Value, width: usize, carried: &[Carried]) {
        let at = self.address(rows, slot);
        for (array, carried) in self.arrays.iter().zip(carried) {
            let (mut value, mut ty) = (carried.value.clone(), carried.ty.clone());
            let e = rows.lanes.e();
            if array.element == "i1" {
                let bytes = vector_type(width, "i8");
                value = e.op(format_args!("arith.extui {value} : {ty} to {bytes}"));
                ty = bytes;
            }
            e.line(format_args!("vector.store {value}, {}[{at}] : {}, {ty}", array.memref, array.ty));
        }
    }

    fn load(&self, rows: &mut Rows, at: &Value, width: usize) -> Vec<Carried> {
        let e = rows.lanes.e();
        let load = |array: &Array| {
            let ty = vector_type(width, array.element);
            if array.element == "i1" {
                let bytes = vector_type(width, "i8");
                let value = e.op(format_args!("vector.load {}[{at}] : {}, {bytes}", array.memref, array.ty));
                let value = e.op(format_args!("arith.trunci {value} : {bytes} to {ty}"));
                return Carried { value, ty };
            }
            let value = e.op(format_args!("vector.load {}[{at}] : {}, {ty}", array.memref, array.ty));
            Carried { value, ty }
        };
        self.arrays.iter().map(load).collect()
    }

    /// Reduces one part of rows beside each other, some iterations at a time: their memory is read in long
    /// runs, and sums stay short.
    fn beside_parts(
        &self,
        rows: &mut Rows,
        tile: &Value,
        range: Range,
        strip: usize,
    ) -> Result<(), LoweringError> {
        let accumulators = rows.accumulators(0);
        let width = rows.width(0);
        rows.chunks(Adding::NOTHING, width, None, vec![], &mut |rows, width, _| {
            let identities = rows.identities(&accumulators, width);
            self.store(rows, tile, width, &identities);
            Ok(vec![])
        })?;
        let known = rows.lanes.environment();
        let from = open_for(rows.lanes.e(), &range.from, &range.to, strip);
        let length = index(rows.lanes.e(), strip);
        let to = index_op(rows.lanes.e(), "arith.addi", &from, &length);
        let to = index_op(rows.lanes.e(), "arith.minsi", &to, &range.to);
        rows.chunks(Adding::NOTHING, width, None, vec![], &mut |rows, width, _| {
            let part = Part { range: Range { from: from.clone(), to: to.clone() }, most: strip };
            let carried = rows.accumulate(0, width, &known, Some(part))?;
            let at = self.address(rows, tile);
            let before = self.load(rows, &at, width);
            let merged = merge_all(rows, &accumulators, &before, &carried);
            self.store(rows, tile, width, &merged);
            Ok(vec![])
        })?;
        rows.lanes.e().close("}");
        Ok(())
    }

    /// Combines the parts of one row: vectors of parts, then a tree; gives vectors of one lane.
    fn across(
        &self,
        rows: &mut Rows,
        first: &Value,
        parts: usize,
    ) -> Result<Vec<Vec<Carried>>, LoweringError> {
        let accumulators = rows.accumulators(0);
        let width = rows.native;
        let adding = Adding { accumulators: &accumulators, width };
        let whole = parts / width * width;
        let mut carried = rows.identities(&accumulators, width);
        if whole > 0 {
            let range = Range { from: rows.lanes.zero(), to: index(rows.lanes.e(), whole) };
            let most = whole / width;
            let iterations = Iterations { range, step: width, most, weight: 1, rolled: false };
            carried = cascade(rows, &adding, &iterations, carried, &mut |rows, slot, carried| {
                let at = index_op(rows.lanes.e(), "arith.addi", first, slot);
                let loaded = self.load(rows, &at, width);
                Ok(merge_all(rows, &accumulators, &carried, &loaded))
            })?;
        }
        let rest = parts - whole;
        if rest > 0 {
            let whole = index(rows.lanes.e(), whole);
            let at = index_op(rows.lanes.e(), "arith.addi", first, &whole);
            let loaded = self.load(rows, &at, rest);
            let identities = rows.identities(&accumulators, width);
            let padded: Vec<_> = (loaded.iter().zip(&identities))
                .map(|(x, identity)| {
                    let value = rows.lanes.e().op(format_args!(
                        "vector.insert_strided_slice {}, {} {{offsets = [0], strides = [1]}} : {} into {}",
                        x.value, identity.value, x.ty, identity.ty
                    ));
                    Carried { value, ty: identity.ty.clone() }
                })
                .collect();
            carried = merge_all(rows, &accumulators, &carried, &padded);
        }
        let mut position = 0;
        let mut results = Vec::new();
        for accumulator in &accumulators {
            let mine = &carried[position..position + accumulator.carries()];
            position += accumulator.carries();
            results.push(accumulator.tree(&mut rows.lanes, mine, width));
        }
        Ok(results)
    }

    /// Combines the parts of `width` rows beside each other.
    fn beside(
        &self,
        rows: &mut Rows,
        first: &Value,
        parts: usize,
        width: usize,
    ) -> Result<Vec<Vec<Carried>>, LoweringError> {
        let accumulators = rows.accumulators(0);
        let carried = rows.identities(&accumulators, width);
        let range = Range { from: rows.lanes.zero(), to: index(rows.lanes.e(), parts) };
        let iterations = Iterations { range, step: 1, most: parts, weight: 1, rolled: false };
        let adding = Adding { accumulators: &accumulators, width };
        let carried = cascade(rows, &adding, &iterations, carried, &mut |rows, slot, carried| {
            let slot = index_op(rows.lanes.e(), "arith.addi", first, slot);
            let at = self.address(rows, &slot);
            let loaded = self.load(rows, &at, width);
            Ok(merge_all(rows, &accumulators, &carried, &loaded))
        })?;
        let mut position = 0;
        let mut results = Vec::new();
        for accumulator in &accumulators {
            results.push(carried[position..position + accumulator.carries()].to_vec());
            position += accumulator.carries();
        }
        Ok(results)
    }
}
