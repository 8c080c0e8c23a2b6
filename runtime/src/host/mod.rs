//! The host as a device: this process's memory and threads.

mod executor;
mod float;
mod queue;
mod region;
mod scratch;
mod threads;

use std::sync::Arc;

pub(crate) use queue::{Queue, Work};
use threads::ThreadPool;

use crate::memory::{HostPages, host_memory};
use crate::warn::warn;
use crate::{DeviceId, MemoryPool, PoolConfig};

/// Environment variable with the number of threads, stronger than the configuration.
const THREADS_VARIABLE: &str = "BURN_MLIR_THREADS";

/// What a host device may use. None means: as much as there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostConfig {
    /// Threads that work on one launch. The variable `BURN_MLIR_THREADS` overrides it.
    pub threads: Option<usize>,
    /// Bytes of memory; the machine's (or the control group's) by default.
    pub memory_limit: Option<usize>,
    /// Bytes of free memory kept for reuse; a quarter of the limit by default.
    pub memory_cached: Option<usize>,
}

/// Memory and threads shared by all streams of a host device.
pub(crate) struct HostDevice {
    pub(crate) memory: Arc<MemoryPool>,
    pub(crate) threads: ThreadPool,
}

impl HostDevice {
    pub(crate) fn new(config: HostConfig) -> Self {
        let limit = config.memory_limit.unwrap_or_else(host_memory);
        let cached = config.memory_cached.unwrap_or(limit / 4);
        let memory = MemoryPool::new(DeviceId::Host, Box::new(HostPages), PoolConfig { limit, cached });
        let threads = ThreadPool::new(thread_count(config.threads), &memory);
        Self { memory, threads }
    }
}

/// More threads than any machine has use for; each costs an address range of its own.
const MOST_THREADS: usize = 1024;

fn thread_count(configured: Option<usize>) -> usize {
    let variable = std::env::var(THREADS_VARIABLE).ok().and_then(|text| {
        let count = text.trim().parse().ok().filter(|count| *count > 0);
        if count.is_none() {
            warn(format_args!("{THREADS_VARIABLE} is `{text}`, which is no number of threads: ignored"));
        }
        count
    });
    variable
        .or(configured.filter(|count| *count > 0))
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
        .min(MOST_THREADS)
}
