//! Blocks without reductions.

use super::chunk::{Chunk, Evaluator};
use super::transpose::Tiles;
use super::{ACCESS_BYTES, grid, payload};
use crate::emit::{Emitter, Value};
use crate::host::lanes::Form;
use crate::host::tiles::{delinearize, index, index_op};
use crate::{LoweringError, Payload};
use burn_mlir_ir::{Access, BinaryOp, Block, Instr, Operand, ParamId, Phase, Program, UnaryOp};

/// Threads of a block.
const THREADS: usize = 256;

/// Elements a thread computes, where that leaves enough blocks.
const THREAD_ELEMENTS: usize = 16;

/// Statements of a block that is [light](is_light) at most.
const FEW_STATEMENTS: usize = 24;

/// Chunks of a row from which on the elements that fill none are few.
const LONG_ROW: usize = 64;

/// Loads and stores of a block whose threads can have twice the elements.
const FEW_ACCESSES: usize = 4;

/// Blocks that fill a large GPU some times over.
const MANY_BLOCKS: usize = 1024;

/// Blocks along the first extent of a grid.
const MAX_BLOCKS: usize = 1 << 30;

/// Lowers a block without reductions: one phase. The domain is a sequence of chunks (runs of the lane
/// dimension); a block of threads takes consecutive ones, a thread every [`THREADS`]-th of them.
pub(super) fn lower(block: &Block) -> Result<Payload, LoweringError> {
    if let Some(tiles) = Tiles::of(block) {
        return tiles.lower();
    }
    let lane = lane_dimension(block);
    let size = block.domain[lane].size;
    let outer: Vec<usize> = (0..block.domain.len()).filter(|&dim| dim != lane).collect();
    let rows: usize = outer.iter().map(|&dim| block.domain[dim].size).product();
    let wide = chunk_width(block, lane, true);
    let ragged = rows == 1 || size / wide >= LONG_ROW && rows_are_aligned(block, lane, wide);
    let width = if ragged { wide } else { chunk_width(block, lane, false) };
    let (per_row, rest) = (size / width, size % width);
    let chunks = rows * per_row;
    let mut unroll = (THREAD_ELEMENTS / width).max(1);
    if width > unroll && accesses(block).len() <= FEW_ACCESSES {
        unroll *= 2;
    }
    while unroll > 1 && chunks < THREADS * unroll * MANY_BLOCKS {
        unroll /= 2;
    }
    let per_block = THREADS * unroll;
    let blocks = chunks.div_ceil(per_block);
    // Beyond what one extent of a grid can be, there are several rows of blocks.
    let grid_rows = blocks.div_ceil(MAX_BLOCKS);
    let row_blocks = blocks.div_ceil(grid_rows.max(1));
    let [x, ..] = grid(row_blocks)?;
    let y = u32::from(
        u16::try_from(grid_rows.max(1))
            .map_err(|_| LoweringError::Unsupported(format!("a map over {chunks} chunks")))?,
    );

    let mut map = Map { evaluator: Evaluator::new(block, lane, "map"), outer };
    let (thread, mut at) = (map.evaluator.kernel.thread(), map.evaluator.kernel.block('x'));
    if y > 1 {
        let row = map.evaluator.kernel.block('y');
        let e = map.evaluator.e();
        let length = index(e, row_blocks);
        let before = index_op(e, "arith.muli", &row, &length);
        at = index_op(e, "arith.addi", &before, &at);
    }
    let e = map.evaluator.e();
    let per_block_value = index(e, per_block);
    let first = index_op(e, "arith.muli", &at, &per_block_value);
    let first = index_op(e, "arith.addi", &first, &thread);
    let exact = chunks.is_multiple_of(per_block) && row_blocks * y as usize == blocks;
    let parts: Vec<Chunk> = (0..unroll)
        .map(|part| {
            let e = map.evaluator.e();
            let shift = index(e, part * THREADS);
            let mut number = index_op(e, "arith.addi", &first, &shift);
            let mut valid = None;
            if !exact {
                let last = index(e, chunks - 1);
                valid = Some(e.op(format_args!("arith.cmpi ule, {number}, {last} : index")));
                number = index_op(e, "arith.minui", &number, &last);
            }
            map.chunk(&number, per_row, width, valid)
        })
        .collect();
    map.compute(&parts)?;
    if rest > 0 {
        // The elements that fill no chunk: one thread each. They are few beside the chunks.
        let e = map.evaluator.e();
        let (threads, limit) = (index(e, THREADS), index(e, rows * rest));
        let number = index_op(e, "arith.muli", &at, &threads);
        let number = index_op(e, "arith.addi", &number, &thread);
        let one_of_rest = e.op(format_args!("arith.cmpi ult, {number}, {limit} : index"));
        e.open(format_args!("scf.if {one_of_rest} {{"));
        let mut part = map.chunk(&number, rest, 1, None);
        let e = map.evaluator.e();
        let whole = index(e, per_row * width);
        part.coordinates[lane] = index_op(e, "arith.addi", &part.coordinates[lane], &whole);
        map.compute(&[part])?;
        map.evaluator.e().close("}");
    }
    if has_known_registers(block) {
        // Rows that begin anywhere take a register an element for addresses.
        let steps =
            |access: &Access| (0..block.domain.len()).all(|dim| dim == lane || access.strides[dim] % 8 == 0);
        let aligned = accesses(block).iter().all(|(access, _)| steps(access));
        let resident = match (is_light(block) && aligned, accesses(block).len()) {
            (true, 0..=3) => 8,
            (true, _) => 4,
            _ => 2,
        };
        map.evaluator.kernel.keep_resident(resident);
    }
    let phase =
        Phase { symbol: "map".into(), grid: [x, y, 1], block: [THREADS as u32, 1, 1], ..Phase::default() };
    let program = Program { phases: vec![phase], shared_bytes: 0, worker_bytes: 0 };
    Ok(payload(&[map.evaluator.kernel.finish()], program))
}

struct Map<'a> {
    evaluator: Evaluator<'a>,
    outer: Vec<usize>,
}

impl Map<'_> {
    /// Chunk `number` in row-major order, the lane dimension innermost.
    fn chunk(&mut self, number: &Value, per_row: usize, width: usize, valid: Option<Value>) -> Chunk {
        let block = self.evaluator.block;
        let lane = self.evaluator.lane;
        let mut sizes: Vec<usize> = self.outer.iter().map(|&dim| block.domain[dim].size).collect();
        sizes.push(per_row);
        let e = self.evaluator.e();
        let mut at = coordinates(e, number, &sizes);
        let mut in_lane = at.pop().unwrap_or_else(|| number.clone());
        if width > 1 {
            let width = index(e, width);
            in_lane = index_op(e, "arith.muli", &in_lane, &width);
        }
        let mut coordinates = vec![in_lane.clone(); block.domain.len()];
        for (&dim, coordinate) in self.outer.iter().zip(at) {
            coordinates[dim] = coordinate;
        }
        coordinates[lane] = in_lane;
        Chunk { coordinates, width, valid }
    }

    /// Loads everything, computes everything, then stores.
    fn compute(&mut self, chunks: &[Chunk]) -> Result<(), LoweringError> {
        let evaluator = &mut self.evaluator;
        let stores = &evaluator.block.stores;
        let wanted: Vec<Operand> = stores.iter().map(|store| store.value).collect();
        let mut environments: Vec<_> = chunks.iter().map(|_| evaluator.environment()).collect();
        for (chunk, known) in chunks.iter().zip(&mut environments) {
            evaluator.load(known, chunk, &wanted);
        }
        let forms: Vec<_> = wanted.iter().map(|&value| (value, Form::Storage)).collect();
        let mut values = Vec::new();
        for (chunk, known) in chunks.iter().zip(&mut environments) {
            values.push(evaluator.evaluate(known, chunk, &forms)?);
        }
        for (chunk, values) in chunks.iter().zip(values) {
            evaluator.store_valid(chunk, stores, &values);
        }
        Ok(())
    }
}

/// The coordinates of the `number`-th point of a box, with 32-bit divisions where that suffices.
pub(super) fn coordinates(e: &mut Emitter, number: &Value, sizes: &[usize]) -> Vec<Value> {
    let points: usize = sizes.iter().product();
    let divisions = sizes.iter().skip(1).any(|&size| size > 1);
    if !divisions || points > i32::MAX as usize {
        return delinearize(e, number, sizes);
    }
    let mut rest = e.op(format_args!("arith.index_castui {number} : index to i32"));
    let mut coordinates = vec![Value::new(); sizes.len()];
    for (position, &size) in sizes.iter().enumerate().rev() {
        let part = if position == 0 {
            rest.clone()
        } else {
            let size = e.op(format_args!("arith.constant {size} : i32"));
            let part = e.op(format_args!("arith.remui {rest}, {size} : i32"));
            rest = e.op(format_args!("arith.divui {rest}, {size} : i32"));
            part
        };
        coordinates[position] = e.op(format_args!("arith.index_castui {part} : i32 to index"));
    }
    coordinates
}

/// The accesses of a block to memory, with the bytes of their elements.
pub(super) fn accesses(block: &Block) -> Vec<(&Access, usize)> {
    let loads = block.body.iter().filter_map(|statement| match &statement.instr {
        Instr::Load { access, .. } => Some((access, statement.dtype.size())),
        Instr::Gather(gather) => Some((&gather.access, statement.dtype.size())),
        _ => None,
    });
    let stores = block.stores.iter();
    let stores = stores.map(|store| (&store.access, block.body[store.value.0 as usize].dtype.size()));
    // What is written matters more than what is read: writes are not cached.
    loads.chain(stores.clone()).chain(stores).collect()
}

/// Whether values of a block are of the sizes for which it is known how many registers chunks of them take.
pub(super) fn has_known_registers(block: &Block) -> bool {
    block.body.iter().all(|statement| statement.dtype.size() <= 4)
        && block.params.iter().all(|param| param.dtype.size() > 1)
}

/// Whether a block is short and has no function that takes many registers.
pub(super) fn is_light(block: &Block) -> bool {
    use UnaryOp::*;
    let light = |instr: &Instr| match instr {
        Instr::Unary(op, _) => matches!(
            op,
            Neg | Abs
                | Sign
                | Recip
                | Exp
                | Sqrt
                | Rsqrt
                | Tanh
                | Sigmoid
                | Floor
                | Ceil
                | Round
                | Trunc
                | Not
        ),
        Instr::Binary(op, ..) => !matches!(op, BinaryOp::Pow | BinaryOp::Atan2 | BinaryOp::Rem),
        Instr::Random { .. } | Instr::Gather(_) => false,
        _ => true,
    };
    block.body.len() <= FEW_STATEMENTS && block.body.iter().all(|statement| light(&statement.instr))
}

/// Whether every access that is contiguous along a dimension can be made by chunks of a width wherever a row begins.
fn rows_are_aligned(block: &Block, lane: usize, width: usize) -> bool {
    let aligned = |param: ParamId, access: &Access, stride: i64| {
        let param = &block.params[param.0 as usize];
        let size = param.dtype.size();
        let bytes = (width * size).min(ACCESS_BYTES);
        let others =
            access.strides.iter().enumerate().filter(|(dim, _)| *dim != lane).map(|(_, stride)| stride);
        let mut steps = others.chain([&stride]).map(|stride| stride.unsigned_abs() as usize * size);
        access.strides[lane] != 1 || param.alignment >= bytes && steps.all(|step| step.is_multiple_of(bytes))
    };
    let loads = block.body.iter().all(|statement| match &statement.instr {
        Instr::Load { param, access } => aligned(*param, access, 0),
        Instr::Gather(gather) => aligned(gather.param, &gather.access, gather.stride),
        _ => true,
    });
    loads && block.stores.iter().all(|store| aligned(store.param, &store.access, 0))
}

/// The dimension along which neighbouring threads run: the one with the most contiguous accesses.
pub(super) fn lane_dimension(block: &Block) -> usize {
    let accesses = accesses(block);
    let cost = |dim: usize| -> usize {
        let of = |access: &Access| match access.strides[dim].unsigned_abs() {
            0 | 1 => 1,
            stride => (stride as usize).min(8),
        };
        let contiguous = accesses.iter().filter(|(access, _)| access.strides[dim] == 1).count();
        let short = if block.domain[dim].size < 32 { 4 } else { 0 };
        let scattered: usize = accesses.iter().map(|(access, bytes)| of(access) * bytes).sum();
        8 * scattered + short + accesses.len() - contiguous
    };
    let dims = (0..block.domain.len()).rev().filter(|&dim| block.domain[dim].size > 0);
    dims.min_by_key(|&dim| cost(dim)).unwrap_or(0)
}

/// Lanes of a chunk: as many as make the widest contiguous access 16 bytes and divide the dimension
/// (with `ragged`, need not divide it).
pub(super) fn chunk_width(block: &Block, lane: usize, ragged: bool) -> usize {
    let contiguous = accesses(block).into_iter().filter(|(access, _)| access.strides[lane] == 1);
    let mut width = contiguous.map(|(_, bytes)| ACCESS_BYTES / bytes).min().unwrap_or(1);
    let size = block.domain[lane].size;
    while width > 1 && (size < width || (!ragged && !size.is_multiple_of(width))) {
        width /= 2;
    }
    width
}
