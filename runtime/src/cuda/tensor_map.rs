//! How the copy engine walks a buffer.

use std::mem::MaybeUninit;

use cudarc::driver::sys::{
    CUtensorMap, CUtensorMapDataType_enum as DataType, CUtensorMapFloatOOBfill_enum as Fill,
    CUtensorMapInterleave_enum as Interleave, CUtensorMapL2promotion_enum as Promotion,
    CUtensorMapSwizzle_enum as Swizzle,
};
use smallvec::SmallVec;

use super::context::{Context, INVALID_VALUE, call};
use crate::RuntimeError;

/// A view of a kernel's buffer for bulk tensor copies: encoded for the buffer's address when the kernel is
/// launched, and passed by value behind its other parameters.
///
/// Dimensions go from the innermost outwards. What a box covers outside the view is read as zeros. A box has to start
/// at an address that is a multiple of 16 bytes, so not at every coordinate of the innermost dimension: elsewhere the
/// hardware calls the copy an illegal instruction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CudaTensorMap {
    /// Which buffer of the launch; the number of buffers stands for its scratch.
    pub param: u32,
    /// Bytes from there to the first element; what results is an address that is a multiple of 16.
    pub offset: u64,
    /// Type of the elements.
    pub element: CudaMapElement,
    /// Extents in elements, one to five.
    pub sizes: SmallVec<[u64; 5]>,
    /// Bytes between neighbours, for every dimension but the innermost; multiples of 16.
    pub strides: SmallVec<[u64; 4]>,
    /// Extents of a box in elements.
    pub box_sizes: SmallVec<[u32; 5]>,
    /// How rows of a box are laid out in shared memory.
    pub swizzle: CudaMapSwizzle,
}

/// Element type of a [`CudaTensorMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CudaMapElement {
    /// IEEE half precision.
    F16,
    /// Brain floating point.
    BF16,
    /// IEEE single precision.
    F32,
    /// Single precision, rounded to TF32 by the copy.
    TF32,
}

/// Permutation of the 16-byte pieces of a box in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CudaMapSwizzle {
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

/// An encoded map, as a kernel takes it. Newer drivers want more alignment than the header says.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
pub(super) struct Encoded(CUtensorMap);

impl CudaTensorMap {
    /// The map of a buffer at an address on the device.
    pub(super) fn encode(&self, context: &Context, address: u64) -> Result<Encoded, RuntimeError> {
        let rank = self.sizes.len();
        if rank == 0 || rank > 5 || self.strides.len() != rank - 1 || self.box_sizes.len() != rank {
            let message = format!("the extents of {self:?} do not fit one another");
            return Err(context.refused("cuTensorMapEncodeTiled", INVALID_VALUE, message));
        }
        let element = match self.element {
            CudaMapElement::F16 => DataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
            CudaMapElement::BF16 => DataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
            CudaMapElement::F32 => DataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
            CudaMapElement::TF32 => DataType::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
        };
        let swizzle = match self.swizzle {
            CudaMapSwizzle::None => Swizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
            CudaMapSwizzle::Bytes32 => Swizzle::CU_TENSOR_MAP_SWIZZLE_32B,
            CudaMapSwizzle::Bytes64 => Swizzle::CU_TENSOR_MAP_SWIZZLE_64B,
            CudaMapSwizzle::Bytes128 => Swizzle::CU_TENSOR_MAP_SWIZZLE_128B,
        };
        let mut map = MaybeUninit::<Encoded>::uninit();
        // SAFETY: `rank` extents, box extents and element strides, one stride less; all outlive the call,
        // which writes the whole map if it succeeds. The address is only stored.
        unsafe {
            call!(
                context,
                cuTensorMapEncodeTiled(
                    map.as_mut_ptr().cast(),
                    element,
                    rank as u32,
                    std::ptr::with_exposed_provenance_mut(address as usize),
                    self.sizes.as_ptr(),
                    self.strides.as_ptr(),
                    self.box_sizes.as_ptr(),
                    [1_u32; 5].as_ptr(),
                    Interleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                    swizzle,
                    Promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                    Fill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
                )
            )?;
            Ok(map.assume_init())
        }
    }
}
