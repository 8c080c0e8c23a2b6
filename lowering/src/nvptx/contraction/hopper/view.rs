//! How the copy engine walks over an operand or a result.

use crate::contraction::Group;
use burn_mlir_ir::{Access, DType, ParamId, Swizzle, TensorMap};

/// Dimensions of a tensor map, at most.
const MAX_RANK: usize = 5;

/// Extents and strides a tensor map can have, less than.
const SIZE_LIMIT: i64 = 1 << 31;
const STRIDE_LIMIT: i64 = 1 << 40;

/// Bytes addresses and strides are multiples of.
const ALIGNMENT: usize = 16;

/// What a coordinate of a tensor map counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Axis {
    /// Rows or columns of an operand.
    Side,
    /// The same where a tile has whole lines of them: lines, and points in a line.
    Line,
    InLine,
    /// Rows or columns of a result: the `part`-th of the runs they are walked in, outermost first.
    Row(usize),
    Column(usize),
    /// Summed points.
    Sum,
    /// A dimension of the batch, by position.
    Batch(usize),
    /// A dimension of the sum outside the summed run, by position.
    Outer(usize),
    /// Nothing: there is one element.
    One,
}

/// A view of an operand, without the extents of its boxes.
#[derive(Clone, Debug)]
pub(super) struct View {
    param: ParamId,
    /// Bytes from its address to the first element.
    pub offset: usize,
    pub dtype: DType,
    /// What each coordinate counts, innermost first.
    pub axes: Vec<Axis>,
    sizes: Vec<u64>,
    strides: Vec<u64>,
}

/// One dimension to be walked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dim {
    pub axis: Axis,
    pub size: usize,
    pub stride: i64,
}

impl View {
    /// A view that walks `dims`, of which the first must have adjacent elements, or why there is none.
    /// Dimensions along which nothing moves take no coordinate, but the first two always do.
    pub fn new(param: ParamId, dtype: DType, alignment: usize, dims: &[Dim]) -> Option<Self> {
        if !alignment.is_multiple_of(ALIGNMENT) {
            return None;
        }
        let mut view = Self { param, offset: 0, dtype, axes: vec![], sizes: vec![], strides: vec![] };
        for (position, dim) in dims.iter().enumerate() {
            let moves = dim.size > 1 && dim.stride != 0;
            if position >= 2 && !moves {
                continue;
            }
            if dim.size > 1 && dim.stride <= 0 {
                return None;
            }
            let (size, mut bytes) = (dim.size as i64, dim.stride * dtype.size() as i64);
            if position == 0 {
                if dim.size > 1 && dim.stride != 1 {
                    return None;
                }
            } else {
                if dim.size <= 1 {
                    bytes = (dims[0].size * dtype.size()).next_multiple_of(ALIGNMENT) as i64;
                }
                view.strides.push(bytes as u64);
            }
            let fits = position == 0 || bytes % ALIGNMENT as i64 == 0 && bytes < STRIDE_LIMIT;
            if !fits || size >= SIZE_LIMIT {
                return None;
            }
            // Boxes of a result that start behind its only row or column must miss it.
            let counts = matches!(dim.axis, Axis::Line | Axis::InLine | Axis::Row(_) | Axis::Column(_));
            let moves = dim.size > 1 || counts;
            view.axes.push(if moves { dim.axis } else { Axis::One });
            view.sizes.push(size as u64);
        }
        (view.axes.len() <= MAX_RANK).then_some(view)
    }

    /// The tensor map with boxes of `inner` by `outer` elements along the first two dimensions; of whole lines, if
    /// the second one is [in lines](Axis::InLine), the third counting them.
    pub fn map(&self, inner: usize, outer: usize) -> TensorMap {
        let line = if self.axes.get(1) == Some(&Axis::InLine) { self.sizes[1] as usize } else { outer };
        let extents = [inner, line, outer / line].into_iter().map(|extent| extent as u32);
        let extents = extents.chain(std::iter::repeat(1));
        TensorMap {
            param: self.param.0,
            offset: self.offset as u64,
            dtype: self.dtype,
            sizes: self.sizes.iter().copied().collect(),
            strides: self.strides.iter().copied().collect(),
            box_sizes: extents.take(self.sizes.len()).collect(),
            swizzle: Swizzle::Bytes128,
        }
    }
}

/// Cuts a group into the runs that every one of `accesses` walks with a single stride, outermost first.
/// Never empty.
pub(super) fn runs(group: &Group, accesses: &[&Access]) -> Vec<Group> {
    let mut runs: Vec<Group> = Vec::new();
    for (position, (&dim, &size)) in group.dims.iter().zip(&group.sizes).enumerate() {
        let continues = position > 0 && {
            let before = group.dims[position - 1];
            accesses.iter().all(|access| access.strides[before] == access.strides[dim] * size as i64)
        };
        match runs.last_mut() {
            Some(run) if continues => {
                run.dims.push(dim);
                run.sizes.push(size);
            }
            _ => runs.push(Group { dims: vec![dim], sizes: vec![size] }),
        }
    }
    if runs.is_empty() {
        runs.push(Group { dims: vec![], sizes: vec![] });
    }
    runs
}
