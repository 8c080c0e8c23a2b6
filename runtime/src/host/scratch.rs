//! Scratch memory that grows on demand and is kept: fresh pages at every launch would cost more than
//! many a kernel.

use std::sync::Arc;

use crate::{Buffer, MemoryPool, RuntimeError};

/// A piece of scratch memory of one owner.
pub(crate) struct Scratch {
    pool: Arc<MemoryPool>,
    buffer: Option<Buffer>,
}

impl Scratch {
    /// Nothing yet.
    pub(crate) fn new(pool: Arc<MemoryPool>) -> Self {
        Self { pool, buffer: None }
    }

    /// Address of at least `bytes` bytes with undefined contents, valid until the next call.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<*mut u8, RuntimeError> {
        if let Some(buffer) = self.buffer.as_ref().filter(|buffer| buffer.bytes() >= bytes) {
            return Ok(buffer.address());
        }
        if bytes == 0 {
            return Ok(std::ptr::dangling_mut::<Aligned>().cast());
        }
        // Give back first: the old block may be part of what the new one needs.
        self.buffer = None;
        let buffer = self.pool.allocate(bytes)?;
        Ok(self.buffer.insert(buffer).address())
    }
}

/// Gives a dangling address the alignment of a real one.
#[repr(align(64))]
struct Aligned(#[expect(dead_code, reason = "only its alignment matters")] u8);
