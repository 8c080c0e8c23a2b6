//! The windows of the process: each thread's own, and those that are needed longer than their thread runs.

use super::Window;
use super::recording::Refusal;
use crate::{MlirDevice, MlirError, engine};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;

/// Every window that a live value may be recorded in.
static ALL: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

struct Entry {
    window: Arc<Window>,
    /// Its thread has ended.
    orphan: bool,
}

/// The windows of a thread, one per device it has used.
type Windows = SmallVec<[(MlirDevice, Arc<Window>); 1]>;

/// Gives them up when the thread ends.
struct Own(RefCell<Windows>);

impl Drop for Own {
    fn drop(&mut self) {
        let own = std::mem::take(self.0.get_mut());
        for entry in &mut *ALL.lock() {
            entry.orphan |= own.iter().any(|(_, window)| Arc::ptr_eq(window, &entry.window));
        }
        drop(own);
        sweep();
    }
}

thread_local! {
    static OWN: Own = const { Own(RefCell::new(SmallVec::new_const())) };
}

/// Forgets windows of threads that have ended, unless somebody holds a value that is recorded there.
fn sweep() {
    let mut unused = Vec::new();
    ALL.lock().retain(|entry| {
        let used = !entry.orphan || entry.window.is_awaited();
        if !used {
            unused.push(entry.window.clone());
        }
        used
    });
    // Their streams finish their work here, where nobody waits for the lock.
    drop(unused);
}

/// The calling thread's windows.
pub(super) fn own() -> Windows {
    OWN.try_with(|own| own.0.borrow().clone()).unwrap_or_default()
}

/// Does something with the calling thread's windows.
pub(super) fn for_each(action: impl FnMut(&Window)) {
    // A thread that has given them up has nothing to do.
    let _ = OWN.try_with(|own| own.0.borrow().iter().map(|(_, window)| &**window).for_each(action));
}

/// The calling thread's window of `device`; a fresh one for a thread that has given up its own.
pub(crate) fn window(device: MlirDevice) -> Result<Arc<Window>, MlirError> {
    match OWN.try_with(|own| find_own(&own.0.borrow(), device).cloned()) {
        Ok(Some(known)) => Ok(known),
        Ok(None) => open(device),
        Err(_) => Ok(Arc::new(Window::new(engine::engine(device)?)?)),
    }
}

/// Does something with the calling thread's window of `device`. Destructors may still use tensors when their thread
/// has given up its windows: each operation then has one of its own.
pub(super) fn with_window<R>(
    device: MlirDevice,
    action: impl Fn(&Window) -> Result<R, Refusal>,
) -> Result<R, Refusal> {
    let own = OWN.try_with(|own| find_own(&own.0.borrow(), device).map(|window| action(window)));
    let has_ended = own.is_err();
    if let Ok(Some(result)) = own {
        return result;
    }
    let window = open(device)?;
    let result = action(&window);
    if has_ended && let Some(entry) = ALL.lock().iter_mut().find(|entry| Arc::ptr_eq(&window, &entry.window))
    {
        entry.orphan = true;
    }
    result
}

fn find_own(windows: &Windows, device: MlirDevice) -> Option<&Arc<Window>> {
    windows.iter().find(|(owner, _)| *owner == device).map(|(_, window)| window)
}

fn open(device: MlirDevice) -> Result<Arc<Window>, MlirError> {
    let window = Arc::new(Window::new(engine::engine(device)?)?);
    sweep();
    ALL.lock().push(Entry { window: window.clone(), orphan: false });
    // A thread that has given up its windows keeps none.
    let _ = OWN.try_with(|own| own.0.borrow_mut().push((device, window.clone())));
    Ok(window)
}

/// A window by its number, in which a live value is recorded.
pub(super) fn find(id: u64) -> Option<Arc<Window>> {
    let of_this_thread = OWN.try_with(|own| {
        own.0.borrow().iter().find(|(_, window)| window.id() == id).map(|(_, window)| window.clone())
    });
    of_this_thread
        .ok()
        .flatten()
        .or_else(|| ALL.lock().iter().find(|entry| entry.window.id() == id).map(|entry| entry.window.clone()))
}
