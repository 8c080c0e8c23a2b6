//! How the copy engine of a GPU walks a buffer.

use crate::DType;
use smallvec::SmallVec;

/// A view of a buffer parameter for bulk tensor copies (TMA, from `sm_90` on): boxes of it are copied to
/// and from the memory of a block of threads. The runtime encodes it with `cuTensorMapEncodeTiled`.
///
/// Dimensions go from the innermost, whose elements are adjacent, outwards; there are one to five. What a box
/// covers outside the view is read as zeros and not written. A box starts at a multiple of 16 bytes in the innermost
/// dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorMap {
    /// Which buffer parameter; the number of buffer parameters stands for the launch's scratch.
    pub param: u32,
    /// Bytes from there to the first element; what results is an address that is a multiple of 16.
    pub offset: u64,
    /// Element type: `F16`, `BF16`, `F32`, or `Flex32` for f32 rounded to TF32 on the way.
    pub dtype: DType,
    /// Extents in elements.
    pub sizes: SmallVec<[u64; 5]>,
    /// Bytes between neighbours, for every dimension but the innermost; multiples of 16.
    pub strides: SmallVec<[u64; 4]>,
    /// Extents of a box in elements, at most 256 each; its innermost row has at most [`Swizzle::bytes`] bytes.
    pub box_sizes: SmallVec<[u32; 5]>,
    /// How rows are laid out in the memory of the block.
    pub swizzle: Swizzle,
}

/// Permutation of the 16-byte pieces of a box in the memory of a block of threads, against bank conflicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Swizzle {
    /// As they come.
    #[default]
    None,
    /// Within rows of 32 bytes.
    Bytes32,
    /// Within rows of 64 bytes.
    Bytes64,
    /// Within rows of 128 bytes.
    Bytes128,
}

impl Swizzle {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::None, Self::Bytes32, Self::Bytes64, Self::Bytes128];

    /// Bytes of the rows that are permuted; without a permutation, of the longest row possible.
    pub fn bytes(self) -> usize {
        match self {
            Self::None => 1024,
            Self::Bytes32 => 32,
            Self::Bytes64 => 64,
            Self::Bytes128 => 128,
        }
    }
}
