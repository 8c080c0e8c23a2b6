//! What a device is.

use std::ffi::{CStr, c_char};

use cudarc::driver::sys::CUdevice_attribute_enum as Attribute;

use super::context::{Context, call};
use super::driver::cuda_driver_version;
use crate::RuntimeError;

/// What a CUDA device is, as far as code generation and users care.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaProperties {
    /// The product's name.
    pub name: String,
    /// Major and minor: (9, 0) for `sm_90`.
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of device memory.
    pub memory_bytes: usize,
    /// Most bytes of shared memory that a block of threads can have.
    pub workgroup_bytes: u32,
    /// Version of CUDA that the driver supports, 1000 × major + 10 × minor.
    pub driver_version: u32,
}

impl CudaProperties {
    pub(super) fn read(context: &Context) -> Result<Self, RuntimeError> {
        context.enter()?;
        let device = context.device();
        let attribute = |attribute: Attribute| {
            let mut value = 0;
            // SAFETY: `value` outlives the call.
            unsafe { call!(context, cuDeviceGetAttribute(&raw mut value, attribute, device))? };
            Ok(u32::try_from(value).unwrap_or(0))
        };
        let mut memory_bytes = 0;
        let mut name = [0 as c_char; 256];
        // SAFETY: both results outlive the calls; the driver writes at most the bytes told, with a final 0.
        let name = unsafe {
            call!(context, cuDeviceTotalMem_v2(&raw mut memory_bytes, device))?;
            call!(context, cuDeviceGetName(name.as_mut_ptr(), name.len() as i32, device))?;
            CStr::from_ptr(name.as_ptr())
        };
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            compute_capability: (
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            memory_bytes,
            workgroup_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            driver_version: cuda_driver_version().unwrap_or(0),
        })
    }
}
