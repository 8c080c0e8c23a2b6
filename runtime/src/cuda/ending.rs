//! The end of the process, at which the driver takes itself down although other threads may still call it: they would
//! crash. So calls are counted. Before the driver's turn comes, those under way are waited for; later ones do not return,
//! as their threads end with the process.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Calls under way.
static CALLS: AtomicUsize = AtomicUsize::new(0);
static ENDING: AtomicBool = AtomicBool::new(false);
/// The thread that ends the process: its calls return.
static ENDED_BY: Mutex<Option<ThreadId>> = Mutex::new(None);

/// How long calls are waited for: a kernel may take any time.
const LONGEST_END: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_micros(100);

unsafe extern "C" {
    fn atexit(call: extern "C" fn()) -> c_int;
}

/// Has calls waited for before anything that exists by now is taken down.
pub(super) fn watch() {
    // SAFETY: `finish` lives as long as the process and does not unwind. Where the list is full, nobody waits.
    unsafe { atexit(finish) };
}

extern "C" fn finish() {
    *ENDED_BY.lock() = Some(thread::current().id());
    ENDING.store(true, Ordering::SeqCst);
    let end = Instant::now() + LONGEST_END;
    while CALLS.load(Ordering::SeqCst) > 0 && Instant::now() < end {
        thread::sleep(PAUSE);
    }
}

/// A call under way.
pub(super) struct Call;

impl Call {
    #[inline]
    pub(super) fn begin() -> Self {
        CALLS.fetch_add(1, Ordering::SeqCst);
        if ENDING.load(Ordering::SeqCst) {
            stay();
        }
        Self
    }
}

impl Drop for Call {
    #[inline]
    fn drop(&mut self) {
        CALLS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Does not return, but on the thread that ends the process.
#[cold]
fn stay() {
    if *ENDED_BY.lock() == Some(thread::current().id()) {
        return;
    }
    CALLS.fetch_sub(1, Ordering::SeqCst);
    loop {
        thread::park();
    }
}
