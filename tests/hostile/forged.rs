//! Segments that nobody sent: Ethernet, IPv4 and TCP headers around any payload.

use decode::{LinkType, Packet};
use record::Timestamp;

pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;
pub(crate) const FIN: u8 = 1;

/// The fields of a segment that an attacker chooses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forged {
    pub(crate) client: u32,
    pub(crate) port: u16,
    pub(crate) is_from_client: bool,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
}

/// The page service's end in forged traffic.
const SERVER: u32 = 0x0a7f_0001;

impl Forged {
    /// The frame, into a buffer that is used again and again.
    pub(crate) fn frame<'a>(&self, payload: &[u8], frame: &'a mut Vec<u8>) -> &'a [u8] {
        let ((source, from), (destination, to)) = match self.is_from_client {
            true => ((self.client, self.port), (SERVER, 6400)),
            false => ((SERVER, 6400), (self.client, self.port)),
        };
        let total = u16::try_from(40 + payload.len()).unwrap();
        frame.clear();
        frame.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0]);
        frame.extend(total.to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        frame.extend(source.to_be_bytes());
        frame.extend(destination.to_be_bytes());
        frame.extend(from.to_be_bytes());
        frame.extend(to.to_be_bytes());
        frame.extend(self.seq.to_be_bytes());
        frame.extend(self.ack.to_be_bytes());
        frame.extend([0x50, self.flags, 0xff, 0xff, 0, 0, 0, 0]);
        frame.extend_from_slice(payload);
        frame
    }
}

pub(crate) fn packet(time_ns: u64, data: &[u8]) -> Packet<'_> {
    let wire_len = u32::try_from(data.len()).unwrap();
    Packet { time: Timestamp(time_ns), link: LinkType::Ethernet, data, wire_len }
}
