//! The tensor primitive: a lazy handle.

use crate::record::TensorState;
use crate::{MlirDevice, MlirError};
use burn_backend::{BoolDType, BoolStore, DType, Shape, TensorMetadata};
use burn_mlir_ir as ir;
use std::sync::Arc;

/// A tensor of any element type: its shape and type, known at once, and a value that is computed
/// when somebody needs it. Cloning shares the value; dropping the last clone of a value that was
/// never needed means that it is never computed.
pub struct MlirTensor {
    pub(crate) state: Arc<TensorState>,
    pub(crate) shape: Shape,
    pub(crate) dtype: ir::DType,
    pub(crate) device: MlirDevice,
    /// What Burn is told that truth values are stored as, and what they are when they are read: in memory of
    /// the device they have one byte. Of no meaning for other types.
    pub(crate) store: BoolStore,
}

impl Clone for MlirTensor {
    #[inline]
    fn clone(&self) -> Self {
        let &Self { ref state, ref shape, dtype, device, store } = self;
        Self { state: state.clone(), shape: extents(shape), dtype, device, store }
    }
}

/// A shape in Burn's terms. `clone` and `collect` take several times as long, and each operation needs a few.
#[inline]
pub(crate) fn extents(extents: &[usize]) -> Shape {
    Shape::new_raw(ir::extents(extents))
}

impl MlirTensor {
    /// Truth values that are stored as asked for.
    pub(crate) fn stored(self, dtype: BoolDType) -> Self {
        let store = match dtype {
            BoolDType::Native => BoolStore::Native,
            BoolDType::U8 => BoolStore::U8,
            BoolDType::U32 => BoolStore::U32,
        };
        Self { store, ..self }
    }

    /// Why the tensor has no value, if that is known already. Errors of what was recorded for it and not yet started, and
    /// of kernels, come with its data.
    pub fn error(&self) -> Option<MlirError> {
        self.state.error()
    }

    /// The shape in the compiler's terms.
    pub(crate) fn ir_shape(&self) -> ir::Shape {
        ir::Shape::from(&self.shape[..])
    }
}

impl TensorMetadata for MlirTensor {
    type Device = MlirDevice;

    fn dtype(&self) -> DType {
        match self.dtype {
            ir::DType::Bool => DType::Bool(self.store),
            dtype => crate::dtype::to_burn(dtype),
        }
    }

    fn shape(&self) -> Shape {
        extents(&self.shape)
    }

    fn rank(&self) -> usize {
        self.shape.len()
    }

    fn device(&self) -> MlirDevice {
        self.device
    }

    fn can_mut(&self) -> bool {
        self.state.handles() == 1
    }
}

impl std::fmt::Debug for MlirTensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MlirTensor({}{:?} on {})", self.dtype, &self.shape[..], self.device)
    }
}
