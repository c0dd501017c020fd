//! Packets from an interface, through libpcap.
//!
//! ```text
//! open (netns → libpcap handle → filter) → Live: poll → ring → packets, until end (time, count, signal) ─→ drops
//! ```
//!
//! The contract:
//!
//! - Nothing is changed about the interface: promiscuous mode stays off, the filter runs in the kernel.
//! - It waits for at most 100 ms at a time, whatever the wire does, so that clocks and signals are looked at.
//! - An end that was asked for is an orderly one: what was captured before it is handed out first.
//! - What the kernel or the interface dropped is counted in 64 bits and said in the notes.

#[cfg(feature = "live")]
mod drops;
#[cfg(feature = "live")]
mod end;
#[cfg(feature = "live")]
mod error;
#[cfg(feature = "live")]
mod filter;
#[cfg(feature = "live")]
mod netns;
#[cfg(feature = "live")]
mod open;
mod options;
#[cfg(feature = "live")]
mod source;

#[cfg(feature = "live")]
pub use error::LiveError;
pub use options::{
    DEFAULT_BUFFER, DEFAULT_SNAPLEN_BYTES, LEAST_BUFFER, LEAST_SNAPLEN_BYTES, LiveOptions, MOST_BUFFER, StampedBy,
};
#[cfg(feature = "live")]
pub use source::Live;
