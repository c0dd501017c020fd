//! The other end of the HTTP API: what `pagesniff fetch` and `pagesniff top URL` ask of a daemon.
//!
//! ```text
//! address, token, certificate → Daemon ─┬→ fetch: begin → wait → download → unpack
//!                                       └→ live: events → snapshots, for top
//! ```
//!
//! The contract:
//!
//! - The token goes to the daemon that was named and nowhere else: redirects are not followed, and it is in no address or message.
//! - What was downloaded stays until the rest has come: the same command goes on where it stopped.
//! - Nothing that the daemon says becomes a path outside of the directory that was asked for.

mod access;
mod bars;
mod daemon;
mod download;
mod fetch;
mod flags;
#[cfg(feature = "top")]
mod live;
mod unpack;

pub use access::{DaemonUrl, RawAccess};
pub(crate) use daemon::Daemon;
#[cfg(feature = "top")]
pub(crate) use daemon::Failed;
pub use fetch::fetch;
pub use flags::RawFetch;
#[cfg(feature = "top")]
pub(crate) use live::{Asked, Events};
