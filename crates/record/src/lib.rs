//! The words of pagesniff: identifiers, LSNs, keys, and the record of one pagestream request.
//!
//! Everything that crosses a crate boundary is said in these types. They hold no IO, no clocks and no `unsafe`; their
//! text forms (`Display`, `FromStr`) are the ones that Neon prints, so that a value can be pasted from one tool into
//! the other.
//!
//! | word | meaning |
//! |---|---|
//! | [`TenantId`], [`TimelineId`] | Neon's 128-bit identifiers, printed as 32 hex digits |
//! | [`Lsn`] | a position in the write-ahead log, printed `1/6EFF3F30` |
//! | [`RelTag`] | one fork of one relation, printed `1663/16384/16402_vm` |
//! | [`Key`] | a page's name in Neon's key space, printed as 36 hex digits |
//! | [`Timestamp`] | unix nanoseconds in the clock of the point of observation |
//! | [`Record`] | one request and what is known of its answer |

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

mod ids;
mod key;
mod lsn;
mod request;
mod row;
mod shard;
mod time;

pub use ids::{ParseIdError, TenantId, TenantTimeline, TimelineId};
pub use key::{Key, MAIN_FORKNUM, ParseRelTagError, RelTag};
pub use lsn::{Lsn, ParseLsnError};
pub use request::{Attribution, Kind, Pairing, ParseWordError, Protocol, Status, Target};
pub use row::{Endpoint, Order, Record};
pub use shard::{ParseShardError, ShardIndex, TenantShardId, shard_of_block, stripe_hash};
pub use time::Timestamp;
