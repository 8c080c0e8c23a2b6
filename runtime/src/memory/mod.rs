//! Buffers and the pool they come from.

mod buffer;
mod classes;
mod pages;
mod pool;

pub use buffer::Buffer;
pub(crate) use pages::{HostPages, host_memory};
pub use pool::{Backing, MemoryPool, MemoryUsage, PoolConfig};

/// Every buffer starts at a multiple of this many bytes: a cache line, and the widest host vector.
pub const ALIGNMENT: usize = 64;
