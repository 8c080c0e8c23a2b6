//! From the LLVM dialect to machine code.

use crate::{
    JitError,
    diagnostics::{LlvmErrors, collect_mlir},
    loader,
    sharing::outgrows_vectorizer,
};
use burn_mlir_ir::Target;
use inkwell::{
    OptimizationLevel,
    attributes::{Attribute, AttributeLoc},
    context::Context as LlvmContext,
    llvm_sys::core::{LLVMGetCalledValue, LLVMGetInlineAsmHasSideEffects, LLVMIsAInlineAsm},
    module::Module as LlvmModule,
    passes::PassBuilderOptions,
    targets::{
        CodeModel, FileType, InitializationConfig, RelocMode, Target as LlvmTarget, TargetMachine,
        TargetTriple,
    },
    values::{AsValueRef, CallSiteValue},
};
use melior::{Context, ir::Module};
use mlir_sys::mlirTranslateModuleToLLVMIR;
use std::{cell::RefCell, sync::Once};

const PIPELINE: &str = "default<O3>";
const NVPTX_TRIPLE: &str = "nvptx64-nvidia-cuda";

/// The GPU processors this LLVM knows, without the suffix of an architecture-specific (`a`) or a
/// family-specific (`f`) one. Given another it would take its oldest in that one's place.
const NVPTX_PROCESSORS: &[&str] = &[
    "sm_50", "sm_52", "sm_53", "sm_60", "sm_61", "sm_62", "sm_70", "sm_72", "sm_75", "sm_80", "sm_86",
    "sm_87", "sm_88", "sm_89", "sm_90", "sm_100", "sm_101", "sm_103", "sm_110", "sm_120", "sm_121",
];

/// Machine code and, if asked for, what it looks like.
pub(crate) struct Generated {
    /// An object file for a host, PTX text for a GPU.
    pub code: Vec<u8>,
    /// Optimised LLVM IR and assembly.
    pub texts: Option<(String, String)>,
}

/// Makes LLVM's targets known.
pub(crate) fn initialize() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let config = InitializationConfig::default();
        LlvmTarget::initialize_x86(&config);
        LlvmTarget::initialize_nvptx(&config);
        // Only fails where LLVM was built without the host's code generator; that is then
        // reported when code is made for it.
        if let Err(error) = LlvmTarget::initialize_native(&config) {
            tracing::warn!("LLVM cannot make code for this machine: {error}");
        }
    });
}

thread_local! {
    /// What this thread last made code for. A machine takes time to make, and remembers what it works out about
    /// its processor.
    static MACHINE: RefCell<Option<(Target, TargetMachine)>> = const { RefCell::new(None) };
}

/// Translates, optimises and emits `module`.
pub(crate) fn generate(
    mlir: &Context,
    module: &Module,
    target: &Target,
    texts: bool,
) -> Result<Generated, JitError> {
    let machine = match MACHINE.take() {
        Some((known, machine)) if known == *target => machine,
        _ => target_machine(target)?,
    };
    let generated = generate_with(&machine, mlir, module, target, texts);
    MACHINE.set(Some((target.clone(), machine)));
    generated
}

fn generate_with(
    machine: &TargetMachine,
    mlir: &Context,
    module: &Module,
    target: &Target,
    texts: bool,
) -> Result<Generated, JitError> {
    let context = LlvmContext::create();
    let errors = LlvmErrors::collect(&context);
    let module = translate(mlir, module, &context)?;
    module.set_triple(&machine.get_triple());
    module.set_data_layout(&machine.get_target_data().get_data_layout());
    add_attributes(&module, &context, target);
    if matches!(target, Target::Nvptx(_)) {
        mark_assembly(&module, &context);
    }
    if outgrows_vectorizer(&module) {
        keep_scalar(&module, &context);
    }
    module.verify().map_err(|e| JitError::InvalidModule(e.to_string()))?;

    let failed = |text: String| JitError::Codegen(text);
    module.run_passes(PIPELINE, machine, PassBuilderOptions::create()).map_err(|e| failed(e.to_string()))?;
    check_externals(&module)?;

    let emit = |module: &LlvmModule, kind| {
        let emitted = machine.write_to_memory_buffer(module, kind).map_err(|e| failed(e.to_string()));
        errors.take().map_or(emitted, |text| Err(failed(text)))
    };
    // The code generator changes the module it works on, so the text is made of a copy.
    let texts = match texts {
        true => {
            let ir = module.print_to_string().to_string();
            let assembly = emit(&module.clone(), FileType::Assembly)?;
            Some((ir, String::from_utf8_lossy(text_bytes(assembly.as_slice())).into_owned()))
        }
        false => None,
    };
    let code = match target {
        Target::Host(_) => emit(&module, FileType::Object)?.as_slice().to_vec(),
        Target::Nvptx(_) => text_bytes(emit(&module, FileType::Assembly)?.as_slice()).to_vec(),
    };
    Ok(Generated { code, texts })
}

/// Text without the NUL that may end a memory buffer.
fn text_bytes(bytes: &[u8]) -> &[u8] {
    bytes.strip_suffix(&[0]).unwrap_or(bytes)
}

fn target_machine(target: &Target) -> Result<TargetMachine, JitError> {
    initialize();
    let (triple, cpu, features) = match target {
        Target::Host(t) => (t.triple.as_str(), t.cpu.as_str(), t.features.clone()),
        Target::Nvptx(t) => (NVPTX_TRIPLE, t.cpu.as_str(), format!("+{}", t.ptx)),
    };
    let unusable = |reason: String| JitError::Target { target: target.to_string(), reason };
    if let Target::Nvptx(nvptx) = target
        && !NVPTX_PROCESSORS.contains(&nvptx.cpu.trim_end_matches(['a', 'f']))
    {
        return Err(unusable("LLVM does not know this processor".into()));
    }
    let triple = TargetTriple::create(triple);
    LlvmTarget::from_triple(&triple)
        .map_err(|e| unusable(e.to_string()))?
        .create_target_machine(
            &triple,
            cpu,
            &features,
            OptimizationLevel::Aggressive,
            RelocMode::PIC,
            CodeModel::Small,
        )
        .ok_or_else(|| unusable("LLVM has no such target machine".into()))
}

fn translate<'c>(
    mlir: &Context,
    module: &Module,
    context: &'c LlvmContext,
) -> Result<LlvmModule<'c>, JitError> {
    let operation = module.as_operation();
    // SAFETY: the operation and the LLVM context are alive. The module returned is owned by us and
    // lives in `context`, as its lifetime says.
    let (raw, said) = collect_mlir(mlir, || unsafe {
        mlirTranslateModuleToLLVMIR(operation.to_raw(), context.raw().cast())
    });
    if raw.is_null() {
        return Err(JitError::Translation(said));
    }
    // SAFETY: as above; non-null.
    Ok(unsafe { LlvmModule::new(raw.cast()) })
}

/// What every function needs and MLIR does not say.
fn add_attributes(module: &LlvmModule, context: &LlvmContext, target: &Target) {
    let nounwind = Attribute::get_named_enum_kind_id("nounwind");
    let mut attributes = vec![
        context.create_enum_attribute(nounwind, 0),
        // Loops that fill or copy must not become calls.
        context.create_string_attribute("no-builtins", ""),
    ];
    if let Target::Host(host) = target {
        // Some processors prefer 256-bit vectors, and would have ours split.
        let bits = (host.vector_bytes * 8).to_string();
        attributes.push(context.create_string_attribute("prefer-vector-width", &bits));
    }
    for function in module.get_functions().filter(|f| f.count_basic_blocks() > 0) {
        for &attribute in &attributes {
            function.add_attribute(AttributeLoc::Function, attribute);
        }
    }
}

/// Keeps inline assembly with effects where all threads of a warp meet it: MLIR cannot say that it is convergent,
/// and LLVM would give threads that took another way there copies of their own.
fn mark_assembly(module: &LlvmModule, context: &LlvmContext) {
    let convergent = Attribute::get_named_enum_kind_id("convergent");
    let convergent = context.create_enum_attribute(convergent, 0);
    let blocks = module.get_functions().flat_map(|function| function.get_basic_blocks());
    for instruction in blocks.flat_map(|block| block.get_instructions()) {
        let Ok(call) = CallSiteValue::try_from(instruction) else { continue };
        // SAFETY: the call is alive, as is what it calls, which is asked only if it is inline assembly.
        let effects = unsafe {
            let called = LLVMGetCalledValue(call.as_value_ref());
            !LLVMIsAInlineAsm(called).is_null() && LLVMGetInlineAsmHasSideEffects(called) != 0
        };
        if effects {
            call.add_attribute(AttributeLoc::Function, convergent);
        }
    }
}

/// Keeps LLVM's vectorisers off the functions, which pass over those without implicit use of vectors. The pipeline's own
/// option does not keep the loop vectoriser from making its plans.
fn keep_scalar(module: &LlvmModule, context: &LlvmContext) {
    let scalar = Attribute::get_named_enum_kind_id("noimplicitfloat");
    let scalar = context.create_enum_attribute(scalar, 0);
    for function in module.get_functions().filter(|function| function.count_basic_blocks() > 0) {
        function.add_attribute(AttributeLoc::Function, scalar);
    }
}

/// Kernel code calls nothing but what the loader provides.
fn check_externals(module: &LlvmModule) -> Result<(), JitError> {
    let mut symbols: Vec<String> = module
        .get_functions()
        .filter(|f| f.count_basic_blocks() == 0 && f.get_intrinsic_id() == 0)
        .map(|f| f.get_name().to_string_lossy().into_owned())
        .filter(|name| !loader::provides(name))
        .collect();
    symbols.sort();
    if symbols.is_empty() { Ok(()) } else { Err(JitError::Unresolved { symbols }) }
}
