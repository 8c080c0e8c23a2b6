//! Kernels, loaded on each device at their first launch there.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::fmt;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::{
    CUfunction, CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
};
use parking_lot::Mutex;

use super::context::{Context, Module, call};
use super::tensor_map::{CudaTensorMap, Encoded};
use crate::{DeviceId, RuntimeError};

/// Encoded maps kept per map of a phase.
const MOST_MAPS: usize = 256;

/// One function of a [`CudaKernel`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CudaPhase {
    /// Its name in the code.
    pub symbol: String,
    /// Blocks in the grid. With a zero among them nothing is launched.
    pub grid: [u32; 3],
    /// Threads in a block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory of a block.
    pub workgroup_bytes: u32,
    /// Views of buffers, in the order of the function's last parameters.
    pub tensor_maps: Vec<CudaTensorMap>,
}

/// Code for CUDA devices: phases run one after the other.
///
/// Every function has the same parameters, 8 bytes each: the address of each buffer, the bits of each scalar,
/// the address of `shared_bytes` of scratch (256-byte aligned; not to be used if there are none), the
/// address of a status word, and the address of 1024 zeroed words. Behind these follow the phase's tensor
/// maps, 128 bytes each, by value. A function sets the status word to 1 when an index is out of range and does
/// not read it; it leaves the zeroed words zero.
pub struct CudaKernel {
    label: Arc<str>,
    /// Numbers kernels from 0.
    number: usize,
    image: Box<[u8]>,
    phases: Box<[CudaPhase]>,
    shared_bytes: usize,
    /// By the number of the device.
    loaded: Box<[OnceLock<Loaded>]>,
    loading: Mutex<()>,
}

/// A kernel on a device.
pub(super) struct Loaded {
    context: Arc<Context>,
    module: Module,
    pub(super) phases: Box<[LoadedPhase]>,
}

/// A function on a device.
pub(super) struct LoadedPhase {
    function: Function,
    /// For each tensor map those encoded so far, by address.
    maps: Box<[Mutex<HashMap<u64, Encoded>>]>,
}

struct Function(CUfunction);

// SAFETY: the driver takes its handles from any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl CudaKernel {
    /// A kernel of functions in order of execution. `image` is a cubin, a fat binary, or the text of PTX, which
    /// each device compiles when it first launches the kernel.
    ///
    /// # Safety
    /// Each function has the parameters described [above](Self), stays within its buffers and scratch when
    /// launched as told here, and ends.
    pub unsafe fn new(
        label: impl Into<Arc<str>>,
        image: impl Into<Vec<u8>>,
        phases: impl IntoIterator<Item = CudaPhase>,
        shared_bytes: usize,
    ) -> Arc<Self> {
        static NUMBERS: AtomicUsize = AtomicUsize::new(0);
        let mut image = image.into();
        // Text ends with a zero; binaries have their own length.
        image.push(0);
        Arc::new(Self {
            label: label.into(),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            image: image.into(),
            phases: phases.into_iter().collect(),
            shared_bytes,
            loaded: (0..super::cuda_device_count()).map(|_| OnceLock::new()).collect(),
            loading: Mutex::default(),
        })
    }

    /// The name errors show.
    pub fn label(&self) -> &Arc<str> {
        &self.label
    }

    /// The functions in order of execution.
    pub fn phases(&self) -> &[CudaPhase] {
        &self.phases
    }

    /// Bytes of scratch a launch shares.
    pub fn shared_bytes(&self) -> usize {
        self.shared_bytes
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// The kernel on a device whose context is current, loaded by the first call.
    pub(super) fn loaded(&self, context: &Arc<Context>) -> Result<&Loaded, RuntimeError> {
        let place = match context.id() {
            DeviceId::Cuda(index) => self.loaded.get(index as usize),
            DeviceId::Host => None,
        };
        let place = place
            .ok_or_else(|| RuntimeError::WrongKernel { kernel: self.label.clone(), device: context.id() })?;
        if let Some(loaded) = place.get() {
            return Ok(loaded);
        }
        let _loading = self.loading.lock();
        if let Some(loaded) = place.get() {
            return Ok(loaded);
        }
        let loaded = self.load(context)?;
        Ok(place.get_or_init(|| loaded))
    }

    fn load(&self, context: &Arc<Context>) -> Result<Loaded, RuntimeError> {
        let mut module = null_mut();
        // SAFETY: the image outlives the call and ends with a zero if it is text.
        unsafe { call!(context, cuModuleLoadData(&raw mut module, self.image.as_ptr().cast::<c_void>()))? };
        let mut loaded = Loaded { context: context.clone(), module: Module(module), phases: Box::default() };
        let phases = self
            .phases
            .iter()
            .map(|phase| {
                // Phases may share a function, which has one limit.
                let same = self.phases.iter().filter(|other| other.symbol == phase.symbol);
                loaded.phase(phase, same.map(|other| other.workgroup_bytes).max().unwrap_or(0))
            })
            .collect::<Result<_, _>>()?;
        loaded.phases = phases;
        Ok(loaded)
    }
}

impl Loaded {
    fn phase(&self, phase: &CudaPhase, workgroup_bytes: u32) -> Result<LoadedPhase, RuntimeError> {
        let name = CString::new(phase.symbol.as_str()).unwrap_or_default();
        let mut function = null_mut();
        // SAFETY: name and result outlive the calls; the module is loaded.
        unsafe {
            call!(self.context, cuModuleGetFunction(&raw mut function, self.module.0, name.as_ptr()))?;
            if workgroup_bytes > 0 {
                let bytes = i32::try_from(workgroup_bytes).unwrap_or(i32::MAX);
                call!(
                    self.context,
                    cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes)
                )?;
            }
        }
        let maps = phase.tensor_maps.iter().map(|_| Mutex::default()).collect();
        Ok(LoadedPhase { function: Function(function), maps })
    }
}

impl LoadedPhase {
    pub(super) fn function(&self) -> CUfunction {
        self.function.0
    }

    /// Tensor map `index` of the phase for a buffer at an address.
    pub(super) fn map(
        &self,
        context: &Context,
        index: usize,
        map: &CudaTensorMap,
        address: u64,
    ) -> Result<Encoded, RuntimeError> {
        let mut known = self.maps[index].lock();
        if let Some(encoded) = known.get(&address) {
            return Ok(*encoded);
        }
        let encoded = map.encode(context, address)?;
        if known.len() >= MOST_MAPS {
            known.clear();
        }
        known.insert(address, encoded);
        Ok(encoded)
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.context.retire(self.module);
    }
}

impl fmt::Debug for CudaKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaKernel({}, {} phases)", self.label, self.phases.len())
    }
}
