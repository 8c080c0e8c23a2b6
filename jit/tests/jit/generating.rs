//! What the code looks like.

use crate::{
    add, jit,
    kernels::{PTX_KERNEL, Text, elementwise, host, sm_90a},
};
use burn_mlir_ir::{HostTarget, NvptxTarget, Target};
use burn_mlir_jit::{Code, Config, JitError, Stage, host_target};
use tempfile::tempdir;

fn text<'a>(stages: &'a [Stage], extension: &str) -> &'a str {
    &stages.iter().find(|stage| stage.extension == extension).unwrap().text
}

#[test]
fn the_host_is_described() {
    let host = host_target();
    assert!(!host.cpu.is_empty() && host.triple.contains('-'));
    assert!([16, 32, 64].contains(&host.vector_bytes));
    assert!(host.l1_bytes >= 8 << 10 && host.l2_bytes >= host.l1_bytes);
    #[cfg(target_arch = "x86_64")]
    {
        assert_eq!(host.fma, is_x86_feature_detected!("fma"));
        let (avx512, avx2) = (is_x86_feature_detected!("avx512bw"), is_x86_feature_detected!("avx2"));
        let expected = if avx512 {
            (64, 32)
        } else if avx2 {
            (32, 16)
        } else {
            (16, 16)
        };
        assert_eq!((host.vector_bytes, host.vector_registers), expected);
    }
}

#[test]
fn vectors_fill_the_registers_of_every_level() {
    let jit = jit(Config::disabled());
    for (target, register, wider) in
        [(HostTarget::x86_64_v4(), "%zmm", "%nothing"), (HostTarget::x86_64_v3(), "%ymm", "%zmm")]
    {
        let (_, stages) = jit.emit(&Target::Host(target), add()).unwrap();
        let assembly = text(&stages, "s");
        assert!(assembly.contains(register) && !assembly.contains(wider), "{assembly}");
    }
}

/// A loop over scalars: `x[i] = STORED` for `i` in `begin..end`.
fn scalar_loop(stored: &str) -> String {
    format!(
        r#"llvm.func @phase(%x: !llvm.ptr, %begin: i64, %end: i64) {{
  %one = llvm.mlir.constant(1 : i64) : i64
  %zero = llvm.mlir.constant(0.0 : f32) : f32
  llvm.br ^head(%begin : i64)
^head(%i: i64):
  %more = llvm.icmp "slt" %i, %end : i64
  llvm.cond_br %more, ^body, ^exit
^body:
  %at = llvm.getelementptr %x[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  %v = llvm.load %at : !llvm.ptr -> f32
  %twice = llvm.fadd %v, %v : f32
  llvm.store {stored}, %at : f32, !llvm.ptr
  %next = llvm.add %i, %one : i64
  llvm.br ^head(%next : i64)
^exit:
  llvm.return
}}"#
    )
}

#[test]
fn loops_are_vectorised_at_full_width() {
    let target = Target::Host(HostTarget::x86_64_v4());
    let (_, stages) = jit(Config::disabled()).emit(&target, Text::new(scalar_loop("%twice"))).unwrap();
    assert!(text(&stages, "s").contains("%zmm"), "{}", text(&stages, "s"));
}

#[test]
fn loops_that_fill_do_not_become_calls() {
    let (_, stages) = jit(Config::disabled()).emit(&host(), Text::new(scalar_loop("%zero"))).unwrap();
    assert!(!text(&stages, "s").contains("memset"), "{}", text(&stages, "s"));
}

#[test]
fn products_and_sums_are_not_contracted() {
    let source = elementwise("fmul")
        .replace("  llvm.store %r,", "  %sum = llvm.fadd %r, %v : vector<16xf32>\n  llvm.store %sum,");
    let (_, stages) =
        jit(Config::disabled()).emit(&Target::Host(HostTarget::x86_64_v4()), Text::new(source)).unwrap();
    let assembly = text(&stages, "s");
    assert!(assembly.contains("vmulps") && assembly.contains("vaddps") && !assembly.contains("vfmadd"));
}

#[test]
fn gpus_get_ptx_with_ieee_arithmetic() {
    let directory = tempdir().unwrap();
    let kernel = Text::new(PTX_KERNEL);
    let first = jit(Config::at(directory.path())).get_or_compile("ptx", &sm_90a(), kernel.clone()).unwrap();
    let again = jit(Config::at(directory.path())).get_or_compile("ptx", &sm_90a(), kernel.clone()).unwrap();
    assert_eq!(kernel.times_lowered(), 1);
    for code in [first, again] {
        let Code::Ptx(ptx) = &*code else { panic!("not PTX") };
        assert_eq!(ptx.program, kernel.program());
        for expected in [
            ".version 8.3",
            ".target sm_90a",
            ".visible .entry phase(",
            "mul.rn.f32",
            "add.rn.f32",
            "div.rn.f32",
        ] {
            assert!(ptx.text.contains(expected), "no `{expected}` in\n{}", ptx.text);
        }
        for unexpected in [".extern", ".ftz", "fma", "\0"] {
            assert!(!ptx.text.contains(unexpected), "`{unexpected}` in\n{}", ptx.text);
        }
    }
}

#[test]
fn gpu_targets_and_entries_are_checked() {
    let jit = jit(Config::disabled());
    let unknown = Target::Nvptx(NvptxTarget::new("sm_12345", None));
    let error = jit.get_or_compile("ptx", &unknown, Text::new(PTX_KERNEL)).unwrap_err();
    assert!(matches!(&error, JitError::Target { target, .. } if target.contains("sm_12345")), "{error:?}");
    let missing = Text { symbols: vec!["phase", "another"], ..Text::new(PTX_KERNEL) };
    let error = jit.get_or_compile("ptx", &sm_90a(), missing).unwrap_err();
    assert!(matches!(&error, JitError::MissingPhase(name) if name == "another"), "{error:?}");
}
