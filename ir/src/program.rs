//! What a compiled kernel is made of: the contract between lowering, jit and runtime.

use crate::TensorMap;

/// Words of zeroed device memory that a GPU function may use for tickets, see [`Program`].
pub const COUNTER_WORDS: usize = 1024;

/// One function of a compiled kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Phase {
    /// Name of the function in the object code or PTX.
    pub symbol: String,
    /// Host: the number of tiles, any range of which one call can compute. CUDA: unused.
    pub tiles: u64,
    /// Host: whose product is the number of tiles, if extents are arguments of the launch. CUDA: unused.
    pub factors: Vec<Factor>,
    /// CUDA: blocks in the grid. Host: unused.
    pub grid: [u32; 3],
    /// CUDA: threads in a block. Host: unused.
    pub block: [u32; 3],
    /// CUDA: bytes of dynamic memory of a block of threads. Host: unused.
    pub workgroup_bytes: u32,
    /// CUDA: views of buffers for the copy engine, in the order of the function's last parameters. Host: unused.
    pub tensor_maps: Vec<TensorMap>,
}

/// A factor of a number of tiles: `⌈known · Π numbers / divisor⌉`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Factor {
    /// What is known of the dividend.
    pub known: u64,
    /// The launch's numbers in it.
    pub numbers: Vec<u32>,
    /// The divisor.
    pub divisor: u64,
}

impl Phase {
    /// The number of tiles of a launch with these numbers.
    pub fn tiles_of(&self, numbers: &[u64]) -> u64 {
        if self.factors.is_empty() {
            return self.tiles;
        }
        let factor = |factor: &Factor| {
            let number = |&index: &u32| numbers.get(index as usize).copied().unwrap_or(0);
            (factor.known * factor.numbers.iter().map(number).product::<u64>())
                .div_ceil(factor.divisor.max(1))
        };
        self.factors.iter().map(factor).product()
    }
}

/// The functions of a compiled kernel, each started when the one before is done, and the memory
/// they need besides their arguments.
///
/// A host function has the C signature
/// `void phase(void **buffers, uint64_t *scalars, void *shared, void *worker, uint32_t *status, int64_t begin, int64_t end)`:
/// - `buffers[i]`: address for parameter `i`, at domain coordinate 0;
/// - `scalars[i]`: the bits of scalar `i` in the low bytes; behind them the numbers of an [opened](crate::opened) block;
/// - `shared`: `shared_bytes` of scratch common to all phases and workers of a launch, 64-byte aligned;
/// - `worker`: `worker_bytes` of scratch of the calling worker, 64-byte aligned, contents undefined;
/// - `status`: 0, or set to 1 by the kernel when an index was out of range;
/// - `begin..end`: the tiles to compute.
///
/// A GPU function is a kernel whose parameters are 8 bytes each, the same for all phases:
/// - for each buffer, its address in device memory, at domain coordinate 0;
/// - for each scalar, its bits in the low bytes;
/// - the address of `shared_bytes` of device memory, 256-byte aligned, common to all phases of a
///   launch (not read if `shared_bytes` is 0);
/// - the address of a status word: set to 1 when an index was out of range, and not read;
/// - the address of [`COUNTER_WORDS`] 32-bit words in device memory, zero when the function starts, and left
///   zero by it: for tickets of blocks that finish or take work. No other function uses them meanwhile.
///
/// Behind these follow the phase's tensor maps, each a `CUtensorMap` of 128 bytes, 64-byte aligned, by value.
///
/// It is launched on exactly `grid` blocks of `block` threads, with `workgroup_bytes` of dynamic shared memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Program {
    /// In order of execution.
    pub phases: Vec<Phase>,
    /// Bytes of scratch shared by a launch.
    pub shared_bytes: u64,
    /// Bytes of scratch per worker.
    pub worker_bytes: u64,
}
