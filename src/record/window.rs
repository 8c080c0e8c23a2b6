//! A thread's work on a device.

use super::lock::{Lock, Locked};
use super::recording::{Check, Operation, Recording, Refusal};
use super::state::TensorState;
use crate::MlirError;
use crate::engine::Engine;
use crate::graph::{CaptureError, Session};
use burn_mlir_ir::Graph;
use burn_mlir_runtime::Stream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers the recordings of the process, so that a position says which one it is in, and the windows.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// A number that nothing else in the process has.
pub(crate) fn number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// The operations a thread has recorded on a device and not yet started. Other threads lock it only to flush it.
pub(crate) struct Window {
    pub(super) engine: Arc<Engine>,
    pub(super) recording: Lock<Recording>,
    /// From a graph's preparation to the end of its capture. Locked after the recording.
    pub(super) session: Lock<Option<Session>>,
    pub(super) stream: Stream,
    /// Names the window to the values that are recorded in it, and its stream to the blocks it uses.
    id: u64,
}

impl Window {
    pub(super) fn new(engine: Arc<Engine>) -> Result<Self, MlirError> {
        let stream = engine.device.stream()?;
        let id = number();
        let recording = Lock::new(Recording::new(id));
        Ok(Self { engine, recording, session: Lock::default(), stream, id })
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Appends an operation, whose operands must have left other windows, and returns the handle of its result.
    pub(super) fn push(
        &self,
        operation: &Operation<'_>,
        check: Check<'_>,
    ) -> Result<Arc<TensorState>, Refusal> {
        let mut recording = self.recording.lock();
        let handle = recording.push(operation, check)?;
        if recording.is_full() {
            self.start(&mut recording, Stream::submit)?;
        }
        Ok(handle)
    }

    /// Whether somebody holds a value that is recorded here.
    pub(super) fn is_awaited(&self) -> bool {
        // Whoever has it locked uses it.
        self.recording.try_lock().is_none_or(|recording| recording.is_awaited())
    }

    /// Starts what is recorded.
    pub(crate) fn flush(&self) -> Result<(), MlirError> {
        self.start(&mut self.recording.lock(), Stream::submit)
    }

    /// Starts what is recorded, of which another thread or the host needs a value.
    pub(super) fn flush_for_another(&self) -> Result<(), MlirError> {
        self.share();
        self.flush()
    }

    /// A value of this window leaves the thread, or is read.
    fn share(&self) {
        if let Some(session) = &mut *self.session() {
            session.fail(CaptureError::Shared);
        }
    }

    /// A number that grows with everything that is started.
    pub(super) fn progress(&self) -> u64 {
        self.recording.lock().generation
    }

    /// Starts what is recorded for somebody who waits for it. A host's stream runs it on this thread, instead of
    /// waking its own.
    pub(super) fn finish(&self) -> Result<(), MlirError> {
        self.share();
        let hand_over = if self.engine.is_host() { Stream::run } else { Stream::submit };
        self.start(&mut self.recording.lock(), hand_over)
    }

    /// Waits for what was started.
    pub(super) fn wait(&self) -> Result<(), MlirError> {
        Ok(self.stream.synchronize()?)
    }

    /// What is recorded, with what is alive as results.
    pub(super) fn graph(&self) -> Graph {
        self.recording.lock().graph()
    }

    /// The capture that this window's thread is in.
    pub(crate) fn session(&self) -> Locked<'_, Option<Session>> {
        self.session.lock()
    }
}
