//! What can go wrong, as it reaches a user.

use crate::CaptureError;
use burn_backend::ExecutionError;
use std::sync::Arc;

/// An error of the backend. It travels with the tensor it happened to and surfaces when the tensor
/// is read, or at the next synchronisation, as an [`ExecutionError`]. An index out of range, which is
/// found while a kernel runs, is reported once by the thread's next read or synchronisation.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MlirError {
    /// The recorded operations cannot be planned.
    #[error("cannot plan {summary}: {reason}")]
    Plan {
        /// Operations, shapes and dtypes.
        summary: String,
        /// What the planner says.
        reason: String,
    },
    /// A kernel cannot be compiled.
    #[error("cannot compile {summary}: {reason}")]
    Compile {
        /// Operations, shapes and dtypes.
        summary: String,
        /// What the compiler says.
        reason: String,
    },
    /// A kernel failed or the device refused.
    #[error("{0}")]
    Runtime(Arc<burn_mlir_runtime::RuntimeError>),
    /// The device does not exist on this machine.
    #[error("device {device} is not available: {reason}")]
    DeviceUnavailable {
        /// The device.
        device: String,
        /// Why.
        reason: String,
    },
    /// This version has no such operation.
    #[error("burn-mlir has no operation `{op}` yet ({operands})")]
    Unsupported {
        /// Name of the operation.
        op: &'static str,
        /// Shapes and dtypes of the operands.
        operands: String,
    },
    /// The operands do not fit the operation.
    #[error("{op}: {reason}")]
    Invalid {
        /// Name of the operation.
        op: &'static str,
        /// What does not fit, with shapes and dtypes.
        reason: String,
    },
    /// A graph cannot be captured or replayed.
    #[error(transparent)]
    Capture(#[from] CaptureError),
}

impl From<MlirError> for ExecutionError {
    fn from(error: MlirError) -> Self {
        ExecutionError::with_context(error.to_string())
    }
}

impl From<burn_mlir_runtime::RuntimeError> for MlirError {
    fn from(error: burn_mlir_runtime::RuntimeError) -> Self {
        Self::Runtime(Arc::new(error))
    }
}
