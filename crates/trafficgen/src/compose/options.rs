//! What `compose` is told.

use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;

use crate::model::{Workload, parse_share};

/// Everything that decides a composed capture; the same options give the same bytes.
#[derive(Debug, Clone, clap::Args)]
pub struct ComposeOptions {
    /// Who asks what.
    #[command(flatten)]
    pub workload: Workload,
    /// What the sessions do beside asking.
    #[command(flatten)]
    pub session: SessionOptions,
    /// The network and what it does to packets.
    #[command(flatten)]
    pub network: NetworkOptions,
    /// What the capture sees of it.
    #[command(flatten)]
    pub capture: CaptureOptions,
    /// Where it is written, and how.
    #[command(flatten)]
    pub output: OutputOptions,
}

/// How a pagestream session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum End {
    /// Terminate and FIN, as libpq leaves; the server's late ReadyForQuery meets an RST
    Terminate,
    /// A bare FIN
    Fin,
    /// A bare RST with requests outstanding
    Rst,
    /// The client shuts its half while requests are outstanding; all are answered, then ReadyForQuery and FIN
    HalfClose,
    /// CopyFail, Sync and FIN with requests outstanding
    CopyFail,
    /// CopyDone, the server's ErrorResponse, then Terminate in query mode
    CopyDone,
    /// The server sends ErrorResponse 57P01 and FIN with requests outstanding
    ServerError,
    /// Nothing: the capture ends first
    Open,
}

/// A connection to the same port that is no pagestream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Other {
    /// `basebackup` in the extended protocol, answered with CopyData
    Basebackup,
    /// `lease lsn` as a simple query
    Lease,
    /// `set`
    Set,
    /// SQL whose text contains a pagestream command
    Sql,
    /// A tenant that does not exist: ErrorResponse instead of CopyBoth
    UnknownTenant,
    /// SSLRequest granted, then TLS records
    Tls,
    /// A TLS ClientHello without asking
    DirectTls,
    /// A plain startup refused by a server that requires TLS
    TlsRequired,
    /// HTTP/1.1
    Http,
    /// The preface of HTTP/2 and the first call, as gRPC begins
    Grpc,
    /// CancelRequest
    Cancel,
    /// SSLRequest answered, then nothing
    LoneSsl,
    /// Connected and closed without a byte
    Empty,
    /// Random bytes
    Noise,
}

/// Whether the client asks for encryption before its startup; it is refused each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AskEncryption {
    /// It does not ask
    Never,
    /// SSLRequest, as libpq's sslmode=prefer does
    Ssl,
    /// GSSENCRequest, then SSLRequest
    Gss,
}

/// How a client proves who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Auth {
    /// It need not
    Trust,
    /// A (fake) JWT in a PasswordMessage
    Password,
}

/// What the sessions do beside asking.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Sessions")]
pub struct SessionOptions {
    /// How sessions end; several take turns
    #[arg(long, value_enum, default_values = ["terminate"])]
    pub end: Vec<End>,
    /// Whether encryption is asked for first, and refused
    #[arg(long, value_enum, default_value = "never")]
    pub ask_encryption: AskEncryption,
    /// How clients prove who they are
    #[arg(long, value_enum, default_value = "trust")]
    pub auth: Auth,
    /// Each connection opens again so many times from the same port, with a new initial sequence number
    #[arg(long, default_value_t = 0)]
    pub reconnect: u32,
    /// Connections of other kinds to the same port; may be given several times
    #[arg(long, value_enum)]
    pub also: Vec<Other>,
    /// After so many requests the client asks nothing for --idle-time
    #[arg(long)]
    pub idle_after: Option<u64>,
    /// How long an idle client stays idle
    #[arg(long, value_parser = parse_time_ns, default_value = "60s")]
    pub idle_time: u64,
    /// Keep-alive probes of an idle client come this often
    #[arg(long, value_parser = parse_time_ns)]
    pub keep_alive: Option<u64>,
    /// After so many answers the client reads nothing for --stall-time, until its window is closed
    #[arg(long)]
    pub stall_after: Option<u64>,
    /// How long a stalled client does not read
    #[arg(long, value_parser = parse_time_ns, default_value = "500ms")]
    pub stall_time: u64,
    /// The client thinks up to this long before a flush
    #[arg(long, value_parser = parse_time_ns, default_value = "20us")]
    pub think: u64,
    /// Sequence numbers wrap after so many bytes of the client's, and 1000 more of the server's
    #[arg(long)]
    pub wrap_after: Option<u32>,
}

/// The network and what it does to packets.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Network")]
pub struct NetworkOptions {
    /// Largest IP packet: 1500 on the wire, 65535 where offloading merges segments before the capture
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u32).range(576..=65535))]
    pub mtu: u32,
    /// Time there and back
    #[arg(long, value_parser = parse_time_ns, default_value = "100us")]
    pub rtt: u64,
    /// IPv6 instead of IPv4
    #[arg(long)]
    pub ipv6: bool,
    /// The page service's port
    #[arg(long, default_value_t = 6400)]
    pub port: u16,
    /// Receive buffer of each end, which bounds the window it offers
    #[arg(long, default_value_t = 4 << 20)]
    pub receive_buffer: u32,
    /// Share of the packets lost on the wire, and sent again later
    #[arg(long, default_value_t = 0.0, value_parser = parse_share)]
    pub loss: f64,
    /// Share of the packets that are held up and overtaken
    #[arg(long, default_value_t = 0.0, value_parser = parse_share)]
    pub reorder: f64,
    /// Share of the data segments that are sent a second time without need
    #[arg(long, default_value_t = 0.0, value_parser = parse_share)]
    pub retransmit: f64,
    /// Share of the large packets that travel in IP fragments
    #[arg(long, default_value_t = 0.0, value_parser = parse_share)]
    pub fragment: f64,
}

/// Where the capture is taken: before or behind what the wire loses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum View {
    /// On the page service's node
    Server,
    /// On the compute's node
    Client,
}

/// What the capture sees.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Capture")]
pub struct CaptureOptions {
    /// On which end it is taken
    #[arg(long, value_enum, default_value = "server")]
    pub view: View,
    /// Share of the packets that the capture misses
    #[arg(long, default_value_t = 0.0, value_parser = parse_share)]
    pub drop: f64,
    /// Share of the packets that the capture sees twice, as a mirror port delivers them
    #[arg(long, default_value_t = 0.0, value_parser = parse_share)]
    pub duplicate: f64,
    /// Snap length: packets are cut to so many bytes
    #[arg(long)]
    pub cut: Option<u32>,
    /// The capture begins when this share of the requests has been made
    #[arg(long, value_parser = parse_share)]
    pub join_at: Option<f64>,
    /// Only what this end sends is seen
    #[arg(long, value_enum)]
    pub one_side: Option<View>,
}

/// The link layer of the capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Link {
    /// Ethernet
    Ethernet,
    /// Linux cooked capture
    Sll,
    /// Linux cooked capture, version 2
    Sll2,
    /// BSD loopback
    Null,
    /// No link layer
    Raw,
}

/// The format of the capture file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// pcap, nanoseconds, little-endian
    Pcap,
    /// pcap, microseconds, little-endian
    PcapUs,
    /// pcap, nanoseconds, big-endian
    PcapBe,
    /// pcapng, nanoseconds
    Pcapng,
}

/// Where the capture is written, and how.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Output")]
pub struct OutputOptions {
    /// Link layer; several with pcapng are interfaces that the connections take in turn
    #[arg(long, value_enum, default_values = ["ethernet"])]
    pub link: Vec<Link>,
    /// VLAN tag, the outermost first; may be given several times
    #[arg(long, value_parser = clap::value_parser!(u16).range(0..4096))]
    pub vlan: Vec<u16>,
    /// Wrap everything into VXLAN of this network identifier, as a mirror session does
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..1 << 24))]
    pub vxlan: Option<u32>,
    /// Format of the file
    #[arg(long, value_enum, default_value = "pcap")]
    pub format: Format,
    /// The capture file, or - for standard output
    #[arg(long)]
    pub out: PathBuf,
    /// Directory for truth.csv and server_truth.csv
    #[arg(long)]
    pub truth: Option<PathBuf>,
}

/// Reads a time with its unit, as nanoseconds.
fn parse_time_ns(text: &str) -> Result<u64, String> {
    let time = humantime::Duration::from_str(text).map_err(|error| error.to_string())?;
    u64::try_from(time.as_nanos()).map_err(|_| format!("'{text}' is too long"))
}

impl ComposeOptions {
    /// What in these options does not go together, if anything.
    pub fn contradiction(&self) -> Option<&'static str> {
        let links = &self.output.link;
        if links.len() > 1 && self.output.format != Format::Pcapng {
            return Some("a pcap file has one link layer: give --link once, or --format pcapng");
        }
        let without_tags = links.iter().any(|link| matches!(link, Link::Null | Link::Raw));
        if without_tags && !self.output.vlan.is_empty() {
            return Some("null and raw link layers have no VLAN tags");
        }
        if self.network.ipv6 && self.network.mtu < 1280 {
            return Some("IPv6 needs an MTU of at least 1280");
        }
        if self.output.vxlan.is_some() && self.network.mtu > 65_000 {
            return Some("a packet in VXLAN must itself fit into an IP packet: --mtu 65000 at most");
        }
        None
    }
}
