//! The functions of the CUDA driver, loaded at run time.
//!
//! cudarc's own entry points panic where the library or a symbol is absent, and take every result for a known
//! one. So the functions this crate needs are looked up here, all at once, with cudarc's types; results stay
//! numbers, as a newer driver has more of them.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys;
use cudarc::driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction,
    CUfunction_attribute, CUgraph, CUgraphExec, CUgraphNode, CUjit_option, CUjitInputType, CUlinkState,
    CUmodule, CUresult, CUstream, CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill,
    CUtensorMapInterleave, CUtensorMapL2promotion, CUtensorMapSwizzle,
};

use super::ending::Call;

/// Result of a driver function: 0 or an error of [`sys::CUresult`], known or not.
pub(super) type Code = c_uint;

macro_rules! functions {
    ($(fn $name:ident($($argument:ident: $type:ty),*);)*) => {
        /// The functions, under the names the library exports.
        #[allow(non_snake_case, reason = "the driver's own names")]
        pub(super) struct Driver {
            $($name: unsafe extern "C" fn($($argument: $type),*) -> Code,)*
        }

        #[allow(non_snake_case, clippy::too_many_arguments, reason = "the driver's own functions")]
        impl Driver {
            $(#[inline]
            #[allow(dead_code, reason = "two are called as another type, see `describe`")]
            pub(super) unsafe fn $name(&self, $($argument: $type),*) -> Code {
                let _call = Call::begin();
                // SAFETY: by this function's contract, which is the driver's.
                unsafe { (self.$name)($($argument),*) }
            })*

            /// Looks every function up; the error names the first that is absent.
            fn load() -> Result<Self, String> {
                // SAFETY: loading the driver runs only its own initialisers.
                if !unsafe { sys::is_culib_present() } {
                    return Err("there is no CUDA driver (libcuda) on this machine".into());
                }
                // SAFETY: the library is there, so this does not panic.
                let library = unsafe { sys::culib() };
                Ok(Self {
                    $($name: {
                        let name = concat!(stringify!($name), "\0");
                        // SAFETY: the type is that of the function, see below.
                        *unsafe { library.get(name.as_bytes()) }
                            .map_err(|_| format!("the CUDA driver is too old: it has no {}", stringify!($name)))?
                    },)*
                })
            }
        }

        // The types above are those cudarc takes from the driver's header, but for the result.
        $(const _: unsafe fn($($type),*) -> CUresult = sys::$name;)*
    };
}

functions! {
    fn cuInit(flags: c_uint);
    fn cuDriverGetVersion(version: *mut c_int);
    fn cuGetErrorName(error: CUresult, text: *mut *const c_char);
    fn cuGetErrorString(error: CUresult, text: *mut *const c_char);

    fn cuDeviceGetCount(count: *mut c_int);
    fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    fn cuDeviceGetName(name: *mut c_char, bytes: c_int, device: CUdevice);
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice);
    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    fn cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    fn cuCtxSetCurrent(context: CUcontext);
    fn cuCtxGetCurrent(context: *mut CUcontext);
    fn cuCtxSynchronize();

    fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize);
    fn cuMemFree_v2(address: CUdeviceptr);
    fn cuMemHostAlloc(address: *mut *mut c_void, bytes: usize, flags: c_uint);
    fn cuMemFreeHost(address: *mut c_void);
    fn cuMemHostGetDevicePointer_v2(device: *mut CUdeviceptr, host: *mut c_void, flags: c_uint);
    fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
    fn cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
    fn cuMemsetD32Async(to: CUdeviceptr, value: c_uint, words: usize, stream: CUstream);

    fn cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    fn cuStreamDestroy_v2(stream: CUstream);
    fn cuStreamSynchronize(stream: CUstream);
    fn cuStreamQuery(stream: CUstream);
    fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    fn cuEventCreate(event: *mut CUevent, flags: c_uint);
    fn cuEventDestroy_v2(event: CUevent);
    fn cuEventRecord(event: CUevent, stream: CUstream);
    fn cuEventQuery(event: CUevent);
    fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, stop: CUevent);
    fn cuEventSynchronize(event: CUevent);

    fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void);
    fn cuModuleUnload(module: CUmodule);
    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    fn cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: c_int);
    fn cuLaunchKernel(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: CUstream,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void
    );

    fn cuGraphCreate(graph: *mut CUgraph, flags: c_uint);
    fn cuGraphAddKernelNode_v2(
        node: *mut CUgraphNode,
        graph: CUgraph,
        dependencies: *const CUgraphNode,
        count: usize,
        parameters: *const CUDA_KERNEL_NODE_PARAMS
    );
    fn cuGraphInstantiateWithFlags(executable: *mut CUgraphExec, graph: CUgraph, flags: u64);
    fn cuGraphDestroy(graph: CUgraph);
    fn cuGraphExecDestroy(executable: CUgraphExec);
    fn cuGraphUpload(executable: CUgraphExec, stream: CUstream);
    fn cuGraphLaunch(executable: CUgraphExec, stream: CUstream);

    fn cuTensorMapEncodeTiled(
        map: *mut CUtensorMap,
        element: CUtensorMapDataType,
        rank: u32,
        address: *mut c_void,
        sizes: *const u64,
        strides: *const u64,
        box_sizes: *const u32,
        element_strides: *const u32,
        interleave: CUtensorMapInterleave,
        swizzle: CUtensorMapSwizzle,
        promotion: CUtensorMapL2promotion,
        fill: CUtensorMapFloatOOBfill
    );

    fn cuLinkCreate_v2(
        options_count: c_uint,
        options: *mut CUjit_option,
        values: *mut *mut c_void,
        state: *mut CUlinkState
    );
    fn cuLinkAddData_v2(
        state: CUlinkState,
        kind: CUjitInputType,
        data: *mut c_void,
        bytes: usize,
        name: *const c_char,
        options_count: c_uint,
        options: *mut CUjit_option,
        values: *mut *mut c_void
    );
    fn cuLinkComplete(state: CUlinkState, cubin: *mut *mut c_void, bytes: *mut usize);
    fn cuLinkDestroy(state: CUlinkState);
}

impl Driver {
    /// The driver, loaded and initialised by the first call; or why there is none.
    pub(super) fn get() -> Result<&'static Self, &'static str> {
        static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();
        let loaded = DRIVER.get_or_init(|| {
            let driver = Self::load()?;
            // SAFETY: the first call of the driver, with the only flags it knows.
            match unsafe { driver.cuInit(0) } {
                0 => Ok(driver),
                code => Err(format!("the CUDA driver does not start: {}", driver.describe(code))),
            }
        });
        loaded.as_ref().map_err(String::as_str)
    }

    /// The driver's name of an error and its sentence on it.
    pub(super) fn describe(&self, code: Code) -> String {
        // cudarc's prototype has its enumeration for the error; the function is called with the number.
        type Lookup = unsafe extern "C" fn(Code, *mut *const c_char) -> Code;
        let _call = Call::begin();
        let text = |lookup: unsafe extern "C" fn(CUresult, *mut *const c_char) -> Code| {
            // SAFETY: the enumeration is a `u32` for the C side.
            let lookup: Lookup = unsafe { std::mem::transmute(lookup) };
            let mut text = std::ptr::null();
            // SAFETY: `text` outlives the call. What it returns is a static string, or null for unknown codes.
            let code = unsafe { lookup(code, &raw mut text) };
            // SAFETY: as above.
            (code == 0 && !text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy())
        };
        match (text(self.cuGetErrorName), text(self.cuGetErrorString)) {
            (Some(name), Some(sentence)) => format!("{name} ({sentence})"),
            (Some(name), None) => name.into_owned(),
            _ => format!("unknown CUDA error {code}"),
        }
    }
}

/// Number of CUDA devices this process may use; 0 if there is no driver.
pub fn cuda_device_count() -> usize {
    let Ok(driver) = Driver::get() else { return 0 };
    let mut count = 0;
    // SAFETY: `count` outlives the call.
    match unsafe { driver.cuDeviceGetCount(&raw mut count) } {
        0 => count.max(0) as usize,
        _ => 0,
    }
}

/// Version of CUDA that the driver supports, 1000 × major + 10 × minor; none without a driver.
pub fn cuda_driver_version() -> Option<u32> {
    let driver = Driver::get().ok()?;
    let mut version = 0;
    // SAFETY: `version` outlives the call.
    match unsafe { driver.cuDriverGetVersion(&raw mut version) } {
        0 => u32::try_from(version).ok(),
        _ => None,
    }
}
