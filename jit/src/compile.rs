//! One compilation from end to end, on the thread it is called on.

use crate::{Frontend, JitError, Lower, Stage, codegen, context};
use burn_mlir_ir::{Program, Target};

/// A compiled kernel, not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Compiled {
    pub program: Program,
    /// An object file or PTX text.
    pub code: Vec<u8>,
}

/// Compiles; with `texts` also gives every stage from the first in MLIR to the last.
pub(crate) fn compile(
    frontend: Frontend,
    target: &Target,
    lower: &dyn Lower,
    texts: bool,
) -> Result<(Compiled, Vec<Stage>), JitError> {
    context::with(frontend, |context| {
        let lowered = lower.lower(context, texts).map_err(|e| JitError::Lowering(e.into()))?;
        let mut stages = lowered.stages;
        if texts && !stages.iter().any(|stage| stage.name == "llvm") {
            stages.push(Stage::mlir("llvm", lowered.module.as_operation().to_string()));
        }
        let generated = codegen::generate(context, &lowered.module, target, texts)?;
        if let Some((ir, assembly)) = generated.texts {
            let extension = match target {
                Target::Host(_) => "s",
                Target::Nvptx(_) => "ptx",
            };
            stages.push(Stage { name: String::new(), extension: "ll", text: ir });
            stages.push(Stage { name: String::new(), extension, text: assembly });
        }
        Ok((Compiled { program: lowered.program, code: generated.code }, stages))
    })
}
