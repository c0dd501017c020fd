//! The daemon: a capture without end, told by a configuration file, that keeps the latest requests of every tenant.
//!
//! ```text
//! file → Config → Settings → the one-off capture's own run (worker → pipeline → recorder), until SIGTERM
//! ```

mod config;
mod notify;

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;

use crate::capture::live::Live;
use crate::run::{Ended, output_outcome, run_from};
pub use config::{Config, TraceLimits};
use notify::Notify;

/// What was typed.
#[derive(Debug, Args)]
pub struct RawServe {
    /// The configuration file, TOML
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,

    /// Check the file, say what it asks for, and end
    #[arg(long)]
    pub check: bool,
}

/// Runs the daemon until a signal ends it, or checks its configuration.
///
/// # Errors
///
/// Where the configuration is wrong, the interface cannot be captured on, or a trace cannot be written.
pub fn serve(raw: &RawServe) -> anyhow::Result<Ended> {
    let config = Config::read(&raw.config).map_err(|error| anyhow!(error))?;
    if raw.check {
        return output_outcome(io::stdout().lock().write_all(config.in_words().as_bytes()));
    }
    let live = Live::open(config.live())?;
    let notify = Notify::from_environment();
    notify.tell("READY=1");
    let _ =
        io::stderr().lock().write_all(format!("Capturing on {}.\n{}", config.interface, config.in_words()).as_bytes());
    run_from(live, &config.settings())
}
