//! MLIR contexts, which take 10 to 20 ms to make: each worker thread keeps one.

use crate::Frontend;
use melior::Context;
use std::cell::RefCell;

/// A context interns every type, attribute and location it sees for good, so it is replaced
/// after this many kernels.
const USES: usize = 256;

struct Kept {
    maker: usize,
    uses: usize,
    context: Context,
}

thread_local! {
    static CONTEXTS: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
}

/// Runs `body` with this thread's context. One that `body` panicked in is not used again.
pub(crate) fn with<R>(frontend: Frontend, body: impl FnOnce(&Context) -> R) -> R {
    let maker = frontend.context as usize;
    let kept = CONTEXTS.with_borrow_mut(|contexts| {
        let at = contexts.iter().position(|k| k.maker == maker)?;
        Some(contexts.swap_remove(at))
    });
    let mut kept = kept.unwrap_or_else(|| Kept { maker, uses: 0, context: (frontend.context)() });
    let result = body(&kept.context);
    kept.uses += 1;
    if kept.uses < USES {
        CONTEXTS.with_borrow_mut(|contexts| contexts.push(kept));
    }
    result
}
