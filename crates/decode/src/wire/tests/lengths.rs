//! Lengths that lie, packets that were cut, headers that vary.

use super::*;

fn counted(count: impl FnOnce(&mut WireStats)) -> WireStats {
    let mut stats = WireStats::default();
    count(&mut stats);
    stats
}

/// Sets the IPv4 total length of an Ethernet frame.
fn with_total_len(frame: &[u8], total_len: u16) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[16..18].copy_from_slice(&total_len.to_be_bytes());
    frame
}

#[test]
fn ethernet_padding_is_no_payload() {
    for padding in [1, 6, 300] {
        let padding = vec![0xee; padding];
        holds(LinkType::Ethernet, &concat(&[&ethernet(0x0800, &v4()), &padding]), &parsed_v4());
        holds(LinkType::Ethernet, &concat(&[&ethernet(0x86dd, &v6()), &padding]), &parsed_v6());
    }
}

#[test]
fn a_length_of_zero_stands_for_the_whole_packet_unless_that_may_be_padding() {
    let payload = vec![7; 20_000];
    let expected = Parsed { payload: payload.clone(), payload_len: 20_000, ..parsed_v4() };
    let offloaded = ethernet(0x0800, &ipv4(protocol::TCP, &segment(&payload)));
    holds(LinkType::Ethernet, &with_total_len(&offloaded, 0), &expected);

    let bare_ack = concat(&[&ethernet(0x0800, &ipv4(protocol::TCP, &tcp(&[], &[]))), &[0; 6]]);
    assert_eq!(bare_ack.len(), 60);
    is_skipped(LinkType::Ethernet, &with_total_len(&bare_ack, 0), counted(|stats| stats.malformed = 1));
}

#[test]
fn no_length_is_believed_beyond_the_wire() {
    holds(LinkType::Ethernet, &with_total_len(&ethernet(0x0800, &v4()), 9000), &parsed_v4());
    let mut packet = v6();
    packet[4..6].copy_from_slice(&9000u16.to_be_bytes());
    holds(LinkType::RawIp, &packet, &parsed_v6());
}

#[test]
fn a_length_shorter_than_the_headers_is_malformed() {
    let frame = ethernet(0x0800, &v4());
    for total_len in [1, 19, 20, 39, 51] {
        let malformed = counted(|stats| stats.malformed = 1);
        is_skipped(LinkType::Ethernet, &with_total_len(&frame, total_len), malformed);
    }
    let headers_only = Parsed { payload: vec![], payload_len: 0, ..parsed_v4() };
    holds(LinkType::Ethernet, &with_total_len(&frame, 52), &headers_only);
}

#[test]
fn a_capture_that_claims_less_on_the_wire_than_it_holds_is_not_believed() {
    let data = ethernet(0x0800, &v4());
    let packet = Packet { time: Timestamp(0), link: LinkType::Ethernet, data: &data, wire_len: 0 };
    assert_eq!(Bench::new().packet(&packet), Some(parsed_v4()));
}

#[test]
fn ipv4_options_are_stepped_over() {
    let packet = ipv4_with(0x4000, protocol::TCP, &[0x94, 4, 0, 0], &segment(PAYLOAD));
    holds(LinkType::RawIp, &packet, &parsed_v4());
    let mut short_header = v4();
    short_header[0] = 0x44;
    is_skipped(LinkType::RawIp, &short_header, counted(|stats| stats.malformed = 1));
}

#[test]
fn extension_headers_are_stepped_over_up_to_a_bound() {
    const DESTINATION: u8 = protocol::DESTINATION_OPTIONS;
    let authentication = concat(&[&[protocol::TCP, 4], &[0; 22], &segment(PAYLOAD)]);
    holds(LinkType::RawIp, &ipv6(protocol::AUTHENTICATION, &authentication), &parsed_v6());
    holds(LinkType::RawIp, &ipv4(protocol::AUTHENTICATION, &authentication), &parsed_v4());

    let routing = extension(protocol::AUTHENTICATION, &[4, 0, 0, 0, 0, 0, 0xfd], &authentication);
    let destination = extension(protocol::ROUTING, &[1, 20], &routing);
    let hop_by_hop = extension(DESTINATION, &[5, 2, 0, 0], &destination);
    holds(LinkType::RawIp, &ipv6(protocol::HOP_BY_HOP, &hop_by_hop), &parsed_v6());

    let atomic = concat(&[&fragment_header(protocol::TCP, 9, 0, false), &segment(PAYLOAD)]);
    holds(LinkType::RawIp, &ipv6(protocol::FRAGMENT, &atomic), &parsed_v6());

    let chain = |len: usize| {
        let last = extension(protocol::TCP, &[], &segment(PAYLOAD));
        ipv6(DESTINATION, &(1..len).fold(last, |body, _| extension(DESTINATION, &[], &body)))
    };
    holds(LinkType::RawIp, &chain(7), &parsed_v6());
    is_skipped(LinkType::RawIp, &chain(8), counted(|stats| stats.malformed = 1));
    is_skipped(LinkType::RawIp, &ipv6(protocol::NO_NEXT_HEADER, &[]), counted(|stats| stats.not_tcp = 1));
    is_skipped(LinkType::RawIp, &ipv6(58, &[0; 64]), counted(|stats| stats.not_tcp = 1));
    is_skipped(LinkType::RawIp, &ipv4(1, &[0; 64]), counted(|stats| stats.not_tcp = 1));
}

#[test]
fn big_tcp_packets_have_their_length_from_the_jumbo_option_or_from_the_wire() {
    let payload = vec![7; 100_000];
    let expected = Parsed { payload: payload.clone(), payload_len: 100_000, ..parsed_v6() };
    let jumbo = |len: u32| {
        let option = concat(&[&[0xc2, 4], &len.to_be_bytes()]);
        ipv6(protocol::HOP_BY_HOP, &extension(protocol::TCP, &option, &segment(&payload)))
    };
    let len = 8 + 32 + 100_000;
    holds(LinkType::RawIp, &jumbo(len), &expected);
    holds(LinkType::RawIp, &concat(&[&jumbo(len), &[0xee; 10]]), &expected);
    holds(LinkType::RawIp, &jumbo(u32::MAX), &expected);
    is_skipped(LinkType::RawIp, &jumbo(65_535), counted(|stats| stats.malformed = 1));
    holds(LinkType::RawIp, &ipv6(protocol::TCP, &segment(&payload)), &expected);
    let other_option = extension(protocol::TCP, &[1, 0, 0, 0x05, 2, 0, 0], &segment(&payload));
    holds(LinkType::RawIp, &ipv6(protocol::HOP_BY_HOP, &other_option), &expected);
}

#[test]
fn a_data_offset_that_cannot_be_is_malformed() {
    for (offset, malformed) in [(0u8, true), (4, true), (5, false), (15, true)] {
        let mut packet = v4();
        packet[32] = offset << 4;
        let (parsed, stats) = parse(LinkType::RawIp, &packet);
        assert_eq!((parsed.is_none(), stats.malformed == 1), (malformed, malformed), "{offset}");
    }
}

/// One packet of every shape that takes another path.
pub(super) fn shapes() -> Vec<(LinkType, Vec<u8>)> {
    let snap = concat(&[&[0xaa, 0xaa, 3, 0, 0, 0, 0x08, 0x00], &v4()]);
    let sack = concat(&[&TIMESTAMPS, &[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2]]);
    let authentication = concat(&[&[protocol::TCP, 4], &[0; 22], &segment(PAYLOAD)]);
    let routed = extension(protocol::AUTHENTICATION, &[4, 0], &authentication);
    vec![
        (LinkType::Ethernet, ethernet(0x0800, &v4())),
        (LinkType::Ethernet, ethernet(0x86dd, &v6())),
        (LinkType::Ethernet, ethernet(0x88a8, &vlan(0x8100, &vlan(0x0800, &v4())))),
        (LinkType::Ethernet, ethernet(snap.len() as u16, &snap)),
        (LinkType::LinuxSll, sll(0x0800, &ipv4_with(0, protocol::TCP, &[1; 8], &tcp(&sack, PAYLOAD)))),
        (LinkType::LinuxSll2, sll2(0x86dd, &ipv6(protocol::HOP_BY_HOP, &extension(protocol::ROUTING, &[], &routed)))),
        (LinkType::Null, concat(&[&[2, 0, 0, 0], &v4()])),
        (LinkType::RawIp, v6()),
        (LinkType::Ethernet, tunnels::vxlan(4789, &ethernet(0x0800, &v4()))),
        (LinkType::Ethernet, tunnels::geneve(0x6558, 8, &ethernet(0x86dd, &v6()))),
        (LinkType::Ethernet, tunnels::gre(0xb0, 0x88be, &tunnels::erspan_iii(true, &ethernet(0x0800, &v4())))),
    ]
}

#[test]
fn a_packet_cut_anywhere_gives_what_was_captured_and_the_length_it_had() {
    for (link, whole) in shapes() {
        let expected = parse(link, &whole).0.expect("each shape holds a segment");
        let headers_len = whole.len() - PAYLOAD.len();
        for len in 0..=whole.len() {
            let mut bench = Bench::new();
            let packet = Packet { time: Timestamp(0), link, data: &whole[..len], wire_len: whole.len() as u32 };
            let Some(cut) = bench.packet(&packet) else {
                assert_eq!(bench.stats.truncated_header, 1, "{link:?} cut to {len}: {:?}", bench.stats);
                assert!(len < headers_len, "{link:?} cut to {len} has all its headers");
                continue;
            };
            assert_eq!((&cut.source, &cut.destination), (&expected.source, &expected.destination));
            assert_eq!(cut.payload_len, PAYLOAD.len() as u32, "{link:?} cut to {len}");
            assert_eq!(cut.payload, PAYLOAD[..len.saturating_sub(headers_len)], "{link:?} cut to {len}");
        }
    }
}

#[test]
fn a_cut_inside_the_options_keeps_the_segment_and_complete_timestamps() {
    let whole = ethernet(0x0800, &ipv4(protocol::TCP, &tcp(&[&TIMESTAMPS[..], &[1, 1, 1, 1]].concat(), PAYLOAD)));
    for (len, timestamps) in [(54, false), (60, false), (65, false), (66, true), (68, true)] {
        let packet =
            Packet { time: Timestamp(0), link: LinkType::Ethernet, data: &whole[..len], wire_len: whole.len() as u32 };
        let cut = Bench::new().packet(&packet).unwrap();
        assert_eq!((cut.payload.len(), cut.payload_len), (0, PAYLOAD.len() as u32));
        assert_eq!(cut.timestamps.is_some(), timestamps, "cut to {len}");
    }
}
