//! Code from hand-written modules: compiled, cached, loaded, run.

mod common;

use burn_mlir_ir::{HostTarget, Target};
use burn_mlir_jit::{Code, Config, Jit, JitError, LowerError, Lowered, Request, Stage, host_target};
use common::{FRONTEND, Text, assert_adds, elementwise, host, run, sm_90a};
use melior::Context;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Barrier},
    thread,
    time::{Duration, SystemTime},
};
use tempfile::tempdir;

fn jit(config: Config) -> Jit {
    Jit::new(config, FRONTEND)
}

fn add() -> Text {
    Text::new(elementwise("fadd"))
}

/// The entries of a disk store.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

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
fn a_kernel_is_compiled_once_and_runs() {
    let jit = jit(Config::disabled());
    let kernel = add();
    let first = jit.get_or_compile("add", &host(), kernel.clone()).unwrap();
    assert_adds(&first);
    assert_eq!(*first.program(), kernel.program());
    let second = jit.get_or_compile("add", &host(), kernel.clone()).unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(kernel.times_lowered(), 1);
    let stats = jit.stats();
    assert_eq!((stats.compiled, stats.memory_hits, stats.disk_hits, stats.disk_rejects), (1, 1, 0, 0));
    assert!(stats.compile_nanos > 0);
}

#[test]
fn the_key_tells_kernels_targets_and_frontends_apart() {
    let directory = tempdir().unwrap();
    let first = jit(Config::at(directory.path()));
    let mut smaller = host_target();
    smaller.l2_bytes /= 2;
    first.get_or_compile("add", &host(), add()).unwrap();
    first.get_or_compile("add", &Target::Host(smaller), add()).unwrap();
    let multiply = first.get_or_compile("mul", &host(), Text::new(elementwise("fmul"))).unwrap();
    assert_eq!(run(&multiply, 3.0, 1, 0, 1)[5], 15.0);
    let newer = Jit::new(Config::at(directory.path()), burn_mlir_jit::Frontend { version: 2, ..FRONTEND });
    newer.get_or_compile("add", &host(), add()).unwrap();
    assert_eq!((first.stats().compiled, newer.stats().compiled), (3, 1));
    assert_eq!(entries(directory.path()).len(), 4);
}

#[test]
fn another_jit_reads_the_disk_store() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("made/on/demand");
    jit(Config::at(&path)).get_or_compile("add", &host(), add()).unwrap();
    let (second, kernel) = (jit(Config::at(&path)), add());
    let code = second.get_or_compile("add", &host(), kernel.clone()).unwrap();
    assert_adds(&code);
    assert_eq!(*code.program(), kernel.program());
    assert_eq!(kernel.times_lowered(), 0);
    assert_eq!((second.stats().compiled, second.stats().disk_hits), (0, 1));
}

#[test]
fn damaged_entries_are_rejected_and_replaced() {
    let directory = tempdir().unwrap();
    jit(Config::at(directory.path())).get_or_compile("add", &host(), add()).unwrap();
    let entry = entries(directory.path()).remove(0);
    let good = fs::read(&entry).unwrap();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    let damages = [
        Vec::new(),
        good[..good.len() / 2].to_vec(),
        good[..good.len() - 1].to_vec(),
        flipped,
        vec![0; good.len()],
    ];
    for damaged in damages {
        fs::write(&entry, &damaged).unwrap();
        let jit = jit(Config::at(directory.path()));
        assert_adds(&jit.get_or_compile("add", &host(), add()).unwrap());
        let stats = jit.stats();
        assert_eq!((stats.compiled, stats.disk_hits, stats.disk_rejects), (1, 0, 1));
        assert_eq!(fs::read(&entry).unwrap(), good);
    }
}

#[test]
fn an_entry_of_another_kernel_is_not_served() {
    let directory = tempdir().unwrap();
    let first = jit(Config::at(directory.path()));
    first.get_or_compile("mul", &host(), Text::new(elementwise("fmul"))).unwrap();
    let multiply = entries(directory.path()).remove(0);
    first.get_or_compile("add", &host(), add()).unwrap();
    let add_entry = entries(directory.path()).into_iter().find(|path| *path != multiply).unwrap();
    // As if both keys had one hash.
    fs::copy(&multiply, &add_entry).unwrap();
    let second = jit(Config::at(directory.path()));
    assert_adds(&second.get_or_compile("add", &host(), add()).unwrap());
    assert_eq!(second.stats().disk_rejects, 1);
}

#[test]
fn an_unwritable_directory_only_costs_the_store() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let jit = jit(Config::at(file.join("below")));
    assert_adds(&jit.get_or_compile("add", &host(), add()).unwrap());
    assert_adds(&jit.get_or_compile("add again", &host(), add()).unwrap());
    assert_eq!(jit.stats().compiled, 2);
}

#[test]
fn the_environment_chooses() {
    let from = |pairs: &'static [(&str, &str)]| {
        Config::from_variables(|name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_string()))
    };
    for off in [&[("BURN_MLIR_CACHE", "0")], &[("BURN_MLIR_CACHE", "off")], &[("BURN_MLIR_CACHE", "")]] {
        assert_eq!(from(off), Config::disabled());
    }
    assert!(from(&[]).directory.is_none_or(|path| path.ends_with("burn-mlir")));
    let all = from(&[
        ("BURN_MLIR_CACHE", "/a"),
        ("BURN_MLIR_CACHE_SIZE", "3"),
        ("BURN_MLIR_CACHE_VERIFY", "1"),
        ("BURN_MLIR_DUMP", "/b"),
    ]);
    let expected =
        Config { directory: Some("/a".into()), max_bytes: 3 << 20, verify: true, dump: Some("/b".into()) };
    assert_eq!(all, expected);
    assert_eq!(from(&[("BURN_MLIR_CACHE_SIZE", "big"), ("BURN_MLIR_CACHE", "off")]), Config::disabled());
}

#[test]
fn threads_asking_for_one_kernel_share_a_compilation() {
    let (jit, kernel, barrier) = (jit(Config::disabled()), add(), Barrier::new(8));
    let codes: Vec<_> = thread::scope(|scope| {
        let ask = || {
            barrier.wait();
            jit.get_or_compile("add", &host(), kernel.clone()).unwrap()
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(codes.iter().all(|code| Arc::ptr_eq(code, &codes[0])));
    assert_eq!(kernel.times_lowered(), 1);
    assert_eq!((jit.stats().compiled, jit.stats().memory_hits), (1, 7));
}

#[test]
fn many_kernels_compile_together() {
    let jit = jit(Config::disabled());
    let ops = ["fadd", "fsub", "fmul", "fdiv"];
    let requests = (0..12).map(|i| Request {
        kernel: ops[i % 4].into(),
        target: host(),
        lower: Box::new(Text::new(elementwise(ops[i % 4]))),
    });
    let codes = jit.get_or_compile_many(requests.collect());
    for (i, code) in codes.iter().enumerate() {
        let expected = [6.0, 2.0, 8.0, 2.0][i % 4];
        assert_eq!(run(code.as_ref().unwrap(), 2.0, 1, 0, 1)[4], expected, "kernel {i}");
    }
    assert_eq!((jit.stats().compiled, jit.stats().memory_hits), (4, 8));
}

#[test]
fn verifying_recompiles_and_compares() {
    let directory = tempdir().unwrap();
    jit(Config::at(directory.path())).get_or_compile("add", &host(), add()).unwrap();
    let verifying = || jit(Config { verify: true, ..Config::at(directory.path()) });
    let (second, kernel) = (verifying(), add());
    assert_adds(&second.get_or_compile("add", &host(), kernel.clone()).unwrap());
    assert_eq!(kernel.times_lowered(), 1);
    assert_eq!((second.stats().compiled, second.stats().disk_hits), (1, 1));
    // A key that leaves out what changes the code is what this finds.
    let other = verifying().get_or_compile("add", &host(), Text::new(elementwise("fmul")));
    assert!(matches!(other, Err(JitError::Unreproducible(_))), "{other:?}");
}

#[test]
fn the_store_stays_within_its_size() {
    let directory = tempdir().unwrap();
    let unbounded = jit(Config::at(directory.path()));
    unbounded.get_or_compile("add 0", &host(), add()).unwrap();
    let first = entries(directory.path()).remove(0);
    let size = fs::metadata(&first).unwrap().len();
    for i in 1..4 {
        unbounded.get_or_compile(&format!("add {i}"), &host(), add()).unwrap();
    }
    // The order of last use, the first entry's the latest but one.
    for (age, path) in entries(directory.path()).iter().filter(|path| **path != first).enumerate() {
        set_age(path, 1000 + age as u64);
    }
    set_age(&first, 500);
    let bounded = jit(Config { max_bytes: size * 3, ..Config::at(directory.path()) });
    bounded.get_or_compile("add 4", &host(), add()).unwrap();
    let left = entries(directory.path());
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.contains(&first));
}

fn set_age(path: &Path, seconds: u64) {
    let time = SystemTime::now() - Duration::from_secs(seconds);
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn failures_are_typed_and_forgotten() {
    let jit = jit(Config::disabled());
    let unparsable = jit.get_or_compile("add", &host(), Text::new("nonsense"));
    assert!(
        matches!(&unparsable, Err(JitError::Lowering(e)) if e.to_string().contains("parse")),
        "{unparsable:?}"
    );
    let untranslatable = "func.func @phase() { return }";
    let untranslated = jit.get_or_compile("add", &host(), Text::new(untranslatable));
    assert!(
        matches!(&untranslated, Err(JitError::Translation(e)) if e.contains("func.func")),
        "{untranslated:?}"
    );
    fn panics<'c>(_: &'c Context, _: bool) -> Result<Lowered<'c>, LowerError> {
        panic!("at the {}", "lowering")
    }
    let panicked = jit.get_or_compile("add", &host(), panics);
    assert!(matches!(&panicked, Err(JitError::Panicked(e)) if e == "at the lowering"), "{panicked:?}");
    let nowhere = Target::Host(HostTarget { triple: "z80-none".into(), ..host_target() });
    assert!(matches!(jit.get_or_compile("add", &nowhere, add()), Err(JitError::Target { .. })));
    assert!(matches!(jit.emit(&nowhere, add()), Err(JitError::Target { .. })));
    let missing = Text { symbols: vec!["phase", "another"], ..add() };
    let missing = jit.get_or_compile("add", &host(), missing);
    assert!(matches!(&missing, Err(JitError::MissingPhase(name)) if name == "another"), "{missing:?}");
    assert_adds(&jit.get_or_compile("add", &host(), add()).unwrap());
}

const CALLS: &str = "
llvm.func @beyond(i64)
llvm.func @above(i64)
llvm.func @phase(%n: i64) {
  llvm.call @beyond(%n) : (i64) -> ()
  llvm.call @above(%n) : (i64) -> ()
  llvm.return
}";

#[test]
fn unknown_symbols_are_named() {
    for target in [host(), sm_90a()] {
        let error = jit(Config::disabled()).get_or_compile("calls", &target, Text::new(CALLS)).unwrap_err();
        assert!(
            matches!(&error, JitError::Unresolved { symbols } if symbols == &["above", "beyond"]),
            "{error:?}"
        );
        assert!(error.to_string().contains("above, beyond"));
    }
}

/// A function of the compiler's run-time library, which only shows in the object.
#[test]
fn symbols_of_the_code_generator_are_named() {
    let divide = "llvm.func @phase(%p: !llvm.ptr) {
      %a = llvm.load %p : !llvm.ptr -> i128
      %q = llvm.sdiv %a, %a2 : i128
      llvm.store %q, %p : i128, !llvm.ptr
      llvm.return
    }"
    .replace("      %q", "      %p2 = llvm.getelementptr %p[1] : (!llvm.ptr) -> !llvm.ptr, i128\n      %a2 = llvm.load %p2 : !llvm.ptr -> i128\n      %q");
    let error = jit(Config::disabled()).get_or_compile("divide", &host(), Text::new(divide)).unwrap_err();
    assert!(matches!(&error, JitError::Unresolved { symbols } if symbols == &["__divti3"]), "{error:?}");
}

/// Copies `end` bytes from the first buffer to the second.
const COPIES: &str = r#"
llvm.func @phase(%buffers: !llvm.ptr, %scalars: !llvm.ptr, %shared: !llvm.ptr, %worker: !llvm.ptr,
                 %status: !llvm.ptr, %begin: i64, %end: i64) {
  %x = llvm.load %buffers : !llvm.ptr -> !llvm.ptr
  %second = llvm.getelementptr %buffers[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %y = llvm.load %second : !llvm.ptr -> !llvm.ptr
  "llvm.intr.memcpy"(%y, %x, %end) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
  llvm.return
}"#;

#[test]
fn copying_is_provided_by_libc() {
    let code = jit(Config::disabled()).get_or_compile("copies", &host(), Text::new(COPIES)).unwrap();
    let y = run(&code, 0.0, 2, 0, 20);
    assert_eq!(y[..6], [0.0, 1.0, 2.0, 3.0, 4.0, -1.0]);
}

#[test]
fn code_is_unloaded_and_loaded_again() {
    let directory = tempdir().unwrap();
    jit(Config::at(directory.path())).get_or_compile("add", &host(), add()).unwrap();
    for _ in 0..200 {
        let jit = jit(Config::at(directory.path()));
        assert_adds(&jit.get_or_compile("add", &host(), add()).unwrap());
        assert_eq!(jit.stats().disk_hits, 1);
    }
}

#[test]
fn threads_load_and_unload_at_once() {
    let directory = tempdir().unwrap();
    jit(Config::at(directory.path())).get_or_compile("add", &host(), add()).unwrap();
    let load = || {
        for _ in 0..50 {
            assert_adds(&jit(Config::at(directory.path())).get_or_compile("add", &host(), add()).unwrap());
        }
    };
    thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(load))));
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

const PTX_KERNEL: &str = r#"
llvm.func @phase(%x: !llvm.ptr, %s: f32) attributes {nvvm.kernel} {
  %i = nvvm.read.ptx.sreg.tid.x : i32
  %p = llvm.getelementptr %x[%i] : (!llvm.ptr, i32) -> !llvm.ptr, f32
  %v = llvm.load %p : !llvm.ptr -> f32
  %m = llvm.fmul %v, %s : f32
  %a = llvm.fadd %m, %v : f32
  %d = llvm.fdiv %a, %s : f32
  llvm.store %d, %p : f32, !llvm.ptr
  llvm.return
}"#;

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

/// The NVPTX back end ends the process on this, unless it is stopped.
#[test]
fn a_fatal_error_of_llvm_is_an_error() {
    let source = PTX_KERNEL.replace("llvm.fdiv %a, %s : f32", "llvm.intr.exp(%a) : (f32) -> f32");
    let jit = jit(Config::disabled());
    // More often than there are workers, each of which is lost.
    for _ in 0..40 {
        let error = jit.get_or_compile("exp", &sm_90a(), Text::new(source.clone())).unwrap_err();
        assert!(matches!(&error, JitError::Fatal(_)), "{error:?}");
    }
    assert_adds(&jit.get_or_compile("add", &host(), add()).unwrap());
}

#[test]
fn a_dump_holds_every_stage() {
    let (store, directory) = (tempdir().unwrap(), tempdir().unwrap());
    let config = || Config { dump: Some(directory.path().join("dump")), ..Config::at(store.path()) };
    let kernel = add();
    jit(config()).get_or_compile("the kernel's text", &host(), kernel.clone()).unwrap();
    // Another process: the disk store is passed over, the numbers go on.
    let second = jit(config());
    second.get_or_compile("the kernel's text", &host(), kernel.clone()).unwrap();
    second.get_or_compile("ptx", &sm_90a(), Text::new(PTX_KERNEL)).unwrap();
    assert_eq!(kernel.times_lowered(), 2);
    let names: Vec<String> = entries(&directory.path().join("dump"))
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_string())
        .collect();
    let stems: Vec<&str> = names.iter().filter_map(|name| name.strip_suffix(".1-ir.txt")).collect();
    assert_eq!(stems.iter().map(|stem| &stem[..5]).collect::<Vec<_>>(), ["0001-", "0002-", "0003-"]);
    for stem in &stems {
        let last = if stem.starts_with("0003") { "5.ptx" } else { "5.s" };
        for stage in ["1-ir.txt", "2-linalg.mlir", "3-llvm.mlir", "4.ll", last] {
            assert!(names.contains(&format!("{stem}.{stage}")), "{stem}.{stage} in {names:?}");
        }
    }
    let read = |name: String| fs::read_to_string(directory.path().join("dump").join(name)).unwrap();
    assert_eq!(read(format!("{}.1-ir.txt", stems[0])), "the kernel's text");
    assert_eq!(read(format!("{}.2-linalg.mlir", stems[0])), "the first stage");
    assert!(read(format!("{}.4.ll", stems[0])).contains("define void @phase("));
    let index = read("index.txt".into());
    assert_eq!(index.lines().count(), 3);
    assert!(
        index.lines().zip(&stems).all(|(line, stem)| line.starts_with(stem) && line.ends_with("add 64xf32"))
    );
}
