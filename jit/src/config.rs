//! What a user can choose.

use crate::warn::warn;
use std::{env, path::PathBuf};

/// Where code is kept and what is written about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Directory of the disk store, or `None` for no disk store.
    pub directory: Option<PathBuf>,
    /// Most bytes the disk store keeps; the entries used longest ago go first.
    pub max_bytes: u64,
    /// On a hit of the disk store compile anyway, and fail if the result differs. For tests.
    pub verify: bool,
    /// Directory to write every stage of every kernel to. Reading the disk store is then left out,
    /// so that there are stages to write.
    pub dump: Option<PathBuf>,
}

/// Default bound on the size of the disk store.
const MAX_BYTES: u64 = 1 << 30;

impl Config {
    /// The user's choice by environment variables:
    /// - `BURN_MLIR_CACHE`: directory of the disk store; empty, `0` or `off` for none; by default
    ///   `burn-mlir` in the user's cache directory;
    /// - `BURN_MLIR_CACHE_SIZE`: its largest size in MiB, by default 1024;
    /// - `BURN_MLIR_CACHE_VERIFY`: `1` to recompile on every hit and compare;
    /// - `BURN_MLIR_DUMP`: directory to write every stage of every kernel to.
    pub fn from_env() -> Self {
        Self::from_variables(|name| env::var(name).ok())
    }

    /// As [`from_env`](Self::from_env), with `variable` in the place of the environment.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let directory = match variable("BURN_MLIR_CACHE").as_deref() {
            Some("" | "0" | "off") => None,
            Some(path) => Some(PathBuf::from(path)),
            None => directories::BaseDirs::new().map(|dirs| dirs.cache_dir().join("burn-mlir")),
        };
        let max_bytes = match variable("BURN_MLIR_CACHE_SIZE") {
            None => MAX_BYTES,
            Some(text) => match text.trim().parse::<u64>() {
                Ok(mib) => mib.saturating_mul(1 << 20),
                Err(_) => {
                    warn(format_args!(
                        "BURN_MLIR_CACHE_SIZE is `{text}`, which is no number of MiB: ignored"
                    ));
                    MAX_BYTES
                }
            },
        };
        Self {
            directory,
            max_bytes,
            verify: variable("BURN_MLIR_CACHE_VERIFY").as_deref() == Some("1"),
            dump: variable("BURN_MLIR_DUMP").filter(|path| !path.is_empty()).map(PathBuf::from),
        }
    }

    /// Memory only.
    pub fn disabled() -> Self {
        Self { max_bytes: MAX_BYTES, ..Self::default() }
    }

    /// A disk store in `directory`.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self { directory: Some(directory.into()), ..Self::disabled() }
    }
}
