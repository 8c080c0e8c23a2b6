//! Why a kernel could not be lowered.

/// A kernel that could not be lowered. The texts are MLIR's own diagnostics.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoweringError {
    /// The payload is not valid MLIR.
    #[error("the payload does not parse: {0}")]
    Parse(String),
    /// A pass or a transform script failed.
    #[error("lowering failed in {stage}: {diagnostics}")]
    Pass {
        /// The pipeline that failed.
        stage: &'static str,
        /// What MLIR said.
        diagnostics: String,
    },
    /// Operations remain that are not of the LLVM dialect.
    #[error("operations remain that are not of the LLVM dialect: {0}")]
    Foreign(String),
    /// A kernel this version cannot lower.
    #[error("not supported: {0}")]
    Unsupported(String),
}
