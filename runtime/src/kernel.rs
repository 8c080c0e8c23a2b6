//! Loaded kernels.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::{CudaKernel, DeviceId};

/// One function of a host kernel: `(buffers, scalars, shared, worker, status, begin, end)` computes the
/// tiles `begin..end`.
///
/// - `buffers[i]`: address of argument `i`;
/// - `scalars[i]`: the bits of scalar `i` in the low bytes;
/// - `shared`: scratch common to all phases and workers of a launch, 64-byte aligned;
/// - `worker`: scratch of the calling worker, 64-byte aligned, contents undefined;
/// - `status`: 0, or set to another value by the kernel when an index was out of range.
pub type PhaseFn = unsafe extern "C" fn(*const *mut u8, *const u64, *mut u8, *mut u8, *mut u32, i64, i64);

/// A kernel of any device.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Kernel {
    /// Machine code of this process.
    Host(Arc<HostKernel>),
    /// Code for CUDA devices.
    Cuda(Arc<CudaKernel>),
}

impl Kernel {
    /// The name errors show.
    pub fn label(&self) -> &Arc<str> {
        match self {
            Self::Host(kernel) => &kernel.label,
            Self::Cuda(kernel) => kernel.label(),
        }
    }

    /// Whether it is for that kind of device.
    pub(crate) fn is_for(&self, device: DeviceId) -> bool {
        match self {
            Self::Host(_) => device == DeviceId::Host,
            Self::Cuda(_) => matches!(device, DeviceId::Cuda(_)),
        }
    }
}

impl From<Arc<CudaKernel>> for Kernel {
    fn from(kernel: Arc<CudaKernel>) -> Self {
        Self::Cuda(kernel)
    }
}

impl From<Arc<HostKernel>> for Kernel {
    fn from(kernel: Arc<HostKernel>) -> Self {
        Self::Host(kernel)
    }
}

/// Machine code loaded into this process: phases run one after the other, each spread over the workers
/// of the device in ranges of tiles.
pub struct HostKernel {
    label: Arc<str>,
    phases: Box<[HostPhase]>,
    shared_bytes: usize,
    worker_bytes: usize,
    _code: Arc<dyn Any + Send + Sync>,
}

/// A function of a kernel and what is known about it.
pub(crate) struct HostPhase {
    pub(crate) function: PhaseFn,
    pub(crate) tiles: u64,
    /// Measured nanoseconds per tile, 0 as long as unknown. It steers how tiles are spread, never results.
    cost: AtomicU64,
    /// Runs that were too short to measure each, about.
    short: AtomicU32,
}

/// One in so many short runs is measured: asking for the time twice takes as long as some of them.
const MEASURED: u32 = 16;

impl HostKernel {
    /// A kernel of functions with their numbers of tiles, in order of execution. `code` keeps the
    /// functions loaded.
    ///
    /// # Safety
    /// Each function follows [`PhaseFn`], may run from several threads at once on disjoint ranges within
    /// its tiles (fewer than 2^62), stays loaded while `code` lives, and uses no more scratch than told here.
    pub unsafe fn new(
        label: impl Into<Arc<str>>,
        phases: impl IntoIterator<Item = (PhaseFn, u64)>,
        shared_bytes: usize,
        worker_bytes: usize,
        code: Arc<dyn Any + Send + Sync>,
    ) -> Arc<Self> {
        let phases = phases
            .into_iter()
            .map(|(function, tiles)| HostPhase {
                function,
                tiles,
                cost: AtomicU64::new(0),
                short: AtomicU32::new(0),
            })
            .collect();
        Arc::new(Self { label: label.into(), phases, shared_bytes, worker_bytes, _code: code })
    }

    /// The name errors show.
    pub fn label(&self) -> &Arc<str> {
        &self.label
    }

    /// Bytes of scratch a launch shares.
    pub fn shared_bytes(&self) -> usize {
        self.shared_bytes
    }

    /// Bytes of scratch of each worker.
    pub fn worker_bytes(&self) -> usize {
        self.worker_bytes
    }

    pub(crate) fn phases(&self) -> &[HostPhase] {
        &self.phases
    }
}

impl HostPhase {
    /// Nanoseconds per tile, none before the first measurement.
    pub(crate) fn cost(&self) -> Option<u64> {
        Some(self.cost.load(Relaxed)).filter(|cost| *cost > 0)
    }

    /// Whether a short run is to be measured. Threads may miscount together, which does no harm.
    pub(crate) fn is_due(&self) -> bool {
        let count = self.short.load(Relaxed);
        self.short.store(count.wrapping_add(1), Relaxed);
        count.is_multiple_of(MEASURED)
    }

    /// Takes a measurement into a moving average that follows a faster run sooner than a slower one,
    /// which may only have been interrupted.
    pub(crate) fn measured(&self, time: Duration, tiles: u64) {
        let sample = time.as_nanos() as u64 / tiles.max(1);
        let cost = match self.cost() {
            None => sample,
            Some(cost) if sample < cost => (cost + sample) / 2,
            Some(cost) => (7 * cost + sample) / 8,
        };
        self.cost.store(cost.max(1), Relaxed);
    }
}

impl fmt::Debug for HostKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostKernel({}, {} phases)", self.label, self.phases.len())
    }
}
