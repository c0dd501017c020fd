//! When a live capture ends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Ctrl-C and SIGTERM ask for an orderly end; the second of them ends the program at once, in case that the first did
/// not help.
#[derive(Debug)]
pub(super) struct Signals(Arc<AtomicBool>);

impl Signals {
    /// Catches them from now on.
    ///
    /// # Errors
    ///
    /// The system's.
    pub(super) fn catch() -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag not set yet.
            flag::register_conditional_default(signal, Arc::clone(&stop))?;
            flag::register(signal, Arc::clone(&stop))?;
        }
        Ok(Self(stop))
    }

    /// Whether an end was asked for.
    pub(super) fn asked_to_stop(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
