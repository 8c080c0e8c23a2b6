//! Instructions that MLIR has no operation for, or none that takes an address with a constant part.

use crate::emit::{Emitter, Value};
use crate::nvptx::writer::{GLOBAL, WORKGROUP};
use std::fmt::Display;

/// A constant of type `i32`.
pub(super) fn word(e: &mut Emitter, value: impl Display) -> Value {
    e.op(format_args!("arith.constant {value} : i32"))
}

/// An arithmetic operation of an `i32` value and a constant; none where it changes nothing.
pub(super) fn with_word(e: &mut Emitter, op: &str, a: &Value, b: usize) -> Value {
    let same = match op {
        "arith.muli" | "arith.divui" => b == 1,
        "arith.addi" | "arith.shrui" | "arith.shli" | "arith.xori" => b == 0,
        _ => false,
    };
    if same {
        return a.clone();
    }
    let b = word(e, b);
    words(e, op, a, &b)
}

/// An arithmetic operation of two `i32` values.
pub(super) fn words(e: &mut Emitter, op: &str, a: &Value, b: &Value) -> Value {
    e.op(format_args!("{op} {a}, {b} : i32"))
}

/// An `index` constant that optimisations do not see.
pub(super) fn opaque(e: &mut Emitter, value: usize) -> Value {
    let value =
        e.op(format_args!("llvm.inline_asm asm_dialect = att \"mov.b32 $0, {value};\", \"=r\" : () -> i32"));
    widened(e, &value)
}

/// An `index` as an `i32`, which it must fit.
pub(super) fn narrowed(e: &mut Emitter, a: &Value) -> Value {
    e.op(format_args!("arith.index_castui {a} : index to i32"))
}

/// An `i32` that is not negative as an `index`.
pub(super) fn widened(e: &mut Emitter, a: &Value) -> Value {
    e.op(format_args!("arith.index_castui {a} : i32 to index"))
}

/// The address of workgroup memory as instructions take it, an `i32`.
pub(super) fn shared_address(e: &mut Emitter, memory: &Value) -> Value {
    e.op(format_args!("llvm.ptrtoint {memory} : {WORKGROUP} to i32"))
}

/// The pointer of an `i32` address in workgroup memory.
pub(super) fn shared_pointer(e: &mut Emitter, address: &Value) -> Value {
    e.op(format_args!("llvm.inttoptr {address} : i32 to {WORKGROUP}"))
}

/// Starts a copy of `bytes` (4, 8 or 16) from global memory to the workgroup's memory, `shift` bytes after
/// `to`; with a `count`, of so many bytes, and zeros for the rest.
pub(super) fn copy_async(
    e: &mut Emitter,
    to: &Value,
    shift: usize,
    from: &Value,
    bytes: usize,
    count: Option<&Value>,
) {
    // Only copies of 16 bytes can pass by the first-level cache.
    let cache = if bytes == 16 { "cg" } else { "ca" };
    let copy = format!("cp.async.{cache}.shared.global [$0+{shift}], [$1], {bytes}");
    let asm = "llvm.inline_asm has_side_effects asm_dialect = att";
    match count {
        None => e.line(format_args!(
            "{asm} \"{copy};\", \"r,l,~{{memory}}\" {to}, {from} : (i32, {GLOBAL}) -> ()"
        )),
        Some(count) => e.line(format_args!(
            "{asm} \"{copy}, $2;\", \"r,l,r,~{{memory}}\" {to}, {from}, {count} : (i32, {GLOBAL}, i32) -> ()"
        )),
    }
}

/// Ends a group of copies.
pub(super) fn commit(e: &mut Emitter) {
    e.line("llvm.inline_asm has_side_effects asm_dialect = att \"cp.async.commit_group;\", \"~{memory}\" : () -> ()");
}

/// Waits until at most `pending` groups of this thread's copies are under way.
pub(super) fn wait(e: &mut Emitter, pending: usize) {
    e.line(format_args!(
        "llvm.inline_asm has_side_effects asm_dialect = att \"cp.async.wait_group {pending};\", \"~{{memory}}\" \
         : () -> ()"
    ));
}

/// Four 8 × 8 matrices of 16-bit elements from workgroup memory, `shift` bytes after the lane's address; with
/// `transposed`, their transposes. Four `i32`.
pub(super) fn load_matrices(e: &mut Emitter, from: &Value, shift: usize, transposed: bool) -> Vec<Value> {
    let transposed = if transposed { ".trans" } else { "" };
    const STRUCT: &str = "!llvm.struct<(i32, i32, i32, i32)>";
    let all = e.op(format_args!(
        "llvm.inline_asm has_side_effects asm_dialect = att \"ldmatrix.sync.aligned.m8n8.x4{transposed}.shared.b16 \
         {{$0,$1,$2,$3}}, [$4+{shift}];\", \"=r,=r,=r,=r,r,~{{memory}}\" {from} : (i32) -> {STRUCT}"
    ));
    (0..4).map(|part| e.op(format_args!("llvm.extractvalue {all}[{part}] : {STRUCT}"))).collect()
}

/// A word of workgroup memory, `shift` bytes after an address. An `i32`.
pub(super) fn load_word(e: &mut Emitter, from: &Value, shift: usize) -> Value {
    e.op(format_args!(
        "llvm.inline_asm has_side_effects asm_dialect = att \"ld.shared.b32 $0, [$1+{shift}];\", \
         \"=r,r,~{{memory}}\" {from} : (i32) -> i32"
    ))
}

/// The bits of an f32 rounded to TF32.
pub(super) fn to_tf32(e: &mut Emitter, x: &Value) -> Value {
    e.op(format_args!(
        "llvm.inline_asm asm_dialect = att \"cvt.rna.tf32.f32 $0, $1;\", \"=r,r\" {x} : (i32) -> i32"
    ))
}

/// `sums += a · b` of a warp: 16 rows, 8 columns. `instruction` is the shape with its types.
pub(super) fn multiply(e: &mut Emitter, instruction: &str, a: &[Value], b: &[Value], sums: &mut [Value]) {
    const STRUCT: &str = "!llvm.struct<(f32, f32, f32, f32)>";
    let operands: Vec<&str> = a.iter().chain(b).chain(sums.iter()).map(String::as_str).collect();
    let all = e.op(format_args!(
        "llvm.inline_asm asm_dialect = att \"mma.sync.aligned.{instruction} {{$0,$1,$2,$3}}, {{$4,$5,$6,$7}}, \
         {{$8,$9}}, {{$0,$1,$2,$3}};\", \"=f,=f,=f,=f,r,r,r,r,r,r,0,1,2,3\" {} : \
         (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32) -> {STRUCT}",
        operands.join(", ")
    ));
    for (part, sum) in sums.iter_mut().enumerate() {
        *sum = e.op(format_args!("llvm.extractvalue {all}[{part}] : {STRUCT}"));
    }
}
