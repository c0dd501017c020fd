//! What was typed after `pagesniff fetch`.

use std::path::PathBuf;
use std::time::Duration;

use bytesize::ByteSize;
use clap::{ArgGroup, Args};

use super::access::{DaemonUrl, RawAccess};
use crate::flags::{RawFilter, duration, size};

const EXAMPLES: &str = "\
Examples:
  export PAGESNIFF_TOKEN=...
  pagesniff fetch https://pageserver-7:9898 --list
      The captures that are there, and the tenants
  pagesniff fetch https://pageserver-7:9898 --tenant 3aabbf1a5d0f4e2a9d3c1b2a49505101 --duration 30s
      Starts a capture of half a minute, waits for it, and brings its traces into ./ID
  pagesniff fetch https://pageserver-7:9898 --tenant 3aabbf1a5d0f4e2a9d3c1b2a49505101 --last 10m --out traces
      The last ten minutes, out of the daemon's flight recorder
  pagesniff fetch https://pageserver-7:9898 --capture ID
      A capture that somebody has started
  pagesniff fetch https://pageserver-7:9898 --capture ID --html report.html
      Its report, made by the daemon, instead of its traces

What was cut off goes on where it stopped when the same command is run again: the capture and the download alike.

Exit status: 0 done, 1 failed, 2 wrong usage.";

/// The options of a download from a daemon.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("what").args(["list", "capture", "duration", "last"]).required(true),
    after_long_help = EXAMPLES,
    after_help = "--help has examples and more on each option."
)]
pub struct RawFetch {
    /// The daemon, such as `https://pageserver-7:9898`
    #[arg(value_name = "URL")]
    pub url: DaemonUrl,

    /// How the daemon is told who asks.
    #[command(flatten)]
    pub access: RawAccess,

    /// List the captures that are there, and the tenants
    #[arg(long, help_heading = "What")]
    pub list: bool,

    /// Fetch this capture or snapshot; one that runs is waited for
    #[arg(long, value_name = "ID", help_heading = "What")]
    pub capture: Option<String>,

    /// Start a capture of that long, such as 30s, wait for its end, and fetch it
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "What")]
    pub duration: Option<Duration>,

    /// Fetch a tenant's latest requests out of the flight recorder, so far back, such as 10m
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "tenant", help_heading = "What")]
    pub last: Option<Duration>,

    /// The most bytes of the capture; what comes then is counted and left out [default: the daemon's]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "duration", help_heading = "What")]
    pub max_bytes: Option<ByteSize>,

    /// Which requests.
    #[command(flatten)]
    pub filter: RawFilter,

    /// Put the traces into a directory below this one, by the capture's name
    #[arg(long, value_name = "DIR", default_value = ".", help_heading = "Output")]
    pub out: PathBuf,

    /// Keep them as the tar archive that they come in
    #[arg(long, conflicts_with_all = ["html", "json"], help_heading = "Output")]
    pub archive: bool,

    /// Fetch the report that the daemon makes as a page, instead of the traces
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<PathBuf>,

    /// Fetch it as JSON
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,

    /// No progress or messages on standard error; errors still are
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}
