//! Graph capture and replay: Burn's `graph_prepare`, `graph_start_capture`, `graph_stop_capture`, `graph_replay`, and the
//! `capture` helper above them.
//!
//! From `graph_prepare` on, a thread's windows are logged (`session`), and during the capture their launches are
//! recorded. They run all the same: whatever becomes of the capture, every run of the closure has been executed once, its
//! results hold its values, and nothing has to be undone. At the end the captured run is compared with those before it
//! (`compare`), and refused with a [`CaptureError`] if a replay could give anything else than running the closure
//! again. A graph keeps the memory it works on; `pin` is what other operations know about that.

mod compare;
mod error;
mod gather;
mod pin;
mod recorded;
mod session;

pub use error::CaptureError;
pub(crate) use pin::Pin;
pub(crate) use recorded::Recorded;
pub(crate) use session::{Made, Session};

use crate::record::{self, Window};
use crate::{MlirDevice, MlirError};
use burn_mlir_jit::warn;
use burn_mlir_runtime::{Buffer, Graph};
use compare::{Carry, Inputs, Pinned, compare, describe};
use gather::gather;
use pin::Role;
use rustc_hash::FxHashSet;
use session::Written;
use std::fmt;
use std::sync::Arc;

/// A captured graph: launches with their memory, run again by `Backend::graph_replay`.
///
/// Clones share it. It keeps every storage it reads or writes alive, also those whose tensors are dropped. Replays run on
/// the stream of the thread that captured it, in order with that thread's work; from another thread they start after
/// what that one has done so far, and what it does later comes after them.
///
/// A replay reads what is in the storages of its inputs at that time: write new values in place (`slice_assign` on the
/// only handle). Results of the captured run are the results of each replay.
#[derive(Clone)]
pub struct MlirGraph(Arc<Inner>);

struct Inner {
    device: MlirDevice,
    window: Arc<Window>,
    graph: Graph,
    /// Its claims on the memory of tensors that lived when it was captured.
    pins: Vec<Arc<Pin>>,
}

impl MlirGraph {
    /// Number of kernel launches of a replay.
    pub fn launches(&self) -> usize {
        self.0.graph.len()
    }
}

impl fmt::Debug for MlirGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MlirGraph({} launches on {})", self.launches(), self.0.device)
    }
}

/// The runs before a capture begin. An unfinished capture of this thread, left over from a panic or around this call, is
/// given up.
pub(crate) fn prepare(device: MlirDevice) -> Result<(), MlirError> {
    let window = record::window(device)?;
    *window.session() = None;
    window.flush()?;
    *window.session() = Some(Session::new(record::number()));
    Ok(())
}

/// The captured run begins.
pub(crate) fn start(device: MlirDevice) -> Result<(), MlirError> {
    let window = record::window(device)?;
    match &*window.session() {
        None => return Err(CaptureError::NotPrepared.into()),
        Some(session) if session.is_capturing() => return Err(CaptureError::Nested.into()),
        Some(_) => {}
    }
    let ready = window.flush().and_then(|()| record::elsewhere(device));
    let mut session = window.session();
    match (ready, &mut *session) {
        (Ok(elsewhere), Some(session)) => session.begin(elsewhere),
        (Err(error), _) => {
            *session = None;
            return Err(error);
        }
        (Ok(_), None) => return Err(CaptureError::NotPrepared.into()),
    }
    Ok(())
}

/// The captured run is over. A refusal is a warning, too: Burn's `capture` drops the error.
pub(crate) fn stop(device: MlirDevice) -> Result<MlirGraph, MlirError> {
    captured(device).inspect_err(|error| warn(format_args!("no graph was captured: {error}")))
}

fn captured(device: MlirDevice) -> Result<MlirGraph, MlirError> {
    let window = record::window(device)?;
    let ready = window.flush().and_then(|()| record::elsewhere(device));
    let mut session = {
        let mut current = window.session();
        match current.take_if(|session| session.is_capturing()) {
            Some(session) => session,
            None => return Err(CaptureError::NotCapturing.into()),
        }
    };
    let elsewhere = ready.unwrap_or_else(|error| {
        session.fail(CaptureError::Failed { reason: error.to_string() });
        Default::default()
    });
    let (mut recorded, start) = session.finish(&elsewhere)?;
    let mut inputs = compare(&session.entries, session.first, start)?;
    let results = session.results(start);
    gather(&window, &mut recorded, &results, &mut inputs)?;
    let mut batches = Vec::new();
    for phase in in_order(&window, &inputs.carries)? {
        batches.push(window.copies(&phase)?);
    }
    for launches in &recorded {
        batches.push(launches.bind()?);
    }
    let graph = window.capture(batches)?;
    let pins = pins(&window, &session, start, inputs);
    Ok(MlirGraph(Arc::new(Inner { device, window, graph, pins })))
}

/// Runs a graph once more.
///
/// Concurrent use of its tensors by other threads is the caller's to exclude.
pub(crate) fn replay(device: MlirDevice, graph: &MlirGraph) -> Result<(), MlirError> {
    let Inner { device: home, window, graph, pins } = &*graph.0;
    if *home != device {
        let (captured, asked) = (home.to_string(), device.to_string());
        return Err(CaptureError::OtherDevice { captured, asked }.into());
    }
    let own = record::window(device)?;
    record::fail_captures(&CaptureError::Replayed);
    // What was recorded before works on what the last replay left, or writes what this one reads.
    own.flush()?;
    if let Some(stale) = pins.iter().find(|pin| pin.is_stale()) {
        return Err(CaptureError::InputReplaced { tensor: stale.tensor.clone() }.into());
    }
    window.replay(graph, &own)
}

/// A copy of a whole buffer to a byte of another.
type Copy = (Buffer, (Buffer, usize));

/// The copies in phases that may run one after the other: no phase writes what it or a later one reads.
fn in_order(window: &Window, carries: &[Carry]) -> Result<Vec<Vec<Copy>>, MlirError> {
    let (mut early, mut late) = (Vec::new(), Vec::new());
    for Carry { from, to, .. } in carries {
        // State that changes places from run to run needs a third place.
        if carries.iter().any(|other| other.to.is_same(from)) {
            let between = window.allocate_bytes(from.bytes())?;
            early.push((from.clone(), (between.clone(), 0)));
            late.push((between, (to.clone(), 0)));
        } else {
            late.push((from.clone(), (to.clone(), 0)));
        }
    }
    Ok([early, late].into_iter().filter(|phase| !phase.is_empty()).collect())
}

/// Ties the graph's memory to the tensors that lie there.
fn pins(window: &Arc<Window>, session: &Session, start: usize, inputs: Inputs) -> Vec<Arc<Pin>> {
    let mut pins = Vec::new();
    let mut seen = FxHashSet::default();
    let mut pin = |pinned: Pinned, role: Role| {
        if let Some(block) = pinned.block.upgrade()
            && seen.insert(block.allocation)
        {
            let pin = Pin::new(window.clone(), role, pinned.layout, pinned.tensor);
            block.pin(&pin);
            pins.push(pin);
        }
    };
    for (tensors, role) in [(inputs.updated, Role::Updates), (inputs.read, Role::Reads)] {
        tensors.into_iter().for_each(|pinned| pin(pinned, role));
    }
    for (Written { layout, block, .. }, node) in session.results(start) {
        let tensor = describe(node.dtype, &node.shape);
        pin(Pinned { block: block.clone(), layout: layout.clone(), tensor }, Role::Writes);
    }
    pins
}
