//! Composed traffic in memory.

use std::ops::Range;

use clap::Parser;
use decode::{Config, Decoder, LinkType, Packet, Sink};
use record::Timestamp;
use trafficgen::compose::{ComposeOptions, compose_into};

/// pcap's file header, and the header of each packet.
const FILE_HEADER_BYTES: usize = 24;
const PACKET_HEADER_BYTES: usize = 16;

#[derive(Parser)]
struct Words {
    #[command(flatten)]
    options: ComposeOptions,
}

/// A capture file's packets.
pub(crate) struct Traffic {
    bytes: Vec<u8>,
    packets: Vec<(Timestamp, Range<usize>, u32)>,
}

impl Traffic {
    /// Composes what `trafficgen compose` would with these options.
    pub(crate) fn compose(options: &str) -> Self {
        let words = Words::parse_from(["compose", "--out", "-"].into_iter().chain(options.split_whitespace()));
        let mut bytes = Vec::new();
        compose_into(&mut bytes, words.options).unwrap();
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let mut packets = Vec::new();
        let mut at = FILE_HEADER_BYTES;
        while at < bytes.len() {
            let time = Timestamp(u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4)));
            let data = at + PACKET_HEADER_BYTES..at + PACKET_HEADER_BYTES + word(at + 8) as usize;
            let wire_len = word(at + 12);
            at = data.end;
            packets.push((time, data, wire_len));
        }
        Self { bytes, packets }
    }

    /// The packets in their order.
    pub(crate) fn packets(&self) -> impl Iterator<Item = Packet<'_>> {
        self.packets.iter().map(|(time, data, wire_len)| Packet {
            time: *time,
            link: LinkType::Ethernet,
            data: &self.bytes[data.clone()],
            wire_len: *wire_len,
        })
    }

    /// Decodes everything.
    pub(crate) fn decode(&self, config: &Config, sink: &mut impl Sink) {
        let mut decoder = Decoder::new(config.clone());
        for packet in self.packets() {
            decoder.packet(&packet, sink);
        }
        decoder.finish(sink);
    }
}
