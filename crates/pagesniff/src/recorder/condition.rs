//! How the writing goes, for other threads to look at.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::Faulted;

/// Told by the recorder's thread after everything that it does.
#[derive(Debug, Default)]
pub(super) struct Condition {
    has_failed: AtomicBool,
    times: AtomicU64,
    write_failed: AtomicU64,
    /// The last one; locked only where something has changed.
    error: Mutex<Option<String>>,
    limit: OnceLock<String>,
}

impl Condition {
    /// Writing fails at present for the first reason, or goes on, but for this limit; so many requests could not be written
    /// so far.
    pub(super) fn tell(&self, (error, limit): (Option<&str>, Option<&str>), write_failed: u64) {
        self.write_failed.store(write_failed, Ordering::Relaxed);
        if let Some(limit) = limit {
            self.limit.get_or_init(|| limit.to_owned());
        }
        if error.is_some() == self.has_failed.load(Ordering::Relaxed) {
            return;
        }
        self.has_failed.store(error.is_some(), Ordering::Relaxed);
        if let Some(error) = error {
            self.times.fetch_add(1, Ordering::Relaxed);
            *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_owned());
        }
    }

    #[inline]
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    pub(super) fn faulted(&self) -> Faulted {
        Faulted {
            times: self.times.load(Ordering::Relaxed),
            write_failed: self.write_failed.load(Ordering::Relaxed),
            error: self.error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            limit: self.limit.get().cloned(),
        }
    }
}
