//! The threads that compile.
//!
//! They are our own because MLIR and LLVM recurse deeply, and because LLVM ends the process on
//! what it calls a fatal error unless the handler does not return: ours reports the error to
//! whoever waits, gives the thread up for good, and lets another take its place.

use inkwell::llvm_sys::error_handling::LLVMInstallFatalErrorHandler;
use parking_lot::{Condvar, Mutex};
use std::{
    cell::RefCell,
    collections::VecDeque,
    ffi::{CStr, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, LazyLock},
    thread,
};

const STACK_BYTES: usize = 32 << 20;
const MOST_THREADS: usize = 32;

/// Told the reason when LLVM gives up on a job.
pub(crate) type OnFatal = Arc<dyn Fn(String) + Send + Sync>;

struct Job {
    run: Box<dyn FnOnce() + Send>,
    on_fatal: OnFatal,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

struct Pool {
    state: Mutex<State>,
    work: Condvar,
    most: usize,
}

static POOL: LazyLock<Pool> = LazyLock::new(|| {
    // SAFETY: the handler has the signature LLVM asks for and lives as long as the process.
    unsafe { LLVMInstallFatalErrorHandler(Some(fatal)) };
    let most = thread::available_parallelism().map_or(1, |n| n.get().min(MOST_THREADS));
    Pool { state: Mutex::default(), work: Condvar::new(), most }
});

thread_local! {
    static CURRENT: RefCell<Option<OnFatal>> = const { RefCell::new(None) };
}

/// Queues `run`. If LLVM meets a fatal error in it, `on_fatal` is called instead of its end being
/// reached.
pub(crate) fn spawn(run: Box<dyn FnOnce() + Send>, on_fatal: OnFatal) {
    POOL.state.lock().jobs.push_back(Job { run, on_fatal });
    grow();
    POOL.work.notify_one();
}

/// Starts threads until there is one for each waiting job or the limit is reached. Without any
/// thread the caller does the work.
fn grow() {
    loop {
        let mut state = POOL.state.lock();
        if state.jobs.len() <= state.idle || state.threads >= POOL.most {
            return;
        }
        let builder = thread::Builder::new().name("burn-mlir-jit".into()).stack_size(STACK_BYTES);
        match builder.spawn(work) {
            // Counted as idle until it takes a job, so as not to start a second one for it.
            Ok(_) => {
                state.threads += 1;
                state.idle += 1;
            }
            Err(error) if state.threads == 0 => {
                tracing::warn!("cannot start a thread to compile on: {error}");
                let job = state.jobs.pop_front();
                drop(state);
                if let Some(job) = job {
                    (job.run)();
                }
            }
            Err(_) => return,
        }
    }
}

fn work() {
    loop {
        let job = {
            let mut state = POOL.state.lock();
            loop {
                match state.jobs.pop_front() {
                    Some(job) => {
                        state.idle -= 1;
                        break job;
                    }
                    None => POOL.work.wait(&mut state),
                }
            }
        };
        run(job);
        POOL.state.lock().idle += 1;
    }
}

fn run(job: Job) {
    CURRENT.set(Some(job.on_fatal));
    if catch_unwind(AssertUnwindSafe(job.run)).is_err() {
        tracing::error!("a compilation job panicked");
    }
    CURRENT.set(None);
}

extern "C" fn fatal(reason: *const c_char) {
    let handled = catch_unwind(|| {
        let Some(on_fatal) = CURRENT.take() else { return false };
        // SAFETY: LLVM passes a string that ends in NUL and outlives the call.
        let reason = unsafe { CStr::from_ptr(reason) }.to_string_lossy().into_owned();
        POOL.state.lock().threads -= 1;
        grow();
        on_fatal(reason);
        true
    });
    if matches!(handled, Ok(true)) {
        // Returning would end the process, unwinding would cross C++ frames.
        loop {
            thread::park();
        }
    }
}
