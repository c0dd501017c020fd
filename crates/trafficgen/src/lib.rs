//! Traffic for tests, demonstrations and benchmarks of pagesniff: a synthetic compute and page service.
//!
//! One session model says who asks what and what the answer is ([`model`]). Two halves turn it into traffic:
//!
//! - [`compose`] simulates both ends of each TCP connection and what happens between them, and writes what a capture
//!   would have seen into a file, at memory speed and byte for byte the same for the same options;
//! - [`live`] speaks the protocol over real sockets.
//!
//! Both write the truth beside it ([`truth`]): what was asked and answered when, as the applications know it.
//! Nothing here uses `decode`: it is the second opinion against which the decoder is held.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

pub mod cli;
pub mod compose;
pub mod golden;
pub mod live;
pub mod model;
pub mod rng;
pub mod truth;
pub mod wire;
