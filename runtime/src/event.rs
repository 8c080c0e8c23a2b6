//! Places in a stream's order.

use std::fmt;
use std::sync::Arc;

use crate::cuda::CudaEvent;
use crate::host::Queue;

/// A place in the order of a stream: reached once all work queued before [`Stream::record`](crate::Stream::record)
/// has run. Other streams and threads can wait for it.
#[derive(Clone)]
pub struct Event(Place);

#[derive(Clone)]
enum Place {
    Host { queue: Arc<Queue>, sequence: u64 },
    Cuda(Arc<CudaEvent>),
}

impl Event {
    /// The place after everything queued so far.
    pub(crate) fn host(queue: &Arc<Queue>) -> Self {
        Self(Place::Host { queue: queue.clone(), sequence: queue.submitted() })
    }

    /// A place in the order of a CUDA stream.
    pub(crate) fn cuda(event: Arc<CudaEvent>) -> Self {
        Self(Place::Cuda(event))
    }

    /// Whether the place has been reached.
    pub fn is_done(&self) -> bool {
        match &self.0 {
            Place::Host { queue, sequence } => queue.is_done(*sequence),
            Place::Cuda(event) => event.is_done(),
        }
    }

    /// Blocks this thread until the place has been reached. Errors of the work stay with its stream.
    ///
    /// Within a call queued on the same stream this returns at once on the host, and on other devices when the
    /// work queued before has run.
    pub fn wait(&self) {
        match &self.0 {
            Place::Host { queue, sequence } if !queue.is_current() => queue.advance(*sequence),
            Place::Host { .. } => {}
            Place::Cuda(event) => event.wait(),
        }
    }

    /// Whether the place is one of that queue.
    pub(crate) fn is_of(&self, other: &Arc<Queue>) -> bool {
        match &self.0 {
            Place::Host { queue, .. } => Arc::ptr_eq(queue, other),
            Place::Cuda(_) => false,
        }
    }

    /// The place, if it is one of a CUDA stream.
    pub(crate) fn as_cuda(&self) -> Option<&CudaEvent> {
        match &self.0 {
            Place::Host { .. } => None,
            Place::Cuda(event) => Some(event),
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({})", if self.is_done() { "done" } else { "pending" })
    }
}
