//! A stream of the driver, shared by all who have to order something against it.

use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cudarc::driver::sys::{CUstream, CUstream_flags_enum::CU_STREAM_NON_BLOCKING};

use super::context::{Context, call};
use super::event::{EventPool, RawEvent};
use super::pool::Order;
use crate::RuntimeError;

/// A stream of the driver. It lives as long as a buffer remembers that it was used there.
pub(crate) struct Lane {
    context: Arc<Context>,
    events: Arc<EventPool>,
    raw: CUstream,
    id: u64,
    /// Pieces of work queued so far; counted after they were.
    submitted: AtomicU64,
    /// Pieces of work known to have run.
    reached: AtomicU64,
    /// Whether its [`Stream`](crate::Stream) is gone and all work done.
    closed: AtomicBool,
}

// SAFETY: the driver takes streams from any thread; the other fields are `Send` and `Sync`.
unsafe impl Send for Lane {}
// SAFETY: as above.
unsafe impl Sync for Lane {}

impl Lane {
    /// A new stream that is not ordered with the driver's default stream.
    pub(super) fn new(context: &Arc<Context>, events: &Arc<EventPool>) -> Result<Self, RuntimeError> {
        /// Numbers lanes; 0 stands for none.
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        context.enter()?;
        let mut raw = null_mut();
        // SAFETY: `raw` outlives the call.
        unsafe { call!(context, cuStreamCreate(&raw mut raw, CU_STREAM_NON_BLOCKING as u32))? };
        Ok(Self {
            context: context.clone(),
            events: events.clone(),
            raw,
            id: NUMBERS.fetch_add(1, Ordering::Relaxed),
            submitted: AtomicU64::new(0),
            reached: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        })
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) fn events(&self) -> &EventPool {
        &self.events
    }

    pub(super) fn raw(&self) -> CUstream {
        self.raw
    }

    /// Pieces of work queued so far.
    pub(super) fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    /// Counts work that has been queued.
    pub(super) fn count(&self) {
        self.submitted.fetch_add(1, Ordering::AcqRel);
    }

    /// Pieces of work known to have run.
    pub(super) fn reached(&self) -> u64 {
        self.reached.load(Ordering::Acquire)
    }

    /// Notes that as many pieces of work have run.
    pub(super) fn has_reached(&self, sequence: u64) {
        self.reached.fetch_max(sequence, Ordering::AcqRel);
    }

    /// An event at the place after everything queued so far.
    pub(super) fn mark(&self) -> Result<RawEvent, RuntimeError> {
        self.context.enter()?;
        let event = self.events.take()?;
        // SAFETY: event and stream live, and are of the same context.
        match unsafe { call!(self.context, cuEventRecord(event.0, self.raw)) } {
            Ok(()) => Ok(event),
            Err(error) => {
                self.events.give_back(event);
                Err(error)
            }
        }
    }

    /// Waits for everything queued so far.
    pub(super) fn synchronize(&self) -> Result<(), RuntimeError> {
        let sequence = self.submitted();
        self.context.enter()?;
        // SAFETY: the stream lives.
        unsafe { call!(self.context, cuStreamSynchronize(self.raw))? };
        self.has_reached(sequence);
        Ok(())
    }

    /// Lets later work wait for an event, which may be one of another device.
    pub(super) fn wait(&self, event: &RawEvent) -> Result<(), RuntimeError> {
        self.context.enter()?;
        // SAFETY: both live. The stream waits for the place the event has now.
        unsafe { call!(self.context, cuStreamWaitEvent(self.raw, event.0, 0))? };
        // A wait is work, too: a place after it is another than one before.
        self.count();
        Ok(())
    }

    /// Notes that nothing more will be queued and everything has run.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

/// A place in a lane's order, as the pool wants to know it.
pub(super) struct Mark {
    events: Arc<EventPool>,
    event: Option<RawEvent>,
}

impl Drop for Mark {
    fn drop(&mut self) {
        if let Some(event) = self.event.take() {
            self.events.give_back(event);
        }
    }
}

impl Order for Lane {
    type Mark = Mark;

    fn id(&self) -> u64 {
        self.id
    }

    fn mark(&self) -> Option<Mark> {
        if self.is_closed() {
            return None;
        }
        // A stream that cannot be marked is waited for instead; if that fails, too, the device is lost.
        match Self::mark(self) {
            Ok(event) => Some(Mark { events: self.events.clone(), event: Some(event) }),
            Err(_) => {
                self.finish();
                None
            }
        }
    }

    fn has_passed(mark: &Mark) -> bool {
        mark.event.as_ref().is_none_or(|event| mark.events.is_done(event))
    }

    fn wait_for(mark: &Mark) {
        if let Some(event) = &mark.event {
            let _ = mark.events.wait(event);
        }
    }

    fn is_idle(&self) -> bool {
        if self.is_closed() || self.context.enter().is_err() {
            return true;
        }
        // SAFETY: the stream lives.
        let code = unsafe { self.context.driver().cuStreamQuery(self.raw) };
        self.context.check_ready("cuStreamQuery", code)
    }

    fn finish(&self) {
        let _ = self.synchronize();
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            // SAFETY: nobody else has the stream; the driver lets work that may be left finish.
            let _ = unsafe { call!(self.context, cuStreamDestroy_v2(self.raw)) };
        }
    }
}
