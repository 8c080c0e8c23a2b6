//! Which results leave by the copy engine, through workgroup memory, and how.

use super::plan::{Demand, ROWS};
use super::problem::Problem;
use super::view::{Axis, Dim, View, runs};
use crate::contraction::{Group, epilogue};
use crate::host::instruction_cost;
use burn_mlir_ir::{DType, DimKind, Store, TensorMap};

/// Instructions for an element from which on an epilogue is long.
const LONG: usize = 4;

/// Instructions for an element that each thread stores itself.
const STORE_COST: usize = 6;

/// Columns of a box of a result of 16 bits: 128 bytes.
pub(super) const COLUMNS: usize = 64;

/// How a store is done.
#[derive(Clone, Debug)]
pub(super) struct Staged {
    /// Its tensor map.
    pub view: View,
    /// Number of the map among the results'.
    pub map: usize,
    /// Extents of the runs that rows and columns are walked in, outermost first.
    pub rows: Vec<usize>,
    pub columns: Vec<usize>,
}

/// How the stores of a block are done.
#[derive(Clone, Debug, Default)]
pub(super) struct Results {
    /// For each store, how it is staged in workgroup memory; nothing if each thread stores its own elements.
    pub staged: Vec<Option<Staged>>,
    /// The tensor maps of those that are.
    pub maps: Vec<TensorMap>,
    /// What is asked of the plan.
    pub demand: Demand,
}

impl Results {
    /// Decides for all stores.
    pub fn of(problem: &Problem<'_>) -> Self {
        let mut results = Self::default();
        if problem.line.is_some() {
            // Tiles of whole lines are not those of the boxes that leave by the copy engine.
            results.staged = vec![None; problem.block.stores.len()];
            results.demand.cost = cost(problem) + STORE_COST * problem.block.stores.len();
            return results;
        }
        let direct = problem.block.stores.iter().filter(|store| staged(problem, store).is_none()).count();
        let cost = cost(problem) + STORE_COST * direct;
        let deferrable = cost >= LONG && matches!(problem.result_type(), DType::BF16 | DType::F16);
        for store in &problem.block.stores {
            // A deferred epilogue has the place of one result.
            let room = !deferrable || results.maps.is_empty();
            let mut staged = room.then(|| staged(problem, store)).flatten();
            if let Some(staged) = &mut staged {
                staged.map = results.maps.len();
                results.maps.push(staged.view.map(COLUMNS, ROWS));
            }
            results.staged.push(staged);
        }
        results.demand = Demand { staged: results.maps.len(), cost, deferrable };
        results
    }
}

/// Instructions of the statements after the contraction, for an element, roughly.
fn cost(problem: &Problem<'_>) -> usize {
    let block = problem.block;
    let statements = epilogue(block, problem.contraction.statement).into_iter();
    statements.map(|statement| 2 * instruction_cost(&block.body[statement].instr)).sum()
}

/// A store of 16-bit values along adjacent columns, each element once.
fn staged(problem: &Problem<'_>, store: &Store) -> Option<Staged> {
    let block = problem.block;
    let param = &block.params[store.param.0 as usize];
    // Sums of operands from registers are in rows of their own.
    if !matches!(param.dtype, DType::BF16 | DType::F16) || problem.left_in_registers() {
        return None;
    }
    let mut parallel = block.domain.iter().enumerate().filter(|(_, d)| d.kind == DimKind::Parallel);
    if parallel.any(|(dim, d)| d.size > 1 && store.access.strides[dim] == 0) {
        return None;
    }
    let side = |group: &Group, boxed: usize, axis: fn(usize) -> Axis| -> Option<(Vec<Dim>, Vec<usize>)> {
        let runs = runs(group, &[&store.access]);
        let sizes: Vec<usize> = runs.iter().map(super::problem::points).collect();
        // A box is in one run.
        if sizes.len() > 1 && !sizes[sizes.len() - 1].is_multiple_of(boxed) {
            return None;
        }
        let dims = runs.iter().zip(&sizes).enumerate().rev().map(|(position, (run, &size))| Dim {
            axis: axis(position),
            size,
            stride: run.dims.last().map_or(0, |&d| store.access.strides[d]),
        });
        Some((dims.collect(), sizes))
    };
    let (columns, column_sizes) = side(&problem.columns, COLUMNS, Axis::Column)?;
    let (rows, row_sizes) = side(&problem.rows, ROWS, Axis::Row)?;
    let batch = problem.batch.dims.iter().zip(&problem.batch.sizes).enumerate().rev();
    let batch = batch.map(|(position, (&d, &size))| Dim {
        axis: Axis::Batch(position),
        size,
        stride: store.access.strides[d],
    });
    let mut dims = vec![columns[0], rows[0]];
    dims.extend(columns.iter().skip(1).chain(rows.iter().skip(1)));
    dims.extend(batch);
    let view = View::new(store.param, param.dtype, param.alignment, &dims)?;
    Some(Staged { view, map: 0, rows: row_sizes, columns: column_sizes })
}
