//! What holds for any bytes at all.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

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

/// Parses and checks what must hold whatever the bytes are; returns the payload of the segment, if there is one.
fn check(bench: &mut Bench, packet: &Packet<'_>) -> Option<Vec<u8>> {
    if let Some(fast) = ordinary(packet) {
        // Debug shows every field, the payload's bytes among them.
        let mut other = Bench::new();
        let slow = other.wire.unusual(packet, &mut other.stats);
        assert_eq!(format!("{:?}", Some(fast)), format!("{slow:?}"), "the fast path and the slow one agree");
    }
    let joined_before = bench.stats.datagrams_joined;
    let segment = bench.wire.parse(packet, &mut bench.stats)?;
    assert!(segment.payload.len() as u32 <= segment.payload_len);
    if bench.stats.datagrams_joined == joined_before {
        assert!(segment.payload_len <= packet.wire_len);
        let range = packet.data.as_ptr_range();
        assert!(segment.payload.is_empty() || range.contains(&segment.payload.as_ptr()), "not a copy");
    }
    Some(segment.payload.to_vec())
}

/// Each packet is counted once, each fragment too.
fn check_ledger(mut bench: Bench, packets: u64, segments: u64) {
    bench.wire.finish(&mut bench.stats);
    let stats = bench.stats;
    let passed_over = stats.not_ip + stats.not_tcp + stats.truncated_header + stats.malformed;
    assert_eq!(packets, segments + passed_over + stats.fragments - stats.datagrams_joined, "{stats:?}");
    let accounted = stats.fragments_joined + stats.fragment_copies + stats.fragments_dropped;
    assert_eq!(stats.fragments, accounted, "{stats:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes_do_no_harm(data in proptest::collection::vec(any::<u8>(), 0..200), missing in 0u32..2000) {
        let mut bench = Bench::new();
        let mut segments = 0;
        for link in LINKS {
            let packet = Packet { time: Timestamp(0), link, data: &data, wire_len: data.len() as u32 + missing };
            segments += u64::from(check(&mut bench, &packet).is_some());
        }
        check_ledger(bench, LINKS.len() as u64, segments);
    }

    #[test]
    fn damaged_packets_do_no_harm(
        shape in any::<proptest::sample::Index>(),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
        kept in any::<proptest::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let shapes = lengths::shapes();
        let (link, mut data) = shapes[shape.index(shapes.len())].clone();
        for (at, byte) in damage {
            let at = at.index(data.len());
            data[at] = byte;
        }
        let wire_len = data.len() as u32;
        if cut {
            data.truncate(kept.index(data.len()));
        }
        let mut bench = Bench::new();
        let packet = Packet { time: Timestamp(0), link, data: &data, wire_len };
        let segments = u64::from(check(&mut bench, &packet).is_some());
        check_ledger(bench, 1, segments);
    }

    /// Small offsets, lengths and few identifications, so that pieces meet, repeat and contradict each other.
    #[test]
    fn whatever_is_joined_is_what_the_fragments_hold(
        fragments in proptest::collection::vec((0u16..6, 1usize..4, any::<bool>(), 0u8..3, 0u8..8, any::<bool>()), 1..40),
        max_bytes in prop_oneof![Just(0usize), Just(4096), Just(1 << 20)],
    ) {
        let mut bench = Bench { wire: Wire::new(max_bytes), stats: WireStats::default() };
        let mut segments = 0;
        // What each datagram was given, by the place in it.
        let mut given: HashSet<(bool, u8, usize, Vec<u8>)> = HashSet::new();
        for (at, &(offset, units, more, id, forged, ipv6_too)) in fragments.iter().enumerate() {
            let whole = segment(&[0x5a; 40]);
            let start = usize::from(offset) * 8;
            let mut body = whole[start..(start + units * 8).min(whole.len())].to_vec();
            // One piece in eight differs from what the others have in its place.
            if forged == 0 {
                body[0] ^= 0xff;
            }
            let data = if ipv6_too {
                let header = fragment_header(protocol::TCP, u32::from(id), offset * 8, more);
                ipv6(protocol::FRAGMENT, &concat(&[&header, &body]))
            } else {
                let mut data = ipv4_with(offset | if more { 0x2000 } else { 0 }, protocol::TCP, &[], &body);
                data[5] = id;
                data
            };
            let time = Timestamp(at as u64 * 1_000_000_000);
            let packet = Packet { time, link: LinkType::RawIp, data: &data, wire_len: data.len() as u32 };
            for (unit, bytes) in body.chunks(8).enumerate() {
                given.insert((ipv6_too, id, start / 8 + unit, bytes.to_vec()));
            }
            if let Some(payload) = check(&mut bench, &packet) {
                segments += 1;
                for (unit, bytes) in payload.chunks(8).enumerate() {
                    prop_assert!(given.contains(&(ipv6_too, id, 4 + unit, bytes.to_vec())), "{unit}: {bytes:?}");
                }
            }
        }
        check_ledger(bench, fragments.len() as u64, segments);
    }
}
