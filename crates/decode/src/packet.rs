//! What goes into the decoder: one captured packet.

use record::Timestamp;

/// One packet as the capture delivered it.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// When the capture stamped it.
    pub time: Timestamp,
    /// What its first bytes are.
    pub link: LinkType,
    /// The bytes that were captured.
    pub data: &'a [u8],
    /// How many bytes it had on the wire; more than `data` holds where the snap length cut it.
    pub wire_len: u32,
}

/// The link-layer header in front of the IP header, by the numbers of <https://www.tcpdump.org/linktypes.html>.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// 1: Ethernet.
    Ethernet,
    /// 0: BSD loopback, the address family in the byte order of the machine that captured.
    Null,
    /// 108: OpenBSD loopback, the address family in network byte order.
    Loop,
    /// 12, 14 and 101: no link header, IPv4 or IPv6 by the version nibble.
    RawIp,
    /// 228: IPv4 without link header.
    RawIpv4,
    /// 229: IPv6 without link header.
    RawIpv6,
    /// 113: Linux cooked capture (`-i any` until libpcap 1.10).
    LinuxSll,
    /// 276: Linux cooked capture, version 2.
    LinuxSll2,
}

impl LinkType {
    /// The link type of a capture file's number, or `None` where it is not one that pagesniff reads.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Null),
            1 => Some(Self::Ethernet),
            12 | 14 | 101 => Some(Self::RawIp),
            108 => Some(Self::Loop),
            113 => Some(Self::LinuxSll),
            228 => Some(Self::RawIpv4),
            229 => Some(Self::RawIpv6),
            276 => Some(Self::LinuxSll2),
            _ => None,
        }
    }
}
