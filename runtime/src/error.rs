//! What can go wrong while running.

use std::sync::Arc;

use crate::DeviceId;

/// An error of the runtime. None of them leaves a stream or a device unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The device has no room for an allocation, also after returning every cached block.
    #[error("out of memory on {device}: {requested} bytes requested, {in_use} of {limit} in use")]
    OutOfMemory {
        /// The device asked.
        device: DeviceId,
        /// Bytes asked for.
        requested: usize,
        /// Bytes that living buffers occupied at that time.
        in_use: usize,
        /// Bytes the device may use in all.
        limit: usize,
    },
    /// A kernel met an index outside its tensor. Its results are undefined, other memory is untouched.
    #[error("index out of range in kernel `{kernel}`")]
    IndexOutOfRange {
        /// Label of the kernel.
        kernel: Arc<str>,
    },
    /// An argument or a copy reaches outside its buffer.
    #[error("bytes {offset}..{offset}+{bytes} reach outside a buffer of {size} bytes")]
    OutOfBounds {
        /// First byte.
        offset: usize,
        /// Number of bytes.
        bytes: usize,
        /// Size of the buffer.
        size: usize,
    },
    /// A buffer of one device was given to another.
    #[error("a buffer of {found} was given to {expected}")]
    WrongDevice {
        /// The device of the stream.
        expected: DeviceId,
        /// The device of the buffer.
        found: DeviceId,
    },
    /// A call made by a stream waited for that same stream.
    #[error("a call queued on a stream cannot wait for that stream")]
    Reentrant,
    /// A call queued on a stream panicked.
    #[error("a call queued on a stream panicked: {message}")]
    Panicked {
        /// The panic's message.
        message: String,
    },
}
