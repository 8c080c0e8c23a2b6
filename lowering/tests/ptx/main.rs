//! Blocks lowered for NVIDIA GPUs: what PTX they become, and that NVIDIA's assembler takes it.
//!
//! `BURN_MLIR_PTXAS` names the assembler; without it nothing is assembled (the test script sets it).
//! `BURN_MLIR_TEST_DUMP` names a directory for the stages of the last kernel.

mod attention;
mod contractions;
mod convolutions;
mod hopper;
mod machine;
mod maps;
mod multiplier;
mod rows;
mod sequences;
mod values;

use burn_mlir_ir::{Kernel, Program, Target};
use burn_mlir_jit::{Config, Frontend, Jit, Lower, LowerError, Lowered, Stage};
use burn_mlir_lowering as lowering;
use melior::Context;
use std::{path::PathBuf, process::Command, sync::OnceLock};

const TARGETS: [&str; 2] = ["sm_80", "sm_90a"];

/// A kernel as PTX for one target.
pub struct Emitted {
    /// How to launch it.
    pub program: Program,
    /// The payload as it was written.
    pub payload: String,
    /// The text.
    pub ptx: String,
}

struct Lowering {
    kernel: Kernel,
    target: Target,
}

impl Lower for Lowering {
    fn lower<'c>(&self, context: &'c Context, stages: bool) -> Result<Lowered<'c>, LowerError> {
        let lowered = lowering::lower(context, &self.kernel, &self.target, stages)?;
        let stages = lowered.stages.into_iter().map(|stage| Stage::mlir(stage.name, stage.text)).collect();
        Ok(Lowered { module: lowered.module, program: lowered.program, stages })
    }
}

fn jit() -> &'static Jit {
    static JIT: OnceLock<Jit> = OnceLock::new();
    let frontend = Frontend { version: lowering::VERSION, context: lowering::context };
    JIT.get_or_init(|| Jit::new(Config::disabled(), frontend))
}

/// A kernel as PTX; fails if it is not a valid kernel.
pub fn emit(text: &str, target: &str) -> Emitted {
    emit_for(text, &Target::named(target).unwrap())
}

/// As [`emit`], for any target.
pub fn emit_for(text: &str, target: &Target) -> Emitted {
    let kernel = Kernel::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    kernel.verify().unwrap_or_else(|error| panic!("{error}\n{text}"));
    let lower = Lowering { kernel, target: target.clone() };
    let (program, stages) = jit().emit(target, lower).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
    if let Ok(directory) = std::env::var("BURN_MLIR_TEST_DUMP") {
        for (index, stage) in stages.iter().enumerate() {
            std::fs::write(PathBuf::from(&directory).join(stage.file_name(index)), &stage.text).unwrap();
        }
    }
    let payload = stages.iter().find(|stage| stage.name == "linalg").unwrap().text.clone();
    let ptx = stages.into_iter().find(|stage| stage.extension == "ptx").unwrap().text;
    Emitted { program, payload, ptx }
}

/// How often a text has a pattern.
pub fn count(text: &str, pattern: &str) -> usize {
    text.matches(pattern).count()
}

/// `gelu(x·W + b)` in the terms of a graph, with every statement rounded.
pub fn gelu([m, n, k]: [usize; 3], dtype: &str) -> String {
    format!(
        "block [p {m}, p {n}, r {k}] () {{
  @0 = in {dtype} align 64
  @1 = in {dtype} align 64
  @2 = in {dtype} align 64
  @3 = out {dtype} align 64
  %0 = load @0 [{k}, 0, 1] : {dtype}
  %1 = load @1 [0, 1, {n}] : {dtype}
  %2 = contract %0, %1 : {dtype}
  %3 = load @2 [0, 1, 0] : {dtype}
  %4 = add %2, %3 : {dtype}
  %5 = constant 0.70710678 : {dtype}
  %6 = mul %4, %5 : {dtype}
  %7 = erf %6 : {dtype}
  %8 = constant 1.0 : {dtype}
  %9 = add %7, %8 : {dtype}
  %10 = mul %4, %9 : {dtype}
  %11 = constant 0.5 : {dtype}
  %12 = mul %10, %11 : {dtype}
  store %12 -> @3 [{n}, 1, 0]
}}"
    )
}

/// What ptxas said about a kernel, or nothing if there is no ptxas.
pub fn assemble(ptx: &str, target: &str) -> Option<String> {
    let Some(ptxas) = std::env::var_os("BURN_MLIR_PTXAS") else {
        eprintln!("SKIPPED: BURN_MLIR_PTXAS is not set, the PTX is not assembled");
        return None;
    };
    let directory = tempfile::tempdir().unwrap();
    let (source, object) = (directory.path().join("kernel.ptx"), directory.path().join("kernel.cubin"));
    std::fs::write(&source, ptx).unwrap();
    let mut command = Command::new(ptxas);
    command.args(["-v", "-arch", target]).arg(&source).arg("-o").arg(&object);
    let output = command.output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{ptx}");
    Some(said)
}

/// Lowers, checks what holds for every kernel, and returns the PTX for the last target.
pub fn check(text: &str) -> Emitted {
    let [_, last] = TARGETS.map(|target| check_for(text, target));
    last
}

/// Lowers for one target and checks what holds for every kernel.
pub fn check_for(text: &str, target: &str) -> Emitted {
    let emitted = emit(text, target);
    check_text(&emitted);
    if let Some(said) = assemble(&emitted.ptx, target) {
        for line in said.lines().filter(|line| line.contains("bytes spill stores")) {
            assert!(line.contains(" 0 bytes spill stores, 0 bytes spill loads"), "{line}\n{text}");
        }
    }
    emitted
}

fn check_text(emitted: &Emitted) {
    let Emitted { program, ptx, .. } = emitted;
    assert!(!ptx.contains(".extern .func"), "{ptx}");
    // Approximate reciprocals are where quotients begin, never what is used.
    let exact = ptx.replace("rcp.approx.ftz.f32", "");
    assert!(!exact.contains(".ftz") && !exact.contains(".approx"), "{ptx}");
    for line in ptx.lines() {
        // Without `.rn` the assembler may contract a product and a sum.
        let rounds = ["add", "sub", "mul"].iter().any(|op| {
            ["f32", "f64", "f16", "bf16"]
                .iter()
                .any(|ty| line.trim_start().starts_with(&format!("{op}.{ty}")))
        });
        assert!(!rounds, "{line}");
    }
    for phase in &program.phases {
        assert!(phase.grid.iter().chain(&phase.block).all(|&extent| extent > 0), "{phase:?}");
        let threads: u32 = phase.block.iter().product();
        assert!(threads <= 1024);
        assert!(ptx.contains(&format!(".entry {}(", phase.symbol)), "{ptx}");
        assert!(ptx.contains(&format!(".reqntid {threads}")), "{ptx}");
    }
}
