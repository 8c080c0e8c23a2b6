//! Counters of a [`Jit`](crate::Jit).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a [`Jit`](crate::Jit) has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Kernels compiled, whether or not that succeeded.
    pub compiled: u64,
    /// Answers from memory, those that waited for another thread's compilation included.
    pub memory_hits: u64,
    /// Answers from the disk store.
    pub disk_hits: u64,
    /// Entries of the disk store that were damaged or belonged to another kernel.
    pub disk_rejects: u64,
    /// Texts handed to an assembler, whether or not that succeeded.
    pub assembled: u64,
    /// Nanoseconds spent compiling and assembling, summed over threads.
    pub compile_nanos: u64,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub compiled: AtomicU64,
    pub memory_hits: AtomicU64,
    pub disk_hits: AtomicU64,
    pub disk_rejects: AtomicU64,
    pub assembled: AtomicU64,
    pub compile_nanos: AtomicU64,
}

impl Counters {
    pub fn snapshot(&self) -> Stats {
        Stats {
            compiled: self.compiled.load(Relaxed),
            memory_hits: self.memory_hits.load(Relaxed),
            disk_hits: self.disk_hits.load(Relaxed),
            disk_rejects: self.disk_rejects.load(Relaxed),
            assembled: self.assembled.load(Relaxed),
            compile_nanos: self.compile_nanos.load(Relaxed),
        }
    }
}

pub(crate) fn bump(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
