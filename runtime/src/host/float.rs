//! The floating-point environment kernels run in: round to nearest, subnormals kept, no traps.
//!
//! Threads inherit it from the thread that starts them, and libraries are known to switch subnormals
//! off, so it is set wherever kernels run and put back where the thread is the caller's.

/// Keeps the environment until dropped, then puts the former one back.
pub(crate) struct FloatGuard {
    former: imp::Control,
}

impl FloatGuard {
    /// Sets the environment of this thread.
    pub(crate) fn new() -> Self {
        let former = imp::read();
        if former & imp::MODES != imp::STANDARD {
            imp::write(former & !imp::MODES | imp::STANDARD);
        }
        Self { former }
    }
}

impl Drop for FloatGuard {
    fn drop(&mut self) {
        if self.former & imp::MODES != imp::STANDARD {
            imp::write(self.former);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod imp {
    use std::arch::asm;

    pub(super) type Control = u32;
    /// FTZ, rounding, exception masks and DAZ of MXCSR; the rest are sticky flags.
    pub(super) const MODES: Control = 0xffc0;
    /// All exceptions masked, nothing else.
    pub(super) const STANDARD: Control = 0x1f80;

    pub(super) fn read() -> Control {
        let mut value: Control = 0;
        // SAFETY: stores the register into a local.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack, preserves_flags)) };
        value
    }

    pub(super) fn write(value: Control) {
        // SAFETY: the value comes from the register itself or only replaces modes by the ones Rust assumes.
        unsafe {
            asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack, preserves_flags, readonly))
        };
    }
}

#[cfg(target_arch = "aarch64")]
mod imp {
    use std::arch::asm;

    pub(super) type Control = u64;
    /// AHP, DN, FZ, rounding, trap enables and FZ16 of FPCR.
    pub(super) const MODES: Control = 0x07f8_9f00;
    pub(super) const STANDARD: Control = 0;

    pub(super) fn read() -> Control {
        let value: Control;
        // SAFETY: reads a register.
        unsafe { asm!("mrs {}, fpcr", out(reg) value, options(nomem, nostack, preserves_flags)) };
        value
    }

    pub(super) fn write(value: Control) {
        // SAFETY: the value comes from the register itself or only replaces modes by the ones Rust assumes.
        unsafe { asm!("msr fpcr, {}", in(reg) value, options(nostack, preserves_flags)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod imp {
    pub(super) type Control = u32;
    pub(super) const MODES: Control = 0;
    pub(super) const STANDARD: Control = 0;

    pub(super) fn read() -> Control {
        0
    }

    pub(super) fn write(_: Control) {}
}
