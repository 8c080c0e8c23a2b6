//! The disk store.

use crate::{
    add, entries, jit,
    kernels::{Text, assert_adds, elementwise, host},
};
use burn_mlir_jit::{Config, JitError};
use std::{
    fs,
    path::Path,
    sync::Barrier,
    thread,
    time::{Duration, SystemTime},
};
use tempfile::tempdir;

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

/// As processes do: each with its own view of one directory.
#[test]
fn several_write_one_entry_at_once() {
    let (directory, barrier) = (tempdir().unwrap(), Barrier::new(4));
    let write = || {
        for i in 0..10 {
            let jit = jit(Config::at(directory.path()));
            barrier.wait();
            assert_adds(&jit.get_or_compile(&format!("add {i}"), &host(), add()).unwrap());
            assert_eq!(jit.stats().disk_rejects, 0);
        }
    };
    thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(write))));
    assert_eq!(entries(directory.path()).len(), 10);
}
