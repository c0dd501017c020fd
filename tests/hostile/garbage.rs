//! Bytes without sense: random packets, and real ones with some bytes changed.

use decode::{Config, Decoder, LinkType, Packet};
use proptest::prelude::*;
use record::{Record, Timestamp};

use crate::floods::{composed, packets};
use crate::forged::{Forged, packet};
use crate::rng::Rng;

const LINKS: [LinkType; 8] = [
    LinkType::Ethernet,
    LinkType::Null,
    LinkType::Loop,
    LinkType::RawIp,
    LinkType::RawIpv4,
    LinkType::RawIpv6,
    LinkType::LinuxSll,
    LinkType::LinuxSll2,
];

/// Decodes everything; what matters is that it comes to an end, within the limit.
fn decode_all<'a>(packets: impl IntoIterator<Item = Packet<'a>>) -> Vec<Record> {
    let limit_bytes = 4 << 20;
    let mut decoder = Decoder::new(Config { page_hash: true, memory_limit_bytes: limit_bytes, ..Config::default() });
    let mut records = Vec::new();
    for packet in packets {
        decoder.packet(&packet, &mut records);
        assert!(decoder.memory_bytes() <= limit_bytes);
    }
    decoder.finish(&mut records);
    records
}

/// A segment of a connection between two ports, with numbers near one another so that they meet.
fn segment() -> impl Strategy<Value = (Forged, Vec<u8>, u64)> {
    let numbers = (0u16..3, any::<bool>(), 0u32..5000, 0u32..5000, any::<u8>());
    let message = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        (prop::sample::select(b"dQWZEcfXRSp".to_vec()), any::<u32>(), prop::collection::vec(any::<u8>(), 0..100))
            .prop_map(|(tag, length, body)| [&[tag][..], &length.to_be_bytes(), &body].concat()),
        (0u8..6, prop::collection::vec(any::<u8>(), 41))
            .prop_map(|(tag, body)| { [&[b'd', 0, 0, 0, 46, tag][..], &body].concat() }),
        Just(b"\0\0\0\x08\0\x03\0\0".to_vec()),
        Just(b"Q\0\0\0\x54pagestream_v2 3aabbf1a5d0f4e2a9d3c1b2a49505101 11223344556677889900aabbccdd0101\0".to_vec()),
    ];
    (numbers, message, 0u64..2_000_000_000).prop_map(|((port, is_from_client, seq, ack, flags), message, wait_ns)| {
        (Forged { client: 1, port: 5000 + port, is_from_client, seq, ack, flags }, message, wait_ns)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_packets_end_well(packets in prop::collection::vec((0usize..8, prop::collection::vec(any::<u8>(), 0..300), any::<u32>(), any::<u64>()), 1..20)) {
        let made = packets.iter().map(|(link, data, wire_len, time)| {
            Packet { time: Timestamp(*time), link: LINKS[*link], data, wire_len: (*wire_len).max(data.len() as u32) }
        });
        prop_assert!(decode_all(made).is_empty());
    }

    #[test]
    fn random_segments_end_well(segments in prop::collection::vec(segment(), 1..60)) {
        let (mut time_ns, mut frames) = (1_700_000_000_000_000_000, Vec::new());
        for (forged, payload, wait_ns) in &segments {
            let mut frame = Vec::new();
            forged.frame(payload, &mut frame);
            time_ns += wait_ns;
            frames.push((time_ns, frame));
        }
        decode_all(frames.iter().map(|(time_ns, frame)| packet(*time_ns, frame)));
    }
}

#[test]
fn real_traffic_with_changed_bytes_ends_well() {
    let file = composed(
        "--connections 3 --protocol mixed --requests 60 --depth 8 --kinds getpage=6,exists=1,nblocks=1,dbsize=1,slru=1",
    );
    let real = packets(&file);
    let mut records = 0;
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut changed: Vec<Vec<u8>> = real.iter().map(|packet| packet.data.to_vec()).collect();
        for _ in 0..40 {
            let which = rng.below(changed.len());
            let at = rng.below(changed[which].len().min(120));
            changed[which][at] = rng.bits() as u8;
        }
        let times = real.iter().map(|packet| packet.time.0);
        records += decode_all(times.zip(&changed).map(|(time_ns, data)| packet(time_ns, data))).len();
    }
    assert!(records > 300 * 40, "{records} records are left of 18,000");
}
