//! Every header, wrapping and pathology that the layers know, from packets written by hand.

use std::net::IpAddr;

use record::Timestamp;

use super::compose::*;
use super::*;
use crate::packet::LinkType;

mod fragments;
mod lengths;
mod links;
mod random;
mod tunnels;

/// What a captured segment amounts to, owned.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Parsed {
    source: String,
    destination: String,
    payload: Vec<u8>,
    payload_len: u32,
    timestamps: Option<TcpTimestamps>,
}

fn end(end: WireEnd) -> String {
    std::net::SocketAddr::new(end.addr, end.port).to_string()
}

/// A reader with what it has counted.
struct Bench {
    wire: Wire,
    stats: WireStats,
}

impl Bench {
    fn new() -> Self {
        Self { wire: Wire::new(1 << 20), stats: WireStats::default() }
    }

    fn packet(&mut self, packet: &Packet<'_>) -> Option<Parsed> {
        self.wire.parse(packet, &mut self.stats).map(|segment| Parsed {
            source: end(segment.source),
            destination: end(segment.destination),
            payload: segment.payload.to_vec(),
            payload_len: segment.payload_len,
            timestamps: segment.timestamps,
        })
    }

    fn whole(&mut self, link: LinkType, data: &[u8]) -> Option<Parsed> {
        self.packet(&Packet { time: Timestamp(0), link, data, wire_len: data.len() as u32 })
    }
}

/// Parses one whole packet.
fn parse(link: LinkType, data: &[u8]) -> (Option<Parsed>, WireStats) {
    let mut bench = Bench::new();
    let parsed = bench.whole(link, data);
    (parsed, bench.stats)
}

/// The payload that most packets here carry.
const PAYLOAD: &[u8] = b"d\0\0\0\x2epagestream";

fn v4() -> Vec<u8> {
    ipv4(protocol::TCP, &segment(PAYLOAD))
}

fn v6() -> Vec<u8> {
    ipv6(protocol::TCP, &segment(PAYLOAD))
}

/// What [`v4`] holds.
fn parsed_v4() -> Parsed {
    Parsed {
        source: "10.0.0.7:51344".into(),
        destination: "10.0.0.1:6400".into(),
        payload: PAYLOAD.to_vec(),
        payload_len: PAYLOAD.len() as u32,
        timestamps: Some(TcpTimestamps { value: 7, echo: 9 }),
    }
}

/// What [`v6`] holds.
fn parsed_v6() -> Parsed {
    Parsed { source: "[fd00::7]:51344".into(), destination: "[fd00::1]:6400".into(), ..parsed_v4() }
}

#[track_caller]
fn holds(link: LinkType, data: &[u8], expected: &Parsed) {
    assert_eq!(parse(link, data), (Some(expected.clone()), WireStats::default()));
}

#[track_caller]
fn is_skipped(link: LinkType, data: &[u8], expected: WireStats) {
    assert_eq!(parse(link, data), (None, expected));
}

#[test]
fn every_field_of_a_segment_is_what_the_headers_say() {
    let data = ethernet(0x0800, &v4());
    let packet = Packet { time: Timestamp(0), link: LinkType::Ethernet, data: &data, wire_len: data.len() as u32 };
    let (mut wire, mut stats) = (Wire::new(0), WireStats::default());
    let segment = wire.parse(&packet, &mut stats).unwrap();
    assert_eq!(segment.source, WireEnd { addr: IpAddr::from([10, 0, 0, 7]), port: 51344 });
    assert_eq!(segment.destination, WireEnd { addr: IpAddr::from([10, 0, 0, 1]), port: 6400 });
    assert_eq!((segment.seq, segment.ack, segment.window), (1000, 2000, 502));
    assert_eq!(segment.flags, TcpFlags(TcpFlags::ACK | TcpFlags::PSH));
    assert_eq!(segment.timestamps, Some(TcpTimestamps { value: 7, echo: 9 }));
    assert_eq!((segment.sacks, segment.ip_id), (false, 0x4242));
    assert_eq!((segment.payload, segment.payload_len), (PAYLOAD, PAYLOAD.len() as u32));
}
