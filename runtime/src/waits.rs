//! How often threads of this process waited for devices.

use std::sync::atomic::{AtomicU64, Ordering};

static WAITS: AtomicU64 = AtomicU64::new(0);

/// Notes that a thread is about to wait for work that may not be done.
pub(crate) fn count() {
    WAITS.fetch_add(1, Ordering::Relaxed);
}

/// How often a thread waited for work of a stream that was not done, or ran it itself, since the process began.
pub fn waits() -> u64 {
    WAITS.load(Ordering::Relaxed)
}
