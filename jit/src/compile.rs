//! One compilation from end to end, on the thread it is called on.

use crate::{Frontend, JitError, Lower, Stage, codegen, context, diagnostics::collect_mlir, loader};
use burn_mlir_ir::{Program, Target};

/// A compiled kernel, not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Compiled {
    pub program: Program,
    /// An object file or PTX text.
    pub code: Vec<u8>,
}

impl Compiled {
    /// Names of the functions that the code has to define.
    pub fn symbols(&self) -> Vec<&str> {
        self.program.phases.iter().map(|phase| phase.symbol.as_str()).collect()
    }
}

/// Compiles; with `texts` also gives every stage from the first in MLIR to the last.
pub(crate) fn compile(
    frontend: Frontend,
    target: &Target,
    lower: &dyn Lower,
    texts: bool,
) -> Result<(Compiled, Vec<Stage>), JitError> {
    context::with(frontend, |context| {
        let (lowered, said) = collect_mlir(context, || lower.lower(context, texts));
        let lowered = lowered.map_err(|e| JitError::Lowering { source: e.into(), diagnostics: said })?;
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
        let compiled = Compiled { program: lowered.program, code: generated.code };
        check(&compiled, target)?;
        Ok((compiled, stages))
    })
}

/// Checks, also for a target that is not here, that the code could be loaded.
fn check(compiled: &Compiled, target: &Target) -> Result<(), JitError> {
    let symbols = compiled.symbols();
    match target {
        Target::Host(_) => loader::check_object(&compiled.code, &symbols).map(drop),
        Target::Nvptx(_) => {
            let text = String::from_utf8_lossy(&compiled.code);
            match symbols.iter().find(|symbol| !text.contains(&format!(".entry {symbol}("))) {
                Some(missing) => Err(JitError::MissingPhase(missing.to_string())),
                None => Ok(()),
            }
        }
    }
}
