//! The threads that compile.
//!
//! They are our own because MLIR and LLVM recurse deeply, and because LLVM ends the process on
//! what it calls a fatal error unless the handler does not return: ours reports the error to
//! whoever waits, gives the thread up for good, and lets another take its place.
//!
//! When the process ends, the C library destroys LLVM's global objects while these threads may be using them.
//! So the end waits for what is being compiled, and nothing more is begun. Most of these objects are made by the
//! first job, and destroyed before whoever registered earlier is called: until that job is done, nothing can wait.

use inkwell::llvm_sys::error_handling::LLVMInstallFatalErrorHandler;
use parking_lot::{Condvar, Mutex};
use std::{
    cell::RefCell,
    collections::VecDeque,
    ffi::{CStr, c_char, c_int},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, LazyLock},
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

const STACK_BYTES: usize = 32 << 20;
const MOST_THREADS: usize = 32;
/// How long the end of the process waits for jobs.
const LONGEST_END: Duration = Duration::from_secs(10);

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
    done: usize,
    /// The thread that ends the process.
    ending: Option<ThreadId>,
}

struct Pool {
    state: Mutex<State>,
    work: Condvar,
    /// A job is done while the process ends.
    ended: Condvar,
    most: usize,
}

static POOL: LazyLock<Pool> = LazyLock::new(|| {
    // SAFETY: the handler has the signature LLVM asks for and lives as long as the process.
    unsafe { LLVMInstallFatalErrorHandler(Some(fatal)) };
    let most = thread::available_parallelism().map_or(1, |n| n.get().min(MOST_THREADS));
    Pool { state: Mutex::default(), work: Condvar::new(), ended: Condvar::new(), most }
});

unsafe extern "C" {
    fn atexit(call: extern "C" fn()) -> c_int;
}

/// Has [`finish`] called before anything that exists by now is destroyed.
fn wait_at_exit() {
    // SAFETY: `finish` lives as long as the process and does not unwind. Where the list is full, nobody waits.
    unsafe { atexit(finish) };
}

/// Waits for the jobs under way, within reason; no other is begun after that.
extern "C" fn finish() {
    // A job that ends the process would wait for itself.
    if CURRENT.try_with(|current| current.try_borrow().is_ok_and(|job| job.is_none())) == Ok(false) {
        return;
    }
    let mut state = POOL.state.lock();
    state.ending = Some(thread::current().id());
    let end = Instant::now() + LONGEST_END;
    while state.threads > state.idle && !POOL.ended.wait_until(&mut state, end).timed_out() {}
}

thread_local! {
    static CURRENT: RefCell<Option<OnFatal>> = const { RefCell::new(None) };
}

/// Queues `run`. If LLVM meets a fatal error in it, `on_fatal` is called instead of its end being
/// reached.
pub(crate) fn spawn(run: Box<dyn FnOnce() + Send>, on_fatal: OnFatal) {
    let mut state = POOL.state.lock();
    if state.ending == Some(thread::current().id()) {
        drop(state);
        return on_fatal("the process is ending".into());
    }
    state.jobs.push_back(Job { run, on_fatal });
    drop(state);
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
                let next = if state.ending.is_none() { state.jobs.pop_front() } else { None };
                match next {
                    Some(job) => {
                        state.idle -= 1;
                        break job;
                    }
                    None => POOL.work.wait(&mut state),
                }
            }
        };
        run(job);
        let mut state = POOL.state.lock();
        state.idle += 1;
        state.done += 1;
        // Jobs of a new kind may have made more global objects.
        let again = state.done.is_power_of_two() && state.ending.is_none();
        drop(state);
        POOL.ended.notify_all();
        if again {
            wait_at_exit();
        }
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
        POOL.ended.notify_all();
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
