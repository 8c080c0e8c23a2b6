//! Devices.

use std::fmt;
use std::sync::Arc;

use crate::cuda::{CudaDevice, CudaStream};
use crate::host::HostDevice;
use crate::{Buffer, CudaConfig, CudaKernel, CudaProperties, HostConfig, MemoryUsage, RuntimeError, Stream};

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
    Cuda(Arc<CudaDevice>),
}

impl Device {
    /// This process's memory and threads. Each call makes a device of its own.
    pub fn host(config: HostConfig) -> Self {
        Self(Kind::Host(Arc::new(HostDevice::new(config))))
    }

    /// A CUDA device by its number, below [`cuda_device_count`](crate::cuda_device_count). Each call makes a device
    /// with memory of its own; all of them share the context that the driver keeps for the process.
    ///
    /// Fails with [`NoDevice`](RuntimeError::NoDevice) if there is no such device or no driver.
    pub fn cuda(index: usize, config: CudaConfig) -> Result<Self, RuntimeError> {
        Ok(Self(Kind::Cuda(Arc::new(CudaDevice::new(index, config)?))))
    }

    /// Which device this is.
    pub fn id(&self) -> DeviceId {
        match &self.0 {
            Kind::Host(_) => DeviceId::Host,
            Kind::Cuda(cuda) => cuda.id(),
        }
    }

    /// What a CUDA device is; none for the host.
    pub fn cuda_properties(&self) -> Option<&CudaProperties> {
        match &self.0 {
            Kind::Host(_) => None,
            Kind::Cuda(cuda) => Some(cuda.properties()),
        }
    }

    /// A buffer of `bytes` bytes with undefined contents. Nothing is zeroed.
    pub fn allocate(&self, bytes: usize) -> Result<Buffer, RuntimeError> {
        match &self.0 {
            Kind::Host(host) => host.memory.allocate(bytes),
            Kind::Cuda(cuda) => cuda.allocate(bytes, None),
        }
    }

    /// A new stream.
    pub fn stream(&self) -> Result<Stream, RuntimeError> {
        match &self.0 {
            Kind::Host(host) => Ok(Stream::host(host.clone())),
            Kind::Cuda(cuda) => Ok(Stream::cuda(CudaStream::new(cuda.clone())?)),
        }
    }

    /// Host: threads that can work on one launch. The results do not depend on it. 1 elsewhere.
    pub fn threads(&self) -> usize {
        match &self.0 {
            Kind::Host(host) => host.threads.threads(),
            Kind::Cuda(_) => 1,
        }
    }

    /// How much memory is in use and reserved.
    pub fn memory_usage(&self) -> MemoryUsage {
        match &self.0 {
            Kind::Host(host) => host.memory.usage(),
            Kind::Cuda(cuda) => cuda.memory_usage(),
        }
    }

    /// Gives free memory that is kept for reuse back to the system. Not on the host this waits for work under way.
    pub fn memory_cleanup(&self) {
        match &self.0 {
            Kind::Host(host) => host.memory.cleanup(),
            Kind::Cuda(cuda) => cuda.memory_cleanup(),
        }
    }

    /// CUDA: loads a kernel ahead of its first launch here.
    pub fn load(&self, kernel: &CudaKernel) -> Result<(), RuntimeError> {
        match &self.0 {
            Kind::Host(_) => {
                Err(RuntimeError::WrongKernel { kernel: kernel.label().clone(), device: self.id() })
            }
            Kind::Cuda(cuda) => cuda.load(kernel),
        }
    }

    /// CUDA: machine code (a cubin) of a text of PTX for this device, for a
    /// [`CudaKernel`](crate::CudaKernel); or the text again, if it is better compiled when it is loaded. It takes the driver some 50 to 500 milliseconds.
    ///
    /// Fails with [`Assemble`](RuntimeError::Assemble) if the driver does not accept the text.
    pub fn assemble(&self, ptx: &str) -> Result<Vec<u8>, RuntimeError> {
        match &self.0 {
            Kind::Host(_) => Err(RuntimeError::Unsupported { device: self.id(), what: "assembler of PTX" }),
            Kind::Cuda(cuda) => cuda.assemble(ptx),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.id())
    }
}
