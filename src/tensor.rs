//! The tensor primitive: a lazy handle.

use crate::MlirDevice;
use crate::record::TensorState;
use burn_backend::{DType, Shape, TensorMetadata};
use burn_mlir_ir as ir;
use std::sync::Arc;

/// A tensor of any element type: its shape and type, known at once, and a value that is computed
/// when somebody needs it. Cloning shares the value; dropping the last clone of a value that was
/// never needed means that it is never computed.
#[derive(Clone)]
pub struct MlirTensor {
    pub(crate) state: Arc<TensorState>,
    pub(crate) shape: Shape,
    pub(crate) dtype: ir::DType,
    pub(crate) device: MlirDevice,
}

impl MlirTensor {
    /// The shape in the compiler's terms.
    pub(crate) fn ir_shape(&self) -> ir::Shape {
        ir::Shape::from(&self.shape[..])
    }
}

impl TensorMetadata for MlirTensor {
    type Device = MlirDevice;

    fn dtype(&self) -> DType {
        crate::dtype::to_burn(self.dtype)
    }

    fn shape(&self) -> Shape {
        self.shape.clone()
    }

    fn rank(&self) -> usize {
        self.shape.len()
    }

    fn device(&self) -> MlirDevice {
        self.device
    }

    fn can_mut(&self) -> bool {
        Arc::strong_count(&self.state) == 1
    }
}

impl std::fmt::Debug for MlirTensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MlirTensor({}{:?} on {})", self.dtype, &self.shape[..], self.device)
    }
}
