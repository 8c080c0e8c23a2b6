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
        for sum in 0..sum_runs.len() {
            for rows in 0..row_runs.len() {
                for columns in 0..column_runs.len() {
                    let cut = (rest(&row_runs, rows), rest(&column_runs, columns), rest(&sum_runs, sum));
                    let parts = [&row_runs[rows], &column_runs[columns], &sum_runs[sum]];
                    let problem = Self::cut(block, contraction, element, cut, parts, pack);
                    let Some(problem) = problem else { continue };
                    let work = problem.padded_work();
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
        [rows, columns, sum]: [&Group; 3],
        pack: bool,
    ) -> Option<Self> {
        let mut batch = contraction.batch.clone();
        for rest in [row_rest, column_rest] {
            batch.dims.extend(rest.dims);
            batch.sizes.extend(rest.sizes);
        }
        // Matrix instructions take TF32 from workgroup memory along the sum only.
        let single = element == DType::Flex32;
        let operand =
            |factor: &Factor, side: &Group, reuse: usize, only_along_sum: bool| -> Option<Operand> {
                let param = &block.params[factor.param.0 as usize];
                let dim = |group: &Group, axis| Dim {
                    axis,
                    size: points(group),
                    stride: group.dims.last().map_or(0, |&d| factor.access.strides[d]),
                };
                let (side, sum) = (dim(side, Axis::Side), dim(sum, Axis::Sum));
                let others: Vec<Dim> = dims(&batch, &factor.access, Axis::Batch)
                    .chain(dims(&outer, &factor.access, Axis::Outer))
                    .collect();
                let dtype = if single { element } else { param.dtype };
                let view = |first: Dim, second: Dim| {
                    let dims: Vec<Dim> = [first, second].into_iter().chain(others.iter().copied()).collect();
                    View::new(factor.param, dtype, param.alignment, &dims)
                };
                let direct =
                    |view: Option<View>, major| view.map(|view| Operand { view, major, packing: None });
                let along_side = || direct((!only_along_sum).then(|| view(side, sum)).flatten(), Major::Side);
                direct(view(sum, side), Major::Sum).or_else(along_side).or_else(|| {
                    if !pack || reuse < packing::REUSE {
                        return None;
                    }
                    let copy = Packing::of(block, factor.param, dtype, [sum, side], &others, single);
                    copy.map(|(packing, view, major)| Operand { view, major, packing: Some(packing) })
                })
            };
        let left = operand(&contraction.left, rows, points(columns), false)?;
        let right = operand(&contraction.right, columns, points(rows), single)?;
        Some(Self {
            block,
            contraction: contraction.clone(),
            element,
            rows: rows.clone(),
            columns: columns.clone(),
            sum: sum.clone(),
            batch,
            outer,
            left,
            right,
        })
    }

    /// Elements of all matrix products, where tiles of 64 are not cut.
    fn padded_work(&self) -> usize {
        let padded = |group: &Group| points(group).next_multiple_of(64);
        [&self.rows, &self.columns, &self.sum].map(padded).iter().product::<usize>()
            * points(&self.batch)
            * points(&self.outer)
    }
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

/// All runs but one, as one group.
fn rest(runs: &[Group], without: usize) -> Group {
    let mut group = Group { dims: vec![], sizes: vec![] };
    for run in runs.iter().enumerate().filter(|(position, _)| *position != without).map(|(_, run)| run) {
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
