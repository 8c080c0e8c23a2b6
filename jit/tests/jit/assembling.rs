//! What becomes of PTX: assembled once, kept beside it.

use crate::{
    entries, jit,
    kernels::{PTX_KERNEL, Text, sm_90a},
};
use burn_mlir_jit::{Assembler, Code, Config, Jit, JitError, Request};
use std::{
    fs,
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
};
use tempfile::tempdir;

/// Stands for a driver: its code is its name and the text, and it counts what it is asked.
struct Driver {
    asked: Arc<AtomicUsize>,
    /// What it is given, which counts how often it is lowered.
    kernel: Text,
}

impl Driver {
    fn new() -> Self {
        Self { asked: Arc::default(), kernel: Text::new(PTX_KERNEL) }
    }

    fn assembler(&self, version: &str) -> Assembler {
        let (asked, name) = (self.asked.clone(), version.to_string());
        let assemble = move |text: &str| {
            asked.fetch_add(1, SeqCst);
            Ok(format!("{name}: {text}").into_bytes())
        };
        Assembler { version: version.into(), assemble: Arc::new(assemble) }
    }

    fn request(&self, assembler: Option<Assembler>) -> Request {
        let lower = Box::new(self.kernel.clone());
        Request { kernel: "ptx".into(), target: sm_90a(), lower, assembler }
    }

    /// The code of a driver of that version.
    fn code(&self, jit: &Jit, version: &str) -> Arc<Code> {
        jit.get_or_compile_many(vec![self.request(Some(self.assembler(version)))]).remove(0).unwrap()
    }

    /// How often a kernel was lowered, and how often assembled.
    fn counts(&self) -> (usize, usize) {
        (self.kernel.times_lowered(), self.asked.load(SeqCst))
    }
}

/// Checks that the code holds what the driver of that version makes of its text.
fn assert_made_by(code: &Code, version: &str) {
    let Code::Ptx(ptx) = code else { panic!("not PTX") };
    assert!(ptx.text.contains(".visible .entry phase("));
    assert_eq!(ptx.cubin.as_deref(), Some(format!("{version}: {}", ptx.text).as_bytes()));
}

#[test]
fn a_warm_start_neither_compiles_nor_assembles() {
    let (directory, driver) = (tempdir().unwrap(), Driver::new());
    let first = jit(Config::at(directory.path()));
    assert_made_by(&driver.code(&first, "driver 1"), "driver 1");
    assert_made_by(&driver.code(&first, "driver 1"), "driver 1");
    assert_eq!((first.stats().compiled, first.stats().assembled), (1, 1));
    let second = jit(Config::at(directory.path()));
    let code = driver.code(&second, "driver 1");
    assert_made_by(&code, "driver 1");
    assert_eq!(*code.program(), driver.kernel.program());
    assert_eq!(driver.counts(), (1, 1));
    let stats = second.stats();
    assert_eq!((stats.compiled, stats.assembled, stats.disk_hits, stats.disk_rejects), (0, 0, 1, 0));
}

#[test]
fn another_driver_assembles_the_same_text() {
    let (directory, driver) = (tempdir().unwrap(), Driver::new());
    for version in ["driver 1", "driver 2", "driver 1"] {
        assert_made_by(&driver.code(&jit(Config::at(directory.path())), version), version);
    }
    assert_eq!(driver.counts(), (1, 2));
    // Within a process, too, a kernel has one code for each driver.
    let jit = jit(Config::disabled());
    assert_made_by(&driver.code(&jit, "driver 1"), "driver 1");
    assert_made_by(&driver.code(&jit, "driver 2"), "driver 2");
    let plain = jit.get_or_compile_many(vec![driver.request(None)]).remove(0).unwrap();
    assert!(matches!(&*plain, Code::Ptx(ptx) if ptx.cubin.is_none()));
}

#[test]
fn damaged_machine_code_is_made_again() {
    let (directory, driver) = (tempdir().unwrap(), Driver::new());
    driver.code(&jit(Config::at(directory.path())), "driver 1");
    assert_eq!(entries(directory.path()).len(), 2, "the text and the machine code");
    for (round, path) in entries(directory.path()).into_iter().enumerate() {
        let good = fs::read(&path).unwrap();
        let mut flipped = good.clone();
        flipped[good.len() / 2] ^= 1;
        fs::write(&path, flipped).unwrap();
        let jit = jit(Config::at(directory.path()));
        assert_made_by(&driver.code(&jit, "driver 1"), "driver 1");
        assert_eq!(jit.stats().disk_rejects, 1);
        assert_eq!(fs::read(&path).unwrap(), good);
        // One of the two was made again, not both.
        let (lowered, assembled) = driver.counts();
        assert_eq!(lowered + assembled, 3 + round);
    }
    assert_eq!(driver.counts(), (2, 2));
}

#[test]
fn a_refusal_is_an_error_and_the_text_is_kept() {
    let (directory, driver) = (tempdir().unwrap(), Driver::new());
    let refuses = |_: &str| Err("line 3: too many registers".to_string());
    let assembler = Assembler { version: "driver 1".into(), assemble: Arc::new(refuses) };
    let first = jit(Config::at(directory.path()));
    let error = first.get_or_compile_many(vec![driver.request(Some(assembler))]).remove(0).unwrap_err();
    assert!(matches!(&error, JitError::Assembly(reason) if reason.contains("line 3")), "{error:?}");
    assert_made_by(&driver.code(&first, "driver 1"), "driver 1");
    assert_eq!(driver.counts(), (1, 1));
}

#[test]
fn verifying_assembles_and_compares() {
    let (directory, driver) = (tempdir().unwrap(), Driver::new());
    driver.code(&jit(Config::at(directory.path())), "driver 1");
    let verifying = jit(Config { verify: true, ..Config::at(directory.path()) });
    assert_made_by(&driver.code(&verifying, "driver 1"), "driver 1");
    assert_eq!(driver.counts(), (2, 2));
    let differs = |_: &str| Ok(vec![1, 2, 3]);
    let assembler = Assembler { version: "driver 1".into(), assemble: Arc::new(differs) };
    let verifying = jit(Config { verify: true, ..Config::at(directory.path()) });
    let other = verifying.get_or_compile_many(vec![driver.request(Some(assembler))]).remove(0);
    assert!(matches!(other, Err(JitError::Unreproducible(_))), "{other:?}");
}

#[test]
fn threads_asking_for_one_kernel_share_its_assembly() {
    let (jit, driver, barrier) = (jit(Config::disabled()), Driver::new(), Barrier::new(8));
    thread::scope(|scope| {
        let ask = || {
            barrier.wait();
            assert_made_by(&driver.code(&jit, "driver 1"), "driver 1");
        };
        (0..8).for_each(|_| drop(scope.spawn(ask)));
    });
    assert_eq!(driver.counts(), (1, 1));
}
