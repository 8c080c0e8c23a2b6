//! Devices.

use std::fmt;
use std::sync::Arc;

use crate::host::HostDevice;
use crate::{Buffer, HostConfig, MemoryUsage, RuntimeError, Stream};

/// Which device something belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DeviceId {
    /// The host.
    Host,
    /// A CUDA device by its number.
    Cuda(u32),
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("the host"),
            Self::Cuda(index) => write!(f, "CUDA device {index}"),
        }
    }
}

/// A device: memory, and streams that work on it. Clones share everything.
#[derive(Clone)]
pub struct Device(Kind);

#[derive(Clone)]
enum Kind {
    Host(Arc<HostDevice>),
}

impl Device {
    /// This process's memory and threads. Each call makes a device of its own.
    pub fn host(config: HostConfig) -> Self {
        Self(Kind::Host(Arc::new(HostDevice::new(config))))
    }

    /// Which device this is.
    pub fn id(&self) -> DeviceId {
        match &self.0 {
            Kind::Host(_) => DeviceId::Host,
        }
    }

    /// A buffer of `bytes` bytes with undefined contents. Nothing is zeroed.
    pub fn allocate(&self, bytes: usize) -> Result<Buffer, RuntimeError> {
        match &self.0 {
            Kind::Host(host) => host.memory.allocate(bytes),
        }
    }

    /// A new stream.
    pub fn stream(&self) -> Result<Stream, RuntimeError> {
        match &self.0 {
            Kind::Host(host) => Ok(Stream::host(host.clone())),
        }
    }

    /// Host: threads that can work on one launch. The results do not depend on it.
    pub fn threads(&self) -> usize {
        match &self.0 {
            Kind::Host(host) => host.threads.threads(),
        }
    }

    /// How much memory is in use and reserved.
    pub fn memory_usage(&self) -> MemoryUsage {
        match &self.0 {
            Kind::Host(host) => host.memory.usage(),
        }
    }

    /// Gives free memory that is kept for reuse back to the system.
    pub fn memory_cleanup(&self) {
        match &self.0 {
            Kind::Host(host) => host.memory.cleanup(),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.id())
    }
}
