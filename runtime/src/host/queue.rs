//! The queue of a host stream and who runs it.
//!
//! Work runs on whichever thread holds the executor: the stream's own worker, or a caller that waits and
//! finds the executor free, which saves two thread switches. Work that is queued always has somebody
//! awake to run it, or a caller who is about to.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::thread::Thread;

use crossbeam_utils::{Backoff, CachePadded};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::HostDevice;
use super::executor::Executor;
use super::float::FloatGuard;
use crate::{Batch, Buffer, Event, Graph, RuntimeError};

/// Items in flight before submitting blocks.
const DEPTH: u64 = 128;

/// Beyond this many bytes of bound buffers in flight, only [`LARGE_DEPTH`] items may be: results of
/// work not yet run take memory.
const LARGE_BYTES: usize = 256 << 20;
const LARGE_DEPTH: u64 = 4;

/// An item of the queue.
pub(crate) enum Work {
    /// Launches.
    Batch(Batch),
    /// The launches of a graph.
    Replay(Graph),
    /// Bytes from host memory into a buffer.
    Write { data: Box<dyn AsRef<[u8]> + Send>, to: Buffer, offset: usize },
    /// Bytes from one buffer to another, which may be the same.
    Copy { from: Buffer, from_offset: usize, to: Buffer, to_offset: usize, bytes: usize },
    /// Wait for another stream.
    Wait(Event),
    /// Any code.
    Call(Box<dyn FnOnce() + Send>),
}

impl Work {
    fn bytes(&self) -> usize {
        match self {
            Self::Batch(batch) => batch.bytes(),
            Self::Write { data, .. } => (**data).as_ref().len(),
            Self::Replay(_) | Self::Copy { .. } | Self::Wait(_) | Self::Call(_) => 0,
        }
    }
}

/// An ordered queue of work.
pub(crate) struct Queue {
    pub(crate) device: Arc<HostDevice>,
    items: Mutex<VecDeque<Work>>,
    submitted: CachePadded<AtomicU64>,
    completed: CachePadded<AtomicU64>,
    bytes: AtomicUsize,
    executor: Mutex<Executor>,
    error: Mutex<Option<RuntimeError>>,
    /// Whether there may be one.
    failed: AtomicBool,
    /// Threads that sleep on `done`.
    waiting: AtomicUsize,
    done_lock: Mutex<()>,
    done: Condvar,
    /// The worker, once it has been needed.
    worker: Mutex<Option<Thread>>,
    /// Whether the worker sleeps or is not started.
    parked: AtomicBool,
    closed: AtomicBool,
}

thread_local! {
    /// The queue whose work this thread is running.
    static CURRENT: Cell<*const Queue> = const { Cell::new(null()) };
}

impl Queue {
    pub(crate) fn new(device: Arc<HostDevice>) -> Arc<Self> {
        Arc::new(Self {
            executor: Mutex::new(Executor::new(&device)),
            device,
            items: Mutex::default(),
            submitted: CachePadded::default(),
            completed: CachePadded::default(),
            bytes: AtomicUsize::new(0),
            error: Mutex::default(),
            failed: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            done_lock: Mutex::default(),
            done: Condvar::new(),
            worker: Mutex::default(),
            parked: AtomicBool::new(true),
            closed: AtomicBool::new(false),
        })
    }

    /// Queues work for the worker and returns its place in the order.
    pub(crate) fn submit(self: &Arc<Self>, work: Work) -> u64 {
        let sequence = self.push(work);
        self.wake();
        sequence
    }

    /// Queues work and waits until it has run, on this thread if possible.
    pub(crate) fn run(self: &Arc<Self>, work: Work) -> Result<(), RuntimeError> {
        if self.is_current() {
            return Err(RuntimeError::Reentrant);
        }
        match self.executor_at_once() {
            Some(mut executor) => {
                crate::waits::count();
                self.as_current(|| self.complete(&mut executor, work));
                self.leave(executor);
            }
            None => {
                let sequence = self.push(work);
                self.advance(sequence);
            }
        }
        self.take_error()
    }

    /// Waits until everything queued so far has run; returns the first error since the last time.
    pub(crate) fn synchronize(self: &Arc<Self>) -> Result<(), RuntimeError> {
        if self.is_current() {
            return Err(RuntimeError::Reentrant);
        }
        self.advance(self.submitted());
        self.take_error()
    }

    /// Place of the latest work in the order.
    pub(crate) fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::SeqCst)
    }

    /// Whether the work up to that place has run.
    pub(crate) fn is_done(&self, sequence: u64) -> bool {
        self.completed.load(Ordering::SeqCst) >= sequence
    }

    /// Whether this thread is running work of this queue.
    pub(crate) fn is_current(&self) -> bool {
        std::ptr::eq(CURRENT.get(), self)
    }

    /// Waits until the work up to that place has run, running it on this thread if nobody else does.
    pub(crate) fn advance(self: &Arc<Self>, sequence: u64) {
        if self.is_done(sequence) {
            return;
        }
        crate::waits::count();
        // A thread that runs work of a queue only waits: it would hold two executors.
        if CURRENT.get().is_null()
            && let Some(mut executor) = self.executor.try_lock()
        {
            self.drain(&mut executor, sequence);
            self.leave(executor);
        }
        if self.is_done(sequence) {
            return;
        }
        self.wake();
        self.sleep_until(sequence);
    }

    /// Lets the worker finish what is queued and end.
    pub(crate) fn close(self: &Arc<Self>) {
        if !self.is_current() {
            self.advance(self.submitted());
        }
        self.closed.store(true, Ordering::SeqCst);
        if self.worker.lock().is_some() || !self.is_done(self.submitted()) {
            self.wake();
        }
    }

    fn push(self: &Arc<Self>, work: Work) -> u64 {
        let bytes = self.bytes.fetch_add(work.bytes(), Ordering::Relaxed) + work.bytes();
        let sequence = {
            let mut items = self.items.lock();
            items.push_back(work);
            self.submitted.fetch_add(1, Ordering::SeqCst) + 1
        };
        let depth = if bytes > LARGE_BYTES { LARGE_DEPTH } else { DEPTH };
        if let Some(oldest) = sequence.checked_sub(depth)
            && !self.is_done(oldest)
            && CURRENT.get().is_null()
        {
            self.wake();
            self.advance(oldest);
        }
        sequence
    }

    fn take_error(&self) -> Result<(), RuntimeError> {
        if !self.failed.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.failed.store(false, Ordering::SeqCst);
        self.error.lock().take().map_or(Ok(()), Err)
    }

    /// The executor, if nothing is queued before what this thread is about to run; its place in the order is taken.
    fn executor_at_once(&self) -> Option<MutexGuard<'_, Executor>> {
        // A thread that runs work of a queue only waits: it would hold two executors.
        let executor = if CURRENT.get().is_null() { self.executor.try_lock()? } else { return None };
        let items = self.items.lock();
        if !items.is_empty() {
            return None;
        }
        self.submitted.fetch_add(1, Ordering::SeqCst);
        Some(executor)
    }

    /// Lets others run work. The worker does not wait for an executor that is held. Either it sees this one free, or
    /// this thread sees it asleep.
    fn leave(self: &Arc<Self>, executor: MutexGuard<'_, Executor>) {
        drop(executor);
        fence(Ordering::SeqCst);
        if !self.is_done(self.submitted()) {
            self.wake();
        }
    }

    /// Runs work in order until the place is reached or nothing is left.
    fn drain(&self, executor: &mut Executor, sequence: u64) {
        self.as_current(|| {
            while !self.is_done(sequence) {
                let Some(work) = self.items.lock().pop_front() else { break };
                let bytes = work.bytes();
                self.complete(executor, work);
                self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
        });
    }

    /// Does something as the thread that runs this queue's work.
    fn as_current(&self, action: impl FnOnce()) {
        let _float = FloatGuard::new();
        let before = CURRENT.replace(self);
        action();
        CURRENT.set(before);
    }

    /// Runs the work whose turn it is.
    fn complete(&self, executor: &mut Executor, work: Work) {
        // Dropping the work, too, may run code of a caller.
        let result = catch_unwind(AssertUnwindSafe(|| self.perform(executor, work)));
        if let Err(error) = result.unwrap_or_else(|panic| Err(RuntimeError::panicked(&*panic))) {
            self.error.lock().get_or_insert(error);
            self.failed.store(true, Ordering::SeqCst);
        }
        self.completed.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let _lock = self.done_lock.lock();
            self.done.notify_all();
        }
    }

    fn perform(&self, executor: &mut Executor, work: Work) -> Result<(), RuntimeError> {
        match work {
            Work::Batch(batch) => executor.run(&self.device, &batch),
            Work::Replay(graph) => graph.run(|batch| executor.run(&self.device, batch)),
            Work::Write { data, to, offset } => {
                let data = (*data).as_ref();
                to.check(offset, data.len())?;
                // SAFETY: the range lies within the buffer; the caller of `Stream::write` keeps others off it.
                unsafe { data.as_ptr().copy_to_nonoverlapping(to.address().add(offset), data.len()) };
                Ok(())
            }
            Work::Copy { from, from_offset, to, to_offset, bytes } => {
                // SAFETY: both ranges were checked; the caller of `Stream::copy` keeps others off them.
                unsafe { from.address().add(from_offset).copy_to(to.address().add(to_offset), bytes) };
                Ok(())
            }
            Work::Wait(event) => {
                event.wait();
                Ok(())
            }
            Work::Call(call) => {
                call();
                Ok(())
            }
        }
    }

    fn sleep_until(&self, sequence: u64) {
        let backoff = Backoff::new();
        while !backoff.is_completed() {
            if self.is_done(sequence) {
                return;
            }
            backoff.snooze();
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut lock = self.done_lock.lock();
        while !self.is_done(sequence) {
            self.done.wait(&mut lock);
        }
        drop(lock);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Makes sure the worker sees what is queued, starting it the first time.
    fn wake(self: &Arc<Self>) {
        if !self.parked.load(Ordering::SeqCst) || !self.parked.swap(false, Ordering::SeqCst) {
            return;
        }
        let mut worker = self.worker.lock();
        if let Some(thread) = &*worker {
            return thread.unpark();
        }
        let queue = self.clone();
        match std::thread::Builder::new().name("mlir-stream".into()).spawn(move || queue.work()) {
            Ok(handle) => *worker = Some(handle.thread().clone()),
            Err(error) => {
                tracing::warn!(%error, "a stream runs without a worker thread");
                drop(worker);
                self.parked.store(true, Ordering::SeqCst);
                if CURRENT.get().is_null() {
                    self.drain(&mut self.executor.lock(), u64::MAX);
                }
            }
        }
    }

    /// Life of the worker.
    fn work(&self) {
        loop {
            if self.closed.load(Ordering::SeqCst) {
                self.drain(&mut self.executor.lock(), u64::MAX);
            } else if let Some(mut executor) = self.executor.try_lock() {
                self.drain(&mut executor, u64::MAX);
            }
            let backoff = Backoff::new();
            while !backoff.is_completed() && !self.has_news() {
                backoff.snooze();
            }
            if self.has_news() {
                if self.closed.load(Ordering::SeqCst) && self.items.lock().is_empty() {
                    return;
                }
                continue;
            }
            self.parked.store(true, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if self.has_news() {
                self.parked.store(false, Ordering::SeqCst);
                continue;
            }
            while self.parked.load(Ordering::SeqCst) {
                std::thread::park();
            }
        }
    }

    /// Whether the worker has something to do: end, or run work that nobody else is running. Whoever leaves work
    /// behind wakes the worker.
    fn has_news(&self) -> bool {
        self.closed.load(Ordering::SeqCst) || !self.is_done(self.submitted()) && !self.executor.is_locked()
    }
}
