//! What a lazy handle points to.

use super::Position;
use super::window::{Window, number};
use crate::MlirError;
use crate::graph::{Made, Pin};
use burn_mlir_ir::Layout;
use burn_mlir_runtime::{Buffer, Event};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The value of a tensor: recorded, computed (or being computed on a stream), or failed.
pub struct TensorState {
    value: Mutex<Value>,
}

pub(super) enum Value {
    /// A node of a window that has not been flushed since.
    Recorded { window: Arc<Window>, position: Position },
    /// In memory once its block's event has passed. `bound`: the input node that stands for it in
    /// the window that used it last.
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
    /// What graphs use the memory for.
    pins: Mutex<Pins>,
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
        })
    }

    /// What was written over `old`, whose memory it has.
    pub(super) fn over(old: &Self, written: Option<Event>, made: Option<Made>) -> Arc<Self> {
        let mut pins = old.pins.lock().clone();
        pins.retain(|pin| pin.strong_count() > 0);
        Arc::new(Self {
            buffer: old.buffer.clone(),
            written,
            user: AtomicU64::new(UNUSED),
            allocation: old.allocation,
            made,
            pins: Mutex::new(pins),
        })
    }

    /// Ties the memory to a graph.
    pub(crate) fn pin(&self, pin: &Arc<Pin>) {
        self.pins.lock().push(Arc::downgrade(pin));
    }

    /// The claims of living graphs.
    pub(super) fn pins(&self) -> SmallVec<[Arc<Pin>; 1]> {
        self.pins.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Notes that work of a stream uses the buffer; whether all work so far is of that stream.
    pub(super) fn used_by(&self, stream: u64) -> bool {
        let claim = self.user.compare_exchange(UNUSED, stream, Ordering::AcqRel, Ordering::Acquire);
        let sole = claim.is_ok() || claim == Err(stream);
        if !sole {
            self.user.store(SHARED, Ordering::Release);
        }
        sole
    }
}

impl TensorState {
    pub(super) fn new(value: Value) -> Arc<Self> {
        Arc::new(Self { value: Mutex::new(value) })
    }

    pub(super) fn lock(&self) -> parking_lot::MutexGuard<'_, Value> {
        self.value.lock()
    }

    /// Flushes the window the value is recorded in unless that is `own`.
    pub(super) fn leave_other_windows(&self, own: &Arc<Window>) -> Result<(), MlirError> {
        match self.recorded_in() {
            Some(window) if !Arc::ptr_eq(&window, own) => window.flush_for_another(),
            _ => Ok(()),
        }
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
            Value::Recorded { .. } => Err(MlirError::Invalid {
                op: "read",
                reason: "the value was left out of the window it was recorded in".into(),
            }),
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

    fn recorded_in(&self) -> Option<Arc<Window>> {
        match &*self.lock() {
            Value::Recorded { window, .. } => Some(window.clone()),
            _ => None,
        }
    }
}
