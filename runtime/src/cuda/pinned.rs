//! Host memory that the device can reach: what copies go through, and words that kernels write.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use parking_lot::Mutex;

use super::context::{Context, OUT_OF_MEMORY, call};
use super::event::{EventPool, RawEvent};
use crate::RuntimeError;

/// For every context of the process, and mapped into the device's addresses.
const PORTABLE_AND_MAPPED: u32 = 0x01 | 0x02;

/// Host memory that stays where it is, so that the device can copy from and to it.
pub(super) struct Pinned {
    context: Arc<Context>,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: plain memory; using it is unsafe code's business.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// New memory, all zeros.
    pub(super) fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, RuntimeError> {
        context.enter()?;
        let mut start: *mut c_void = null_mut();
        // SAFETY: `start` outlives the call.
        unsafe { call!(context, cuMemHostAlloc(&raw mut start, bytes, PORTABLE_AND_MAPPED))? };
        let start = NonNull::new(start.cast::<u8>())
            .ok_or_else(|| context.refused("cuMemHostAlloc", OUT_OF_MEMORY, "no memory was returned"))?;
        // SAFETY: the driver returned that many bytes, and nobody else knows of them.
        unsafe { start.as_ptr().write_bytes(0, bytes) };
        Ok(Self { context: context.clone(), start, bytes })
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Address of the first byte on the device.
    pub(super) fn device_address(&self) -> Result<u64, RuntimeError> {
        let mut address = 0;
        // SAFETY: `address` outlives the call; the memory was allocated as mapped.
        unsafe {
            call!(self.context, cuMemHostGetDevicePointer_v2(&raw mut address, self.start().cast(), 0))?;
        }
        Ok(address)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            // SAFETY: allocated by `new`; whoever queued copies waited for them.
            let _ = unsafe { call!(self.context, cuMemFreeHost(self.start().cast())) };
        }
    }
}

/// Pinned blocks of one size, reused once the copies that go through them are done.
pub(super) struct Staging {
    context: Arc<Context>,
    events: Arc<EventPool>,
    bytes: usize,
    /// Blocks before one is waited for.
    most: usize,
    free: Mutex<Vec<Pinned>>,
    busy: Mutex<VecDeque<(Pinned, RawEvent)>>,
}

impl Staging {
    pub(super) fn new(context: &Arc<Context>, events: &Arc<EventPool>, bytes: usize, most: usize) -> Self {
        Self {
            context: context.clone(),
            events: events.clone(),
            bytes,
            most,
            free: Mutex::default(),
            busy: Mutex::default(),
        }
    }

    /// Size of the blocks.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A block that nobody uses.
    pub(super) fn take(&self) -> Result<Pinned, RuntimeError> {
        if let Some(block) = self.free.lock().pop() {
            return Ok(block);
        }
        let mut busy = self.busy.lock();
        let many = busy.len() >= self.most;
        if let Some((_, event)) = busy.front()
            && (many || self.events.is_done(event))
            && let Some((block, event)) = busy.pop_front()
        {
            drop(busy);
            let waited = self.events.wait(&event);
            self.events.give_back(event);
            // Not reused where waiting failed: the device is lost.
            return waited.map(|()| block);
        }
        drop(busy);
        Pinned::new(&self.context, self.bytes)
    }

    /// Takes a block back whose copies are done.
    pub(super) fn give_back(&self, block: Pinned) {
        self.free.lock().push(block);
    }

    /// Takes a block back whose copies are done when the event is.
    pub(super) fn give_back_after(&self, block: Pinned, event: RawEvent) {
        self.busy.lock().push_back((block, event));
    }

    /// Frees all blocks, after their copies.
    pub(super) fn cleanup(&self) {
        self.free.lock().clear();
        for (block, event) in std::mem::take(&mut *self.busy.lock()) {
            let waited = self.events.wait(&event);
            self.events.give_back(event);
            if waited.is_err() {
                // The device is lost, and what it still does to the block unknown.
                std::mem::forget(block);
            }
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        self.cleanup();
    }
}
