//! Finds LLVM 22 with MLIR before the crates that link it start to build, and says in a few lines
//! what is missing. Stamps the LLVM version, a part of every kernel's cache key.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The variables that name the installation, as the sys crates read them.
const VARIABLES: [&str; 3] = ["MLIR_SYS_220_PREFIX", "LLVM_SYS_221_PREFIX", "TABLEGEN_220_PREFIX"];
const PACKAGES: &str = "g++ make llvm-22-dev libmlir-22-dev mlir-22-tools libpolly-22-dev libclang1-22 \
                        libclang-common-22-dev libzstd-dev zlib1g-dev libxml2-dev libz3-dev libffi-dev";
/// The parts that are looked for, and what is missing without them.
const PARTS: [(&str, &str); 3] = [
    ("include/mlir-c/IR.h", "MLIR's C headers"),
    ("lib/libMLIRIR.a", "MLIR's static libraries"),
    ("lib/libLLVMCore.a", "LLVM's static libraries"),
];
const TARGETS: [&str; 2] = ["X86", "NVPTX"];

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    for variable in VARIABLES {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    if std::env::var_os("DOCS_RS").is_some() {
        println!("cargo::rustc-env=BURN_MLIR_LLVM_VERSION=22");
        return ExitCode::SUCCESS;
    }
    match check() {
        Ok(version) => {
            println!("cargo::rustc-env=BURN_MLIR_LLVM_VERSION={version}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            println!("cargo::error=burn-mlir needs LLVM 22 with MLIR: {reason}");
            println!(
                "cargo::error=Debian and Ubuntu: apt-get install {PACKAGES}; its prefix is then /usr/lib/llvm-22"
            );
            println!("cargo::error=set {} to the installation's prefix", VARIABLES.join(", "));
            ExitCode::FAILURE
        }
    }
}

/// The version of a complete installation, or what is wrong with it.
fn check() -> Result<String, String> {
    let prefix = prefix()?;
    let config = prefix.join("bin/llvm-config");
    let version = ask(&config, "--version")?;
    if !version.starts_with("22.") {
        return Err(format!("{} is version {version}", prefix.display()));
    }
    let built = ask(&config, "--targets-built")?;
    if let Some(target) = TARGETS.iter().find(|target| !built.split_whitespace().any(|name| name == **target))
    {
        return Err(format!("{} was built without the {target} target", prefix.display()));
    }
    match PARTS.iter().find(|(path, _)| !prefix.join(path).exists()) {
        Some((path, what)) => Err(format!("{what} are missing ({})", prefix.join(path).display())),
        None => Ok(version),
    }
}

/// The prefix that the sys crates will use: all variables must agree.
fn prefix() -> Result<PathBuf, String> {
    let mut prefixes = Vec::new();
    for variable in VARIABLES {
        match std::env::var_os(variable) {
            Some(value) => prefixes.push(PathBuf::from(value)),
            None => return Err(format!("the variable {variable} is not set")),
        }
    }
    match prefixes.iter().find(|prefix| **prefix != prefixes[0]) {
        Some(other) => Err(format!("{} and {} differ", prefixes[0].display(), other.display())),
        None => Ok(prefixes.swap_remove(0)),
    }
}

fn ask(config: &Path, question: &str) -> Result<String, String> {
    let output = Command::new(config).arg(question).output();
    let output = output.map_err(|error| format!("{} does not run: {error}", config.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}
