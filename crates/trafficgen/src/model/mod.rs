//! The session model: who asks what, and what the answer is. It knows no sockets, files or clocks; the composer and the
//! live generator both draw from it, so that both make the same traffic for the same seed.

mod asker;
mod kinds;
mod latency;
mod pages;
mod pattern;
mod tenant;
mod workload;

pub use asker::{Asker, Request};
pub use kinds::KindMix;
pub use latency::Latency;
pub(crate) use pages::fill;
pub use pages::{Answer, PAGE_BYTES, answer, fill_page, page_lsn_at};
pub use pattern::Pattern;
pub use tenant::{RELATION_BLOCKS, base_lsn, owner, page_at};
pub(crate) use workload::parse_share;
pub use workload::{ProtocolMix, Workload};
