//! Which fetches of a page were re-fetches, and which of those can be proven to have been needless.
//!
//! | word | meaning |
//! |---|---|
//! | cache | what one compute can remember: one tenant, timeline, client address, and whether it asks for the latest version (a primary) or at concrete LSNs (a standby or static compute) |
//! | epoch | the time between two starts of a compute: its cache begins empty |
//! | fetch | a GetPage that was answered `ok` |
//! | nms | `not_modified_since`: the compute's promise that the page has not changed between that LSN and the one it asks at |
//! | class | what a GetPage was, compared with the latest earlier fetch of its page by the same cache in the same epoch: [`Class`] |
//!
//! [`Refetch`] takes records in the order of (`time`, `client`, `server`, `seq`) and classifies each at once. What it
//! remembers of a page takes 80 bytes; beyond [`Limits::keys`] it follows half of the pages, then a quarter, and so on.
//! What is not followed is [`Class::Unproven`], so that no bound ever adds to a claim.
//!
//! `docs/diagnosis.md` says why each class is a proof and what it rests on.

mod cache;
mod class;
mod classify;
mod connection;
mod counts;
mod fetch;
mod latest;
mod observer;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod truth_tests;

pub use class::Class;
pub use classify::ANSWER_WAIT_NS;
pub use counts::ClassCounts;
pub use latest::SampledCounts;
pub(crate) use observer::{Cache, KeyFigures};
pub use observer::{Limits, Observation, Refetch, Relation, Uncounted};
