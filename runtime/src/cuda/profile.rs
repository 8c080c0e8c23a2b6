//! Time on the device of every launch, for those who ask.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::ptr::null_mut;
use std::sync::{Arc, LazyLock};

use cudarc::driver::sys::CUstream;
use parking_lot::Mutex;

use super::context::{Context, call};
use super::event::RawEvent;
use crate::RuntimeError;
use crate::warn::warn;

/// Environment variable with the file that gets a line for each launch: its milliseconds on the device and the
/// kernel's label, with a tab between. Lines are appended when a stream is synchronised.
const VARIABLE: &str = "BURN_MLIR_PROFILE";

/// The file, if one is asked for and can be written.
static FILE: LazyLock<Option<Mutex<BufWriter<File>>>> = LazyLock::new(|| {
    let path: OsString = std::env::var_os(VARIABLE).filter(|path| !path.is_empty())?;
    match OpenOptions::new().create(true).append(true).open(&path) {
        Ok(file) => Some(Mutex::new(BufWriter::new(file))),
        Err(error) => {
            warn(format_args!("{VARIABLE} names {}, which cannot be written: {error}", path.display()));
            None
        }
    }
});

/// The launches of a stream that have not been written yet.
pub(super) struct Profile {
    context: Arc<Context>,
    spans: Vec<Span>,
    free: Vec<RawEvent>,
}

struct Span {
    label: Arc<str>,
    start: RawEvent,
    stop: RawEvent,
}

impl Profile {
    /// None unless a profile is asked for.
    pub(super) fn new(context: &Arc<Context>) -> Option<Self> {
        FILE.as_ref().map(|_| Self { context: context.clone(), spans: Vec::new(), free: Vec::new() })
    }

    /// The place in the stream before a launch or after it. The context is current.
    pub(super) fn mark(&mut self, stream: CUstream) -> Result<RawEvent, RuntimeError> {
        let event = match self.free.pop() {
            Some(event) => event,
            None => {
                let mut event = null_mut();
                // SAFETY: `event` outlives the call; flags of 0 make an event that takes the time.
                unsafe { call!(self.context, cuEventCreate(&raw mut event, 0))? };
                RawEvent(event)
            }
        };
        // SAFETY: both live and are of one context.
        unsafe { call!(self.context, cuEventRecord(event.0, stream))? };
        Ok(event)
    }

    /// Notes a launch between two places.
    pub(super) fn launched(&mut self, label: &Arc<str>, start: RawEvent, stop: RawEvent) {
        self.spans.push(Span { label: label.clone(), start, stop });
    }

    /// Writes what has been launched; all of it has run.
    pub(super) fn write(&mut self) {
        let Some(file) = FILE.as_ref() else { return };
        let mut file = file.lock();
        for Span { label, start, stop } in self.spans.drain(..) {
            let mut milliseconds = 0f32;
            // SAFETY: `milliseconds` outlives the call, and both events have been recorded.
            let time =
                unsafe { call!(self.context, cuEventElapsedTime(&raw mut milliseconds, start.0, stop.0)) };
            if time.is_ok() {
                // A profile that cannot be written must not fail the program.
                let _ = writeln!(file, "{milliseconds:.6}\t{label}");
            }
            self.free.extend([start, stop]);
        }
        let _ = file.flush();
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        if self.context.enter().is_err() {
            return;
        }
        let spans = self.spans.drain(..).flat_map(|span| [span.start, span.stop]);
        for event in spans.chain(self.free.drain(..)) {
            // SAFETY: nobody else has the event.
            let _ = unsafe { call!(self.context, cuEventDestroy_v2(event.0)) };
        }
    }
}
