//! Telling a user what does no harm but should be known.

use std::fmt::Display;

/// Logs a warning; writes it to the standard error where nobody has set up a log, as it would be lost.
pub fn warn(text: impl Display) {
    tracing::warn!("{text}");
    if !tracing::dispatcher::has_been_set() {
        eprintln!("burn-mlir: {text}");
    }
}
