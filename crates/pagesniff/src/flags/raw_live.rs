//! What was typed about a live capture.

use std::path::PathBuf;
use std::time::Duration;

use bytesize::ByteSize;
use clap::Args;

use super::values::{buffer, duration};
use crate::capture::live::{DEFAULT_BUFFER, DEFAULT_SNAPLEN_BYTES, LEAST_SNAPLEN_BYTES, LiveOptions, StampedBy};

/// The options of a run that captures from an interface.
#[derive(Debug, Clone, Args)]
pub struct RawLive {
    /// Capture from this interface, or from all of them: any
    ///
    /// Takes the capability CAP_NET_RAW: run it with sudo, or once `sudo setcap cap_net_raw+ep $(command -v pagesniff)`.
    /// Ctrl-C, SIGTERM or SIGHUP ends it in order, and a second one at once.
    #[arg(long, short, value_name = "NAME", help_heading = "Input")]
    pub iface: Option<String>,

    /// The interface is in the network namespace of this process, or in the one of this name or path
    ///
    /// Takes CAP_SYS_ADMIN as well. Names are those of `ip netns`.
    #[arg(long, value_name = "PID|NAME", requires = "iface", conflicts_with = "read", help_heading = "Live capture")]
    pub netns: Option<String>,

    /// End after this time, such as 30s
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "iface", conflicts_with = "read", help_heading = "Live capture")]
    pub duration: Option<Duration>,

    /// End after this many packets
    #[arg(long, short, value_name = "PACKETS", value_parser = clap::value_parser!(u64).range(1..), requires = "iface", conflicts_with = "read",
          help_heading = "Live capture")]
    pub count: Option<u64>,

    /// Only packets that match this pcap-filter(7) expression too, such as 'net 10.0.0.0/8'
    ///
    /// It runs in the kernel, joined by *and* with the filter that comes from --port. Both hold for frames with VLAN
    /// tags as well.
    #[arg(long, value_name = "EXPR", requires = "iface", conflicts_with = "read", help_heading = "Live capture")]
    pub bpf: Option<String>,

    /// Let tunnels and mirrors pass the filter, to be unwrapped: VXLAN, GENEVE, GRE, ERSPAN, IP in IP
    ///
    /// The kernel then cannot look for --port: all packets of the tunnels are read.
    #[arg(long, requires = "iface", conflicts_with = "read", help_heading = "Live capture")]
    pub tunnels: bool,

    /// Capture so many bytes of each packet
    ///
    /// Less than the whole packet loses requests and answers where the kernel merges segments (GRO, TSO), as it does on
    /// nearly every machine. What was cut is counted.
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_SNAPLEN_BYTES, requires = "iface", conflicts_with = "read",
          value_parser = clap::value_parser!(u32).range(i64::from(LEAST_SNAPLEN_BYTES)..=i64::from(DEFAULT_SNAPLEN_BYTES)),
          help_heading = "Live capture")]
    pub snaplen: u32,

    /// The kernel's buffer for packets that are not read yet; raise it where packets are dropped
    #[arg(long, value_name = "SIZE", default_value = DEFAULT_BUFFER, value_parser = buffer, requires = "iface", conflicts_with = "read",
          help_heading = "Live capture")]
    pub buffer_size: ByteSize,

    /// Whose clock stamps the packets
    ///
    /// An adapter's clock stamps incoming packets only. Where it disagrees with the host's, latencies are left out.
    #[arg(
        long,
        value_name = "CLOCK",
        value_enum,
        default_value_t,
        requires = "iface",
        conflicts_with = "read",
        help_heading = "Live capture"
    )]
    pub timestamps: StampedBy,

    /// Once the interface is open, become this user: traces and figures are then its own
    ///
    /// Only root becomes somebody else. Without it root stays root, and keeps of its privileges the one of writing into the
    /// directories of others.
    #[arg(long, value_name = "NAME", requires = "iface", conflicts_with = "read", help_heading = "Live capture")]
    pub user: Option<String>,

    /// Where a running `pagesniff serve` keeps its table of connections, or none: it tells whose the connections are that were
    /// open before [default: /var/lib/pagesniff/connections.table, where it can be read]
    ///
    /// It is connections.table in the data_directory of the daemon's configuration.
    #[arg(long, value_name = "PATH|none", requires = "iface", conflicts_with = "read", help_heading = "Live capture")]
    pub daemon_state: Option<PathBuf>,
}

impl RawLive {
    /// The live capture that was typed, if one was.
    pub(crate) fn options(self, ports: &[u16]) -> Option<LiveOptions> {
        Some(LiveOptions {
            iface: self.iface?,
            netns: self.netns,
            ports: ports.to_vec(),
            bpf: self.bpf,
            tunnels: self.tunnels,
            snaplen_bytes: self.snaplen,
            buffer: self.buffer_size,
            stamped_by: self.timestamps,
            duration: self.duration,
            count: self.count,
        })
    }
}
