//! The full text that identifies a piece of code.

use burn_mlir_ir::Target;
use xxhash_rust::xxh3::xxh3_128;

/// Changes whenever this crate makes different code of the same module.
const VERSION: u32 = 1;

/// Everything the code depends on. The kernel's text comes last, so nothing in it can pass for
/// another field.
pub(crate) fn full_key(kernel: &str, target: &Target, lowering: u32) -> String {
    let (major, minor, patch) = inkwell::support::get_llvm_version();
    format!("target {target}\nllvm {major}.{minor}.{patch}\nlowering {lowering}\njit {VERSION} O3\n{kernel}")
}

/// The key of what an assembler makes of a kernel's PTX. Code that is kept on disk is tied to the text it was
/// made of as well, whatever became of the text's own entry.
pub(crate) fn assembled(key: &str, assembler: &str, text: Option<&str>) -> String {
    let text = text.map(hash).unwrap_or_default();
    format!("assembler {assembler}\nptx {text}\n{key}")
}

/// 32 hexadecimal digits that name a key; stable across versions and machines.
pub(crate) fn hash(key: &str) -> String {
    format!("{:032x}", xxh3_128(key.as_bytes()))
}
