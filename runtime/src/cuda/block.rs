//! A piece of device memory in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::lane::Lane;
use super::pool::{Order, Pool};
use crate::{DeviceId, RuntimeError};

/// Device memory that goes back to its pool when dropped, and knows the streams that use it.
pub(crate) struct CudaBlock {
    pool: Arc<Pool<Lane>>,
    address: usize,
    /// Whose work the memory is in order with; none if it was free for all.
    home: Option<Arc<Lane>>,
    /// What was queued at home when the memory became usable elsewhere.
    born: AtomicU64,
    /// Other streams that use it.
    users: Mutex<SmallVec<[Arc<Lane>; 1]>>,
}

impl CudaBlock {
    /// At least `bytes` bytes for work queued on a stream from now on.
    pub(super) fn allocate(
        pool: &Arc<Pool<Lane>>,
        bytes: usize,
        home: Option<&Arc<Lane>>,
    ) -> Result<Self, RuntimeError> {
        Ok(Self {
            address: pool.allocate(bytes, home)?,
            pool: pool.clone(),
            home: home.cloned(),
            born: AtomicU64::new(home.map_or(0, |home| home.submitted())),
            users: Mutex::default(),
        })
    }

    pub(crate) fn address(&self) -> usize {
        self.address
    }

    pub(crate) fn device(&self) -> DeviceId {
        self.pool.device()
    }

    /// Other streams shall see what has been queued at home by now.
    pub(super) fn publish(&self) {
        if let Some(home) = &self.home {
            self.born.store(home.submitted(), Ordering::Release);
        }
    }

    /// Notes that work of a stream is about to use this; the first time returns what that stream has to wait
    /// for: a place in another stream's order.
    pub(super) fn used_on(&self, lane: &Arc<Lane>) -> Option<(&Arc<Lane>, u64)> {
        if self.home.as_ref().is_some_and(|home| Arc::ptr_eq(home, lane)) {
            return None;
        }
        let mut users = self.users.lock();
        if users.iter().any(|user| Arc::ptr_eq(user, lane)) {
            return None;
        }
        users.push(lane.clone());
        drop(users);
        self.origin()
    }

    /// The place from which on other streams may use this.
    pub(super) fn origin(&self) -> Option<(&Arc<Lane>, u64)> {
        self.home.as_ref().map(|home| (home, self.born.load(Ordering::Acquire)))
    }
}

impl Drop for CudaBlock {
    fn drop(&mut self) {
        let marks = self.users.get_mut().drain(..).filter_map(|user| Order::mark(&*user)).collect();
        // SAFETY: this was the only handle of the block; the marks are behind all work of other streams.
        unsafe { self.pool.give_back(self.address, self.home.as_ref(), marks) };
    }
}
