//! When a live capture ends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Ctrl-C, SIGTERM and SIGHUP (the terminal is gone) ask for an orderly end; the second of them ends the program at once,
/// in case that the first did not help.
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
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Under nohup the capture is meant to outlive its terminal.
            if signal == SIGHUP && is_ignored(signal) {
                continue;
            }
            // In this order: the first signal finds the flag not set yet.
            flag::register_conditional_default(signal, Arc::clone(&stop))?;
            flag::register(signal, Arc::clone(&stop))?;
        }
        Ok(Self(stop))
    }

    /// Somebody else says when.
    pub(super) fn of(stop: Arc<AtomicBool>) -> Self {
        Self(stop)
    }

    /// Whether an end was asked for.
    pub(super) fn asked_to_stop(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether the program was started with that signal ignored. Where the system does not tell, it was not.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let bit = u32::try_from(signal).unwrap_or(0).saturating_sub(1);
    mask.checked_shr(bit).unwrap_or(0) & 1 == 1
}
