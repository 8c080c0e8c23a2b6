//! What can go wrong while running.

use std::any::Any;
use std::sync::Arc;

use crate::DeviceId;

/// An error of the runtime. None but [`DevicePoisoned`](Self::DevicePoisoned) leaves a stream or a device unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The device has no room for an allocation, also after returning every cached block.
    #[error("out of memory on {device}: {requested} bytes requested, {in_use} of {limit} in use")]
    OutOfMemory {
        /// The device asked.
        device: DeviceId,
        /// Bytes asked for.
        requested: usize,
        /// Bytes that living buffers occupied at that time.
        in_use: usize,
        /// Bytes the device may use in all.
        limit: usize,
    },
    /// A kernel met an index outside its tensor. Its results are undefined, other memory is untouched.
    #[error("index out of range in kernel `{kernel}`")]
    IndexOutOfRange {
        /// Label of the kernel.
        kernel: Arc<str>,
    },
    /// An argument or a copy reaches outside its buffer.
    #[error("bytes {offset}..{offset}+{bytes} reach outside a buffer of {size} bytes")]
    OutOfBounds {
        /// First byte.
        offset: usize,
        /// Number of bytes.
        bytes: usize,
        /// Size of the buffer.
        size: usize,
    },
    /// A buffer of one device was given to another.
    #[error("a buffer of {found} was given to {expected}")]
    WrongDevice {
        /// The device of the stream.
        expected: DeviceId,
        /// The device of the buffer.
        found: DeviceId,
    },
    /// A kernel of one kind of device was given to another.
    #[error("kernel `{kernel}` is not made for {device}")]
    WrongKernel {
        /// Label of the kernel.
        kernel: Arc<str>,
        /// The device of the stream.
        device: DeviceId,
    },
    /// There is no such device, or no driver for it.
    #[error("{device} cannot be used: {reason}")]
    NoDevice {
        /// The device asked for.
        device: DeviceId,
        /// Why not.
        reason: String,
    },
    /// A device's driver refused something.
    #[error("{function} failed on {device}: {message}")]
    Driver {
        /// The device.
        device: DeviceId,
        /// Function of the driver.
        function: &'static str,
        /// The driver's number of the error.
        code: u32,
        /// The driver's name of the error and its sentence on it.
        message: String,
    },
    /// The device is lost to this process: a kernel or the hardware failed in a way that its driver does not get
    /// over. Every later use of the device ends with this error.
    #[error("{device} is lost to this process: {reason}")]
    DevicePoisoned {
        /// The device.
        device: DeviceId,
        /// The driver's name of the error and its sentence on it.
        reason: Arc<str>,
    },
    /// Code was not accepted by the driver.
    #[error("PTX was not accepted by {device}: {log}")]
    Assemble {
        /// The device.
        device: DeviceId,
        /// What the driver's assembler wrote.
        log: String,
    },
    /// The device cannot do this.
    #[error("{device} has no {what}")]
    Unsupported {
        /// The device.
        device: DeviceId,
        /// What was asked for.
        what: &'static str,
    },
    /// A call made by a stream waited for that same stream.
    #[error("a call queued on a stream cannot wait for that stream")]
    Reentrant,
    /// A call queued on a stream panicked.
    #[error("a call queued on a stream panicked: {message}")]
    Panicked {
        /// The panic's message.
        message: String,
    },
}

impl RuntimeError {
    /// The error with the label of the kernel whose launch met it. What poisoned a device is an earlier kernel's
    /// doing, unless the driver was told to wait for each.
    pub(crate) fn in_kernel(mut self, label: &str) -> Self {
        let waits = || std::env::var_os("CUDA_LAUNCH_BLOCKING").is_some_and(|value| value == "1");
        match &mut self {
            Self::Driver { message, .. } => *message = format!("{message} in kernel `{label}`"),
            Self::DevicePoisoned { reason, .. } if waits() => {
                *reason = format!("{reason} in kernel `{label}`").into();
            }
            _ => {}
        }
        self
    }

    /// The error of a call that panicked.
    pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Self {
        let message = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_owned());
        Self::Panicked { message }
    }
}
