//! One compilation per kernel, its failures, and what is written about it.

use crate::{
    add, entries, jit,
    kernels::{FRONTEND, PTX_KERNEL, Text, assert_adds, elementwise, host, run, sm_90a},
};
use burn_mlir_ir::{HostTarget, Target};
use burn_mlir_jit::{Config, Frontend, Jit, JitError, LowerError, Lowered, Request, host_target};
use melior::Context;
use std::{
    fs,
    sync::{Arc, Barrier},
    thread,
};
use tempfile::tempdir;

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
    let newer = Jit::new(Config::at(directory.path()), Frontend { version: 2, ..FRONTEND });
    newer.get_or_compile("add", &host(), add()).unwrap();
    assert_eq!((first.stats().compiled, newer.stats().compiled), (3, 1));
    assert_eq!(entries(directory.path()).len(), 4);
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
        assembler: None,
    });
    let codes = jit.get_or_compile_many(requests.collect());
    for (i, code) in codes.iter().enumerate() {
        let expected = [6.0, 2.0, 8.0, 2.0][i % 4];
        assert_eq!(run(code.as_ref().unwrap(), 2.0, 1, 0, 1)[4], expected, "kernel {i}");
    }
    assert_eq!((jit.stats().compiled, jit.stats().memory_hits), (4, 8));
}

#[test]
fn failures_are_typed_and_forgotten() {
    let jit = jit(Config::disabled());
    let unparsable = jit.get_or_compile("add", &host(), Text::new("nonsense"));
    let text = unparsable.unwrap_err().to_string();
    assert!(text.contains("the text does not parse") && text.contains("'nonsense' is unknown"), "{text}");
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
