//! What was typed after `pagesniff plan`.

use std::time::Duration;

use bytesize::ByteSize;
use clap::Args;

use super::estimate::{Bounds, Load};
use super::memory::MemoryBounds;
use crate::flags::{SampleRate, duration, memory, size};

const EXAMPLES: &str = "\
Examples:
  pagesniff plan --rate 20000
      One tenant with 20,000 requests a second, within the limits that a live capture has if nothing is said
  pagesniff plan --rate 5000 --tenants 200 --keep 24h
      What --max-bytes and --max-total-bytes must be for the traces to reach back a day
  pagesniff plan --rate 155000 --duration 10m --page-hash --max-bytes 2GiB --max-total-bytes 2GiB
      Whether ten minutes of the busiest tenant known fit
  pagesniff plan --rate 20000 --json | jq .hours_kept

Exit status: 0 done, 1 failed, 2 wrong usage.";

/// The options of a plan. Limits have the names and defaults that they have where a capture is taken.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, after_help = "--help has examples and more on each option.")]
pub struct RawPlan {
    /// Requests a second, of all tenants together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Load")]
    pub rate: u64,

    /// Tenants' timelines; the requests are taken to be spread evenly over them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..), help_heading = "Load")]
    pub tenants: u64,

    /// The capture ends after this time, such as 30s
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Load")]
    pub duration: Option<Duration>,

    /// Only one key in N is kept
    #[arg(long, value_name = "1/N", help_heading = "Load")]
    pub sample: Option<SampleRate>,

    /// Records have the page's hash
    #[arg(long, help_heading = "Load")]
    pub page_hash: bool,

    /// The traces are to reach back so far: says which limits that takes
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Limits")]
    pub keep: Option<Duration>,

    /// No tenant's trace takes more than this
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "32MiB", help_heading = "Limits")]
    pub max_bytes: ByteSize,

    /// All traces together take no more than this
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1GiB", help_heading = "Limits")]
    pub max_total_bytes: ByteSize,

    /// Records wait no longer than this to be written: the longer, the fewer bytes each takes where they are few
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s", help_heading = "Limits")]
    pub flush_interval: Duration,

    /// Memory for connections, missing segments and open requests
    #[arg(long, value_name = "SIZE", value_parser = memory, default_value = "64MiB", help_heading = "Limits")]
    pub memory: ByteSize,

    /// The kernel's buffer for packets that are not read yet
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "32MiB", help_heading = "Limits")]
    pub buffer_size: ByteSize,

    /// Write the plan as JSON
    #[arg(long)]
    pub json: bool,
}

impl RawPlan {
    /// What is to be captured.
    pub(super) fn load(&self) -> Load {
        Load {
            tenants: self.tenants,
            requests_per_s: self.rate as f64,
            sample_one_in: self.sample.map_or(1, |sample| sample.one_in),
            page_hash: self.page_hash,
            duration: self.duration,
        }
    }

    /// Within which limits.
    pub(super) fn bounds(&self) -> Bounds {
        Bounds {
            max_bytes: self.max_bytes.as_u64(),
            max_total_bytes: self.max_total_bytes.as_u64(),
            flush_interval: self.flush_interval,
            keep: self.keep,
            memory: MemoryBounds {
                decoder_bytes: self.memory.as_u64(),
                kernel_buffer_bytes: self.buffer_size.as_u64(),
            },
        }
    }
}
