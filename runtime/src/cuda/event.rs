//! Events of the driver, kept for reuse, and places in a stream's order made of them.

use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::sys::{CUevent, CUevent_flags_enum::CU_EVENT_DISABLE_TIMING};
use parking_lot::Mutex;

use super::context::{Context, call};
use super::lane::Lane;
use crate::RuntimeError;

/// Recorded or not, an event of the driver.
pub(super) struct RawEvent(pub(super) CUevent);

// SAFETY: the driver takes its handles from any thread.
unsafe impl Send for RawEvent {}
// SAFETY: as above.
unsafe impl Sync for RawEvent {}

/// Events nobody uses at present.
pub(super) struct EventPool {
    context: Arc<Context>,
    free: Mutex<Vec<RawEvent>>,
}

impl EventPool {
    pub(super) fn new(context: Arc<Context>) -> Self {
        Self { context, free: Mutex::default() }
    }

    /// An event to record. The context is current.
    pub(super) fn take(&self) -> Result<RawEvent, RuntimeError> {
        if let Some(event) = self.free.lock().pop() {
            return Ok(event);
        }
        let mut event = null_mut();
        // SAFETY: `event` outlives the call.
        unsafe { call!(self.context, cuEventCreate(&raw mut event, CU_EVENT_DISABLE_TIMING as u32))? };
        Ok(RawEvent(event))
    }

    /// Takes an event back. Streams that were told to wait for it still wait for the place it was recorded
    /// at, also when it is recorded again.
    pub(super) fn give_back(&self, event: RawEvent) {
        self.free.lock().push(event);
    }

    /// Whether the place an event was recorded at has been reached.
    pub(super) fn is_done(&self, event: &RawEvent) -> bool {
        if self.context.enter().is_err() {
            return true;
        }
        // SAFETY: the event lives.
        let code = unsafe { self.context.driver().cuEventQuery(event.0) };
        self.context.check_ready("cuEventQuery", code)
    }

    /// Waits until the place an event was recorded at has been reached.
    pub(super) fn wait(&self, event: &RawEvent) -> Result<(), RuntimeError> {
        self.context.enter()?;
        // SAFETY: the event lives.
        unsafe { call!(self.context, cuEventSynchronize(event.0)) }
    }
}

impl Drop for EventPool {
    fn drop(&mut self) {
        if self.context.enter().is_err() {
            return;
        }
        for event in self.free.get_mut().drain(..) {
            // SAFETY: nobody else has the event. What waits for it has been told already.
            let _ = unsafe { call!(self.context, cuEventDestroy_v2(event.0)) };
        }
    }
}

/// A place in the order of a CUDA stream.
pub(crate) struct CudaEvent {
    lane: Arc<Lane>,
    /// None: the place had been reached when it was made.
    raw: Option<RawEvent>,
    sequence: u64,
    done: AtomicBool,
}

impl CudaEvent {
    /// The place after everything queued so far.
    pub(super) fn record(lane: &Arc<Lane>) -> Result<Self, RuntimeError> {
        // Read first: the event covers at least what was queued by then.
        let sequence = lane.submitted();
        let raw = lane.mark()?;
        Ok(Self { lane: lane.clone(), raw: Some(raw), sequence, done: AtomicBool::new(false) })
    }

    /// A place that has been reached.
    pub(super) fn reached(lane: &Arc<Lane>, sequence: u64) -> Self {
        Self { lane: lane.clone(), raw: None, sequence, done: AtomicBool::new(true) }
    }

    /// The stream.
    pub(super) fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }

    /// What had been queued there.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(super) fn raw(&self) -> Option<&RawEvent> {
        self.raw.as_ref()
    }

    pub(crate) fn is_done(&self) -> bool {
        let Some(raw) = &self.raw else { return true };
        if self.done.load(Ordering::Acquire) {
            return true;
        }
        let done = self.lane.events().is_done(raw);
        if done {
            self.note_done();
        }
        done
    }

    fn note_done(&self) {
        self.done.store(true, Ordering::Release);
        self.lane.has_reached(self.sequence);
    }

    /// Waits for the place. Errors stay with the stream and the device.
    pub(crate) fn wait(&self) {
        if let Some(raw) = &self.raw
            && !self.is_done()
            && self.lane.events().wait(raw).is_ok()
        {
            self.note_done();
        }
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        if let Some(raw) = self.raw.take() {
            self.lane.events().give_back(raw);
        }
    }
}
