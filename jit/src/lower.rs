//! The seam to the lowering, which this crate does not know.

use burn_mlir_ir::Program;
use melior::{Context, ir::Module};
use std::error::Error;

/// An error of the lowering.
pub type LowerError = Box<dyn Error + Send + Sync>;

/// One textual stage of a compilation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Name, such as `linalg`; may be empty where the extension says it all.
    pub name: String,
    /// Extension of a file that holds it.
    pub extension: &'static str,
    /// The text.
    pub text: String,
}

impl Stage {
    /// A stage written in MLIR.
    pub fn mlir(name: impl Into<String>, text: String) -> Self {
        Self { name: name.into(), extension: "mlir", text }
    }

    /// Name of the `index`-th stage's file, without what precedes the stage: `2-linalg.mlir`.
    pub fn file_name(&self, index: usize) -> String {
        let dash = if self.name.is_empty() { "" } else { "-" };
        format!("{index}{dash}{}.{}", self.name, self.extension)
    }
}

/// A kernel lowered to the LLVM dialect.
pub struct Lowered<'c> {
    /// A module of `llvm` operations only.
    pub module: Module<'c>,
    /// The functions in it and the memory they need.
    pub program: Program,
    /// The MLIR stages on the way, empty unless they were asked for.
    pub stages: Vec<Stage>,
}

/// Builds the LLVM-dialect module of one kernel. Called on a worker thread, and only when neither
/// memory nor disk has the code. Functions of the same signature implement it.
pub trait Lower: Send + 'static {
    /// Lowers in `context`, keeping the text of each stage if `stages`.
    fn lower<'c>(&self, context: &'c Context, stages: bool) -> Result<Lowered<'c>, LowerError>;

    /// One line about the kernel (operations, shapes, dtypes) for the index of a dump.
    fn label(&self) -> String {
        String::new()
    }
}

impl<F> Lower for F
where
    F: for<'c> Fn(&'c Context, bool) -> Result<Lowered<'c>, LowerError> + Send + 'static,
{
    fn lower<'c>(&self, context: &'c Context, stages: bool) -> Result<Lowered<'c>, LowerError> {
        self(context, stages)
    }
}

/// What produces the modules: part of every key.
#[derive(Clone, Copy, Debug)]
pub struct Frontend {
    /// Changes whenever the same kernel text may lower to different code.
    pub version: u32,
    /// Makes an MLIR context with every dialect and the translations to LLVM IR; called once in a
    /// while by each worker thread.
    pub context: fn() -> Context,
}
