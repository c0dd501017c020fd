//! What is typed.

use std::path::PathBuf;

use bytesize::ByteSize;
use clap::{Parser, Subcommand};
use trafficgen::compose::ComposeOptions;

use crate::captures::Name;

/// Measures pagesniff against tcpdump and against the floor of the machine.
///
/// Composes a capture, runs every program on it in turn, several rounds, prints medians and ratios, deletes the capture, and
/// goes on to the next one. Progress goes to standard error, the result to standard output.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 120)]
pub(crate) struct Arguments {
    /// Where captures and traces are written while they are needed [default: bench, beside the build's own directory]
    #[arg(long, global = true)]
    pub(crate) dir: Option<PathBuf>,
    /// Length of each capture
    #[arg(long, default_value = "1GB")]
    pub(crate) size: ByteSize,
    /// How often each program runs on each capture; the first time, which fills the caches, is not counted
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Only this capture; may be given several times
    #[arg(long, value_enum)]
    pub(crate) only: Vec<Name>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Leave the captures where they are, and use those that are there
    #[arg(long)]
    pub(crate) keep: bool,
    /// Measure this pagesniff instead of building the one of this workspace
    #[arg(long, value_name = "PATH")]
    pub(crate) pagesniff: Option<PathBuf>,
    /// Another pagesniff, such as the one before a change, to be run in turn with the first
    #[arg(long, value_name = "PATH")]
    pub(crate) against: Option<PathBuf>,
    /// Capture from a virtual wire instead of reading files; takes root
    #[arg(long)]
    pub(crate) live: bool,
    /// Measure the daemon, with fifty tenants on the wire: idle, tracing one of them, and tracing all
    #[arg(long, requires = "live")]
    pub(crate) daemon: bool,
    /// Requests a second that cross the wire; several are measured one after the other, 0 is as many as will go
    #[arg(long, requires = "live", value_delimiter = ',', default_values_t = [2_000, 10_000, 30_000, 0])]
    pub(crate) rate: Vec<u32>,
    /// How long traffic crosses the wire for each measurement
    #[arg(long, requires = "live", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) seconds: u32,
    /// Send no packet longer than the wire's 1500 bytes, as if nothing merged segments
    #[arg(long, requires = "live")]
    pub(crate) no_offload: bool,
    #[command(subcommand)]
    pub(crate) step: Option<Step>,
}

/// What the program runs as a process of its own, to be measured, or so that its memory is gone afterwards.
#[derive(Debug, Subcommand)]
pub(crate) enum Step {
    /// Walk a capture's packet headers and touch the first 66 bytes of each packet: the floor
    Floor {
        /// A pcap file in this machine's byte order
        file: PathBuf,
    },
    /// Compose a capture
    Compose(Box<ComposeOptions>),
}
