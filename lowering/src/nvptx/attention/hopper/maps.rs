//! The views through which the copy engine moves queries, keys, values and the result.

use super::tiling::Tiling;
use burn_mlir_ir::{Attention, AttentionOperand, Swizzle, TensorMap};

/// What the copy engine moves, in the order of its maps.
pub(super) const MOVED: [AttentionOperand; 4] =
    [AttentionOperand::Query, AttentionOperand::Key, AttentionOperand::Value, AttentionOperand::Output];

/// Columns of a box: a row of 128 bytes, within which 16-byte pieces are permuted.
pub(super) const BOX_COLUMNS: usize = 64;

/// Bytes between neighbours along an axis of one element: anything that is allowed.
const ANY_STRIDE: u64 = 16;

/// A map, and whether it has more than one element along batch and heads.
pub(super) struct Moved {
    pub map: TensorMap,
    pub walks: [bool; 2],
}

/// The map of one of [`MOVED`].
pub(super) fn moved(attention: &Attention, tiling: &Tiling, operand: AttentionOperand) -> Option<Moved> {
    let param = attention.position(operand)? as u32;
    let (shape, view) = (attention.operand_shape(operand), attention.view(operand)?);
    let element = attention.dtype.size() as u64;
    let strides = &view.access.strides;
    // Neighbours that are one element are one coordinate; rows are cut off where they end, also a single one.
    let walks = [0, 1].map(|axis| shape[axis] > 1 && strides[axis] != 0);
    let outer = [shape[2], if walks[1] { shape[1] } else { 1 }, if walks[0] { shape[0] } else { 1 }];
    let apart = [2, 1, 0].map(|axis| match strides[axis] as u64 * element {
        0 => ANY_STRIDE,
        stride => stride,
    });
    let rows = match operand {
        AttentionOperand::Query => tiling.queries(),
        AttentionOperand::Output => 64,
        _ => tiling.keys,
    };
    let map = TensorMap {
        param,
        offset: 0,
        dtype: attention.dtype,
        sizes: std::iter::once(shape[3]).chain(outer).map(|size| size as u64).collect(),
        strides: apart.into_iter().collect(),
        box_sizes: [BOX_COLUMNS as u32, rows as u32, 1, 1].into_iter().collect(),
        swizzle: Swizzle::Bytes128,
    };
    Some(Moved { map, walks })
}
