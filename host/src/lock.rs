//! Locks that a panic elsewhere does not close.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after a panic under the lock. For values that are whole after every statement.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
