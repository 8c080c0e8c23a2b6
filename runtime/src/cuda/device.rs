//! A CUDA device: what its streams share.

use std::ptr::NonNull;
use std::sync::Arc;

use super::assemble::assemble;
use super::block::CudaBlock;
use super::context::{Context, OUT_OF_MEMORY, call};
use super::event::EventPool;
use super::lane::Lane;
use super::module::CudaKernel;
use super::pinned::Staging;
use super::pool::Pool;
use super::properties::CudaProperties;
use crate::memory::Backing;
use crate::{Buffer, DeviceId, MemoryUsage, RuntimeError};

/// Blocks that large copies go through, and how many of them are under way before one is waited for. Two would do
/// for one stream: the processor fills one while the device empties the other.
const LARGE_STAGING: (usize, usize) = (4 << 20, 4);

/// Blocks that small copies share.
const SMALL_STAGING: (usize, usize) = (256 << 10, 16);

/// What a CUDA device may use. None means: as much as there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CudaConfig {
    /// Bytes of device memory; all of it by default.
    pub memory_limit: Option<usize>,
    /// Every buffer is memory of its own of exactly its size, and none is kept for reuse. Slow; it lets tools like
    /// compute-sanitizer see accesses outside a buffer. The variable `BURN_MLIR_CUDA_EXACT_MEMORY` sets it, too.
    pub exact_memory: bool,
}

/// Environment variable that sets [`CudaConfig::exact_memory`] unless it is empty or 0.
const EXACT_VARIABLE: &str = "BURN_MLIR_CUDA_EXACT_MEMORY";

/// Context, memory, events and staging shared by all streams of a device.
pub(crate) struct CudaDevice {
    pub(super) context: Arc<Context>,
    pub(super) events: Arc<EventPool>,
    pub(super) pool: Arc<Pool<Lane>>,
    pub(super) small: Staging,
    pub(super) large: Staging,
    properties: CudaProperties,
}

impl CudaDevice {
    /// The device with that number.
    pub(crate) fn new(index: usize, config: CudaConfig) -> Result<Self, RuntimeError> {
        let context = Context::retain(index)?;
        let properties = CudaProperties::read(&context)?;
        let events = Arc::new(EventPool::new(context.clone()));
        let limit = config.memory_limit.unwrap_or(usize::MAX).min(properties.memory_bytes);
        let memory = DeviceMemory { context: context.clone() };
        let variable =
            std::env::var_os(EXACT_VARIABLE).is_some_and(|value| !value.is_empty() && value != "0");
        let exact = config.exact_memory || variable;
        let staging = |(bytes, most)| Staging::new(&context, &events, bytes, most);
        Ok(Self {
            pool: Arc::new(Pool::new(context.id(), Box::new(memory), limit, exact)),
            small: staging(SMALL_STAGING),
            large: staging(LARGE_STAGING),
            events,
            properties,
            context,
        })
    }

    pub(crate) fn id(&self) -> DeviceId {
        self.context.id()
    }

    pub(crate) fn properties(&self) -> &CudaProperties {
        &self.properties
    }

    /// Memory for work queued on a stream from now on; without one for all uses at once.
    pub(crate) fn allocate(&self, bytes: usize, home: Option<&Arc<Lane>>) -> Result<Buffer, RuntimeError> {
        self.context.alive()?;
        let allocated = CudaBlock::allocate(&self.pool, bytes, home);
        // A lost device has no memory either, but that is not what to tell.
        let block = allocated.or_else(|error| self.context.alive().and(Err(error)))?;
        // SAFETY: the block is new and holds that many bytes.
        Ok(unsafe { Buffer::cuda(block, bytes) })
    }

    /// Loads a kernel.
    pub(crate) fn load(&self, kernel: &CudaKernel) -> Result<(), RuntimeError> {
        self.context.enter()?;
        self.with_memory(|| kernel.loaded(&self.context).map(drop))
    }

    /// Machine code for a text of PTX.
    pub(crate) fn assemble(&self, ptx: &str) -> Result<Vec<u8>, RuntimeError> {
        assemble(&self.context, ptx)
    }

    pub(crate) fn memory_usage(&self) -> MemoryUsage {
        self.pool.usage()
    }

    /// Gives free memory and unused code back, after the work under way.
    pub(crate) fn memory_cleanup(&self) {
        self.pool.cleanup();
        self.small.cleanup();
        self.large.cleanup();
        // An error is that of the device, which the next call meets, too.
        let _ = self.context.unload_retired();
    }

    /// Does something that needs device memory of the driver's own, a second time with all free memory given back
    /// if there was too little.
    pub(super) fn with_memory<T>(
        &self,
        mut attempt: impl FnMut() -> Result<T, RuntimeError>,
    ) -> Result<T, RuntimeError> {
        match attempt() {
            Err(RuntimeError::Driver { code: OUT_OF_MEMORY, .. }) => {
                self.memory_cleanup();
                attempt()
            }
            result => result,
        }
    }
}

/// A device's memory as the backing of a pool.
struct DeviceMemory {
    context: Arc<Context>,
}

// SAFETY: the driver hands out disjoint memory, aligned to at least 256 bytes, for use from any thread.
unsafe impl Backing for DeviceMemory {
    fn allocate(&self, bytes: usize) -> Option<NonNull<u8>> {
        self.context.enter().ok()?;
        let mut address = 0;
        // SAFETY: `address` outlives the call.
        unsafe { call!(self.context, cuMemAlloc_v2(&raw mut address, bytes)).ok()? };
        NonNull::new(std::ptr::with_exposed_provenance_mut(address as usize))
    }

    unsafe fn release(&self, block: NonNull<u8>, _: usize) {
        if self.context.enter().is_ok() {
            // SAFETY: the block came from `allocate`, and by this function's contract nobody uses it.
            let _ = unsafe { call!(self.context, cuMemFree_v2(block.as_ptr().addr() as u64)) };
        }
    }
}

impl std::fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DeviceMemory({})", self.context.id())
    }
}
