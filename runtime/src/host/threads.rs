//! The workers that tiles are spread over.
//!
//! A thread that runs a launch publishes it in one of a few places, computes tiles itself, and leaves when
//! all are done; idle workers visit the places and help. The publisher never depends on help, so several
//! streams share the workers without a lock and cannot block one another.

use std::ptr::{null_mut, without_provenance_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crossbeam_utils::{Backoff, CachePadded};
use parking_lot::Mutex;

use super::float::FloatGuard;
use super::region::Region;
use super::scratch::Scratch;
use crate::MemoryPool;
use crate::kernel::HostPhase;

/// Regions that can have helpers at the same time; one more runs without.
const PLACES: usize = 8;

/// A phase estimated to take less than this is not worth the wake-up of a worker.
const INLINE_NANOSECONDS: u64 = 6_000;

/// Handing out a chunk costs two cache misses, so a chunk should take longer than that.
const CHUNK_NANOSECONDS: u64 = 2_000;

/// Chunks per thread: enough to even out threads of different speed. At the end threads wait for half a chunk.
const CHUNKS_PER_THREAD: u64 = 32;

/// How long an idle worker looks for work before it sleeps: longer than callers usually take from the end of a launch
/// to the next, as being woken costs about as much.
const LOOK_FOR: Duration = Duration::from_micros(50);

/// Sleepers one thread wakes; each of them wakes as many again while there is work.
const WAKE_AT_ONCE: usize = 2;

/// The worker threads of a device.
pub(crate) struct ThreadPool {
    shared: Arc<Shared>,
}

struct Shared {
    places: [CachePadded<Place>; PLACES],
    /// Counts publications: a worker that has seen the latest has nothing to look for.
    published: CachePadded<AtomicUsize>,
    /// Length of `sleepers`, to be read without its lock.
    sleeping: CachePadded<AtomicUsize>,
    sleepers: Mutex<Vec<Arc<Sleeper>>>,
    workers: AtomicUsize,
    closed: AtomicBool,
}

/// Where a region is visible to workers.
#[derive(Default)]
struct Place {
    /// Null: free. [`WITHDRAWN`]: its publisher waits for the visitors.
    region: AtomicPtr<Region>,
    /// Workers that may hold the region's address. The publisher leaves only at zero.
    visitors: AtomicUsize,
}

/// Stands for a region that no more workers shall enter.
const WITHDRAWN: *mut Region = without_provenance_mut(1);

struct Sleeper {
    thread: Thread,
    awake: AtomicBool,
}

impl ThreadPool {
    /// Starts workers so that with the thread that launches there are `threads`. Fewer if the system
    /// refuses some.
    pub(super) fn new(threads: usize, memory: &Arc<MemoryPool>) -> Self {
        let shared = Arc::new(Shared {
            places: Default::default(),
            published: CachePadded::default(),
            sleeping: CachePadded::default(),
            sleepers: Mutex::default(),
            workers: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        });
        for index in 1..threads {
            let (worker, scratch) = (shared.clone(), Scratch::new(memory.clone()));
            let started = std::thread::Builder::new()
                .name(format!("mlir-worker-{index}"))
                .spawn(move || worker.run(scratch));
            match started {
                Ok(_) => shared.workers.fetch_add(1, Ordering::Relaxed),
                Err(error) => {
                    tracing::warn!(%error, index, "no more worker threads");
                    break;
                }
            };
        }
        Self { shared }
    }

    /// Threads that can work on one launch.
    pub(crate) fn threads(&self) -> usize {
        self.shared.workers.load(Ordering::Relaxed) + 1
    }

    /// Runs a phase to its end on this thread and whoever helps. `region.chunk` is chosen here.
    ///
    /// # Safety
    /// The region's arguments are valid; `worker` is scratch of `region.worker_bytes` of this thread.
    pub(super) unsafe fn run(&self, phase: &HostPhase, region: &mut Region, worker: *mut u8) {
        let (tiles, threads) = (region.tiles, self.threads() as u64);
        if tiles == 0 {
            return;
        }
        if tiles == 1 || threads == 1 {
            // SAFETY: by this function's contract.
            return unsafe { region.call(worker, 0, tiles) };
        }
        let cost = phase.cost();
        if cost.is_some_and(|cost| cost.saturating_mul(tiles) < INLINE_NANOSECONDS) {
            let start = phase.is_due().then(Instant::now);
            // SAFETY: by this function's contract.
            unsafe { region.call(worker, 0, tiles) };
            if let Some(start) = start {
                phase.measured(start.elapsed(), tiles);
            }
            return;
        }
        let worthwhile = CHUNK_NANOSECONDS.div_ceil(cost.unwrap_or(CHUNK_NANOSECONDS));
        let even = tiles.div_ceil(threads);
        region.chunk = (tiles / (threads * CHUNKS_PER_THREAD)).max(worthwhile).clamp(1, even);
        // SAFETY: by this function's contract.
        unsafe { self.shared.run_with_help(phase, region, worker) };
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.shared.published.fetch_add(1, Ordering::SeqCst);
        self.shared.wake(usize::MAX);
    }
}

impl Shared {
    /// Publishes the region, works on it and waits for its helpers.
    ///
    /// # Safety
    /// As for `ThreadPool::run`.
    unsafe fn run_with_help(&self, phase: &HostPhase, region: &Region, worker: *mut u8) {
        let address = std::ptr::from_ref(region).cast_mut();
        let place = self.places.iter().find(|place| {
            place.region.load(Ordering::Relaxed).is_null()
                && place
                    .region
                    .compare_exchange(null_mut(), address, Ordering::SeqCst, Ordering::Relaxed)
                    .is_ok()
        });
        if place.is_some() {
            self.published.fetch_add(1, Ordering::SeqCst);
            self.wake((region.chunks_left() as usize).saturating_sub(1).min(WAKE_AT_ONCE));
        }
        let start = Instant::now();
        // SAFETY: by this function's contract.
        let done = unsafe { region.work(worker) };
        if done > 0 {
            phase.measured(start.elapsed(), done);
        }
        let Some(place) = place else { return };
        // Not yet free: visitors of a next publisher's region could keep this one waiting.
        place.region.store(WITHDRAWN, Ordering::SeqCst);
        let backoff = Backoff::new();
        while place.visitors.load(Ordering::SeqCst) > 0 {
            backoff.snooze();
        }
        place.region.store(null_mut(), Ordering::SeqCst);
    }

    /// Life of a worker.
    fn run(&self, mut scratch: Scratch) {
        let _float = FloatGuard::new();
        let sleeper = Arc::new(Sleeper { thread: std::thread::current(), awake: AtomicBool::new(true) });
        let mut woken = false;
        while !self.closed.load(Ordering::SeqCst) {
            let seen = self.published.load(Ordering::SeqCst);
            self.visit(&mut scratch, woken);
            let (backoff, start) = (Backoff::new(), Instant::now());
            while self.published.load(Ordering::Relaxed) == seen
                && !(backoff.is_completed() && start.elapsed() >= LOOK_FOR)
            {
                backoff.snooze();
            }
            woken = self.published.load(Ordering::Relaxed) == seen;
            if woken {
                self.sleep(&sleeper, seen);
            }
        }
    }

    /// Helps in every place that has work.
    fn visit(&self, scratch: &mut Scratch, woken: bool) {
        let open = |region: *mut Region| !region.is_null() && region != WITHDRAWN;
        for place in self.places.iter().filter(|place| open(place.region.load(Ordering::Relaxed))) {
            place.visitors.fetch_add(1, Ordering::SeqCst);
            let region = place.region.load(Ordering::SeqCst);
            if open(region) {
                // SAFETY: a publisher keeps its region alive until it has withdrawn the address and then
                // seen no visitors; this visitor was counted before it read the address.
                self.help(unsafe { &*region }, scratch, woken);
            }
            place.visitors.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Works on a region that its publisher keeps alive.
    fn help(&self, region: &Region, scratch: &mut Scratch, woken: bool) {
        let left = region.chunks_left();
        if woken && left > 1 {
            self.wake(WAKE_AT_ONCE.min(left as usize - 1));
        }
        // Without scratch this worker cannot help; the publisher does it all.
        if left > 0
            && let Ok(worker) = scratch.reserve(region.worker_bytes)
        {
            // SAFETY: the publisher vouches for the arguments; the scratch is this worker's.
            unsafe { region.work(worker) };
        }
    }

    /// Sleeps until woken, unless something was published since `seen`.
    fn sleep(&self, sleeper: &Arc<Sleeper>, seen: usize) {
        sleeper.awake.store(false, Ordering::SeqCst);
        {
            let mut sleepers = self.sleepers.lock();
            // A late waker of an earlier sleep may have left it listed.
            if !sleepers.iter().any(|other| Arc::ptr_eq(other, sleeper)) {
                sleepers.push(sleeper.clone());
            }
            self.sleeping.store(sleepers.len(), Ordering::SeqCst);
        }
        if self.published.load(Ordering::SeqCst) != seen {
            let mut sleepers = self.sleepers.lock();
            sleepers.retain(|other| !Arc::ptr_eq(other, sleeper));
            self.sleeping.store(sleepers.len(), Ordering::SeqCst);
            return;
        }
        while !sleeper.awake.load(Ordering::SeqCst) {
            std::thread::park();
        }
    }

    /// Wakes up to `count` sleepers.
    fn wake(&self, count: usize) {
        if count == 0 || self.sleeping.load(Ordering::SeqCst) == 0 {
            return;
        }
        let woken = {
            let mut sleepers = self.sleepers.lock();
            let rest = sleepers.len().saturating_sub(count);
            let woken = sleepers.split_off(rest);
            self.sleeping.store(sleepers.len(), Ordering::SeqCst);
            woken
        };
        for sleeper in woken {
            sleeper.awake.store(true, Ordering::SeqCst);
            sleeper.thread.unpark();
        }
    }
}
