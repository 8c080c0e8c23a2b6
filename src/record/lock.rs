//! A lock that one thread takes at every operation and others hardly ever.

use spin::RelaxStrategy;
use spin::mutex::{SpinMutex, SpinMutexGuard};
use std::time::Duration;

/// Freed by a plain store, which is half the price of a lock that wakes whoever waits. Those look again after a while.
pub(crate) type Lock<T> = SpinMutex<T, Patience>;

/// What a [`Lock`] keeps, locked.
pub(crate) type Locked<'a, T> = SpinMutexGuard<'a, T, Patience>;

/// How often somebody who waits looks again.
const PAUSE: Duration = Duration::from_micros(20);

/// See [`Lock`].
pub(crate) struct Patience;

impl RelaxStrategy for Patience {
    fn relax() {
        std::thread::sleep(PAUSE);
    }
}
