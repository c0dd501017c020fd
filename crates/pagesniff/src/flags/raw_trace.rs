//! What was typed about trace files.

use std::path::PathBuf;
use std::time::Duration;

use bytesize::ByteSize;
use clap::{Args, ValueEnum};

use super::values::{duration, size};

/// What happens when a limit of the traces is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum RawOnFull {
    /// The oldest file goes
    #[default]
    Rotate,
    /// What is there stays, and nothing more is written
    Stop,
}

/// The options of trace files.
#[derive(Debug, Default, Args)]
pub struct RawTrace {
    /// Write a trace for each tenant and timeline into this directory [live: ./pagesniff]
    ///
    /// A replay of capture files writes traces only where this is given. The files are
    /// DIR/TENANT/TIMELINE/START-INSTANCE-NUMBER.pgtrace; `pagesniff export DIR` reads them.
    #[arg(long, short, value_name = "DIR", help_heading = "Traces")]
    pub out: Option<PathBuf>,

    /// Capture without writing traces
    #[arg(long, requires = "iface", conflicts_with_all = ["read", "out"], help_heading = "Traces")]
    pub no_trace: bool,

    /// No tenant's trace takes more than this on the disk [live: 32MiB, replay: unlimited]
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Traces")]
    pub max_bytes: Option<ByteSize>,

    /// All traces under this instance name in the directory together take no more than this [live: 1GiB, replay: unlimited]
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Traces")]
    pub max_total_bytes: Option<ByteSize>,

    /// What happens when one of these limits is reached
    #[arg(long, value_name = "ACTION", value_enum, default_value_t, help_heading = "Traces")]
    pub on_full: RawOnFull,

    /// Records wait no longer than this to be written; a crash costs no more
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s", help_heading = "Traces")]
    pub flush_interval: Duration,

    /// Begin a new file whenever the clock passes a multiple of this
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1h", help_heading = "Traces")]
    pub rotate_interval: Duration,

    /// The name of this sniffer in the files' names [live: HOST-INTERFACE, replay: replay]
    ///
    /// Several may write into one directory under different names.
    #[arg(long, value_name = "NAME", help_heading = "Traces")]
    pub instance: Option<String>,
}
