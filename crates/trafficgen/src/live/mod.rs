//! The same sessions over real sockets: a page service, and computes that drive one.
//!
//! ```no_run
//! use trafficgen::live::{DriveOptions, ServeOptions, Server, drive};
//!
//! let server = Server::start(&ServeOptions::default(), None)?;
//! let driven = drive(&DriveOptions::at(server.address()), None)?;
//! server.stop();
//! assert_eq!(driven.answered, 1000);
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! One thread for each connection, on either side; each blocks where a real backend would. Times in the truth are
//! `CLOCK_REALTIME`, the clock of captures on the same machine.

mod drive;
mod message;
mod serve;
mod stream;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use drive::{DriveOptions, Driven, Leave, drive};
pub use serve::{ServeOptions, Server};

use crate::truth::TruthWriter;

/// The truth, shared by all connections.
pub type SharedTruth = Arc<Mutex<TruthWriter>>;

/// A thread that panicked while it wrote a row leaves the others their file.
fn locked(truth: &SharedTruth) -> MutexGuard<'_, TruthWriter> {
    truth.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Unix nanoseconds.
fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

/// The scheduler wakes a sleeper up to so much late; shorter waits, and the rest of longer ones, are spent yielding.
const WAKE_UP_NS: u64 = 60_000;

/// Waits for a time, to within a few microseconds.
fn pause(ns: u64) {
    let until = Instant::now() + Duration::from_nanos(ns);
    if ns > WAKE_UP_NS {
        thread::sleep(Duration::from_nanos(ns - WAKE_UP_NS));
    }
    while Instant::now() < until {
        thread::yield_now();
    }
}
