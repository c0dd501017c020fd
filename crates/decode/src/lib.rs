//! Packets in, records out: the sans-IO decoder of pagesniff.
//!
//! ```text
//! Decoder::packet → wire (link, IP, TCP) → flow (connections, reassembly) → pgwire (framing, handshake)
//!                 → pagestream (requests, answers, pairing) → Sink::record
//! ```
//!
//! The contract:
//!
//! - A record's fields are bytes that crossed the wire. What cannot be known is `None`, never a plausible value.
//! - Whatever is not decoded is counted in [`Stats`], by reason.
//! - All state is bounded by [`Config`]; time moves with the packets' own stamps only, so that the same packets give
//!   the same records on every machine.
//! - No input makes it panic, loop or grow.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

mod bytes;
mod config;
mod decoder;
mod epochs;
mod flow;
mod packet;
mod pagestream;
mod pgwire;
mod remembered;
mod session;
mod sink;
mod stats;
pub mod wire;

pub use config::{Config, DEFAULT_MEMORY_LIMIT_BYTES, DEFAULT_PORT};
pub use decoder::Decoder;
pub use packet::{LinkType, Packet};
pub use remembered::OpenConnection;
pub use sink::{Identified, Purpose, Sink, StreamContent, StreamPiece};
pub use stats::{Stats, WireStats};
