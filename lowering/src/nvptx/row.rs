//! Blocks that reduce.
//!
//! Reductions have levels: those of one level depend on those before. For each level the threads that
//! share a row walk over its steps once; where a row is short, its values stay in registers between
//! the walks. Then results are stored. Few long rows are split over several blocks: a kernel for each
//! level leaves partial results in scratch memory, which the kernels after it combine.

use super::accumulator::{Accumulator, Parts, memory_type, read_from, to_memory};
use super::chunk::{Chunk, Environment, Evaluator, Known, bytes_of};
use super::geometry::Geometry;
use super::map::coordinates;
use super::payload;
use super::writer::GLOBAL;
use crate::emit::Value;
use crate::host::lanes::{Form, vector_type};
use crate::host::tiles::{Carried, CarryingFor, index, index_op, open_carrying_for};
use crate::scalar;
use crate::{LoweringError, Payload};
use burn_mlir_ir::{Block, DType, DimKind, Operand, Phase, Program, Store};

/// Workgroup memory a block may have without asking the driver.
const WORKGROUP_BYTES: usize = 48 << 10;

/// Alignment of a partial result's memory.
const SCRATCH_ALIGNMENT: usize = 256;

/// Lowers a block that reduces.
pub(super) fn lower(block: &Block) -> Result<Payload, LoweringError> {
    let geometry = Geometry::of(block);
    let levels = levels(block);
    let grid = |splits: usize| -> Result<[u32; 3], LoweringError> {
        let blocks = geometry.rows.div_ceil(geometry.block_rows);
        let fits = blocks <= i32::MAX as usize && splits <= usize::from(u16::MAX);
        let too_many = || LoweringError::Unsupported(format!("{blocks} x {splits} blocks"));
        if fits { Ok([blocks as u32, splits as u32, 1]) } else { Err(too_many()) }
    };
    let (mut texts, mut phases) = (Vec::new(), Vec::new());
    let mut add = |kernel: Kernel<'_>, splits: usize| -> Result<(), LoweringError> {
        let symbol = kernel.symbol.clone();
        let writer = kernel.evaluator.kernel;
        if writer.workgroup_bytes() > WORKGROUP_BYTES {
            return Err(LoweringError::Unsupported(
                "reductions of one kernel beyond workgroup memory".into(),
            ));
        }
        texts.push(writer.finish());
        let block = [geometry.block_threads() as u32, 1, 1];
        phases.push(Phase { symbol, tiles: 0, grid: grid(splits)?, block });
        Ok(())
    };
    let scratch = Scratch::of(&geometry, &levels);
    if geometry.splits > 1 {
        for level in 0..levels.len() {
            let mut kernel = Kernel::new(block, &geometry, &scratch, format!("partial{level}"));
            kernel.combine_levels(&levels[..level])?;
            for accumulator in &levels[level] {
                let parts = kernel.walk_split(std::slice::from_ref(accumulator))?.remove(0);
                let parts = kernel.across_threads(accumulator, parts)?;
                kernel.leave(accumulator, &parts);
            }
            add(kernel, geometry.splits)?;
        }
    }
    let (wide, narrow) = stores(block);
    let mut kernel = Kernel::new(block, &geometry, &scratch, "row".into());
    if geometry.splits == 1 {
        kernel.start_steps();
        for level in &levels {
            kernel.reduce_level(level)?;
        }
        kernel.store_wide(&wide)?;
        if !wide.is_empty() && !narrow.is_empty() {
            // A row value's store may be in place of what others still read.
            kernel.evaluator.kernel.barrier();
        }
        kernel.store_narrow(&narrow)?;
        add(kernel, 1)?;
    } else if !wide.is_empty() {
        kernel.combine_levels(&levels)?;
        kernel.store_wide(&wide)?;
        add(kernel, geometry.splits)?;
    }
    if geometry.splits > 1 && !narrow.is_empty() {
        let mut kernel = Kernel::new(block, &geometry, &scratch, "results".into());
        kernel.combine_levels(&levels)?;
        kernel.store_narrow(&narrow)?;
        add(kernel, 1)?;
    }
    let program = Program { phases, shared_bytes: scratch.bytes as u64, worker_bytes: 0 };
    Ok(payload(&texts, program))
}

/// The reductions of a block, those of one level depending only on those of the levels before.
fn levels(block: &Block) -> Vec<Vec<Accumulator>> {
    let mut depth = vec![0usize; block.body.len()];
    let mut levels: Vec<Vec<Accumulator>> = Vec::new();
    for statement in 0..block.body.len() {
        let operands = block.body[statement].instr.operands();
        depth[statement] = operands.iter().map(|o| depth[o.0 as usize]).max().unwrap_or(0);
        if let Some(accumulator) = Accumulator::of(block, statement) {
            let level = depth[statement];
            if levels.len() <= level {
                levels.resize(level + 1, Vec::new());
            }
            levels[level].push(accumulator);
            depth[statement] = level + 1;
        }
    }
    levels
}

/// The stores of values at every point of the reduction dimensions, and those of row values.
fn stores(block: &Block) -> (Vec<&Store>, Vec<&Store>) {
    let (sets, reduction) = (block.dependences(), block.reduction_dims());
    block.stores.iter().partition(|store| {
        let walks = (0..block.domain.len()).any(|dim| reduction & (1 << dim) != 0 && store.access.uses(dim));
        walks || sets[store.value.0 as usize] & reduction != 0
    })
}

/// Where partial results are: for each reduction the offsets of its components, each an array
/// `[split][row][lane]`.
struct Scratch {
    offsets: Vec<(usize, Vec<usize>)>,
    bytes: usize,
}

impl Scratch {
    fn of(geometry: &Geometry, levels: &[Vec<Accumulator>]) -> Self {
        let mut scratch = Self { offsets: Vec::new(), bytes: 0 };
        if geometry.splits == 1 {
            return scratch;
        }
        let elements = geometry.splits * geometry.rows * geometry.result_width();
        for accumulator in levels.iter().flatten() {
            let mut offsets = Vec::new();
            for ty in accumulator.types() {
                offsets.push(scratch.bytes);
                scratch.bytes += (elements * bytes_of(memory_type(ty))).next_multiple_of(SCRATCH_ALIGNMENT);
            }
            scratch.offsets.push((accumulator.statement, offsets));
        }
        scratch
    }

    fn offsets(&self, accumulator: &Accumulator) -> &[usize] {
        let found = self.offsets.iter().find(|row| row.0 == accumulator.statement);
        found.map_or(&[], |row| &row.1)
    }
}

/// One kernel being written.
struct Kernel<'a> {
    symbol: String,
    geometry: &'a Geometry,
    scratch: &'a Scratch,
    evaluator: Evaluator<'a>,
    /// Position in the block of threads.
    thread: Value,
    /// Which of the threads that share a row this is.
    share: Value,
    /// The row, one of the domain in any case.
    row: Value,
    /// Whether the row is this thread's, where that is not certain.
    row_valid: Option<Value>,
    /// Coordinates of the row; of the reduction dimensions 0.
    origin: Vec<Value>,
    /// Row values.
    known: Environment,
    /// The steps that stay in registers, with what is known of them.
    steps: Vec<(Chunk, Environment)>,
    /// Strides of positions within the reduction dimensions.
    positions: Vec<i64>,
}

impl<'a> Kernel<'a> {
    fn new(block: &'a Block, geometry: &'a Geometry, scratch: &'a Scratch, symbol: String) -> Self {
        let mut evaluator = Evaluator::new(block, geometry.lane, &symbol);
        let thread = evaluator.kernel.thread();
        let at = evaluator.kernel.block('x');
        let zero = evaluator.zero();
        let e = evaluator.e();
        let inner = index(e, if geometry.along { geometry.threads } else { geometry.block_rows });
        let low = index_op(e, "arith.remui", &thread, &inner);
        let high = index_op(e, "arith.divui", &thread, &inner);
        let (share, in_block) = if geometry.along { (low, high) } else { (high, low) };
        let block_rows = index(e, geometry.block_rows);
        let first = index_op(e, "arith.muli", &at, &block_rows);
        let mut row = index_op(e, "arith.addi", &first, &in_block);
        let mut row_valid = None;
        if geometry.rows % geometry.block_rows != 0 {
            let last = index(e, geometry.rows - 1);
            row_valid = Some(e.op(format_args!("arith.cmpi ule, {row}, {last} : index")));
            row = index_op(e, "arith.minui", &row, &last);
        }
        let size = |dim: usize| block.domain[dim].size;
        let mut sizes: Vec<usize> = geometry.parallel.iter().map(|&dim| size(dim)).collect();
        if !geometry.along {
            sizes.push(size(geometry.lane) / geometry.width);
        }
        let mut origin = vec![zero; block.domain.len()];
        let mut at = if sizes.is_empty() { Vec::new() } else { coordinates(e, &row, &sizes) };
        if !geometry.along
            && let Some(chunk) = at.pop()
        {
            let width = index(e, geometry.width);
            origin[geometry.lane] = index_op(e, "arith.muli", &chunk, &width);
        }
        for (&dim, coordinate) in geometry.parallel.iter().zip(at) {
            origin[dim] = coordinate;
        }
        let mut positions = vec![0; block.domain.len()];
        let mut step = 1;
        for dim in (0..block.domain.len()).rev().filter(|&dim| block.domain[dim].kind == DimKind::Reduction) {
            positions[dim] = step;
            step *= size(dim) as i64;
        }
        let known = evaluator.environment();
        Self {
            symbol,
            geometry,
            scratch,
            evaluator,
            thread,
            share,
            row,
            row_valid,
            origin,
            known,
            steps: Vec::new(),
            positions,
        }
    }

    fn is_valid(&mut self, step_valid: Option<Value>) -> Option<Value> {
        match (step_valid, self.row_valid.clone()) {
            (Some(a), Some(b)) => Some(self.evaluator.e().op(format_args!("arith.andi {a}, {b} : i1"))),
            (a, b) => a.or(b),
        }
    }

    /// Step `number` of the row; `limit` is the first step beyond, if the number may reach it.
    fn step(&mut self, number: &Value, limit: Option<&Value>) -> Chunk {
        let geometry = self.geometry;
        let block = self.evaluator.block;
        let (mut number, mut valid) = (number.clone(), None);
        if let Some(limit) = limit {
            let e = self.evaluator.e();
            valid = Some(e.op(format_args!("arith.cmpi ult, {number}, {limit} : index")));
            let one = index(e, 1);
            let last = index_op(e, "arith.subi", limit, &one);
            number = index_op(e, "arith.minui", &number, &last);
        }
        let valid = self.is_valid(valid);
        let mut sizes: Vec<usize> = geometry.reduction.iter().map(|&dim| block.domain[dim].size).collect();
        if geometry.along {
            sizes.push(block.domain[geometry.lane].size / geometry.width);
        }
        let e = self.evaluator.e();
        let mut at = if sizes.is_empty() { Vec::new() } else { coordinates(e, &number, &sizes) };
        let mut place = self.origin.clone();
        if geometry.along
            && let Some(chunk) = at.pop()
        {
            let width = index(e, geometry.width);
            place[geometry.lane] = index_op(e, "arith.muli", &chunk, &width);
        }
        for (&dim, coordinate) in geometry.reduction.iter().zip(at) {
            place[dim] = coordinate;
        }
        Chunk { coordinates: place, width: geometry.width, valid }
    }

    /// The row as a chunk, for row values.
    fn row_chunk(&self) -> Chunk {
        let width = self.geometry.width;
        Chunk { coordinates: self.origin.clone(), width, valid: self.row_valid.clone() }
    }

    /// Sets up the steps that stay in registers.
    fn start_steps(&mut self) {
        let geometry = self.geometry;
        if !geometry.registers {
            return;
        }
        for part in 0..geometry.steps.div_ceil(geometry.threads) {
            let e = self.evaluator.e();
            let shift = index(e, part * geometry.threads);
            let number = index_op(e, "arith.addi", &self.share, &shift);
            let certain = (part + 1) * geometry.threads <= geometry.steps;
            let limit = if certain { None } else { Some(index(e, geometry.steps)) };
            let chunk = self.step(&number, limit.as_ref());
            self.steps.push((chunk, self.known.clone()));
        }
    }

    /// Reduces a level whose rows are not split.
    fn reduce_level(&mut self, level: &[Accumulator]) -> Result<(), LoweringError> {
        let walked =
            if self.geometry.registers { self.walk_registers(level)? } else { self.walk_split(level)? };
        for (accumulator, parts) in level.iter().zip(walked) {
            let parts = self.across_threads(accumulator, parts)?;
            self.learn(accumulator, &parts)?;
        }
        Ok(())
    }

    fn walk_registers(&mut self, level: &[Accumulator]) -> Result<Vec<Parts>, LoweringError> {
        let evaluator = &mut self.evaluator;
        let wanted: Vec<Operand> = level.iter().map(|accumulator| accumulator.operand).collect();
        for (chunk, known) in &mut self.steps {
            evaluator.load(known, chunk, &wanted);
        }
        let mut all: Vec<Parts> = level.iter().map(|a| a.start(evaluator.e(), self.geometry.width)).collect();
        for (chunk, known) in &mut self.steps {
            take(evaluator, chunk, known, level, &mut all, &self.positions)?;
        }
        Ok(all)
    }

    /// The range of steps of this block: `(first, limit)`.
    fn range(&mut self) -> (Value, Value) {
        let geometry = self.geometry;
        if geometry.splits == 1 {
            return (self.evaluator.zero(), index(self.evaluator.e(), geometry.steps));
        }
        let split = self.evaluator.kernel.block('y');
        let e = self.evaluator.e();
        let length = index(e, geometry.split_steps);
        let first = index_op(e, "arith.muli", &split, &length);
        let limit = index_op(e, "arith.addi", &first, &length);
        let steps = index(e, geometry.steps);
        (first, index_op(e, "arith.minui", &limit, &steps))
    }

    /// Opens the loop over a thread's steps and gives those of one iteration.
    fn open_steps(&mut self, carried: &[Carried]) -> (CarryingFor, Vec<Chunk>) {
        let geometry = self.geometry;
        let (first, limit) = self.range();
        let together = geometry.threads * geometry.unroll;
        let exact = geometry.steps % together == 0;
        let e = self.evaluator.e();
        let from = index_op(e, "arith.addi", &first, &self.share);
        let open = open_carrying_for(e, &from, &limit, together, carried);
        let chunks = (0..geometry.unroll)
            .map(|part| {
                let e = self.evaluator.e();
                let shift = index(e, part * geometry.threads);
                let number = index_op(e, "arith.addi", &open.variable, &shift);
                // The first one is below the limit: the loop says so.
                let certain = exact || part == 0;
                self.step(&number, if certain { None } else { Some(&limit) })
            })
            .collect();
        (open, chunks)
    }

    /// Walks over the steps of this block's part of the row.
    fn walk_split(&mut self, level: &[Accumulator]) -> Result<Vec<Parts>, LoweringError> {
        let width = self.geometry.width;
        let mut carried = Vec::new();
        for accumulator in level {
            let parts = accumulator.start(self.evaluator.e(), width);
            carried.extend(
                parts
                    .into_iter()
                    .zip(accumulator.types())
                    .map(|(value, ty)| Carried { value, ty: vector_type(width, ty) }),
            );
        }
        let (open, chunks) = self.open_steps(&carried);
        let mut values = open.carried.iter().map(|c| c.value.clone());
        let mut all: Vec<Parts> =
            level.iter().map(|a| values.by_ref().take(a.types().len()).collect()).collect();
        let evaluator = &mut self.evaluator;
        let wanted: Vec<Operand> = level.iter().map(|accumulator| accumulator.operand).collect();
        let mut environments: Vec<_> = chunks.iter().map(|_| self.known.clone()).collect();
        for (chunk, known) in chunks.iter().zip(&mut environments) {
            evaluator.load(known, chunk, &wanted);
        }
        for (chunk, known) in chunks.iter().zip(&mut environments) {
            take(evaluator, chunk, known, level, &mut all, &self.positions)?;
        }
        let next: Vec<_> = all
            .into_iter()
            .flatten()
            .zip(&carried)
            .map(|(value, carried)| Carried { value, ty: carried.ty.clone() })
            .collect();
        let mut results = open.close(evaluator.e(), &next).into_iter().map(|carried| carried.value);
        Ok(level.iter().map(|a| results.by_ref().take(a.types().len()).collect()).collect())
    }

    /// Combines what the threads that share a row have: scalars if lanes run along the row.
    fn across_threads(&mut self, accumulator: &Accumulator, parts: Parts) -> Result<Parts, LoweringError> {
        let geometry = self.geometry;
        let evaluator = &mut self.evaluator;
        if geometry.along {
            let parts = accumulator.across_lanes(evaluator.e(), geometry.width, &parts)?;
            let block = geometry.block_threads();
            accumulator.across_neighbours(evaluator, parts, geometry.threads, &self.thread, block)
        } else {
            let (width, threads, rows) = (geometry.width, geometry.threads, geometry.block_rows);
            accumulator.across_strangers(evaluator, parts, width, threads, rows, &self.thread)
        }
    }

    /// Makes a reduction's result known as the value of its statement.
    fn learn(&mut self, accumulator: &Accumulator, parts: &[Value]) -> Result<(), LoweringError> {
        let statement = accumulator.statement;
        let evaluator = &mut self.evaluator;
        let dtype = evaluator.block.body[statement].dtype;
        let types = accumulator.types();
        let width = self.geometry.width;
        let mut value = parts[parts.len() - 1].clone();
        let ty = types[types.len() - 1];
        let varies = evaluator.varies(statement);
        if !self.geometry.along && !varies {
            value = evaluator
                .e()
                .op(format_args!("vector.extract {value}[0] : {ty} from {}", vector_type(width, ty)));
        }
        let known = if !varies {
            Known::Scalar(if accumulator.is_position() {
                scalar::cast(evaluator.e(), DType::I64, dtype, &value)
            } else {
                Form::Accumulator.to_value(evaluator.e(), dtype, &value)
            })
        } else if accumulator.is_position() {
            let result = Form::Value.element(dtype);
            let cast = evaluator.lanewise(width, &[(value, "i64")], &[result], |e, position| {
                Ok(vec![scalar::cast(e, DType::I64, dtype, &position[0])])
            })?;
            Known::Lanes(cast[0].clone(), Form::Value)
        } else {
            Known::Lanes(value, Form::Accumulator)
        };
        for (_, environment) in &mut self.steps {
            environment[statement] = Some(known.clone());
        }
        self.known[statement] = Some(known);
        Ok(())
    }

    /// Address of a component of partial results: of `split`, for this row.
    fn partial(&mut self, offset: usize, split: &Value, ty: &'static str) -> Value {
        let geometry = self.geometry;
        let base = self.evaluator.kernel.scratch(offset);
        let e = self.evaluator.e();
        let rows = index(e, geometry.rows);
        let at = index_op(e, "arith.muli", split, &rows);
        let at = index_op(e, "arith.addi", &at, &self.row);
        let width = index(e, geometry.result_width());
        let at = index_op(e, "arith.muli", &at, &width);
        self.evaluator.kernel.element(&base, GLOBAL, &at, memory_type(ty))
    }

    /// Leaves this block's partial result.
    fn leave(&mut self, accumulator: &Accumulator, parts: &[Value]) {
        let width = if self.geometry.along { 0 } else { self.geometry.width };
        let split = self.evaluator.kernel.block('y');
        let first = self.first_share();
        self.evaluator.e().open(format_args!("scf.if {first} {{"));
        for ((part, ty), offset) in
            parts.iter().zip(accumulator.types()).zip(self.scratch.offsets(accumulator))
        {
            let at = self.partial(*offset, &split, ty);
            let (part, ty) = to_memory(self.evaluator.e(), part, ty, width);
            self.evaluator.e().line(format_args!("llvm.store {part}, {at} : {ty}, {GLOBAL}"));
        }
        self.evaluator.e().close("}");
    }

    /// Combines the partial results of levels.
    fn combine_levels(&mut self, levels: &[Vec<Accumulator>]) -> Result<(), LoweringError> {
        let geometry = self.geometry;
        let width = geometry.result_width();
        for accumulator in levels.iter().flatten() {
            let types = accumulator.types();
            let start = accumulator.start(self.evaluator.e(), width);
            let carried: Vec<_> = start
                .into_iter()
                .zip(&types)
                .map(|(value, ty)| Carried { value, ty: vector_type(width, ty) })
                .collect();
            let splits = index(self.evaluator.e(), geometry.splits);
            let open =
                open_carrying_for(self.evaluator.e(), &self.share, &splits, geometry.threads, &carried);
            let mut partial = Vec::new();
            for (ty, offset) in types.iter().zip(self.scratch.offsets(accumulator)) {
                let at = self.partial(*offset, &open.variable, ty);
                partial.push(read_from(self.evaluator.e(), &at, GLOBAL, ty, width));
            }
            let parts: Parts = open.carried.iter().map(|c| c.value.clone()).collect();
            let next = accumulator.take_partial(&mut self.evaluator, width, &parts, &partial)?;
            let next: Vec<_> = next
                .into_iter()
                .zip(&carried)
                .map(|(value, c)| Carried { value, ty: c.ty.clone() })
                .collect();
            let mut parts: Parts =
                open.close(self.evaluator.e(), &next).into_iter().map(|c| c.value).collect();
            let evaluator = &mut self.evaluator;
            parts = if geometry.along {
                let parts = accumulator.across_lanes(evaluator.e(), width, &parts)?;
                let block = geometry.block_threads();
                accumulator.across_neighbours(evaluator, parts, geometry.threads, &self.thread, block)?
            } else {
                let (threads, rows) = (geometry.threads, geometry.block_rows);
                accumulator.across_strangers(evaluator, parts, width, threads, rows, &self.thread)?
            };
            self.learn(accumulator, &parts)?;
        }
        Ok(())
    }

    /// Whether this thread is the first of those that share a row that is its own.
    fn first_share(&mut self) -> Value {
        let zero = self.evaluator.zero();
        let first = self.evaluator.e().op(format_args!("arith.cmpi eq, {}, {zero} : index", self.share));
        self.is_valid(Some(first.clone())).unwrap_or(first)
    }

    /// Stores row values.
    fn store_narrow(&mut self, stores: &[&Store]) -> Result<(), LoweringError> {
        if stores.is_empty() {
            return Ok(());
        }
        let first = self.first_share();
        self.evaluator.e().open(format_args!("scf.if {first} {{"));
        let chunk = Chunk { valid: None, ..self.row_chunk() };
        let mut known = self.known.clone();
        store_chunk(&mut self.evaluator, &chunk, &mut known, stores)?;
        self.evaluator.e().close("}");
        Ok(())
    }

    /// Stores values at every step of the row.
    fn store_wide(&mut self, stores: &[&Store]) -> Result<(), LoweringError> {
        if stores.is_empty() {
            return Ok(());
        }
        let wanted: Vec<Operand> = stores.iter().map(|store| store.value).collect();
        let (open, mut steps) = if self.geometry.registers {
            (None, std::mem::take(&mut self.steps))
        } else {
            let (open, chunks) = self.open_steps(&[]);
            (Some(open), chunks.into_iter().map(|chunk| (chunk, self.known.clone())).collect())
        };
        for (chunk, known) in &mut steps {
            self.evaluator.load(known, chunk, &wanted);
        }
        for (chunk, known) in &mut steps {
            store_chunk(&mut self.evaluator, chunk, known, stores)?;
        }
        if let Some(open) = open {
            open.close(self.evaluator.e(), &[]);
        }
        Ok(())
    }
}

/// Takes a chunk into the accumulators of a level.
fn take(
    evaluator: &mut Evaluator<'_>,
    chunk: &Chunk,
    known: &mut Environment,
    level: &[Accumulator],
    all: &mut [Parts],
    positions: &[i64],
) -> Result<(), LoweringError> {
    let wanted: Vec<_> = level.iter().map(|accumulator| (accumulator.operand, Form::Accumulator)).collect();
    let values = evaluator.evaluate(known, chunk, &wanted)?;
    for ((accumulator, parts), value) in level.iter().zip(all).zip(values) {
        *parts = accumulator.take(evaluator, chunk, parts, &value, positions)?;
    }
    Ok(())
}

/// Evaluates and stores values of a chunk, where it is valid.
fn store_chunk(
    evaluator: &mut Evaluator<'_>,
    chunk: &Chunk,
    known: &mut Environment,
    stores: &[&Store],
) -> Result<(), LoweringError> {
    let wanted: Vec<_> = stores.iter().map(|store| (store.value, Form::Storage)).collect();
    let values = evaluator.evaluate(known, chunk, &wanted)?;
    if let Some(valid) = &chunk.valid {
        evaluator.e().open(format_args!("scf.if {valid} {{"));
    }
    for (store, value) in stores.iter().zip(&values) {
        evaluator.store(chunk, store, value);
    }
    if chunk.valid.is_some() {
        evaluator.e().close("}");
    }
    Ok(())
}
