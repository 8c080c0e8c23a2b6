//! Launches that are run again and again as one.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::{Batch, DeviceId, RuntimeError, Stream};

/// Batches bound once, to be replayed on streams of their device with [`Stream::replay`]. Clones share it.
///
/// It keeps its buffers, kernels and scratch alive, so a replay works at the same addresses on whatever is there
/// then. A replay runs after the ones before it, also those of other streams.
#[derive(Clone)]
pub struct Graph(Arc<Inner>);

struct Inner {
    device: DeviceId,
    launches: usize,
    kind: Kind,
}

enum Kind {
    /// The launch list. Locked while it runs.
    Host(Mutex<Vec<Batch>>),
}

impl Graph {
    /// A graph of batches that run one after the other. Nothing runs yet.
    ///
    /// What the caller of [`Batch::launch`] promised has to hold for every replay.
    pub fn new(stream: &Stream, batches: Vec<Batch>) -> Result<Self, RuntimeError> {
        let device = stream.device();
        for batch in &batches {
            batch.check_device(device)?;
        }
        let launches = batches.iter().map(Batch::len).sum();
        Ok(Self(Arc::new(Inner { device, launches, kind: Kind::Host(Mutex::new(batches)) })))
    }

    /// The device it runs on.
    pub fn device(&self) -> DeviceId {
        self.0.device
    }

    /// Number of launches.
    pub fn len(&self) -> usize {
        self.0.launches
    }

    /// Whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs all batches by a function; returns the first error, which keeps no other batch from running.
    pub(crate) fn run(
        &self,
        mut run: impl FnMut(&Batch) -> Result<(), RuntimeError>,
    ) -> Result<(), RuntimeError> {
        match &self.0.kind {
            Kind::Host(batches) => batches.lock().iter().fold(Ok(()), |result, batch| {
                let this = run(batch);
                result.and(this)
            }),
        }
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({}, {} launches)", self.device(), self.len())
    }
}
