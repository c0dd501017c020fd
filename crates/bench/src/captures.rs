//! The captures that are measured on.

use std::fmt;

use clap::ValueEnum;

/// A capture, by what is special about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// 32 connections, packets of at most 1500 bytes
    Mtu1500,
    /// The same, with packets as long as offloading makes them
    Offload,
    /// 10,000 connections
    Connections10k,
    /// Requests and acknowledgements only
    RequestsOnly,
    /// Packets lost on the wire, sent again, and out of order
    Lossy,
    /// Packets cut to 256 bytes
    Snap256,
}

impl Name {
    pub(crate) const ALL: [Self; 6] =
        [Self::Mtu1500, Self::Offload, Self::Connections10k, Self::RequestsOnly, Self::Lossy, Self::Snap256];

    /// trafficgen's options for it, without those for its length and its place.
    pub(crate) fn options(self) -> &'static str {
        match self {
            Self::Mtu1500 => "--connections 32 --depth 32 --kinds getpage=1",
            Self::Offload => "--connections 32 --depth 32 --kinds getpage=1 --mtu 65535",
            Self::Connections10k => "--connections 10000 --depth 32 --kinds getpage=1",
            Self::RequestsOnly => "--connections 32 --depth 32 --kinds getpage=1 --one-side client",
            Self::Lossy => "--connections 32 --depth 32 --kinds getpage=1 --loss 0.005 --reorder 0.01",
            Self::Snap256 => "--connections 32 --depth 32 --kinds getpage=1 --cut 256",
        }
    }

    /// How many requests make a capture of so many bytes.
    pub(crate) fn requests(self, bytes: u64) -> u64 {
        // What one request and its answer take in the file, as measured.
        let request_bytes = match self {
            Self::Mtu1500 | Self::Lossy => 9_000,
            Self::Offload => 8_400,
            Self::Connections10k => 9_200,
            Self::RequestsOnly => 300,
            Self::Snap256 => 2_000,
        };
        bytes / request_bytes
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}
