//! What is to be generated, whichever way.

use std::fmt;
use std::str::FromStr;

use record::{Protocol, TenantTimeline};

use super::kinds::KindMix;
use super::latency::Latency;
use super::pattern::Pattern;
use super::tenant::owner;

/// Which versions the connections speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolMix {
    /// All the same.
    Only(Protocol),
    /// Versions 3, 2 and 1 in turn.
    Mixed,
}

impl ProtocolMix {
    /// The version of a connection, by its number.
    pub const fn of(self, connection: u32) -> Protocol {
        match (self, connection % 3) {
            (Self::Only(protocol), _) => protocol,
            (Self::Mixed, 0) => Protocol::V3,
            (Self::Mixed, 1) => Protocol::V2,
            (Self::Mixed, _) => Protocol::V1,
        }
    }
}

impl fmt::Display for ProtocolMix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Only(protocol) => write!(f, "{protocol}"),
            Self::Mixed => f.write_str("mixed"),
        }
    }
}

impl FromStr for ProtocolMix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "1" => Ok(Self::Only(Protocol::V1)),
            "2" => Ok(Self::Only(Protocol::V2)),
            "3" => Ok(Self::Only(Protocol::V3)),
            "mixed" => Ok(Self::Mixed),
            _ => Err(format!("'{text}' is no protocol version: 1, 2, 3 or mixed")),
        }
    }
}

/// Reads a share: a number in 0..=1.
pub(crate) fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(format!("'{text}' is no share: a number from 0 to 1")),
    }
}

/// Who asks what, how deep and how fast. These are also the options that `compose`, `drive` and `run` share.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Workload")]
pub struct Workload {
    /// Everything is drawn from this number
    #[arg(long, default_value_t = Self::default().seed)]
    pub seed: u64,
    /// Tenants; the connections are spread over them in turn
    #[arg(long, default_value_t = Self::default().tenants, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub tenants: u32,
    /// Timelines of each tenant
    #[arg(long, default_value_t = Self::default().timelines, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub timelines: u32,
    /// Connections, each one backend of a compute
    #[arg(long, default_value_t = Self::default().connections, value_parser = clap::value_parser!(u32).range(..=60_000))]
    pub connections: u32,
    /// Version of the protocol: 1, 2, 3 or mixed
    #[arg(long, default_value_t = Self::default().protocol)]
    pub protocol: ProtocolMix,
    /// GetPage requests in flight on a connection; up to 8 are flushed at once
    #[arg(long, default_value_t = Self::default().depth, value_parser = clap::value_parser!(u32).range(1..=128))]
    pub depth: u32,
    /// Requests of all connections together
    #[arg(long, default_value_t = Self::default().requests)]
    pub requests: u64,
    /// Pages that each tenant has
    #[arg(long, default_value_t = Self::default().pages, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub pages: u64,
    /// sequential, uniform, zipf, zipf:EXPONENT, hot-set or hot-set:PAGES:REQUESTS
    #[arg(long, default_value_t = Self::default().pattern)]
    pub pattern: Pattern,
    /// Weights of the kinds of request
    #[arg(long, default_value_t = Self::default().kinds)]
    pub kinds: KindMix,
    /// How long a batch takes: fixed:TIME, exponential:MEAN or lognormal:MEDIAN:SIGMA
    #[arg(long, default_value_t = Self::default().latency)]
    pub latency: Latency,
    /// Share of the requests that are answered with an error (tag 103)
    #[arg(long, default_value_t = Self::default().error_rate, value_parser = parse_share)]
    pub error_rate: f64,
    /// Share of the GetPage requests that lie past the relation's end, and get an all-zero page
    #[arg(long, default_value_t = Self::default().zero_rate, value_parser = parse_share)]
    pub zero_rate: f64,
    /// Every so many connections one belongs to a standby, which asks at concrete LSNs (0: none)
    #[arg(long, default_value_t = Self::default().replica_every)]
    pub replica_every: u32,
    /// All requests flushed at once carry one id, as Neon's pagebench does it
    #[arg(long)]
    pub shared_batch_ids: bool,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            seed: 1,
            tenants: 1,
            timelines: 1,
            connections: 1,
            protocol: ProtocolMix::Only(Protocol::V3),
            depth: 16,
            requests: 1000,
            pages: 10_000,
            pattern: Pattern::Uniform,
            kinds: KindMix::USUAL,
            latency: Latency::LogNormal { median_ns: 200_000, sigma: 0.6 },
            error_rate: 0.0,
            zero_rate: 0.0,
            replica_every: 4,
            shared_batch_ids: false,
        }
    }
}

/// The first backend's process id, as far from the others as ids of busy computes are.
const FIRST_PID: u32 = 20_000;

impl Workload {
    /// The number of a connection's tenant.
    pub const fn tenant_of(&self, connection: u32) -> u32 {
        connection % self.tenants
    }

    /// The tenant and timeline of a connection.
    pub const fn owner_of(&self, connection: u32) -> TenantTimeline {
        owner(self.tenant_of(connection), connection / self.tenants % self.timelines)
    }

    /// The process id of a connection's backend.
    pub const fn backend_pid(&self, connection: u32) -> u32 {
        FIRST_PID + connection * 7
    }

    /// Whether a connection belongs to a standby.
    pub const fn is_replica(&self, connection: u32) -> bool {
        self.replica_every > 0 && connection % self.replica_every == self.replica_every - 1
    }

    /// A connection's share of the requests.
    pub fn requests_of(&self, connection: u32) -> u64 {
        let connections = u64::from(self.connections.max(1));
        self.requests / connections + u64::from(u64::from(connection) < self.requests % connections)
    }
}
