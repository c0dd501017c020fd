//! What was typed after `pagesniff doctor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::capture::live::{DEFAULT_SNAPLEN_BYTES, LiveOptions, StampedBy};
use crate::flags::{buffer, duration};

const EXAMPLES: &str = "\
Examples:
  sudo pagesniff doctor
      May this user capture, and what do the kernel and libpcap offer
  sudo pagesniff doctor --iface eth0
      The same, and what five seconds of traffic show: which ports carry what, whether tenants can be known
  pagesniff doctor --read node.pcap
      What a capture lacks, and how to take a better one
  pagesniff doctor --read node.pcap --json | jq '.ports[] | select(.pagestream > 0).port'
      The ports to give to --port

Exit status: 0 nothing is in the way, 1 failed, 2 wrong usage, 3 requests cannot be seen or captured (PROBLEM).";

/// The options of an examination.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, after_help = "--help has examples and more on each option.")]
pub struct RawDoctor {
    /// Watch this interface for a while, or all: any
    #[arg(long, short, value_name = "NAME", conflicts_with = "read")]
    pub iface: Option<String>,

    /// Examine capture files; `-` is standard input
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub read: Vec<PathBuf>,

    /// Where pagestream is expected; repeatable [default: 6400, and live 64000, 51051 and 9898 too]
    ///
    /// In captures all ports are examined.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Vec<u16>,

    /// Watch the interface so long
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s", conflicts_with = "read")]
    pub duration: Duration,

    /// The interface is in the network namespace of this process, or in the one of this name or path
    #[arg(long, value_name = "PID|NAME", requires = "iface")]
    pub netns: Option<String>,

    /// The kernel's buffer that a capture would have
    #[arg(long, value_name = "SIZE", value_parser = buffer, default_value = crate::capture::live::DEFAULT_BUFFER, requires = "iface")]
    pub buffer_size: bytesize::ByteSize,

    /// Write the findings as JSON
    #[arg(long)]
    pub json: bool,
}

impl RawDoctor {
    /// The capture that is to be tried; `None` where no interface is named.
    #[cfg_attr(not(all(feature = "live", target_os = "linux")), allow(dead_code, reason = "for live captures"))]
    pub(super) fn live_options(&self, ports: Vec<u16>) -> Option<LiveOptions> {
        Some(LiveOptions {
            iface: self.iface.clone()?,
            netns: self.netns.clone(),
            ports,
            bpf: None,
            tunnels: false,
            snaplen_bytes: DEFAULT_SNAPLEN_BYTES,
            buffer: self.buffer_size,
            stamped_by: StampedBy::default(),
            duration: Some(self.duration),
            count: None,
        })
    }
}
