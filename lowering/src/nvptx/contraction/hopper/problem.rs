//! A contraction as products of matrices that the copy engine can walk.

use super::packing::{self, Packing};
use super::view::{Axis, Dim, View, runs};
use crate::contraction::{Contraction, Factor, Group};
use burn_mlir_ir::{Access, Block, DType, Param};

/// In which direction the elements of an operand are adjacent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Major {
    /// Along the sum.
    Sum,
    /// Along rows or columns.
    Side,
}

/// Columns one matrix instruction takes, at most.
const MAX_COLUMNS: usize = 256;

/// An operand.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    pub view: View,
    pub major: Major,
    /// How it is copied to where the view is, if it is.
    pub packing: Option<Packing>,
}

/// A batch of matrix products.
#[derive(Clone, Debug)]
pub(super) struct Problem<'a> {
    pub block: &'a Block,
    /// Rows and columns may have changed places.
    pub contraction: Contraction,
    /// Type of the operands in memory; `Flex32` for f32 that is multiplied as TF32.
    pub element: DType,
    /// Dimensions outside the tiles: those of the batch, and those of a side that are not part of its run.
    pub batch: Group,
    /// Rows and columns of the matrices.
    pub rows: Group,
    pub columns: Group,
    /// Columns of a line, if the right operand walks the columns in lines: tiles have whole ones.
    pub line: Option<usize>,
    /// Summed dimensions outside the summed run.
    pub outer: Group,
    /// The summed run.
    pub sum: Group,
    pub left: Operand,
    pub right: Operand,
}

/// Number of points.
pub(super) fn points(group: &Group) -> usize {
    group.sizes.iter().product()
}

impl<'a> Problem<'a> {
    /// A contraction in these terms, or nothing if it cannot be.
    pub fn of(block: &'a Block, contraction: &Contraction) -> Option<Self> {
        let element = element(block, contraction)?;
        let best = |contraction: &Contraction, pack| Self::best(block, contraction, element, pack);
        // TF32 that is adjacent along columns goes to the matrix unit as rows.
        let other = || (element == DType::Flex32).then(|| best(&swapped(contraction), false)).flatten();
        best(contraction, false).or_else(other).or_else(|| best(contraction, true))
    }

    /// The operands, left first.
    pub fn operands(&mut self) -> [&mut Operand; 2] {
        [&mut self.left, &mut self.right]
    }

    /// Type of the contraction's value.
    pub fn result_type(&self) -> DType {
        self.block.body[self.contraction.statement.0 as usize].dtype
    }

    /// Whether the left operand is multiplied from registers.
    pub fn left_in_registers(&self) -> bool {
        self.element == DType::Flex32 && self.left.major == Major::Side
    }

    /// The choice of runs that leaves the least work; operands may be copied if `pack`.
    fn best(block: &'a Block, contraction: &Contraction, element: DType, pack: bool) -> Option<Self> {
        let (left, right) = (&contraction.left, &contraction.right);
        let row_runs = runs(&contraction.rows, &[&left.access]);
        let column_runs = runs(&contraction.columns, &[&right.access]);
        let sum_runs = runs(&contraction.sum, &[&left.access, &right.access]);
        let mut best: Option<(usize, Self)> = None;
        let lines = (1..column_runs.len()).map(|outer| (outer - 1, 2));
        // Lines win where they are no more work than what is in one run.
        let column_parts: Vec<_> = (0..column_runs.len()).map(|run| (run, 1)).chain(lines).collect();
        for sum in 0..sum_runs.len() {
            for rows in 0..row_runs.len() {
                for &(first, count) in &column_parts {
                    let cut =
                        (rest(&row_runs, rows, 1), rest(&column_runs, first, count), rest(&sum_runs, sum, 1));
                    let columns = &column_runs[first..first + count];
                    let parts = (&row_runs[rows], columns, &sum_runs[sum]);
                    let problem = Self::cut(block, contraction, element, cut, parts, pack);
                    let Some(problem) = problem else { continue };
                    let work = problem.work();
                    if best.as_ref().is_none_or(|(least, _)| work <= *least) {
                        best = Some((work, problem));
                    }
                }
            }
        }
        best.map(|(_, problem)| problem)
    }

    fn cut(
        block: &'a Block,
        contraction: &Contraction,
        element: DType,
        (row_rest, column_rest, outer): (Group, Group, Group),
        (rows, column_parts, sum): (&Group, &[Group], &Group),
        pack: bool,
    ) -> Option<Self> {
        let columns = column_parts.iter().fold(Group { dims: vec![], sizes: vec![] }, |mut all, part| {
            all.dims.extend(&part.dims);
            all.sizes.extend(&part.sizes);
            all
        });
        let line = (column_parts.len() > 1).then(|| points(&column_parts[column_parts.len() - 1]));
        if line.is_some_and(|line| line_tiles(line).next().is_none()) {
            return None;
        }
        let mut batch = contraction.batch.clone();
        for rest in [row_rest, column_rest] {
            batch.dims.extend(rest.dims);
            batch.sizes.extend(rest.sizes);
        }
        // Matrix instructions take TF32 from workgroup memory along the sum only.
        let single = element == DType::Flex32;
        let operand =
            |factor: &Factor, side: &[Group], reuse: usize, only_along_sum: bool| -> Option<Operand> {
                let param = &block.params[factor.param.0 as usize];
                let dim = |group: &Group, axis| Dim {
                    axis,
                    size: points(group),
                    stride: group.dims.last().map_or(0, |&d| factor.access.strides[d]),
                };
                let sum = dim(sum, Axis::Sum);
                let others: Vec<Dim> = dims(&batch, &factor.access, Axis::Batch)
                    .chain(dims(&outer, &factor.access, Axis::Outer))
                    .collect();
                let dtype = if single { element } else { param.dtype };
                let walked = |first: &[Dim]| {
                    let dims: Vec<Dim> = first.iter().chain(&others).copied().collect();
                    View::new(factor.param, dtype, param.alignment, &dims)
                };
                let view = |first: Dim, second: Dim| walked(&[first, second]);
                let direct =
                    |view: Option<View>, major| view.map(|view| Operand { view, major, packing: None });
                if let [lines, line] = side {
                    let view = walked(&[sum, dim(line, Axis::InLine), dim(lines, Axis::Line)]);
                    return direct(view, Major::Sum);
                }
                let side = dim(side.first()?, Axis::Side);
                let along_side = || direct((!only_along_sum).then(|| view(side, sum)).flatten(), Major::Side);
                direct(view(sum, side), Major::Sum).or_else(along_side).or_else(|| {
                    if !pack || reuse < packing::REUSE {
                        return None;
                    }
                    let copy = Packing::of(block, factor.param, dtype, [sum, side], &others, single);
                    copy.map(|(packing, view, major)| Operand { view, major, packing: Some(packing) })
                })
            };
        let left = operand(&contraction.left, std::slice::from_ref(rows), points(&columns), false)?;
        let right = operand(&contraction.right, column_parts, points(rows), single)?;
        Some(Self {
            block,
            contraction: contraction.clone(),
            element,
            rows: rows.clone(),
            columns,
            line,
            sum: sum.clone(),
            batch,
            outer,
            left,
            right,
        })
    }

    /// Elements of all matrix products, where tiles are not cut; twice as many if results are scattered.
    fn work(&self) -> usize {
        let tile = self.line.and_then(|line| line_tiles(line).next()).unwrap_or(64);
        let padded = |group: &Group, tile: usize| points(group).next_multiple_of(tile);
        let matrix = padded(&self.rows, 64) * padded(&self.columns, tile) * padded(&self.sum, 64);
        let mut sides = self.rows.dims.iter().chain(&self.columns.dims);
        let adjacent = |dim: &usize| self.block.stores.iter().any(|store| store.access.strides[*dim] == 1);
        let scattered = !sides.any(adjacent);
        matrix * points(&self.batch) * points(&self.outer) * if scattered { 2 } else { 1 }
    }
}

/// Columns of tiles of whole lines, most first.
pub(super) fn line_tiles(line: usize) -> impl Iterator<Item = usize> {
    (1..=MAX_COLUMNS / line).rev().map(move |lines| lines * line).filter(|columns| columns.is_multiple_of(8))
}

/// The same contraction with rows and columns in each other's place.
fn swapped(contraction: &Contraction) -> Contraction {
    let mut other = contraction.clone();
    std::mem::swap(&mut other.rows, &mut other.columns);
    std::mem::swap(&mut other.left, &mut other.right);
    other
}

/// The dimensions of a group as a view walks them, innermost first.
fn dims<'a>(
    group: &'a Group,
    access: &'a Access,
    axis: impl Fn(usize) -> Axis + 'a,
) -> impl Iterator<Item = Dim> + 'a {
    let sizes = group.dims.iter().zip(&group.sizes).enumerate().rev();
    sizes.map(move |(position, (&d, &size))| Dim { axis: axis(position), size, stride: access.strides[d] })
}

/// All runs but `count` from `first` on, as one group.
fn rest(runs: &[Group], first: usize, count: usize) -> Group {
    let mut group = Group { dims: vec![], sizes: vec![] };
    for run in runs[..first].iter().chain(&runs[first + count..]) {
        group.dims.extend(&run.dims);
        group.sizes.extend(&run.sizes);
    }
    group
}

/// The type in which the operands go to the matrix unit, if it multiplies what the block asks for.
fn element(block: &Block, contraction: &Contraction) -> Option<DType> {
    let result = block.body[contraction.statement.0 as usize].dtype;
    let param = |factor: &Factor| -> &Param { &block.params[factor.param.0 as usize] };
    let (left, right) = (&contraction.left, &contraction.right);
    let dtype = param(left).dtype;
    if dtype != param(right).dtype || [left, right].iter().any(|factor| factor.types[0] != dtype) {
        return None;
    }
    let single = |dtype: DType| matches!(dtype, DType::F32 | DType::Flex32);
    let types = left.types.iter().chain(&right.types);
    match dtype {
        // Products of these are exact in f32.
        DType::BF16 | DType::F16 => {
            let exact = types.into_iter().all(|&t| t == dtype || single(t));
            (exact && (result == dtype || single(result))).then_some(dtype)
        }
        DType::F32 | DType::Flex32 => {
            (result == DType::Flex32 && types.into_iter().all(|&t| single(t))).then_some(DType::Flex32)
        }
        _ => None,
    }
}
