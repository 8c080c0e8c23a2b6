//! Launches that are run again and again as one.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::cuda::CudaGraph;
use crate::{Batch, DeviceId, RuntimeError, Stream};

/// Batches bound once, to be replayed on streams of their device with [`Stream::replay`]. Clones share it.
///
/// It keeps its buffers, kernels and scratch alive, so a replay works at the same addresses on whatever is there
/// then. A replay runs after the ones before it, also those of other streams. Scalars are those of the batches.
/// On a CUDA device it is a graph of the driver, and a replay is one call of it.
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
    /// A graph of the driver.
    Cuda(Arc<CudaGraph>),
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
        let kind = match stream.as_cuda() {
            None => Kind::Host(Mutex::new(batches)),
            Some(stream) => Kind::Cuda(CudaGraph::new(stream, batches)?),
        };
        Ok(Self(Arc::new(Inner { device, launches, kind })))
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

    /// Host: runs all batches by a function; returns the first error, which keeps no other batch from running.
    pub(crate) fn run(
        &self,
        mut run: impl FnMut(&Batch) -> Result<(), RuntimeError>,
    ) -> Result<(), RuntimeError> {
        let Kind::Host(batches) = &self.0.kind else { return Ok(()) };
        let mut result = Ok(());
        for batch in &*batches.lock() {
            let this = run(batch);
            result = result.and(this);
        }
        result
    }

    /// The driver's graph, if it is one of a CUDA device.
    pub(crate) fn as_cuda(&self) -> Option<&Arc<CudaGraph>> {
        match &self.0.kind {
            Kind::Host(_) => None,
            Kind::Cuda(graph) => Some(graph),
        }
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({}, {} launches)", self.device(), self.len())
    }
}
