//! Code from hand-written modules: compiled, cached, loaded, run. One program, because linking LLVM
//! into several takes long.

mod assembling;
mod caching;
mod generating;
mod kernels;
mod loading;
mod storing;

use burn_mlir_jit::{Config, Jit};
use kernels::{FRONTEND, Text, elementwise};
use std::{
    fs,
    path::{Path, PathBuf},
};

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
