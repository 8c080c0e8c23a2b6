//! Calls queued on a CUDA stream: run by a thread of the stream once the work before them is done.
//!
//! A call may use the driver and its own stream, which a callback of the driver may not. So the device does not
//! wait for it; who next uses the stream does.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

use parking_lot::{Condvar, Mutex};

use super::event::CudaEvent;
use crate::RuntimeError;

type Call = Box<dyn FnOnce() + Send>;
type Queued = (Arc<CudaEvent>, Call);

/// The calls of a stream.
#[derive(Default)]
pub(super) struct Calls {
    shared: Arc<Shared>,
    thread: Mutex<Option<Sender<Queued>>>,
}

#[derive(Default)]
struct Shared {
    /// Calls that have not returned.
    pending: AtomicUsize,
    lock: Mutex<Option<RuntimeError>>,
    returned: Condvar,
}

thread_local! {
    /// The stream whose call this thread is running.
    static CURRENT: Cell<*const Shared> = const { Cell::new(null()) };
}

impl Calls {
    /// Whether this thread is running a call of this stream.
    pub(super) fn is_current(&self) -> bool {
        std::ptr::eq(CURRENT.get(), Arc::as_ptr(&self.shared))
    }

    /// Waits until all calls have returned. Within one of them this returns at once.
    pub(super) fn settle(&self) {
        if self.shared.pending.load(Ordering::Acquire) == 0 || self.is_current() {
            return;
        }
        let mut lock = self.shared.lock.lock();
        while self.shared.pending.load(Ordering::Acquire) > 0 {
            self.shared.returned.wait(&mut lock);
        }
    }

    /// Runs a call once the event is done.
    pub(super) fn queue(&self, event: Arc<CudaEvent>, call: Call) {
        self.shared.pending.fetch_add(1, Ordering::AcqRel);
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let (send, receive) = channel::<Queued>();
            let shared = self.shared.clone();
            let started = std::thread::Builder::new().name("mlir-calls".into()).spawn(move || {
                for (event, call) in receive {
                    shared.run(&event, call);
                }
            });
            match started {
                Ok(_) => *thread = Some(send),
                Err(error) => tracing::warn!(%error, "a stream has no thread for its calls"),
            }
        }
        match &*thread {
            Some(send) => {
                // The thread ends only when the sender is dropped.
                if let Err(unsent) = send.send((event, call)) {
                    self.shared.run(&unsent.0.0, unsent.0.1);
                }
            }
            None => {
                drop(thread);
                self.shared.run(&event, call);
            }
        }
    }

    /// The first panic since the last time.
    pub(super) fn take_error(&self) -> Result<(), RuntimeError> {
        self.shared.lock.lock().take().map_or(Ok(()), Err)
    }
}

impl Shared {
    fn run(&self, event: &CudaEvent, call: Call) {
        event.wait();
        let before = CURRENT.replace(self);
        let result = catch_unwind(AssertUnwindSafe(call));
        CURRENT.set(before);
        let mut lock = self.lock.lock();
        if let Err(panic) = result {
            lock.get_or_insert(RuntimeError::panicked(&*panic));
        }
        self.pending.fetch_sub(1, Ordering::AcqRel);
        self.returned.notify_all();
    }
}
