//! The daemon: a capture without end, told by a configuration file, that knows whose connections there are, keeps the latest
//! requests of every tenant, and takes traces when it is asked to.
//!
//! ```text
//! interface → Live → Worker (decoder) → Distribution ─┬→ flight recorder's Feed → ring/
//!   one thread each, polls Commands                   └→ each trace's Feed      → traces/ID/
//! a Subscription to everything → triggers → Hub; what they took → WaitingList → upload → an object store
//! control socket → Hub → Commands to the workers, Traces, snapshot (ring/ → snapshots/ID/)
//! ```
//!
//! The contract:
//!
//! - A capturing thread waits for nobody: what is asked of it comes through a bounded queue that it looks at between packets,
//!   and what waits for the disk is done elsewhere.
//! - Everything that is kept has its limit in the configuration, and goes by age.
//! - The connections are known to whoever comes after it: their table is on the disk.
//! - The first signal ends it in order: what was captured is decoded and written.

mod checkpoint;
mod config;
mod confine;
mod control;
mod distribution;
mod ending;
mod hub;
mod interface;
mod load;
mod notify;
mod reload;
mod running;
mod sampling;
mod snapshot;
mod status_text;
mod story;
mod subscription;
mod traces;
pub(crate) mod triggers;
#[cfg(feature = "upload")]
mod upload;
#[cfg_attr(not(feature = "upload"), expect(dead_code, reason = "nothing waits where nothing is uploaded"))]
mod waiting;
mod watch;
pub(crate) mod watched;
mod worker;

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;

use crate::run::{Ended, output_outcome};
pub use checkpoint::known_connections;
#[cfg(feature = "api")]
pub(crate) use config::size;
pub use config::{Config, ControlConfig, RecorderConfig, TraceLimits};
pub use control::client::{RawSnapshot, RawSocket, RawStatus, RawTakeTrace, status, take_snapshot, take_trace};
pub use control::words;
pub use hub::Hub;
#[cfg(feature = "client")]
pub(crate) use status_text::tenants_text;
pub use story::unfinished;
#[cfg(feature = "api")]
pub use subscription::Subscription;

/// What was typed.
#[derive(Debug, Args)]
pub struct RawServe {
    /// The configuration file, TOML
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,

    /// Check the file, say what it asks for, and end
    #[arg(long)]
    pub check: bool,

    /// Once the interfaces are open, become this user [default: pagesniff, where root starts it and there is one]
    ///
    /// Only root becomes somebody else. Whoever it is, no capability is left, and no file within reach but the data directory,
    /// the control socket's and the configuration's.
    #[arg(long, value_name = "NAME", conflicts_with = "check")]
    pub user: Option<String>,
}

/// Runs the daemon until a signal ends it, or checks its configuration.
///
/// # Errors
///
/// Where the configuration is wrong, an interface cannot be captured on, or a trace cannot be written.
pub fn serve(raw: &RawServe) -> anyhow::Result<Ended> {
    let config = Config::read(&raw.config).map_err(|error| anyhow!(error))?;
    if raw.check {
        return output_outcome(io::stdout().lock().write_all(config.in_words().as_bytes()));
    }
    running::run(config, raw)
}
