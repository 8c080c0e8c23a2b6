//! A phase of a launch while it runs: tiles handed out in chunks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam_utils::CachePadded;

use crate::kernel::PhaseFn;

/// The arguments of a phase and the next tile to hand out.
pub(super) struct Region {
    pub(super) function: PhaseFn,
    pub(super) addresses: *const *mut u8,
    pub(super) scalars: *const u64,
    pub(super) shared: *mut u8,
    pub(super) status: *mut u32,
    pub(super) worker_bytes: usize,
    pub(super) tiles: u64,
    pub(super) chunk: u64,
    pub(super) next: CachePadded<AtomicU64>,
}

impl Region {
    /// Chunks nobody has taken yet.
    pub(super) fn chunks_left(&self) -> u64 {
        self.tiles.saturating_sub(self.next.load(Relaxed)).div_ceil(self.chunk)
    }

    /// Computes chunks until none are left; returns how many tiles that were.
    ///
    /// # Safety
    /// The arguments are valid and `worker` is `worker_bytes` of scratch nobody else uses.
    pub(super) unsafe fn work(&self, worker: *mut u8) -> u64 {
        let mut done = 0;
        loop {
            let begin = self.next.fetch_add(self.chunk, Relaxed);
            if begin >= self.tiles {
                return done;
            }
            let end = self.tiles.min(begin + self.chunk);
            // SAFETY: the counter hands out each tile once.
            unsafe { self.call(worker, begin, end) };
            done += end - begin;
        }
    }

    /// Computes a range of tiles.
    ///
    /// # Safety
    /// As for `work`; nobody else computes these tiles.
    pub(super) unsafe fn call(&self, worker: *mut u8, begin: u64, end: u64) {
        // SAFETY: by this function's contract and that of `HostKernel::new`.
        unsafe {
            (self.function)(
                self.addresses,
                self.scalars,
                self.shared,
                worker,
                self.status,
                begin as i64,
                end as i64,
            );
        }
    }
}
