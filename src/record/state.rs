//! What a lazy handle points to.

use super::Position;
use super::lock::{Lock, Locked};
use super::recording::Refusal;
use super::window::{Window, number};
use super::windows::find;
use crate::MlirError;
use crate::graph::{Made, Pin};
use burn_mlir_ir::{Layout, ValueId};
use burn_mlir_runtime::{Buffer, Event};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The value of a tensor: recorded, computed (or being computed on a stream), or failed.
pub struct TensorState {
    /// The window that it is or was recorded in; 0 for values that never were.
    window: u64,
    /// Which recording of that window, and which node there. They are only changed as long as nobody else has a handle,
    /// so that the owner of a handle may read them without a lock.
    generation: AtomicU64,
    node: AtomicU32,
    value: Lock<Value>,
}

pub(super) enum Value {
    /// A node of a recording that was not started since.
    Recorded,
    /// In memory once its block's event has passed. `bound`: the input node that stands for it in
    /// the recording that used it last.
    Ready { storage: Storage, bound: Option<Position> },
    /// Not to be had.
    Failed(MlirError),
}

impl Value {
    pub(super) fn ready(storage: Storage) -> Self {
        Self::Ready { storage, bound: None }
    }
}

/// Memory with a layout. Views share the block.
#[derive(Clone)]
pub(crate) struct Storage {
    pub(crate) block: Arc<Block>,
    pub(crate) layout: Layout,
}

/// An allocation and the point in a stream from which on its contents are valid.
pub(crate) struct Block {
    pub(crate) buffer: Buffer,
    /// `None`: valid already.
    pub(crate) written: Option<Event>,
    /// The stream whose work uses the buffer, [`UNUSED`] or [`SHARED`].
    user: AtomicU64,
    /// Names the memory: a block that was written over another has its number.
    pub(crate) allocation: u64,
    /// Where it comes from, if that may matter to a graph capture.
    pub(crate) made: Option<Made>,
    /// What graphs use the memory for, and whether they ever did.
    pins: Mutex<Pins>,
    pinned: AtomicBool,
}

type Pins = SmallVec<[Weak<Pin>; 1]>;

/// No stream has used a block yet.
const UNUSED: u64 = 0;
/// Several streams have: none of them may overwrite it.
const SHARED: u64 = u64::MAX;

impl Block {
    pub(crate) fn new(buffer: Buffer, written: Option<Event>, made: Option<Made>) -> Arc<Self> {
        Arc::new(Self {
            buffer,
            written,
            user: AtomicU64::new(UNUSED),
            allocation: number(),
            made,
            pins: Mutex::default(),
            pinned: AtomicBool::new(false),
        })
    }

    /// What was written over `old`, whose memory it has.
    pub(super) fn over(old: &Self, written: Option<Event>, made: Option<Made>) -> Arc<Self> {
        let pins: Pins = old.pins().iter().map(Arc::downgrade).collect();
        Arc::new(Self {
            buffer: old.buffer.clone(),
            written,
            user: AtomicU64::new(UNUSED),
            allocation: old.allocation,
            made,
            pinned: AtomicBool::new(!pins.is_empty()),
            pins: Mutex::new(pins),
        })
    }

    /// Ties the memory to a graph.
    pub(crate) fn pin(&self, pin: &Arc<Pin>) {
        self.pins.lock().push(Arc::downgrade(pin));
        self.pinned.store(true, Ordering::Release);
    }

    /// Whether a graph ever had a claim.
    pub(super) fn is_pinned(&self) -> bool {
        self.pinned.load(Ordering::Acquire)
    }

    /// The claims of living graphs.
    pub(super) fn pins(&self) -> SmallVec<[Arc<Pin>; 1]> {
        if !self.is_pinned() {
            return SmallVec::new();
        }
        self.pins.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Notes that work of a stream uses the buffer; whether all work so far is of that stream.
    pub(super) fn used_by(&self, stream: u64) -> bool {
        if self.user.load(Ordering::Acquire) == stream {
            return true;
        }
        let claim = self.user.compare_exchange(UNUSED, stream, Ordering::AcqRel, Ordering::Acquire);
        let sole = claim.is_ok() || claim == Err(stream);
        if !sole {
            self.user.store(SHARED, Ordering::Release);
        }
        sole
    }
}

impl TensorState {
    /// A value that is there, or will never be.
    pub(super) fn new(value: Value) -> Arc<Self> {
        Arc::new(Self::of(0, value))
    }

    /// A place for a node of a window's recordings.
    pub(super) fn place(window: u64) -> Arc<Self> {
        Arc::new(Self::of(window, Value::Recorded))
    }

    fn of(window: u64, value: Value) -> Self {
        let (generation, node) = (AtomicU64::new(0), AtomicU32::new(0));
        Self { window, generation, node, value: Lock::new(value) }
    }

    /// Says which node the value is. Nobody else has a handle.
    pub(super) fn stand_for(&self, position: Position) {
        self.generation.store(position.generation, Ordering::Relaxed);
        self.node.store(position.value.0, Ordering::Relaxed);
    }

    /// The node of a recording that the value is; none if it is recorded elsewhere, or not any more.
    pub(super) fn node_in(&self, generation: u64) -> Option<ValueId> {
        let recorded = self.generation.load(Ordering::Relaxed) == generation;
        recorded.then(|| ValueId(self.node.load(Ordering::Relaxed)))
    }

    pub(super) fn lock(&self) -> Locked<'_, Value> {
        self.value.lock()
    }

    /// Flushes the window the value is recorded in unless that is `own`.
    pub(super) fn leave_other_windows(&self, own: &Window) -> Result<(), Refusal> {
        if self.window == own.id() || self.window == 0 {
            return Ok(());
        }
        Ok(self.recorded_in().map_or(Ok(()), |window| window.flush_for_another())?)
    }

    /// Runs the window the value is recorded in, and returns its storage.
    pub(super) fn compute(&self) -> Result<Storage, MlirError> {
        if let Some(window) = self.recorded_in() {
            window.finish()?;
        }
        self.started()
    }

    /// Starts the window the value is recorded in, and returns its storage, which is valid later.
    pub(super) fn start(&self) -> Result<Storage, MlirError> {
        if let Some(window) = self.recorded_in() {
            window.flush_for_another()?;
        }
        self.started()
    }

    /// The storage of a value whose window was started.
    fn started(&self) -> Result<Storage, MlirError> {
        match &*self.lock() {
            Value::Ready { storage, .. } => Ok(storage.clone()),
            Value::Failed(error) => Err(error.clone()),
            Value::Recorded => Err(left_out()),
        }
    }

    /// The storage, if the value is in memory or on its way there.
    pub(crate) fn storage(&self) -> Option<Storage> {
        match &*self.lock() {
            Value::Ready { storage, .. } => Some(storage.clone()),
            _ => None,
        }
    }

    /// Why the value is not to be had.
    pub(crate) fn error(&self) -> Option<MlirError> {
        match &*self.lock() {
            Value::Failed(error) => Some(error.clone()),
            _ => None,
        }
    }

    /// Puts the value, which has been copied there, to another place.
    pub(crate) fn relocate(&self, storage: Storage) {
        *self.lock() = Value::ready(storage);
    }

    /// How many tensors have a handle, if the caller's is one of them.
    pub(crate) fn handles(self: &Arc<Self>) -> usize {
        // The recording has one, too.
        Arc::strong_count(self) - usize::from(self.is_recorded())
    }

    fn is_recorded(&self) -> bool {
        matches!(&*self.lock(), Value::Recorded)
    }

    fn recorded_in(&self) -> Option<Arc<Window>> {
        self.is_recorded().then(|| find(self.window)).flatten()
    }
}

/// A value that was recorded and has no storage although its window was started.
pub(super) fn left_out() -> MlirError {
    let reason = "the value was left out of the window it was recorded in".into();
    MlirError::Invalid { op: "read", reason }
}
