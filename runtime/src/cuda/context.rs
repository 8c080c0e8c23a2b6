//! A device's primary context, and what becomes of the driver's errors.

use std::ptr::null_mut;
use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::{CUcontext, CUdevice, CUmodule};
use parking_lot::Mutex;

use super::driver::{Code, Driver};
use super::ending;
use crate::{DeviceId, RuntimeError};

/// Calls a function of the driver in a context and turns its result into ours. To be used in `unsafe`.
macro_rules! call {
    ($context:expr, $name:ident($($argument:expr),* $(,)?)) => {
        $context.check(stringify!($name), $context.driver().$name($($argument),*))
    };
}
pub(super) use call;

/// Results that are no failures of their own.
pub(super) const INVALID_VALUE: Code = 1;
pub(super) const OUT_OF_MEMORY: Code = 2;
const NOT_READY: Code = 600;

/// Errors after which a context answers every call with the same error: what a kernel or the device did.
/// Numbers, as not every version of the header has all of them.
const STICKY: [Code; 13] = [
    214, // ECC_UNCORRECTABLE
    220, // NVLINK_UNCORRECTABLE
    700, // ILLEGAL_ADDRESS
    702, // LAUNCH_TIMEOUT
    709, // CONTEXT_IS_DESTROYED
    710, // ASSERT
    714, // HARDWARE_STACK_ERROR
    715, // ILLEGAL_INSTRUCTION
    716, // MISALIGNED_ADDRESS
    717, // INVALID_ADDRESS_SPACE
    718, // INVALID_PC
    719, // LAUNCH_FAILED
    721, // CONTAINED
];

/// The primary context of a device, retained while this lives. Other libraries of the process share it.
pub(super) struct Context {
    driver: &'static Driver,
    raw: CUcontext,
    device: CUdevice,
    id: DeviceId,
    poisoned: OnceLock<Arc<str>>,
    /// Code of dropped kernels, which work under way may still run.
    retired: Mutex<Vec<Module>>,
}

/// Code loaded into a context.
#[derive(Clone, Copy)]
pub(super) struct Module(pub(super) CUmodule);

// SAFETY: the driver takes its handles from any thread.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

// SAFETY: the driver takes contexts from any thread; the other fields are `Send`.
unsafe impl Send for Context {}
// SAFETY: as above, and no method changes a field but behind a lock.
unsafe impl Sync for Context {}

impl Context {
    /// The primary context of the device with that number.
    pub(super) fn retain(index: usize) -> Result<Arc<Self>, RuntimeError> {
        let id = DeviceId::Cuda(u32::try_from(index).unwrap_or(u32::MAX));
        let absent = |reason: String| RuntimeError::NoDevice { device: id, reason };
        let driver = Driver::get().map_err(|reason| absent(reason.into()))?;
        let count = super::cuda_device_count();
        if index >= count {
            return Err(absent(format!("this process sees {count} CUDA devices")));
        }
        let (mut device, mut raw) = (0, null_mut());
        // SAFETY: both results outlive the calls; the number is that of a device.
        let code = unsafe {
            match driver.cuDeviceGet(&raw mut device, index as i32) {
                0 => driver.cuDevicePrimaryCtxRetain(&raw mut raw, device),
                code => code,
            }
        };
        if code != 0 {
            return Err(absent(driver.describe(code)));
        }
        ending::watch();
        Ok(Arc::new(Self { driver, raw, device, id, poisoned: OnceLock::new(), retired: Mutex::default() }))
    }

    pub(super) fn driver(&self) -> &'static Driver {
        self.driver
    }

    pub(super) fn device(&self) -> CUdevice {
        self.device
    }

    pub(super) fn id(&self) -> DeviceId {
        self.id
    }

    /// Fails once the device is lost.
    pub(super) fn alive(&self) -> Result<(), RuntimeError> {
        match self.poisoned.get() {
            None => Ok(()),
            Some(reason) => Err(RuntimeError::DevicePoisoned { device: self.id, reason: reason.clone() }),
        }
    }

    /// Makes this the thread's current context, unless the device is lost. Asking the driver first is a read
    /// of its thread-local, and right whatever other libraries do on this thread.
    pub(super) fn enter(&self) -> Result<(), RuntimeError> {
        self.alive()?;
        let mut current = null_mut();
        // SAFETY: `current` outlives the call; the context is retained.
        unsafe {
            call!(self, cuCtxGetCurrent(&raw mut current))?;
            if current != self.raw {
                call!(self, cuCtxSetCurrent(self.raw))?;
            }
        }
        Ok(())
    }

    /// The result of a function of the driver. An error that the context will not get over is noted.
    pub(super) fn check(&self, function: &'static str, code: Code) -> Result<(), RuntimeError> {
        if code == 0 {
            return Ok(());
        }
        let message = self.driver.describe(code);
        if STICKY.contains(&code) {
            self.poisoned.get_or_init(|| message.as_str().into());
        }
        self.alive()?;
        Err(self.refused(function, code, message))
    }

    /// An error in a driver function's name.
    pub(super) fn refused(
        &self,
        function: &'static str,
        code: Code,
        message: impl Into<String>,
    ) -> RuntimeError {
        RuntimeError::Driver { device: self.id, function, code, message: message.into() }
    }

    /// The result of a query: whether it is there yet. A lost device has nothing to wait for.
    pub(super) fn check_ready(&self, function: &'static str, code: Code) -> bool {
        code != NOT_READY && self.check(function, code).map_or_else(|_| true, |()| true)
    }

    /// Unloads code once nothing can be running it.
    pub(super) fn retire(&self, module: Module) {
        self.retired.lock().push(module);
    }

    /// Waits for everything on the device and unloads the code of dropped kernels.
    pub(super) fn unload_retired(&self) -> Result<(), RuntimeError> {
        if self.retired.lock().is_empty() {
            return Ok(());
        }
        self.enter()?;
        // What is retired during the wait may have been launched during it.
        let retired = std::mem::take(&mut *self.retired.lock());
        // SAFETY: the context is current. The kernels of these modules are dropped, so nobody launches them
        // any more, and nothing launched before the wait runs after it.
        let waited = unsafe { call!(self, cuCtxSynchronize()) };
        if waited.is_err() {
            self.retired.lock().extend(retired);
            return waited;
        }
        for module in retired {
            // SAFETY: as above.
            unsafe { call!(self, cuModuleUnload(module.0))? };
        }
        Ok(())
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // Everything made in the context holds it, so nothing is under way. At the end of the process the
        // driver may be gone already; its answer does not matter any more.
        let _ = self.unload_retired();
        // SAFETY: retained once by `retain`.
        unsafe { self.driver.cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}
