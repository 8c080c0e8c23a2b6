//! The pool: free lists per size class over a device's own allocator.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use super::buffer::Buffer;
use super::classes::{self, class_bytes, class_of};
use crate::{DeviceId, RuntimeError};

/// On a miss, a block up to this many classes larger (half as large again) is taken instead of a new one.
const LARGER_CLASSES: usize = 2;

/// Blocks below this size are cached whatever the bound: they cost little and are asked for most.
const ALWAYS_CACHED: usize = 64 << 10;

/// Where a pool gets its blocks: host pages, or a CUDA device's memory.
///
/// # Safety
/// Blocks are valid for reads and writes by the device, aligned to [`ALIGNMENT`](super::ALIGNMENT), do not
/// overlap while allocated, and may be used and released from any thread.
pub unsafe trait Backing: Send + Sync + fmt::Debug {
    /// A new block, or none if there is no room.
    fn allocate(&self, bytes: usize) -> Option<NonNull<u8>>;

    /// Gives a block back.
    ///
    /// # Safety
    /// The block came from `allocate(bytes)` of the same backing and is not used any more.
    unsafe fn release(&self, block: NonNull<u8>, bytes: usize);
}

/// Bounds of a pool in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// The pool never holds more than this.
    pub limit: usize,
    /// Free blocks beyond this go back to the backing at once.
    pub cached: usize,
}

/// How much memory a pool holds, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    /// In living buffers, rounded up to size classes.
    pub in_use: usize,
    /// Taken from the backing: in living buffers or cached.
    pub reserved: usize,
    /// Largest `in_use` so far.
    pub peak: usize,
}

/// A thread-safe allocator of buffers that keeps freed blocks for reuse.
#[derive(Debug)]
pub struct MemoryPool {
    device: DeviceId,
    config: PoolConfig,
    backing: Box<dyn Backing>,
    free: Box<[CachePadded<Mutex<Vec<Block>>>]>,
    in_use: CachePadded<AtomicUsize>,
    reserved: CachePadded<AtomicUsize>,
    peak: AtomicUsize,
}

#[derive(Debug)]
struct Block(NonNull<u8>);

// SAFETY: a free block is owned by whoever holds it, and `Backing` promises use from any thread.
unsafe impl Send for Block {}

impl MemoryPool {
    /// An empty pool.
    pub fn new(device: DeviceId, backing: Box<dyn Backing>, config: PoolConfig) -> Arc<Self> {
        Arc::new(Self {
            device,
            config,
            backing,
            free: (0..classes::COUNT).map(|_| CachePadded::default()).collect(),
            in_use: CachePadded::default(),
            reserved: CachePadded::default(),
            peak: AtomicUsize::new(0),
        })
    }

    /// The device whose memory this is.
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// A buffer of `bytes` bytes with undefined contents.
    pub fn allocate(self: &Arc<Self>, bytes: usize) -> Result<Buffer, RuntimeError> {
        let class = class_of(bytes).ok_or_else(|| self.out_of_memory(bytes))?;
        let (block, class) = match self.take_free(class) {
            Some(found) => found,
            None => (self.take_new(class).ok_or_else(|| self.out_of_memory(bytes))?, class),
        };
        let in_use = self.in_use.fetch_add(class_bytes(class), Relaxed) + class_bytes(class);
        if in_use > self.peak.load(Relaxed) {
            self.peak.fetch_max(in_use, Relaxed);
        }
        // SAFETY: the block is off every free list, so the buffer is its only owner.
        Ok(unsafe { Buffer::new(self.clone(), block.0, bytes, class) })
    }

    /// Gives every cached block back to the backing.
    pub fn cleanup(&self) {
        for (class, list) in self.free.iter().enumerate() {
            for block in std::mem::take(&mut *list.lock()) {
                self.release(block, class);
            }
        }
    }

    /// Current counters. They are read one by one, so they need not agree while other threads allocate.
    pub fn usage(&self) -> MemoryUsage {
        MemoryUsage {
            in_use: self.in_use.load(Relaxed),
            reserved: self.reserved.load(Relaxed),
            peak: self.peak.load(Relaxed),
        }
    }

    /// Takes back the block of a buffer.
    ///
    /// # Safety
    /// The block of that class came from this pool and nobody uses it any more.
    pub(super) unsafe fn give_back(&self, block: NonNull<u8>, class: usize) {
        let bytes = class_bytes(class);
        let in_use = self.in_use.fetch_sub(bytes, Relaxed) - bytes;
        let cached = self.reserved.load(Relaxed).saturating_sub(in_use);
        if bytes >= ALWAYS_CACHED && cached > self.config.cached {
            self.release(Block(block), class);
        } else {
            self.free[class].lock().push(Block(block));
        }
    }

    fn take_free(&self, class: usize) -> Option<(Block, usize)> {
        let last = (class + LARGER_CLASSES).min(classes::COUNT - 1);
        (class..=last).find_map(|class| Some((self.free[class].lock().pop()?, class)))
    }

    fn take_new(&self, class: usize) -> Option<Block> {
        self.try_new(class).or_else(|| {
            self.cleanup();
            self.try_new(class)
        })
    }

    fn try_new(&self, class: usize) -> Option<Block> {
        let bytes = class_bytes(class);
        // Reserve first: two threads together may not exceed the limit either.
        let before = self.reserved.fetch_add(bytes, Relaxed);
        let within = before.checked_add(bytes).is_some_and(|sum| sum <= self.config.limit);
        let block = within.then(|| self.backing.allocate(bytes)).flatten();
        if block.is_none() {
            self.reserved.fetch_sub(bytes, Relaxed);
        }
        block.map(Block)
    }

    fn release(&self, block: Block, class: usize) {
        let bytes = class_bytes(class);
        // SAFETY: blocks of a class were allocated with its size, and this one is in no list or buffer.
        unsafe { self.backing.release(block.0, bytes) };
        self.reserved.fetch_sub(bytes, Relaxed);
    }

    fn out_of_memory(&self, requested: usize) -> RuntimeError {
        RuntimeError::OutOfMemory {
            device: self.device,
            requested,
            in_use: self.in_use.load(Relaxed),
            limit: self.config.limit,
        }
    }
}

impl Drop for MemoryPool {
    fn drop(&mut self) {
        self.cleanup();
    }
}
