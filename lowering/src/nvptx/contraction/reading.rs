//! How an operand is read from global memory: in chunks along the sum or along its rows (or columns), by
//! accesses as wide as alignment and strides allow.

use crate::contraction::{Contraction, Factor, Group};
use crate::types::same_value;
use burn_mlir_ir::{Block, DType};

/// Bytes of a chunk in workgroup memory: what one instruction reads there.
pub(super) const CHUNK_BYTES: usize = 16;

/// How one operand is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// Whether chunks run along the sum.
    pub along_sum: bool,
    /// Consecutive elements that one access reads: a power of two that divides every run of them.
    pub piece: usize,
    /// Whether what is read is copied as it is, in accesses the copy instruction knows.
    pub direct: bool,
}

/// One side's operand, and the group of dimensions it has to itself.
pub(super) fn operand(contraction: &Contraction, left: bool) -> (&Factor, &Group) {
    if left { (&contraction.left, &contraction.rows) } else { (&contraction.right, &contraction.columns) }
}

impl Reading {
    /// Of the left or the right operand, which is kept as `kept` in workgroup memory.
    pub fn of(block: &Block, contraction: &Contraction, left: bool, kept: DType) -> Self {
        let (factor, group) = operand(contraction, left);
        let along_sum = Self::along(block, contraction, factor, &contraction.sum, [group], kept);
        let along_group = Self::along(block, contraction, factor, group, [&contraction.sum], kept);
        let step = |group: &Group| match group.inner(&factor.access).stride.unsigned_abs() {
            0 => u64::MAX,
            step => step,
        };
        // With nothing to choose between them, neighbours should at least be close.
        let closer = step(&contraction.sum) < step(group);
        let sum_first = along_sum > along_group || along_sum == along_group && closer;
        let piece = along_sum.max(along_group);
        let stored = factor.types[0];
        let read = &factor.types[..factor.types.len() - 1];
        let same = read.iter().all(|&dtype| same_value(dtype, kept));
        Self { along_sum: sum_first, piece, direct: same && piece * stored.size() >= 4 }
    }

    /// Elements of the widest access along the innermost run of `group`.
    fn along(
        block: &Block,
        contraction: &Contraction,
        factor: &Factor,
        group: &Group,
        others: [&Group; 1],
        kept: DType,
    ) -> usize {
        let walks = group.walks(&factor.access);
        let (run, outer) = walks.split_last().expect("walks are never empty");
        if run.stride != 1 {
            return 1;
        }
        let size = factor.types[0].size();
        let steps =
            others.into_iter().chain([&contraction.batch]).flat_map(|group| group.walks(&factor.access));
        let steps = steps.chain(outer.iter().copied()).filter(|walk| walk.size > 1 && walk.stride != 0);
        let alignment = block.params[factor.param.0 as usize].alignment.min(CHUNK_BYTES);
        let alignment = steps.fold(alignment, |alignment, walk| {
            alignment.min(1 << (walk.stride.unsigned_abs() as usize * size).trailing_zeros().min(4))
        });
        let widest = (alignment / size).max(1).min(CHUNK_BYTES / kept.size());
        widest.min(1 << run.size.trailing_zeros().min(4))
    }
}
