//! The memory cache: one computation per key however many threads ask, none under a lock.

use crate::JitError;
use dashmap::{DashMap, Entry};
use parking_lot::{Condvar, Mutex};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::AcqRel},
};

/// Values by key. A value stays; a failure is told to those who waited for it and forgotten.
pub(crate) struct Cache<V> {
    slots: DashMap<Arc<str>, Slot<V>>,
}

enum Slot<V> {
    Ready(V),
    Pending(Arc<Flight<V>>),
}

/// A computation under way.
pub(crate) struct Flight<V> {
    result: Mutex<Option<Result<V, JitError>>>,
    landed: Condvar,
}

/// What comes of asking for a key.
pub(crate) enum Asked<V: Clone> {
    /// The value is there or on its way.
    Answer(Answer<V>),
    /// The asking thread has to see that it is computed.
    Lead(Lease<V>),
}

/// A value that is there or on its way.
pub(crate) enum Answer<V> {
    Ready(V),
    Pending(Arc<Flight<V>>),
}

/// The duty to compute a value. Dropped without a result it counts as failed, so nobody waits in vain.
pub(crate) struct Lease<V: Clone> {
    cache: Arc<Cache<V>>,
    key: Arc<str>,
    flight: Arc<Flight<V>>,
    done: AtomicBool,
}

impl<V: Clone> Cache<V> {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { slots: DashMap::new() })
    }

    pub fn ask(self: &Arc<Self>, key: &str) -> Asked<V> {
        if let Some(slot) = self.slots.get(key) {
            return Asked::Answer(slot.answer());
        }
        let key: Arc<str> = key.into();
        match self.slots.entry(key.clone()) {
            Entry::Occupied(slot) => Asked::Answer(slot.get().answer()),
            Entry::Vacant(slot) => {
                let flight = Arc::new(Flight { result: Mutex::new(None), landed: Condvar::new() });
                slot.insert(Slot::Pending(flight.clone()));
                Asked::Lead(Lease { cache: self.clone(), key, flight, done: AtomicBool::new(false) })
            }
        }
    }
}

impl<V: Clone> Slot<V> {
    fn answer(&self) -> Answer<V> {
        match self {
            Self::Ready(value) => Answer::Ready(value.clone()),
            Self::Pending(flight) => Answer::Pending(flight.clone()),
        }
    }
}

impl<V: Clone> Answer<V> {
    /// Blocks until there is a result.
    pub fn wait(self) -> Result<V, JitError> {
        match self {
            Self::Ready(value) => Ok(value),
            Self::Pending(flight) => flight.wait(),
        }
    }
}

impl<V: Clone> Flight<V> {
    fn wait(&self) -> Result<V, JitError> {
        let mut result = self.result.lock();
        loop {
            match &*result {
                Some(result) => return result.clone(),
                None => self.landed.wait(&mut result),
            }
        }
    }
}

impl<V: Clone> Lease<V> {
    /// What others who ask get.
    pub fn answer(&self) -> Answer<V> {
        Answer::Pending(self.flight.clone())
    }

    /// Publishes the result; only the first call has an effect.
    pub fn finish(&self, result: Result<V, JitError>) {
        if self.done.swap(true, AcqRel) {
            return;
        }
        // The map first: who asks after a failure starts anew, who asks after a success finds it.
        match &result {
            Ok(value) => drop(self.cache.slots.insert(self.key.clone(), Slot::Ready(value.clone()))),
            Err(_) => drop(self.cache.slots.remove(&self.key)),
        }
        *self.flight.result.lock() = Some(result);
        self.flight.landed.notify_all();
    }
}

impl<V: Clone> Drop for Lease<V> {
    fn drop(&mut self) {
        self.finish(Err(JitError::Panicked("the compilation was given up".into())));
    }
}
