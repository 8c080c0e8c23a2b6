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

/// Columns that are written, and sent, at a time.
pub(super) const COLUMNS: usize = 64;

/// Elements of f32 in a line of a box: 128 bytes.
const WIDE_LINE: usize = 32;

/// What boxes of a result are, of which lines have 128 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// 64 rows by 64 columns of 16 bits.
    Halves,
    /// 64 rows by 32 columns of f32.
    Columns,
    /// 64 columns by 32 rows of f32.
    Rows,
}

impl Shape {
    /// Boxes of 64 rows by 64 columns.
    pub fn boxes(self) -> usize {
        if self == Self::Halves { 1 } else { 2 }
    }

    /// Rows and columns from one box to the next.
    pub fn apart(self) -> [usize; 2] {
        match self {
            Self::Halves => [0, 0],
            Self::Columns => [0, WIDE_LINE],
            Self::Rows => [WIDE_LINE, 0],
        }
    }
}

/// How a store is done.
#[derive(Clone, Debug)]
pub(super) struct Staged {
    /// Its tensor map.
    pub view: View,
    /// What its boxes are.
    pub shape: Shape,
    /// Number of the map among the results', and of the first box in a group of columns.
    pub map: usize,
    pub first: usize,
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
        if problem.line.is_some_and(|line| !line.is_multiple_of(COLUMNS)) {
            // Tiles of whole lines are not those of the boxes that leave by the copy engine.
            results.staged = vec![None; problem.block.stores.len()];
            results.demand.cost = cost(problem) + STORE_COST * problem.block.stores.len();
            return results;
        }
        let halves = |dtype| matches!(dtype, DType::BF16 | DType::F16);
        let mut possible: Vec<Option<Staged>> =
            problem.block.stores.iter().map(|store| staged(problem, store)).collect();
        let direct = possible.iter().filter(|staged| staged.is_none()).count();
        let cost = cost(problem) + STORE_COST * direct;
        let deferrable = cost >= LONG && halves(problem.result_type());
        // Results of one size only. A deferred epilogue has the place of one of 16 bits.
        if deferrable || possible.iter().flatten().any(|staged| staged.shape == Shape::Halves) {
            possible.iter_mut().for_each(|one| drop(one.take_if(|staged| staged.shape != Shape::Halves)));
        }
        let mut boxes = 0;
        for mut staged in possible {
            if deferrable && !results.maps.is_empty() {
                staged = None;
            }
            if let Some(staged) = &mut staged {
                (staged.map, staged.first) = (results.maps.len(), boxes);
                boxes += staged.shape.boxes();
                let line = if staged.shape == Shape::Halves { COLUMNS } else { WIDE_LINE };
                results.maps.push(staged.view.map(line, ROWS));
            }
            results.staged.push(staged);
        }
        results.demand = Demand { staged: boxes, cost, deferrable };
        results
    }
}

/// Instructions of the statements after the contraction, for an element, roughly.
fn cost(problem: &Problem<'_>) -> usize {
    let block = problem.block;
    let statements = epilogue(block, problem.contraction.statement).into_iter();
    statements.map(|statement| 2 * instruction_cost(&block.body[statement].instr)).sum()
}

/// A store of values of 16 or 32 bits, each element once, along adjacent columns, or rows if sums are in the order of
/// operands that came from registers.
fn staged(problem: &Problem<'_>, store: &Store) -> Option<Staged> {
    let block = problem.block;
    let param = &block.params[store.param.0 as usize];
    let shape = match (param.dtype, problem.left_in_registers()) {
        (DType::BF16 | DType::F16, false) => Shape::Halves,
        (DType::F32 | DType::Flex32, false) => Shape::Columns,
        (DType::F32 | DType::Flex32, true) => Shape::Rows,
        _ => return None,
    };
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
    let mut dims = if shape == Shape::Rows { vec![rows[0], columns[0]] } else { vec![columns[0], rows[0]] };
    dims.extend(columns.iter().skip(1).chain(rows.iter().skip(1)));
    dims.extend(batch);
    let view = View::new(
        store.param,
        if shape == Shape::Halves { param.dtype } else { DType::F32 },
        param.alignment,
        &dims,
    )?;
    Some(Staged { view, shape, map: 0, first: 0, rows: row_sizes, columns: column_sizes })
}
