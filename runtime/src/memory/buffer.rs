//! The handle of a piece of device memory.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use super::pool::MemoryPool;
use crate::cuda::CudaBlock;
use crate::{DeviceId, RuntimeError};

/// A piece of device memory, 64-byte aligned (256 on CUDA devices). Clones share it; the last one gives it back to its pool.
///
/// Work queued on a stream holds clones, so a buffer may be dropped as soon as its last use is queued.
#[derive(Clone)]
pub struct Buffer(Arc<Inner>);

struct Inner {
    address: NonNull<u8>,
    bytes: usize,
    owner: Owner,
}

/// What a buffer's memory goes back to.
enum Owner {
    Host { pool: Arc<MemoryPool>, class: usize },
    Cuda(CudaBlock),
}

// SAFETY: the handle only carries an address. Reading and writing behind it is unsafe code's business
// everywhere, and the memory itself may be used from any thread.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Buffer {
    /// The only handle of a block.
    ///
    /// # Safety
    /// The block of that class came from the pool, holds `bytes`, and has no other owner.
    pub(super) unsafe fn new(
        pool: Arc<MemoryPool>,
        address: NonNull<u8>,
        bytes: usize,
        class: usize,
    ) -> Self {
        Self(Arc::new(Inner { address, bytes, owner: Owner::Host { pool, class } }))
    }

    /// The only handle of a block of device memory.
    ///
    /// # Safety
    /// The block holds `bytes` bytes.
    pub(crate) unsafe fn cuda(block: CudaBlock, bytes: usize) -> Self {
        let address = std::ptr::with_exposed_provenance_mut(block.address());
        // No block of device memory is at address 0.
        let address = NonNull::new(address).unwrap_or(NonNull::dangling());
        Self(Arc::new(Inner { address, bytes, owner: Owner::Cuda(block) }))
    }

    /// Device memory: what streams have to know of it.
    pub(crate) fn cuda_block(&self) -> Option<&CudaBlock> {
        match &self.0.owner {
            Owner::Host { .. } => None,
            Owner::Cuda(block) => Some(block),
        }
    }

    /// Address of the first byte, on the device. Valid for [`bytes`](Self::bytes) bytes while a clone lives.
    pub fn address(&self) -> *mut u8 {
        self.0.address.as_ptr()
    }

    /// Size in bytes, as asked for.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// The device whose memory this is.
    pub fn device(&self) -> DeviceId {
        match &self.0.owner {
            Owner::Host { pool, .. } => pool.device(),
            Owner::Cuda(block) => block.device(),
        }
    }

    /// Whether both handles share one piece of memory.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Checks that `offset..offset + bytes` lies within the buffer.
    pub fn check(&self, offset: usize, bytes: usize) -> Result<(), RuntimeError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.0.bytes => Ok(()),
            _ => Err(RuntimeError::OutOfBounds { offset, bytes, size: self.0.bytes }),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Device memory goes back by itself.
        if let Owner::Host { pool, class } = &self.owner {
            // SAFETY: this was the last handle of a block of that pool and class.
            unsafe { pool.give_back(self.address, *class) }
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes at {:p} on {})", self.0.bytes, self.0.address, self.device())
    }
}
