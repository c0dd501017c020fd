//! From a captured packet to a TCP segment: link, IP and TCP headers, without copying.
//!
//! Wrong checksums are ignored (offloading NICs leave them unset), lengths are taken from the IP header but never
//! believed beyond what the packet had on the wire, and what cannot be read is counted by reason.

use std::net::IpAddr;

/// One end of a TCP connection as it stands in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WireEnd {
    /// IPv4 or IPv6 address.
    pub addr: IpAddr,
    /// TCP port.
    pub port: u16,
}

/// The TCP flags that matter here (RFC 9293, section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// FIN: no more data from the sender.
    pub const FIN: u8 = 0x01;
    /// SYN: synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// RST: reset the connection.
    pub const RST: u8 = 0x04;
    /// PSH: push function.
    pub const PSH: u8 = 0x08;
    /// ACK: the acknowledgement field is significant.
    pub const ACK: u8 = 0x10;

    /// Whether FIN is set.
    pub const fn fin(self) -> bool {
        self.0 & Self::FIN != 0
    }
    /// Whether SYN is set.
    pub const fn syn(self) -> bool {
        self.0 & Self::SYN != 0
    }
    /// Whether RST is set.
    pub const fn rst(self) -> bool {
        self.0 & Self::RST != 0
    }
    /// Whether ACK is set.
    pub const fn ack(self) -> bool {
        self.0 & Self::ACK != 0
    }
}

/// The timestamps option (RFC 7323).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpTimestamps {
    /// `TSval`: the sender's clock.
    pub value: u32,
    /// `TSecr`: what the sender last heard from the other end.
    pub echo: u32,
}

/// One TCP segment.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    /// Who sent it.
    pub source: WireEnd,
    /// Who is to get it.
    pub destination: WireEnd,
    /// SEG.SEQ.
    pub seq: u32,
    /// SEG.ACK; significant with the ACK flag only.
    pub ack: u32,
    /// The flags.
    pub flags: TcpFlags,
    /// SEG.WND, unscaled.
    pub window: u16,
    /// The timestamps option, where there is one.
    pub timestamps: Option<TcpTimestamps>,
    /// Whether a SACK option with at least one block is there (RFC 2018): the sender has a hole in what it received.
    pub sacks: bool,
    /// IPv4 identification, or 0; with the rest of the header it tells a mirrored copy from a retransmission.
    pub ip_id: u16,
    /// The payload bytes that were captured.
    pub payload: &'a [u8],
    /// How many payload bytes the segment had on the wire: at least `payload.len()`, more where the snap length cut it.
    pub payload_len: u32,
}
