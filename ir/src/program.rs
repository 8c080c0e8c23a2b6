//! What a compiled kernel is made of: the contract between lowering, jit and runtime.

/// One function of a compiled kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Phase {
    /// Name of the function in the object code or PTX.
    pub symbol: String,
    /// Host: the number of tiles, any range of which one call can compute. CUDA: unused.
    pub tiles: u64,
    /// CUDA: blocks in the grid. Host: unused.
    pub grid: [u32; 3],
    /// CUDA: threads in a block. Host: unused.
    pub block: [u32; 3],
}

/// The functions of a compiled kernel, each started when the one before is done, and the memory
/// they need besides their arguments.
///
/// A host function has the C signature
/// `void phase(void **buffers, uint64_t *scalars, void *shared, void *worker, uint32_t *status, int64_t begin, int64_t end)`:
/// - `buffers[i]`: address for parameter `i`, at domain coordinate 0;
/// - `scalars[i]`: the bits of scalar `i` in the low bytes;
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
/// - the address of a status word in device memory: 0, or set to 1 when an index was out of range.
///
/// It is launched on exactly `grid` blocks of `block` threads, with no dynamic shared memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Program {
    /// In order of execution.
    pub phases: Vec<Phase>,
    /// Bytes of scratch shared by a launch.
    pub shared_bytes: u64,
    /// Bytes of scratch per worker.
    pub worker_bytes: u64,
}
