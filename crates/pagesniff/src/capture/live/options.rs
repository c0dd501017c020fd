//! What a live capture is told at its start.

use std::time::Duration;

use bytesize::ByteSize;

/// The whole of every packet: the kernel merges dozens of segments into one packet (GRO, TSO), with messages beginning
/// anywhere in it, so that any cut loses requests and answers. It is also the most that libpcap's ring holds of one.
pub const DEFAULT_SNAPLEN_BYTES: u32 = 262_144;

/// Link, IP and TCP headers with all their options have at most 160 bytes where there are no tunnels; with less, nothing
/// could be said.
pub const LEAST_SNAPLEN_BYTES: u32 = 160;

/// At the 1.3 GB/s that one tenant has been seen to fetch, 25 ms of traffic: longer than the scheduler keeps a thread
/// waiting on a busy node, and little beside a pageserver's memory.
pub const DEFAULT_BUFFER: &str = "32MiB";

/// One block of libpcap's ring is as large as the largest packet; with fewer than four the kernel drops while one is
/// read.
pub const LEAST_BUFFER: ByteSize = ByteSize::mib(1);

/// libpcap takes the size as a signed number of 32 bits, and rounds it up to whole blocks.
pub const MOST_BUFFER: ByteSize = ByteSize::gib(1);

/// Whose clock stamps the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum StampedBy {
    /// The kernel, in both directions alike
    #[default]
    Host,
    /// The adapter's own clock where it has one, synchronised with the host's; else the kernel
    Adapter,
}

/// What a live capture does.
#[derive(Debug, Clone)]
pub struct LiveOptions {
    /// The interface, or `any`.
    pub iface: String,
    /// In which network namespace the interface is: a process id, a name under `/run/netns`, or a path; `None` is ours.
    pub netns: Option<String>,
    /// The ports that the in-kernel filter lets pass.
    pub ports: Vec<u16>,
    /// A pcap-filter(7) expression that packets must match as well.
    pub bpf: Option<String>,
    /// Whether packets that may be tunnels or mirror encapsulations pass the filter too.
    pub tunnels: bool,
    /// How much of each packet is captured; [`LEAST_SNAPLEN_BYTES`] to [`DEFAULT_SNAPLEN_BYTES`].
    pub snaplen_bytes: u32,
    /// The kernel's buffer; [`LEAST_BUFFER`] to [`MOST_BUFFER`].
    pub buffer: ByteSize,
    /// Whose clock stamps the packets.
    pub stamped_by: StampedBy,
    /// When it ends by itself; `None` is never.
    pub duration: Option<Duration>,
    /// After how many packets it ends; `None` is never.
    pub count: Option<u64>,
}
