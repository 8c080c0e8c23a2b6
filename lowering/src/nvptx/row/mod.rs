//! Blocks that reduce.
//!
//! Reductions have levels: those of one level depend on those before. For each level the threads that
//! share a row walk over its steps once; where a row is short, its values stay in registers between
//! the walks. Then results are stored. Few long rows are split over several blocks: a kernel for each
//! level leaves partial results in scratch memory, which the kernels after it combine, or for the last level the
//! last block to come. What no reduction is part of is stored on the first walk.

mod accumulator;
mod geometry;
mod kernel;
mod partial;
mod walk;

use super::payload;
use crate::nvptx::chunk::bytes_of;
use crate::{LoweringError, Payload};
use accumulator::Accumulator;
use burn_mlir_ir::{Block, COUNTER_WORDS, Instr, ParamMode, Phase, Program, Store};
use geometry::Geometry;
use kernel::Kernel;
use partial::Scratch;

/// Workgroup memory a block may have without asking the driver.
const WORKGROUP_BYTES: usize = 48 << 10;

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
        let mut writer = kernel.evaluator.kernel;
        if let Some(blocks) = geometry.resident(block) {
            writer.keep_resident(blocks);
        }
        if writer.workgroup_bytes() > WORKGROUP_BYTES {
            return Err(LoweringError::Unsupported(
                "reductions of one kernel beyond workgroup memory".into(),
            ));
        }
        texts.push(writer.finish());
        let block = [geometry.block_threads() as u32, 1, 1];
        phases.push(Phase { symbol, grid: grid(splits)?, block, ..Phase::default() });
        Ok(())
    };
    let scratch = Scratch::of(&geometry, &levels);
    let (mut wide, narrow) = stores(block);
    // What no reduction is part of need not wait for one, and is not read again.
    let mut early = Vec::new();
    if !geometry.registers {
        let reduced = reduced(block);
        let is_early = |store: &&Store| {
            let out = block.params[store.param.0 as usize].mode == ParamMode::Out;
            out && !reduced[store.value.0 as usize]
        };
        (early, wide) = wide.into_iter().partition(is_early);
    }
    // Results of one level are combined by the last block to come, if there is a counter for its rows.
    let blocks = geometry.rows.div_ceil(geometry.block_rows);
    let last = geometry.splits > 1 && levels.len() == 1 && wide.is_empty() && blocks <= COUNTER_WORDS;
    if geometry.splits > 1 {
        for level in 0..levels.len() {
            let symbol = if last { "row".into() } else { format!("partial{level}") };
            let mut kernel = Kernel::new(block, &geometry, &scratch, symbol);
            kernel.combine_levels(&levels[..level])?;
            for (number, group) in together(&levels[level], geometry.width).into_iter().enumerate() {
                let early: &[&Store] = if level == 0 && number == 0 { &early } else { &[] };
                let walked = kernel.walk_split(group, early)?;
                let edges = kernel.walk_edge(group, early)?;
                for ((accumulator, parts), edge) in group.iter().zip(walked).zip(edges) {
                    let parts = kernel.across_threads(accumulator, parts, edge)?;
                    kernel.leave(accumulator, &parts);
                }
            }
            if last && !narrow.is_empty() {
                kernel.open_last();
                kernel.combine_levels(&levels)?;
                kernel.store_narrow(&narrow)?;
                kernel.evaluator.e().close("}");
            }
            add(kernel, geometry.splits)?;
        }
    }
    if geometry.splits == 1 {
        let mut kernel = Kernel::new(block, &geometry, &scratch, "row".into());
        kernel.start_steps();
        for (number, level) in levels.iter().enumerate() {
            kernel.reduce_level(level, if number == 0 { &early } else { &[] })?;
        }
        kernel.store_wide(&wide)?;
        if !narrow.is_empty() && (!wide.is_empty() || !early.is_empty()) {
            // A row value's store may be in place of what others still read.
            kernel.evaluator.kernel.barrier();
        }
        kernel.store_narrow(&narrow)?;
        add(kernel, 1)?;
    } else if !wide.is_empty() {
        let mut kernel = Kernel::new(block, &geometry, &scratch, "row".into());
        kernel.combine_levels(&levels)?;
        kernel.store_wide(&wide)?;
        add(kernel, geometry.splits)?;
    }
    if geometry.splits > 1 && !narrow.is_empty() && !last {
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

/// Registers that accumulators of one walk may take.
const WALK_REGISTERS: usize = 48;

/// The reductions of a level that a walk takes together: as many as there are registers for.
fn together(level: &[Accumulator], width: usize) -> Vec<&[Accumulator]> {
    let registers = |accumulator: &Accumulator| {
        accumulator.types().iter().map(|ty| width * bytes_of(ty).div_ceil(4)).sum::<usize>()
    };
    let (mut groups, mut rest) = (Vec::new(), level);
    while !rest.is_empty() {
        let mut taken = 0;
        let fits = |accumulator: &&Accumulator| {
            taken += registers(accumulator);
            taken <= WALK_REGISTERS
        };
        let (group, others) = rest.split_at(rest.iter().take_while(fits).count().max(1));
        groups.push(group);
        rest = others;
    }
    groups
}

/// Which statements a reduction is part of.
fn reduced(block: &Block) -> Vec<bool> {
    let mut reduced: Vec<bool> = Vec::with_capacity(block.body.len());
    for statement in &block.body {
        let reduces = matches!(statement.instr, Instr::Reduce(..) | Instr::ArgReduce(..));
        reduced.push(reduces || statement.instr.operands().iter().any(|o| reduced[o.0 as usize]));
    }
    reduced
}

/// The stores of values at every point of the reduction dimensions, and those of row values.
fn stores(block: &Block) -> (Vec<&Store>, Vec<&Store>) {
    let (sets, reduction) = (block.dependences(), block.reduction_dims());
    block.stores.iter().partition(|store| {
        let walks = (0..block.domain.len()).any(|dim| reduction & (1 << dim) != 0 && store.access.uses(dim));
        walks || sets[store.value.0 as usize] & reduction != 0
    })
}
