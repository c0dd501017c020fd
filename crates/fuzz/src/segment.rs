//! Segments in Ethernet and IPv4, and packets that own their bytes.

use decode::{LinkType, Packet};
use record::Timestamp;

/// FIN, SYN, RST, PSH, ACK.
pub const FIN: u8 = 0x01;
/// See [`FIN`].
pub const SYN: u8 = 0x02;
/// See [`FIN`].
pub const RST: u8 = 0x04;
/// See [`FIN`].
pub const ACK: u8 = 0x10;

/// The most payload that fits into an IPv4 datagram behind the longest headers written here.
pub const MAX_PAYLOAD_BYTES: usize = 65_535 - 20 - 60;

/// The page service's port.
pub const SERVER_PORT: u16 = decode::DEFAULT_PORT;

/// Link types by number; inputs name them by their place here.
pub const LINKS: [LinkType; 8] = [
    LinkType::Ethernet,
    LinkType::Null,
    LinkType::Loop,
    LinkType::RawIp,
    LinkType::RawIpv4,
    LinkType::RawIpv6,
    LinkType::LinuxSll,
    LinkType::LinuxSll2,
];

/// A captured packet.
#[derive(Debug, Clone)]
pub struct Owned {
    /// When it was captured.
    pub time: Timestamp,
    /// What its first bytes are.
    pub link: LinkType,
    /// What was captured of it.
    pub data: Vec<u8>,
    /// Its length on the wire.
    pub wire_len: u32,
}

impl Owned {
    /// The same, borrowed.
    pub fn packet(&self) -> Packet<'_> {
        Packet { time: self.time, link: self.link, data: &self.data, wire_len: self.wire_len }
    }
}

/// What a segment says in front of its payload.
#[derive(Debug, Clone, Copy, Default)]
pub struct Header {
    /// Last byte of the client's address; the server is 10.0.0.1.
    pub client: u8,
    /// The client's port.
    pub port: u16,
    /// Which way it goes.
    pub is_from_client: bool,
    /// SEG.SEQ.
    pub seq: u32,
    /// SEG.ACK.
    pub ack: u32,
    /// The flags.
    pub flags: u8,
    /// IPv4 identification.
    pub ip_id: u16,
    /// TSval and TSecr, where the option is there.
    pub stamps: Option<(u32, u32)>,
    /// The block of a SACK option, where the option is there.
    pub sack: Option<(u32, u32)>,
}

impl Header {
    /// The frame around a payload of at most [`MAX_PAYLOAD_BYTES`].
    pub fn frame(&self, payload: &[u8]) -> Vec<u8> {
        let mut options = Vec::new();
        if let Some((value, echo)) = self.stamps {
            options.extend([1, 1, 8, 10]);
            options.extend(value.to_be_bytes());
            options.extend(echo.to_be_bytes());
        }
        if let Some((from, to)) = self.sack {
            options.extend([1, 1, 5, 10]);
            options.extend(from.to_be_bytes());
            options.extend(to.to_be_bytes());
        }
        let client = ([10, 0, 1, self.client], self.port);
        let server = ([10, 0, 0, 1], SERVER_PORT);
        let (source, destination) = if self.is_from_client { (client, server) } else { (server, client) };
        let total_len = u16::try_from(40 + options.len() + payload.len()).expect("a payload that fits");
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
        frame.extend(total_len.to_be_bytes());
        frame.extend(self.ip_id.to_be_bytes());
        frame.extend([0x40, 0, 64, 6, 0, 0]);
        frame.extend(source.0);
        frame.extend(destination.0);
        frame.extend(source.1.to_be_bytes());
        frame.extend(destination.1.to_be_bytes());
        frame.extend(self.seq.to_be_bytes());
        frame.extend(self.ack.to_be_bytes());
        frame.extend([(5 + options.len() as u8 / 4) << 4, self.flags, 0xff, 0xff, 0, 0, 0, 0]);
        frame.extend(options);
        frame.extend_from_slice(payload);
        frame
    }

    /// The packet around a payload, of which the capture keeps all but the last `cut` bytes.
    pub fn packet(&self, time: Timestamp, payload: &[u8], cut: usize) -> Owned {
        let mut data = self.frame(payload);
        let wire_len = data.len() as u32;
        data.truncate(data.len() - cut.min(payload.len()));
        Owned { time, link: LinkType::Ethernet, data, wire_len }
    }
}
