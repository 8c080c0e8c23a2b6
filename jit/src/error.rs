//! What can go wrong between a kernel and its code.

use std::{error::Error, sync::Arc};

/// Why there is no code for a kernel. Cheap to clone: every thread that waited for one compilation
/// gets the same error.
#[derive(Clone, Debug, thiserror::Error)]
pub enum JitError {
    /// The lowering refused the kernel.
    #[error("the kernel cannot be lowered: {source}{}{diagnostics}", if diagnostics.is_empty() { "" } else { ": " })]
    Lowering {
        /// The lowering's error.
        source: Arc<dyn Error + Send + Sync>,
        /// What MLIR said meanwhile; may be empty.
        diagnostics: String,
    },
    /// The LLVM-dialect module does not translate to LLVM IR.
    #[error("the module does not translate to LLVM IR: {0}")]
    Translation(String),
    /// LLVM's verifier rejects the module.
    #[error("invalid LLVM IR: {0}")]
    InvalidModule(String),
    /// LLVM cannot make code for the target.
    #[error("cannot compile for `{target}`: {reason}")]
    Target {
        /// The target asked for.
        target: String,
        /// What is wrong with it.
        reason: String,
    },
    /// LLVM's optimiser or code generator failed.
    #[error("LLVM cannot make code: {0}")]
    Codegen(String),
    /// LLVM met a condition it does not recover from; the thread it ran on was given up.
    #[error("fatal error in LLVM: {0}")]
    Fatal(String),
    /// The code calls functions that nothing provides.
    #[error("the code refers to unknown symbols: {}", symbols.join(", "))]
    Unresolved {
        /// Their names, sorted.
        symbols: Vec<String>,
    },
    /// The code lacks a function that its program names.
    #[error("the code does not define `{0}`")]
    MissingPhase(String),
    /// The request's assembler refused the PTX.
    #[error("the PTX cannot be assembled: {0}")]
    Assembly(String),
    /// The object cannot be loaded in this process.
    #[error("the object cannot be loaded: {0}")]
    Load(String),
    /// The lowering or the compiler panicked.
    #[error("the compilation panicked: {0}")]
    Panicked(String),
    /// Compiling again did not give what the disk store holds.
    #[error("the disk store's entry {0} differs from a fresh compilation")]
    Unreproducible(String),
}
