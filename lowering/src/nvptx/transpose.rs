//! Blocks without reductions that read along one dimension and write along another.
//!
//! A block of threads takes a tile of both dimensions. What is contiguous along the other dimension than the
//! stores is read along it and goes through workgroup memory, so that memory is accessed by whole lines on both
//! sides.

use super::chunk::{Chunk, Environment, Evaluator, Known, bytes_of};
use super::code::Code;
use super::map::coordinates;
use super::writer::{GLOBAL, WORKGROUP};
use super::{grid, payload};
use crate::emit::Value;
use crate::host::lanes::{Form, vector_type};
use crate::types::storage_type;
use crate::{LoweringError, Payload};
use burn_mlir_ir::{Access, Block, Instr, Operand, ParamId, Phase, Program};

/// Extent of a tile along both dimensions.
const TILE: usize = 64;

/// A thread's part of a tile along both dimensions.
const PART: usize = 4;

/// Threads along a dimension of a tile.
const SIDE: usize = TILE / PART;

/// Elements between two rows of a tile in workgroup memory: rows begin in different banks.
const PITCH: usize = TILE + PART;

/// Workgroup memory that a block may have without asking the driver.
const MEMORY_BYTES: usize = 48 << 10;

/// Extent from which on a dimension is worth tiles.
const LONG: usize = 24;

/// A way to cut a block into tiles.
pub(super) struct Tiles<'a> {
    block: &'a Block,
    /// The dimension along which stores are contiguous.
    along: usize,
    /// The dimension along which the loads are contiguous that go through workgroup memory.
    across: usize,
    /// Those loads: statements.
    moved: Vec<usize>,
}

impl<'a> Tiles<'a> {
    /// Tiles for a block, if it has such loads.
    pub fn of(block: &'a Block) -> Option<Self> {
        let long = |dim: &usize| block.domain[*dim].size >= LONG;
        let contiguous = |access: &Access, dim: usize| access.strides[dim] == 1;
        let mut dims = (0..block.domain.len()).rev().filter(long);
        let along = dims.find(|&dim| block.stores.iter().all(|store| contiguous(&store.access, dim)))?;
        let crosses = |statement: usize, dim: usize| match &block.body[statement].instr {
            Instr::Load { access, .. } => {
                contiguous(access, dim) && access.strides[along].unsigned_abs() >= 8
            }
            _ => false,
        };
        let count = |dim: usize| (0..block.body.len()).filter(|&load| crosses(load, dim)).count();
        let others = (0..block.domain.len()).filter(|&dim| dim != along).filter(long);
        let across = others.max_by_key(|&dim| count(dim))?;
        let mut bytes = 0;
        let fits = |&statement: &usize| {
            bytes += TILE * PITCH * block.body[statement].dtype.size();
            bytes <= MEMORY_BYTES
        };
        let moved: Vec<_> =
            (0..block.body.len()).filter(|&load| crosses(load, across)).take_while(fits).collect();
        if moved.is_empty() { None } else { Some(Self { block, along, across, moved }) }
    }

    /// The kernel.
    pub fn lower(&self) -> Result<Payload, LoweringError> {
        let (block, ty) = (self.block, "index");
        let size = |dim: usize| block.domain[dim].size;
        let outer: Vec<usize> =
            (0..block.domain.len()).filter(|&dim| dim != self.along && dim != self.across).collect();
        let mut sizes: Vec<usize> = outer.iter().map(|&dim| size(dim)).collect();
        sizes.extend([size(self.across).div_ceil(TILE), size(self.along).div_ceil(TILE)]);
        let blocks = grid(sizes.iter().product())?;

        let mut evaluator = Evaluator::new(block, self.along, "map");
        let (thread, at) = (evaluator.kernel.thread(), evaluator.kernel.block('x'));
        let e = evaluator.e();
        let mut place = coordinates(e, &at, &sizes);
        let tile = e.int(ty, TILE);
        let [across, along] = [place.pop(), place.pop()]
            .map(|tile| tile.unwrap_or_else(|| at.clone()))
            .map(|number| e.arith("muli", ty, &number, &tile));
        let (along, across) = (across, along);
        let zero = e.int(ty, 0);
        let mut origin = vec![zero; block.domain.len()];
        for (&dim, at) in outer.iter().zip(place) {
            origin[dim] = at;
        }
        origin[self.along] = along;
        origin[self.across] = across;

        let mut memories = Vec::new();
        for &statement in &self.moved {
            memories.push(self.read(&mut evaluator, statement, &origin, &thread));
        }
        evaluator.kernel.barrier();
        self.write(&mut evaluator, &memories, &origin, &thread)?;
        let block = [(SIDE * SIDE) as u32, 1, 1];
        let phase = Phase { symbol: "map".into(), grid: blocks, block, ..Phase::default() };
        let program = Program { phases: vec![phase], shared_bytes: 0, worker_bytes: 0 };
        Ok(payload(&[evaluator.kernel.finish()], program))
    }

    /// Brings a load's tile into workgroup memory, one row there for each coordinate across.
    fn read(
        &self,
        evaluator: &mut Evaluator<'_>,
        statement: usize,
        origin: &[Value],
        thread: &Value,
    ) -> Value {
        let (block, ty) = (self.block, "index");
        let Instr::Load { param, access } = &block.body[statement].instr else { return Value::new() };
        let element = storage_type(block.body[statement].dtype);
        let memory = evaluator.kernel.workgroup(TILE * PITCH * bytes_of(element));
        let wide = self.is_wide(evaluator, *param, access);
        let e = evaluator.e();
        let side = e.int(ty, SIDE);
        // Neighbouring threads are neighbours across.
        let (low, high) = (e.arith("remui", ty, thread, &side), e.arith("divui", ty, thread, &side));
        let mut rows: Vec<Vec<Value>> = Vec::new();
        let mut columns = Vec::new();
        for part in 0..PART {
            let along = self.spread(evaluator, &high, part, wide);
            columns.push(along.clone());
            let mut row = Vec::new();
            for other in 0..if wide { 1 } else { PART } {
                let across = self.spread(evaluator, &low, other, wide);
                let mut place = origin.to_vec();
                let step = if wide { PART } else { 1 };
                for (dim, by, last) in [(self.along, &along, 1), (self.across, &across, step)] {
                    // What is outside is read from the last place inside, and not used.
                    let e = evaluator.e();
                    let at = e.arith("addi", ty, &origin[dim], by);
                    let last = e.int(ty, block.domain[dim].size - last);
                    place[dim] = e.arith("minui", ty, &at, &last);
                }
                let at = evaluator.kernel.address(param.0 as usize, element, access, &place);
                let e = evaluator.e();
                if wide {
                    let (vector, bytes) = (vector_type(PART, element), PART * bytes_of(element));
                    let bytes = bytes.min(super::ACCESS_BYTES);
                    let loaded = e.op(format_args!(
                        "llvm.load {at} {{alignment = {bytes} : i64}} : {GLOBAL} -> {vector}"
                    ));
                    row.extend((0..PART).map(|lane| {
                        e.op(format_args!("vector.extract {loaded}[{lane}] : {element} from {vector}"))
                    }));
                } else {
                    row.push(e.op(format_args!("llvm.load {at} : {GLOBAL} -> {element}")));
                }
            }
            rows.push(row);
        }
        for other in 0..PART {
            let across = self.spread(evaluator, &low, other, false);
            let across = if wide { self.wide_place(evaluator, &low, other) } else { across };
            let e = evaluator.e();
            let pitch = e.int(ty, PITCH);
            let start = e.arith("muli", ty, &across, &pitch);
            if wide {
                let vector = vector_type(PART, element);
                let parts: Vec<_> = rows.iter().map(|row| row[other].as_str()).collect();
                let whole = e.op(format_args!("vector.from_elements {} : {vector}", parts.join(", ")));
                let at = e.arith("addi", ty, &start, &columns[0]);
                let at = evaluator.kernel.element(&memory, WORKGROUP, &at, element);
                let bytes = (PART * bytes_of(element)).min(super::ACCESS_BYTES);
                evaluator.e().line(format_args!(
                    "llvm.store {whole}, {at} {{alignment = {bytes} : i64}} : {vector}, {WORKGROUP}"
                ));
                continue;
            }
            for (row, along) in rows.iter().zip(&columns) {
                let at = evaluator.e().arith("addi", ty, &start, along);
                let at = evaluator.kernel.element(&memory, WORKGROUP, &at, element);
                evaluator.e().line(format_args!("llvm.store {}, {at} : {element}, {WORKGROUP}", row[other]));
            }
        }
        memory
    }

    /// Whether a thread's part of a row is one access.
    fn is_wide(&self, evaluator: &Evaluator<'_>, param: ParamId, access: &Access) -> bool {
        let sizes = [self.along, self.across].map(|dim| self.block.domain[dim].size);
        sizes[1].is_multiple_of(PART) && evaluator.piece_along(self.across, param, access, PART) == PART
            || sizes[1].is_multiple_of(PART)
                && PART * self.block.params[param.0 as usize].dtype.size() > super::ACCESS_BYTES
                && evaluator.piece_along(self.across, param, access, PART) > 1
    }

    /// A thread's place `part` along a dimension of the tile: side by side with its others if parts are `wide`,
    /// else with those of other threads.
    fn spread(&self, evaluator: &mut Evaluator<'_>, side: &Value, part: usize, wide: bool) -> Value {
        if wide {
            return self.wide_place(evaluator, side, part);
        }
        let e = evaluator.e();
        let shift = e.int("index", part * SIDE);
        e.arith("addi", "index", side, &shift)
    }

    fn wide_place(&self, evaluator: &mut Evaluator<'_>, side: &Value, part: usize) -> Value {
        let e = evaluator.e();
        let (each, shift) = (e.int("index", PART), e.int("index", part));
        let first = e.arith("muli", "index", side, &each);
        e.arith("addi", "index", &first, &shift)
    }

    /// Computes and stores the tile.
    fn write(
        &self,
        evaluator: &mut Evaluator<'_>,
        memories: &[Value],
        origin: &[Value],
        thread: &Value,
    ) -> Result<(), LoweringError> {
        let (block, ty) = (self.block, "index");
        let size = |dim: usize| block.domain[dim].size;
        let width = if size(self.along).is_multiple_of(PART) { PART } else { 1 };
        // Threads that share a row of the tile, and rows at a time.
        let row_threads = TILE / width;
        let rows = SIDE * SIDE / row_threads;
        let exact = size(self.along).is_multiple_of(TILE) && size(self.across).is_multiple_of(TILE);
        let e = evaluator.e();
        let shared = e.int(ty, row_threads);
        let (low, high) = (e.arith("remui", ty, thread, &shared), e.arith("divui", ty, thread, &shared));
        let lanes = e.int(ty, width);
        let column = e.arith("muli", ty, &low, &lanes);
        let wanted: Vec<Operand> = block.stores.iter().map(|store| store.value).collect();
        let mut chunks: Vec<(Chunk, Environment)> = Vec::new();
        for pass in 0..TILE / rows {
            let e = evaluator.e();
            let shift = e.int(ty, pass * rows);
            let row = e.arith("addi", ty, &high, &shift);
            let mut place = origin.to_vec();
            let mut valid: Option<Value> = None;
            for (dim, by, step) in [(self.along, &column, width), (self.across, &row, 1)] {
                let at = e.arith("addi", ty, &origin[dim], by);
                if !exact {
                    let (limit, last) = (e.int(ty, size(dim)), e.int(ty, size(dim) - step));
                    let inside = e.compare("ult", ty, &at, &limit);
                    valid = Some(match valid {
                        Some(valid) => e.both(&valid, &inside),
                        None => inside,
                    });
                    place[dim] = e.arith("minui", ty, &at, &last);
                } else {
                    place[dim] = at;
                }
            }
            let mut known = evaluator.environment();
            for (&statement, memory) in self.moved.iter().zip(memories) {
                let element = storage_type(block.body[statement].dtype);
                let e = evaluator.e();
                let pitch = e.int(ty, PITCH);
                let start = e.arith("muli", ty, &row, &pitch);
                let at = e.arith("addi", ty, &start, &column);
                let at = evaluator.kernel.element(memory, WORKGROUP, &at, element);
                let (vector, bytes) = (vector_type(width, element), width * bytes_of(element));
                let bytes = bytes.min(super::ACCESS_BYTES);
                let value = evaluator.e().op(format_args!(
                    "llvm.load {at} {{alignment = {bytes} : i64}} : {WORKGROUP} -> {vector}"
                ));
                known[statement] = Some(Known::Lanes(value, Form::Storage));
            }
            chunks.push((Chunk { coordinates: place, width, valid }, known));
        }
        for (chunk, known) in &mut chunks {
            evaluator.load(known, chunk, &wanted);
        }
        let forms: Vec<_> = wanted.iter().map(|&value| (value, Form::Storage)).collect();
        for (chunk, known) in &mut chunks {
            let values = evaluator.evaluate(known, chunk, &forms)?;
            evaluator.store_valid(chunk, &block.stores, &values);
        }
        Ok(())
    }
}
