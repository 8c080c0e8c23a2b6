//! Batches as one graph of the driver.

use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::sys::{CUgraph, CUgraphExec};
use parking_lot::Mutex;

use super::context::{Context, call};
use super::device::CudaDevice;
use super::lane::Lane;
use super::launch::{self, Queue, Resources};
use super::pool::Order;
use super::status::Status;
use super::stream::{CudaStream, State, counters};
use crate::{Batch, Buffer, RuntimeError};

/// An instantiated graph of the driver with what its launches use.
pub(crate) struct CudaGraph {
    context: Arc<Context>,
    /// None if there is nothing to launch. The driver wants one caller at a time.
    executable: Mutex<Option<Executable>>,
    status: Mutex<Status>,
    /// Streams it is ordered with.
    lanes: Mutex<Vec<Arc<Lane>>>,
    batches: Vec<Batch>,
    /// Scratch and counters of its own.
    own: Vec<Buffer>,
    launches: usize,
}

struct Executable(CUgraphExec);

// SAFETY: the driver takes its handles from any thread, and here from one at a time.
unsafe impl Send for Executable {}

impl CudaGraph {
    /// A graph of the launches of batches, one after the other. They have been checked to be for the device.
    pub(crate) fn new(stream: &CudaStream, batches: Vec<Batch>) -> Result<Arc<Self>, RuntimeError> {
        let (device, context) = (&stream.device, stream.context());
        drop(stream.enter()?);
        let mut scratch_bytes = 0;
        for batch in &batches {
            scratch_bytes = scratch_bytes.max(device.with_memory(|| launch::load(context, batch))?);
        }
        let mut status = Status::new(context);
        let mut words = Vec::new();
        for ready in batches.iter().flat_map(Batch::ready) {
            words.push(status.word(launch::cuda(context, ready.kernel)?)?);
        }
        let mut own = vec![counters(device, &stream.lane)?];
        if scratch_bytes > 0 {
            own.push(stream.allocate(scratch_bytes)?);
        }
        let address = |index: usize| {
            own.get(index).map_or(0, |buffer: &Buffer| buffer.address().expose_provenance() as u64)
        };
        let (counters, scratch) = (address(0), address(1));
        let executable = match words.is_empty() {
            true => None,
            false => Some(instantiate(device, &stream.lane, |graph| {
                let mut latest = None;
                let mut queue = Queue::Graph { graph, latest: &mut latest };
                for (ready, status) in batches.iter().flat_map(Batch::ready).zip(&words) {
                    let resources = Resources { scratch, status: *status, counters };
                    // SAFETY: the caller of `Batch::launch` vouched for the arguments. The graph keeps their
                    // memory and the resources; its replays run one after the other. The context is current.
                    unsafe { launch::launch(context, &mut queue, &ready, resources)? };
                }
                Ok(())
            })?),
        };
        Ok(Arc::new(Self {
            context: context.clone(),
            executable: Mutex::new(executable),
            status: Mutex::new(status),
            lanes: Mutex::default(),
            launches: words.len(),
            batches,
            own,
        }))
    }

    pub(super) fn launches(&self) -> usize {
        self.launches
    }

    /// Queues a replay on a stream whose state is locked.
    pub(super) fn launch(&self, stream: &CudaStream, state: &mut State) -> Result<(), RuntimeError> {
        // Replays queued by several threads come in the order of this lock.
        let executable = self.executable.lock();
        {
            let mut lanes = self.lanes.lock();
            if !lanes.iter().any(|lane| Arc::ptr_eq(lane, &stream.lane)) {
                let buffers = self.batches.iter().flat_map(Batch::buffers);
                stream.order(state, buffers.chain(&self.own))?;
                lanes.push(stream.lane.clone());
            }
        }
        match &*executable {
            None => Ok(()),
            // SAFETY: the graph lives until the streams it was launched on are done. The driver runs this launch
            // behind all earlier ones of the graph.
            Some(executable) => unsafe {
                call!(self.context, cuGraphLaunch(executable.0, stream.lane.raw()))
            },
        }
    }

    /// The error of a replay since the last time.
    pub(super) fn take_error(&self) -> Result<(), RuntimeError> {
        self.status.lock().take()
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        for lane in self.lanes.get_mut().drain(..).filter(|lane| !lane.is_closed()) {
            lane.finish();
        }
        if let Some(executable) = self.executable.get_mut().take()
            && self.context.enter().is_ok()
        {
            // SAFETY: nobody launches it any more, and what was launched is done.
            let _ = unsafe { call!(self.context, cuGraphExecDestroy(executable.0)) };
        }
    }
}

/// Makes a graph of the launches that `fill` adds, and uploads it on a stream. No stream is ever in capture, so
/// nothing that other threads do meanwhile can spoil it.
fn instantiate(
    device: &CudaDevice,
    lane: &Arc<Lane>,
    fill: impl FnOnce(CUgraph) -> Result<(), RuntimeError>,
) -> Result<Executable, RuntimeError> {
    let context = &device.context;
    let mut template = null_mut();
    // SAFETY: the result outlives the call.
    unsafe { call!(context, cuGraphCreate(&raw mut template, 0))? };
    let mut executable = null_mut();
    let instantiated = fill(template).and_then(|()| {
        device.with_memory(|| {
            // SAFETY: the result outlives the call, the template lives.
            unsafe { call!(context, cuGraphInstantiateWithFlags(&raw mut executable, template, 0)) }
        })
    });
    // SAFETY: the executable has its own copy of everything.
    unsafe { call!(context, cuGraphDestroy(template)) }.and(instantiated)?;
    let executable = Executable(executable);
    // An upload that fails is done by the first launch.
    // SAFETY: both live. The graph is ordered with the stream when it is launched or dropped.
    let _ = unsafe { call!(context, cuGraphUpload(executable.0, lane.raw())) };
    Ok(executable)
}
