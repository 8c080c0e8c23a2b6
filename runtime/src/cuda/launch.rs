//! Launching a kernel: its parameters and phases.

use std::ffi::c_void;
use std::ptr::{from_ref, null, null_mut};
use std::sync::Arc;

use cudarc::driver::sys::{CUDA_KERNEL_NODE_PARAMS, CUgraph, CUgraphNode, CUstream};
use smallvec::SmallVec;

use super::context::{Context, INVALID_VALUE, call};
use super::module::{CudaKernel, CudaPhase, LoadedPhase};
use super::tensor_map::Encoded;
use crate::launch::Ready;
use crate::{Batch, Kernel, RuntimeError};

/// What a launch gets besides its arguments: addresses on the device.
#[derive(Clone, Copy)]
pub(super) struct Resources {
    pub(super) scratch: u64,
    pub(super) status: u64,
    pub(super) counters: u64,
}

/// Where launches go.
pub(super) enum Queue<'a> {
    /// To the device, in the order of a stream.
    Stream(CUstream),
    /// Into a graph of the driver, each behind the latest.
    Graph { graph: CUgraph, latest: &'a mut Option<CUgraphNode> },
}

/// Parameters of most kernels fit without an allocation.
type Parameters = SmallVec<[*mut c_void; 48]>;
type Maps = SmallVec<[Encoded; 4]>;

/// The kernels of a batch, loaded on the device; and the most scratch any of them needs.
pub(super) fn load(context: &Arc<Context>, batch: &Batch) -> Result<usize, RuntimeError> {
    let mut scratch = 0;
    for ready in batch.ready() {
        let kernel = cuda(context, ready.kernel)?;
        kernel.loaded(context).map_err(|error| error.in_kernel(kernel.label()))?;
        scratch = scratch.max(kernel.shared_bytes());
    }
    Ok(scratch)
}

/// The kernel, if it is one for CUDA.
pub(super) fn cuda<'a>(context: &Context, kernel: &'a Kernel) -> Result<&'a CudaKernel, RuntimeError> {
    match kernel {
        Kernel::Cuda(kernel) => Ok(kernel),
        other => Err(RuntimeError::WrongKernel { kernel: other.label().clone(), device: context.id() }),
    }
}

/// Queues all phases of a launch.
///
/// # Safety
/// Whoever added the launch vouched for its arguments, which live until it has run, as do the resources; the
/// scratch is large enough. The context is current, the stream or graph is one of it and lives.
pub(super) unsafe fn launch(
    context: &Arc<Context>,
    queue: &mut Queue<'_>,
    ready: &Ready<'_>,
    resources: Resources,
) -> Result<(), RuntimeError> {
    let kernel = cuda(context, ready.kernel)?;
    let mut parameters = Parameters::new();
    // The driver reads each parameter where its pointer points to, and copies it before it returns.
    let argument = |pointer: *const u64| pointer.cast_mut().cast::<c_void>();
    parameters.extend(ready.addresses.iter().map(|address| argument(from_ref(address).cast())));
    parameters.extend(ready.scalars.iter().map(|scalar| argument(scalar)));
    parameters.extend([
        argument(&raw const resources.scratch),
        argument(&raw const resources.status),
        argument(&raw const resources.counters),
    ]);
    let common = parameters.len();
    for (phase, loaded) in kernel.phases().iter().zip(&kernel.loaded(context)?.phases) {
        if phase.grid.contains(&0) {
            continue;
        }
        let maps = maps(context, ready, resources.scratch, phase, loaded)?;
        parameters.truncate(common);
        parameters.extend(maps.iter().map(|map| from_ref(map).cast_mut().cast()));
        // SAFETY: the function has these parameters by the contract of `CudaKernel::new` and of this function.
        unsafe { queue.push(context, loaded, phase, &mut parameters)? };
    }
    Ok(())
}

impl Queue<'_> {
    /// Adds a phase. The driver copies the parameters.
    ///
    /// # Safety
    /// The function takes these parameters; see [`launch`] for the rest.
    unsafe fn push(
        &mut self,
        context: &Context,
        loaded: &LoadedPhase,
        phase: &CudaPhase,
        parameters: &mut Parameters,
    ) -> Result<(), RuntimeError> {
        let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (phase.grid, phase.block);
        let parameters = parameters.as_mut_ptr();
        match self {
            Self::Stream(stream) => {
                // SAFETY: by the contract of this function.
                unsafe {
                    call!(
                        context,
                        cuLaunchKernel(
                            loaded.function(),
                            grid_x,
                            grid_y,
                            grid_z,
                            block_x,
                            block_y,
                            block_z,
                            phase.workgroup_bytes,
                            *stream,
                            parameters,
                            null_mut(),
                        )
                    )
                }
            }
            Self::Graph { graph, latest } => {
                let node = CUDA_KERNEL_NODE_PARAMS {
                    func: loaded.function(),
                    gridDimX: grid_x,
                    gridDimY: grid_y,
                    gridDimZ: grid_z,
                    blockDimX: block_x,
                    blockDimY: block_y,
                    blockDimZ: block_z,
                    sharedMemBytes: phase.workgroup_bytes,
                    kernelParams: parameters,
                    extra: null_mut(),
                    kern: null_mut(),
                    ctx: null_mut(),
                };
                let before = latest.as_ref().map_or(null(), from_ref);
                let mut added = null_mut();
                // SAFETY: as above; what the pointers lead to outlives the call.
                unsafe {
                    call!(
                        context,
                        cuGraphAddKernelNode_v2(
                            &raw mut added,
                            *graph,
                            before,
                            usize::from(latest.is_some()),
                            &raw const node,
                        )
                    )?;
                }
                **latest = Some(added);
                Ok(())
            }
        }
    }
}

/// The encoded tensor maps of a phase for the arguments of a launch.
fn maps(
    context: &Context,
    ready: &Ready<'_>,
    scratch: u64,
    phase: &CudaPhase,
    loaded: &LoadedPhase,
) -> Result<Maps, RuntimeError> {
    let mut maps = Maps::new();
    for (index, map) in phase.tensor_maps.iter().enumerate() {
        let param = map.param as usize;
        let base = match ready.addresses.get(param) {
            Some(address) => address.get() as u64,
            None if param == ready.addresses.len() => scratch,
            None => {
                let message = format!("the launch has no buffer {param} to map");
                return Err(context.refused("cuTensorMapEncodeTiled", INVALID_VALUE, message));
            }
        };
        maps.push(loaded.map(context, index, map, base + map.offset)?);
    }
    Ok(maps)
}
