//! A CUDA stream: work is queued with the driver by the calling thread.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::calls::Calls;
use super::context::{Context, call};
use super::device::CudaDevice;
use super::event::{CudaEvent, RawEvent};
use super::graph::CudaGraph;
use super::lane::Lane;
use super::launch::{self, Queue, Resources};
use super::pinned::Pinned;
use super::pool::Order;
use super::profile::Profile;
use super::status::Status;
use crate::{Batch, Buffer, DeviceId, RuntimeError};

/// Words of zeroed memory for tickets of blocks.
const COUNTER_WORDS: usize = 1024;

/// Launches between two marks, and marks under way before the oldest is waited for.
const MARK_LAUNCHES: usize = 256;
const MOST_MARKS: usize = 4;

/// Streams remembered as waited for.
const MOST_SEEN: usize = 64;

/// An ordered queue of work on a CUDA device.
pub(crate) struct CudaStream {
    pub(super) device: Arc<CudaDevice>,
    pub(super) lane: Arc<Lane>,
    pub(super) calls: Calls,
    state: Mutex<State>,
}

/// What has to be known to queue work.
pub(super) struct State {
    counters: Buffer,
    scratch: Option<Buffer>,
    status: Status,
    /// For other streams, by number, up to which of their work this one waits for.
    seen: Vec<(u64, u64)>,
    /// Places of this stream that have not been waited for, oldest first.
    ahead: VecDeque<RawEvent>,
    /// Launches since the latest of them.
    since: usize,
    /// The latest event handed out.
    latest: Option<Arc<CudaEvent>>,
    /// Where small copies to the device go through, and how much of it is used.
    pub(super) staging: Option<(Pinned, usize)>,
    /// The first error that could not be returned where it happened.
    error: Option<RuntimeError>,
    /// Time of the launches, where it is asked for.
    profile: Option<Profile>,
    /// Graphs replayed since the last look for errors.
    replayed: Vec<Arc<CudaGraph>>,
}

impl CudaStream {
    pub(crate) fn new(device: Arc<CudaDevice>) -> Result<Self, RuntimeError> {
        let lane = Arc::new(Lane::new(&device.context, &device.events)?);
        let counters = counters(&device, &lane)?;
        let state = State {
            counters,
            scratch: None,
            status: Status::new(&device.context),
            seen: Vec::new(),
            ahead: VecDeque::new(),
            since: 0,
            latest: None,
            staging: None,
            error: None,
            profile: Profile::new(&device.context),
            replayed: Vec::new(),
        };
        Ok(Self { device, lane, calls: Calls::default(), state: Mutex::new(state) })
    }

    pub(crate) fn id(&self) -> DeviceId {
        self.device.id()
    }

    /// Queues the launches of a batch. An error keeps no other launch from running.
    pub(crate) fn submit(&self, batch: &Batch) -> Result<(), RuntimeError> {
        let context = self.context();
        let mut state = self.enter()?;
        let scratch = self.device.with_memory(|| launch::load(context, batch))?;
        let scratch = state.reserve(self, scratch)?;
        self.order(&mut state, batch.buffers())?;
        let counters = state.counters.address().expose_provenance() as u64;
        let mut result = Ok(());
        let mut queue = Queue::Stream(self.lane.raw());
        for ready in batch.ready() {
            let start = state.profile.as_mut().map(|profile| profile.mark(self.lane.raw())).transpose()?;
            let kernel = launch::cuda(context, ready.kernel);
            let launched = kernel.and_then(|kernel| state.status.word(kernel)).and_then(|status| {
                let resources = Resources { scratch, status, counters };
                // SAFETY: the caller of `Batch::launch` vouched for the arguments. Their memory, the scratch and
                // the counters are only reused in this stream's order or after it; the status words live as
                // long as the stream, which finishes its work first. `enter` has made the context current.
                unsafe { launch::launch(context, &mut queue, &ready, resources) }
            });
            result = result.and(launched);
            if let (Some(profile), Some(start)) = (&mut state.profile, start) {
                let stop = profile.mark(self.lane.raw())?;
                profile.launched(ready.kernel.label(), start, stop);
            }
        }
        self.lane.count();
        self.run_ahead(&mut state, batch.len())?;
        result
    }

    /// Queues the launches of a batch and waits for everything.
    pub(crate) fn run(&self, batch: &Batch) -> Result<(), RuntimeError> {
        if self.calls.is_current() {
            return Err(RuntimeError::Reentrant);
        }
        let submitted = self.submit(batch);
        let waited = self.synchronize();
        submitted.and(waited)
    }

    /// Queues all launches of a graph.
    pub(crate) fn replay(&self, graph: &Arc<CudaGraph>) -> Result<(), RuntimeError> {
        let mut state = self.enter()?;
        graph.launch(self, &mut state)?;
        self.lane.count();
        if !state.replayed.iter().any(|known| Arc::ptr_eq(known, graph)) {
            state.replayed.push(graph.clone());
        }
        self.run_ahead(&mut state, graph.launches().max(1))
    }

    /// Memory for work queued here from now on, and elsewhere.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<Buffer, RuntimeError> {
        self.device.allocate(bytes, Some(&self.lane))
    }

    /// Queues a call.
    pub(crate) fn call(&self, call: Box<dyn FnOnce() + Send>) {
        let event = self.record();
        self.calls.queue(event, call);
    }

    /// The place after everything queued so far.
    pub(crate) fn record(&self) -> Arc<CudaEvent> {
        let Ok(mut state) = self.enter() else {
            // There is nothing to wait for on a lost device.
            return Arc::new(CudaEvent::reached(&self.lane, self.lane.submitted()));
        };
        if let Some(latest) = &state.latest
            && latest.sequence() == self.lane.submitted()
        {
            return latest.clone();
        }
        let event = Arc::new(CudaEvent::record(&self.lane).unwrap_or_else(|_| {
            // Without an event the place is waited for, so that it is reached in any case.
            let sequence = self.lane.submitted();
            self.lane.finish();
            CudaEvent::reached(&self.lane, sequence)
        }));
        state.latest = Some(event.clone());
        event
    }

    /// Lets later work wait for a place in another stream's order.
    pub(crate) fn wait(&self, event: &CudaEvent) {
        if Arc::ptr_eq(event.lane(), &self.lane) {
            return;
        }
        let Ok(mut state) = self.enter() else { return };
        if let Some(raw) = event.raw()
            && !event.is_done()
            && self.lane.wait(raw).is_err()
        {
            // What the driver cannot order, this thread does.
            event.wait();
        }
        state.see(event.lane(), event.sequence());
    }

    /// Waits until everything queued so far has run, and returns the first error since the last time.
    pub(crate) fn synchronize(&self) -> Result<(), RuntimeError> {
        if self.calls.is_current() {
            return Err(RuntimeError::Reentrant);
        }
        self.calls.settle();
        crate::waits::count();
        self.lane.synchronize()?;
        let mut state = self.state.lock();
        state.since = 0;
        if let Some(profile) = &mut state.profile {
            profile.write();
        }
        for mark in std::mem::take(&mut state.ahead) {
            self.device.events.give_back(mark);
        }
        let mut result = state.error.take().map_or(Ok(()), Err);
        for graph in std::mem::take(&mut state.replayed) {
            result = result.and(graph.take_error());
        }
        result.and(state.status.take()).and(self.calls.take_error())
    }

    /// Waits for calls, makes the context current, and locks the state.
    pub(super) fn enter(&self) -> Result<MutexGuard<'_, State>, RuntimeError> {
        self.calls.settle();
        self.context().enter()?;
        Ok(self.state.lock())
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.device.context
    }

    /// Notes that work about to be queued uses these buffers, and lets it wait where they come from another
    /// stream that it has not been ordered with.
    pub(super) fn order<'a>(
        &self,
        state: &mut State,
        buffers: impl IntoIterator<Item = &'a Buffer>,
    ) -> Result<(), RuntimeError> {
        for block in buffers.into_iter().filter_map(Buffer::cuda_block) {
            if let Some((home, born)) = block.used_on(&self.lane) {
                self.follow(state, home, born)?;
            }
        }
        Ok(())
    }

    /// Lets later work wait for what a stream had queued when its count of work was `sequence`.
    pub(super) fn follow(
        &self,
        state: &mut State,
        home: &Arc<Lane>,
        sequence: u64,
    ) -> Result<(), RuntimeError> {
        let done = home.is_closed() || home.reached() >= sequence;
        if Arc::ptr_eq(home, &self.lane) || done || state.has_seen(home, sequence) {
            return Ok(());
        }
        let now = home.submitted();
        let ordered = home.mark().and_then(|mark| {
            let waits = self.lane.wait(&mark);
            self.device.events.give_back(mark);
            waits
        });
        if ordered.is_err() {
            home.synchronize()?;
        }
        state.see(home, now);
        Ok(())
    }

    /// Bounds how far this stream's thread may be ahead of the device.
    fn run_ahead(&self, state: &mut State, launches: usize) -> Result<(), RuntimeError> {
        state.since += launches;
        if state.since < MARK_LAUNCHES {
            return Ok(());
        }
        state.since = 0;
        state.ahead.push_back(self.lane.mark()?);
        while state.ahead.len() > MOST_MARKS
            && let Some(oldest) = state.ahead.pop_front()
        {
            let waited = self.device.events.wait(&oldest);
            self.device.events.give_back(oldest);
            waited?;
        }
        Ok(())
    }
}

impl State {
    /// Address of at least `bytes` bytes of scratch, for work that is queued from now on.
    fn reserve(&mut self, stream: &CudaStream, bytes: usize) -> Result<u64, RuntimeError> {
        if self.scratch.as_ref().is_none_or(|scratch| scratch.bytes() < bytes) && bytes > 0 {
            // Given back first: the old one may be part of what the new one needs. Work that uses it comes
            // before whatever gets it next.
            self.scratch = None;
            self.scratch = Some(stream.allocate(bytes)?);
        }
        Ok(self.scratch.as_ref().map_or(0, |scratch| scratch.address().expose_provenance() as u64))
    }

    fn has_seen(&self, lane: &Lane, sequence: u64) -> bool {
        self.seen.iter().any(|(id, seen)| *id == lane.id() && *seen >= sequence)
    }

    fn see(&mut self, lane: &Lane, sequence: u64) {
        if let Some((_, seen)) = self.seen.iter_mut().find(|(id, _)| *id == lane.id()) {
            *seen = sequence.max(*seen);
            return;
        }
        if self.seen.len() == MOST_SEEN {
            // Forgetting costs a wait at most.
            self.seen.clear();
        }
        self.seen.push((lane.id(), sequence));
    }
}

/// Zeroed words for the tickets of kernels, once work queued on the stream so far is done.
pub(super) fn counters(device: &CudaDevice, lane: &Arc<Lane>) -> Result<Buffer, RuntimeError> {
    let context = lane.context();
    let buffer = device.allocate(4 * COUNTER_WORDS, Some(lane))?;
    let address = buffer.address().expose_provenance() as u64;
    context.enter()?;
    // SAFETY: the buffer has that many words and is new.
    unsafe { call!(context, cuMemsetD32Async(address, 0, COUNTER_WORDS, lane.raw()))? };
    lane.count();
    if let Some(block) = buffer.cuda_block() {
        block.publish();
    }
    Ok(buffer)
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        self.calls.settle();
        let finished = self.lane.synchronize();
        let state = self.state.get_mut();
        match state.staging.take() {
            Some((block, _)) if finished.is_ok() => self.device.small.give_back(block),
            other => drop(other),
        }
        for mark in state.ahead.drain(..) {
            self.device.events.give_back(mark);
        }
        self.lane.close();
        self.device.pool.close(&self.lane);
    }
}
