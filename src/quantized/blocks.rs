//! Blocks of values that share a scale: rectangles that tile a tensor, the last of an axis perhaps cut off.

use crate::MlirTensor;
use burn_backend::quantization::QuantScheme;
use burn_mlir_ir::{DType, ReduceOp, Shape, SliceDim};
use smallvec::SmallVec;

/// The extents of a block along each axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Blocks(SmallVec<[usize; 6]>);

impl Blocks {
    /// The blocks of a scheme in a tensor of some rank; `None` if one scale is for the whole tensor.
    pub(super) fn of(scheme: &QuantScheme, rank: usize) -> Option<Self> {
        let size = scheme.block_size()?;
        Some(Self(size.to_dim_vec(rank).into_iter().map(usize::from).collect()))
    }

    /// The number of blocks along each axis of `shape`.
    pub(super) fn grid(&self, shape: &Shape) -> Shape {
        shape.iter().zip(&self.0).map(|(&extent, &block)| extent.div_ceil(block)).collect()
    }

    /// The extent along one axis.
    pub(super) fn extent(&self, axis: usize) -> usize {
        self.0.get(axis).copied().unwrap_or(1)
    }

    /// One value a block: a reduction of each. `tensor` is filled up with zeros to whole blocks.
    pub(super) fn reduce(&self, tensor: &MlirTensor, op: ReduceOp) -> MlirTensor {
        let shape = tensor.ir_shape();
        let grid = self.grid(&shape);
        let lacking = |axis: usize| grid[axis] * self.0[axis] - shape[axis];
        let pads: SmallVec<[(usize, usize); 6]> = (0..shape.rank()).map(|axis| (0, lacking(axis))).collect();
        let one = Shape::new(shape.iter().map(|_| 1));
        let zero = MlirTensor::constant(tensor.device, 0.0, tensor.dtype, one);
        let mut split = Shape::default();
        let mut inner: SmallVec<[usize; 6]> = SmallVec::new();
        for (axis, &block) in self.0.iter().enumerate() {
            split.0.push(grid[axis]);
            if block > 1 {
                inner.push(split.rank());
                split.0.push(block);
            }
        }
        tensor.pad_with(&pads, &zero).reshape(split).reduce(op, &inner).reshape(grid)
    }

    /// Each value of `scales`, one a block, at every element of its block: a tensor of `shape`.
    pub(super) fn spread(&self, scales: &MlirTensor, shape: &Shape) -> MlirTensor {
        let grid = scales.ir_shape();
        let (mut split, mut repeated, mut whole) = (Shape::default(), Shape::default(), Shape::default());
        for (axis, &block) in self.0.iter().enumerate() {
            // One block is as long as the axis.
            let block = if grid[axis] == 1 { shape[axis] } else { block };
            split.0.push(grid[axis]);
            repeated.0.push(grid[axis]);
            if block > 1 {
                split.0.push(1);
                repeated.0.push(block);
            }
            whole.0.push(grid[axis] * block);
        }
        let mut result = scales.reshape(split).expand(&repeated).reshape(whole);
        for axis in 0..shape.rank() {
            result = result.narrow(axis, 0, shape[axis]);
        }
        result
    }

    /// Which blocks a slice takes, if its blocks are theirs.
    pub(super) fn sliced(&self, shape: &Shape, dims: &[SliceDim]) -> Option<SmallVec<[SliceDim; 6]>> {
        let of_axis = |axis: usize| {
            let (dim, block) = (dims[axis], self.0[axis]);
            let last = dim.start as i64 + (dim.size as i64 - 1).max(0) * dim.step;
            let first_block = dim.start / block;
            let count = dim.size.div_ceil(block);
            if block == 1 {
                return Some(dim);
            }
            if dim.size == 0 {
                return Some(SliceDim { start: 0, size: 0, step: 1 });
            }
            // All of one block, in any order.
            if count == 1 && last as usize / block == first_block {
                return Some(SliceDim { start: first_block, size: 1, step: 1 });
            }
            match dim.step {
                1 if dim.start.is_multiple_of(block) => {
                    Some(SliceDim { start: first_block, size: count, step: 1 })
                }
                -1 if (dim.start + 1).is_multiple_of(block) => {
                    Some(SliceDim { start: first_block, size: count, step: -1 })
                }
                _ => None,
            }
        };
        (0..shape.rank()).map(of_axis).collect()
    }

    /// Whether values of shape `from` have the same blocks, in the same order, as these blocks make in `to`.
    /// `rank` is the number of axes that blocks have an extent along.
    pub(super) fn survive_reshape(rank: usize, from: (&Shape, &Self), to: (&Shape, &Self)) -> bool {
        let Some(inner) = rank.checked_sub(1) else { return true };
        let tail = |shape: &Shape| -> Option<(usize, Shape)> {
            let at = shape.rank().checked_sub(inner + 1)?;
            Some((shape[at], shape[at + 1..].iter().copied().collect()))
        };
        let (Some((a, rest)), Some((b, other))) = (tail(from.0), tail(to.0)) else {
            return false;
        };
        let block = from.1.0[from.0.rank() - rank];
        rest == other
            && (a == b || a.is_multiple_of(block) && b.is_multiple_of(block))
            && from.1.0[from.0.rank() - rank..] == to.1.0[to.0.rank() - rank..]
    }
}

/// The largest magnitude in each block, or of all: what is not a number does not count.
pub(super) fn peaks(tensor: &MlirTensor, blocks: Option<&Blocks>) -> MlirTensor {
    let magnitude = tensor.cast(DType::F32).abs();
    let is_nan = magnitude.unary(burn_mlir_ir::UnaryOp::IsNan);
    let magnitude = is_nan.select(&magnitude.constant_like(0.0), &magnitude);
    let peaks = match blocks {
        Some(blocks) => blocks.reduce(&magnitude, ReduceOp::Max),
        None => magnitude.reduce_all(ReduceOp::Max),
    };
    // The maximum of nothing is less.
    peaks.at_least(0.0)
}
