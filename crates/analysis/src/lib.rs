//! Records in, findings out: what pagesniff says of a capture.
//!
//! [`refetch::Refetch`] says of each GetPage whether it was a re-fetch, and whether that can be proven.
//! [`reuse`] says how large a cache would have helped.
//! [`live`] says of the last seconds who asks for what, how fast, and how it is answered.
//! [`summary::Summary`] observes records one by one and ends in a [`summary::Report`]; [`render`] writes records (JSON
//! Lines, CSV, a table) and reports (JSON, text). Everything is bounded: a day of traffic takes no more memory than
//! [`summary::Limits`] says, and where a bound makes a figure an estimate, the report says so.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

pub mod diagnosis;
pub mod export;
mod in_order;
pub mod live;
pub mod loss;
pub mod page_trace;
pub mod pictures;
pub mod refetch;
pub mod render;
pub mod reuse;
pub mod shards;
pub mod summary;
mod target_hash;

pub use target_hash::target_hash;
