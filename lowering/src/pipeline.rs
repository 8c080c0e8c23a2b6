//! The pass pipelines and what holds before and after each.

use crate::{Lowered, LoweringError, Payload, Stage};
use melior::{
    Context,
    dialect::DialectRegistry,
    ir::{
        BlockLike, Module,
        operation::{OperationLike, WalkOrder, WalkResult},
    },
    pass::PassManager,
    utility,
};
use std::{cell::RefCell, rc::Rc};

/// Runs the schedule that is nested in the payload, in its `__transform_main`. Before: linalg on tensors
/// inside scf loops. After: vectors; tensors only where a value is read from or written to a buffer.
const SCHEDULE: &str = "builtin.module(transform-interpreter)";

/// Runs the schedule's `lower` sequence on buffers.
const SCHEDULE_BUFFERS: &str = "builtin.module(transform-interpreter{entry-point=lower})";

/// Makes tensors buffers. After: no tensors; values written in place, so no allocation but small
/// temporaries on the stack.
const BUFFERIZE: &str = "builtin.module(eliminate-empty-tensors,one-shot-bufferize,\
     func.func(promote-buffers-to-stack),canonicalize,cse)";

/// Lowers vectors, loops and memrefs. After: LLVM dialect only.
const TO_LLVM: &str = "builtin.module(convert-linalg-to-loops,func.func(convert-vector-to-scf),\
     expand-strided-metadata,lower-affine,canonicalize,cse,func.func(loop-invariant-code-motion),\
     convert-vector-to-llvm,convert-scf-to-cf,convert-nvvm-to-llvm,convert-math-to-llvm,convert-arith-to-llvm,\
     convert-index-to-llvm,finalize-memref-to-llvm,convert-func-to-llvm,convert-cf-to-llvm,\
     convert-ub-to-llvm,reconcile-unrealized-casts,canonicalize,cse)";

/// A context with all dialects, passes and translations, for use by one thread at a time. A dialect is loaded when
/// something first needs it: each canonicalisation collects the patterns of all that are loaded.
pub fn context() -> Context {
    let registry = DialectRegistry::new();
    utility::register_all_dialects(&registry);
    utility::register_all_passes();
    let context = Context::new_with_threading(false);
    context.append_dialect_registry(&registry);
    utility::register_all_llvm_translations(&context);
    context
}

/// Takes a payload down to the LLVM dialect.
pub(crate) fn run(context: &Context, payload: Payload, stages: bool) -> Result<Lowered<'_>, LoweringError> {
    let diagnostics = Diagnostics::attach(context);
    let mut recorded = Vec::new();
    let mut record = |name, module: &Module| {
        if stages {
            recorded.push(Stage { name, text: module.as_operation().to_string() });
        }
    };
    let parse =
        |text: &str| Module::parse(context, text).ok_or_else(|| LoweringError::Parse(diagnostics.take()));
    let mut module = parse(&format!("{}\n{}", payload.text, payload.schedule))?;
    if stages {
        record("linalg", &parse(&payload.text)?);
    }
    if !payload.schedule.is_empty() {
        passes(context, &mut module, "the schedule", SCHEDULE, &diagnostics)?;
    }
    passes(context, &mut module, "bufferization", BUFFERIZE, &diagnostics)?;
    if payload.lower_sequence {
        passes(context, &mut module, "the schedule for buffers", SCHEDULE_BUFFERS, &diagnostics)?;
    }
    erase_schedule(&module);
    record("scheduled", &module);
    passes(context, &mut module, "lowering to LLVM", TO_LLVM, &diagnostics)?;
    record("llvm", &module);
    verify(&module)?;
    Ok(Lowered { module, program: payload.program, stages: recorded })
}

fn passes<'c>(
    context: &'c Context,
    module: &mut Module<'c>,
    stage: &'static str,
    pipeline: &str,
    diagnostics: &Diagnostics,
) -> Result<(), LoweringError> {
    let failed = |text: String| LoweringError::Pass { stage, diagnostics: text };
    let manager = PassManager::new(context);
    manager.enable_verifier(cfg!(debug_assertions));
    utility::parse_pass_pipeline(manager.as_operation_pass_manager(), pipeline)
        .map_err(|error| failed(error.to_string()))?;
    manager.run(module).map_err(|_| failed(diagnostics.take()))
}

/// Removes the nested module that held the transform script.
fn erase_schedule(module: &Module) {
    let mut next = module.body().first_operation();
    while let Some(operation) = next {
        next = operation.next_in_block();
        if operation.name().as_string_ref().as_str() == Ok("builtin.module") {
            // SAFETY: the operation is in the module's body, nothing outside it refers to it, and
            // `operation` is not used again.
            unsafe { mlir_sys::mlirOperationDestroy(operation.to_raw()) };
        }
    }
}

/// Checks that only operations remain that translate to LLVM IR as they are: the LLVM dialect, and
/// NVIDIA's on top of it.
fn verify(module: &Module) -> Result<(), LoweringError> {
    let mut foreign = None;
    module.as_operation().walk(WalkOrder::PreOrder, |operation| {
        let name = operation.name();
        let name = name.as_string_ref().as_str().unwrap_or_default();
        let translates = ["llvm.", "nvvm."].iter().any(|dialect| name.starts_with(dialect));
        if translates || name == "builtin.module" {
            return WalkResult::Advance;
        }
        foreign = Some(operation.to_string());
        WalkResult::Interrupt
    });
    foreign.map_or(Ok(()), |operation| Err(LoweringError::Foreign(operation)))
}

/// Collects what MLIR reports while it lives, instead of letting it print to the terminal.
struct Diagnostics<'c> {
    context: &'c Context,
    id: Option<melior::diagnostic::DiagnosticHandlerId>,
    text: Rc<RefCell<String>>,
}

impl<'c> Diagnostics<'c> {
    fn attach(context: &'c Context) -> Self {
        let text = Rc::new(RefCell::new(String::new()));
        let sink = text.clone();
        let id = context.attach_diagnostic_handler(move |diagnostic| {
            let mut text = sink.borrow_mut();
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&diagnostic.to_string());
            true
        });
        Self { context, id: Some(id), text }
    }

    fn take(&self) -> String {
        self.text.take()
    }
}

impl Drop for Diagnostics<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.context.detach_diagnostic_handler(id);
        }
    }
}
