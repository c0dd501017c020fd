//! The daemon's HTTP API: traces and reports for those who may have them, and a record of who took what.
//!
//! ```text
//! connection → routes::watch (audit line, who it is, rate) → handler → daemon::Hub
//!              audit.rs        authority.rs     quota.rs     status, page_trace, captures, live
//! ```
//!
//! The contract:
//!
//! - Nothing here can hold up a capture: records come through bounded queues that nobody waits for, and what a slow reader has no
//!   room for is its own loss, counted.
//! - A caller is told of nothing that is another's, not even that it is there.
//! - Every request leaves a line in the audit log, and no token is in any file.
//! - `docs/openapi.json` describes it, and a test holds the two together.

mod archive;
mod audit;
mod authority;
mod caller;
mod captures;
mod config;
mod jwt;
mod live;
mod metrics;
mod page;
mod page_trace;
mod quota;
mod reply;
mod routes;
mod server;
mod status;
mod take;
mod tokens;

pub use config::{ApiConfig, ApiLimits, AuthenticationConfig};
pub use routes::ROUTES;
pub use server::{Listener, Served};
