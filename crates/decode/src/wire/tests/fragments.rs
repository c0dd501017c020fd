//! IP fragments.

use super::*;

const MORE: u16 = 0x2000;
const SECOND_NS: u64 = 1_000_000_000;

/// The body of the datagrams that are cut up here: 3,032 bytes.
fn body() -> Vec<u8> {
    segment(&payload())
}

fn payload() -> Vec<u8> {
    (0..3000u32).map(|at| (at * 7 % 251) as u8).collect()
}

fn expected() -> Parsed {
    Parsed { payload: payload(), payload_len: 3000, ..parsed_v4() }
}

/// One IPv4 fragment, of bytes `start..end` of `body`.
fn piece(body: &[u8], start: usize, end: usize) -> Vec<u8> {
    let more = if end < body.len() { MORE } else { 0 };
    ipv4_with(more | (start / 8) as u16, protocol::TCP, &[], &body[start..end])
}

/// The body in pieces of `len` bytes.
fn pieces(len: usize) -> Vec<Vec<u8>> {
    let body = body();
    (0..body.len()).step_by(len).map(|start| piece(&body, start, body.len().min(start + len))).collect()
}

impl Bench {
    fn raw(&mut self, data: &[u8], time_ns: u64) -> Option<Parsed> {
        let packet = Packet { time: Timestamp(time_ns), link: LinkType::RawIp, data, wire_len: data.len() as u32 };
        self.packet(&packet)
    }

    fn all(&mut self, pieces: &[Vec<u8>]) -> Vec<Parsed> {
        pieces.iter().filter_map(|piece| self.raw(piece, 0)).collect()
    }

    /// Ends the capture and checks that every fragment has been accounted for.
    #[track_caller]
    fn end(mut self) -> WireStats {
        self.wire.finish(&mut self.stats);
        let stats = self.stats;
        let accounted = stats.fragments_joined + stats.fragment_copies + stats.fragments_dropped;
        assert_eq!(stats.fragments, accounted, "{stats:?}");
        stats
    }
}

#[test]
fn pieces_in_any_order_make_the_datagram() {
    let mut orders = vec![pieces(1480), pieces(8), pieces(1480)];
    orders[2].reverse();
    let mut reversed_small = pieces(64);
    reversed_small.reverse();
    orders.push(reversed_small);
    let small = pieces(32);
    let (even, odd): (Vec<_>, Vec<_>) = small.into_iter().enumerate().partition(|(at, _)| at % 2 == 0);
    orders.push(even.into_iter().chain(odd).map(|(_, piece)| piece).collect());
    for pieces in orders {
        let mut bench = Bench::new();
        assert_eq!(bench.all(&pieces), [expected()]);
        let stats = bench.end();
        assert_eq!((stats.fragments, stats.fragments_joined), (pieces.len() as u64, pieces.len() as u64));
        assert_eq!((stats.datagrams_joined, stats.fragments_dropped), (1, 0));
    }
}

#[test]
fn ipv6_pieces_make_the_datagram_with_the_headers_behind_the_fragment_header() {
    let body = extension(protocol::TCP, &[], &body());
    let piece = |start: usize, end: usize| {
        // The later pieces may name another protocol; the first one's counts.
        let next = if start == 0 { protocol::DESTINATION_OPTIONS } else { protocol::GRE };
        let header = fragment_header(next, 0xdead_beef, start as u16, end < body.len());
        ipv6(protocol::FRAGMENT, &concat(&[&header, &body[start..end]]))
    };
    let pieces = [piece(0, 1448), piece(1448, 2896), piece(2896, body.len())];
    for order in [[0, 1, 2], [1, 2, 0], [2, 0, 1]] {
        let mut bench = Bench::new();
        let whole = bench.all(&order.map(|at| pieces[at].clone()));
        assert_eq!(whole, [Parsed { payload: payload(), payload_len: 3000, ..parsed_v6() }]);
        assert_eq!(bench.end().fragments_joined, 3);
    }
}

#[test]
fn two_datagrams_do_not_mix() {
    let first = pieces(1480);
    let other: Vec<_> = first
        .iter()
        .map(|piece| {
            let mut piece = piece.clone();
            piece[5] ^= 1;
            piece[20..].iter_mut().skip(20).for_each(|byte| *byte = !*byte);
            piece
        })
        .collect();
    let mut bench = Bench::new();
    let mixed: Vec<_> = first.iter().zip(&other).flat_map(|(a, b)| [a.clone(), b.clone()]).collect();
    let whole = bench.all(&mixed);
    assert_eq!(whole.len(), 2);
    assert_eq!(whole[0], expected());
    assert_ne!(whole[1].payload, expected().payload);
}

#[test]
fn copies_change_nothing_before_or_after_the_datagram_is_whole() {
    let pieces = pieces(1480);
    let twice: Vec<_> = pieces.iter().flat_map(|piece| [piece.clone(), piece.clone()]).collect();
    let mut bench = Bench::new();
    assert_eq!(bench.all(&twice), [expected()]);
    let stats = bench.end();
    assert_eq!((stats.fragments_joined, stats.fragment_copies, stats.fragments_dropped), (3, 3, 0));
}

#[test]
fn an_identification_used_again_is_another_datagram() {
    let mut other = body();
    other[40..].iter_mut().for_each(|byte| *byte = !*byte);
    let mut bench = Bench::new();
    assert_eq!(bench.all(&pieces(1480)), [expected()]);
    let again: Vec<_> = [(0, 1480), (1480, 2960), (2960, 3032)].map(|(from, to)| piece(&other, from, to)).into();
    let whole = bench.all(&again);
    assert_eq!(whole.len(), 1);
    assert_eq!(whole[0].payload, other[32..]);
    assert_eq!(bench.end().datagrams_joined, 2);
}

#[test]
fn pieces_that_overlap_alike_are_joined() {
    let body = body();
    let mut bench = Bench::new();
    let overlapping = [piece(&body, 0, 1480), piece(&body, 800, 2000), piece(&body, 1600, body.len())];
    assert_eq!(bench.all(&overlapping), [expected()]);
}

#[test]
fn pieces_that_contradict_each_other_condemn_the_datagram_and_what_comes_later() {
    let body = body();
    let mut forged = body.clone();
    forged[1000] ^= 1;
    let mut bench = Bench::new();
    let contradicting = [piece(&body, 0, 1480), piece(&forged, 800, 2000)];
    assert_eq!(bench.all(&contradicting), []);
    assert_eq!(bench.all(&pieces(1480)), [], "the same identification stays condemned");
    assert_eq!((bench.stats.fragments, bench.stats.fragments_dropped), (5, 5));
    let after_the_timeout: Vec<_> = pieces(1480).iter().filter_map(|piece| bench.raw(piece, 31 * SECOND_NS)).collect();
    assert_eq!(after_the_timeout, [expected()]);
    bench.end();
}

#[test]
fn two_ends_or_bytes_behind_the_end_condemn_the_datagram() {
    let body = body();
    let last_too_early = ipv4_with((1480 / 8) as u16, protocol::TCP, &[], &body[1480..2000]);
    for wrong in [
        vec![piece(&body, 1480, body.len()), last_too_early.clone(), piece(&body, 0, 1480)],
        vec![last_too_early.clone(), piece(&body, 2000, 2800), piece(&body, 0, 1480)],
        vec![piece(&body, 1600, 2800), last_too_early, piece(&body, 0, 1480)],
    ] {
        let mut bench = Bench::new();
        assert_eq!(bench.all(&wrong), []);
        assert_eq!(bench.end().fragments_dropped, 3);
    }
}

#[test]
fn a_datagram_is_waited_for_as_long_as_a_receiver_would() {
    let pieces = pieces(1480);
    for (late_ns, is_whole) in [(30 * SECOND_NS, true), (30 * SECOND_NS + 1, false)] {
        let mut bench = Bench::new();
        assert_eq!(bench.raw(&pieces[0], 0), None);
        assert_eq!(bench.raw(&pieces[1], 1), None);
        assert_eq!(bench.raw(&pieces[2], late_ns).is_some(), is_whole);
        let stats = bench.end();
        assert_eq!(stats.fragments_dropped, if is_whole { 0 } else { 3 });
    }
}

#[test]
fn a_clock_that_steps_back_does_no_harm() {
    let pieces = pieces(1480);
    let mut bench = Bench::new();
    let times = [100 * SECOND_NS, 0, 50 * SECOND_NS];
    let whole: Vec<_> = pieces.iter().zip(times).filter_map(|(piece, time)| bench.raw(piece, time)).collect();
    assert_eq!(whole, [expected()]);
}

#[test]
fn bytes_and_datagrams_are_bounded_and_the_oldest_goes_first() {
    let with_id = |piece: &[u8], id: u16| {
        let mut piece = piece.to_vec();
        piece[4..6].copy_from_slice(&id.to_be_bytes());
        piece
    };
    for (max_bytes, waiting) in [(3 * 4096, 3), (1 << 20, 128)] {
        let mut bench = Bench { wire: Wire::new(max_bytes), stats: WireStats::default() };
        let pieces = pieces(1480);
        for id in 0..200 {
            assert_eq!(bench.raw(&with_id(&pieces[0], id), u64::from(id)), None);
        }
        assert_eq!(bench.stats.fragments_dropped, 200 - waiting, "{max_bytes}");
        for id in (0..200).rev() {
            assert_eq!(bench.raw(&with_id(&pieces[1], id), 1000), None);
            let whole = bench.raw(&with_id(&pieces[2], id), 1000).is_some();
            let held = u64::from(id) >= 200 - waiting;
            assert_eq!(whole, held, "{max_bytes} {id}");
            if u64::from(id) == 200 - waiting {
                break;
            }
        }
        bench.end();
    }
    let mut bench = Bench { wire: Wire::new(4095), stats: WireStats::default() };
    assert_eq!(bench.all(&[piece(&[1; 16_000], 8000, 16_000)]), []);
    assert_eq!(bench.end().fragments_dropped, 1);
}

#[test]
fn a_datagram_that_needs_more_room_takes_it_from_others() {
    let body = segment(&[9; 6000]);
    let mut other = piece(&body, 0, 1480);
    other[4] ^= 1;
    let mut bench = Bench { wire: Wire::new(8192), stats: WireStats::default() };
    assert_eq!(bench.raw(&piece(&body, 0, 1480), 0), None);
    assert_eq!(bench.raw(&other, 1), None);
    assert_eq!(bench.raw(&piece(&body, 1480, 4800), 2), None);
    let whole = bench.raw(&piece(&body, 4800, body.len()), 3).unwrap();
    assert_eq!(whole.payload, [9; 6000]);
    let stats = bench.end();
    assert_eq!((stats.fragments_joined, stats.fragments_dropped), (3, 1));
}

#[test]
fn too_many_islands_condemn_the_datagram() {
    let body = vec![1; 8 * 300];
    let islands: Vec<_> = (0..70).map(|at| piece(&body, at * 16, at * 16 + 8)).collect();
    let mut bench = Bench::new();
    assert_eq!(bench.all(&islands[..64]), []);
    assert_eq!(bench.stats.fragments_dropped, 0);
    assert_eq!(bench.all(&islands[64..]), []);
    assert_eq!(bench.stats.fragments_dropped, 70);
    bench.end();
}

#[test]
fn a_piece_cut_by_the_snap_length_condemns_its_datagram() {
    let pieces = pieces(1480);
    for (cut, kept_len) in [(0, 256), (1, 20 + 1400), (2, 20 + 40), (2, 20)] {
        let mut bench = Bench::new();
        for (at, piece) in pieces.iter().enumerate() {
            let data = if at == cut { &piece[..kept_len] } else { &piece[..] };
            let packet = Packet { time: Timestamp(0), link: LinkType::RawIp, data, wire_len: piece.len() as u32 };
            assert_eq!(bench.packet(&packet), None, "piece {cut} cut to {kept_len}");
        }
        assert_eq!(bench.end().fragments_dropped, 3);
    }
}

#[test]
fn pieces_that_no_sender_makes_are_malformed() {
    let body = body();
    let odd_length = ipv4_with(MORE, protocol::TCP, &[], &body[..1479]);
    let nothing = ipv4_with(MORE | 1, protocol::TCP, &[], &[]);
    let ping_of_death = ipv4_with(0x1fff, protocol::TCP, &[], &body[..1480]);
    let mut beyond_the_wire = piece(&body, 0, 1480);
    beyond_the_wire[2..4].copy_from_slice(&1508u16.to_be_bytes());
    let mut no_length = piece(&body, 0, 1480);
    no_length[2..4].copy_from_slice(&0u16.to_be_bytes());
    for wrong in [odd_length, nothing, ping_of_death, beyond_the_wire, no_length] {
        is_skipped(LinkType::RawIp, &wrong, WireStats { malformed: 1, ..WireStats::default() });
    }
}

#[test]
fn teardrop_is_harmless() {
    // The second piece lies within the first and ends before it.
    let teardrop = [ipv4_with(MORE, protocol::UDP, &[], &[0; 40]), ipv4_with(3, protocol::UDP, &[], &[0; 4])];
    let mut bench = Bench::new();
    assert_eq!(bench.all(&teardrop), []);
    assert_eq!(bench.end().fragments_dropped, 2);
}

#[test]
fn fragments_of_other_protocols_are_not_kept() {
    let ping = ipv4_with(MORE, 1, &[], &[0; 1480]);
    is_skipped(LinkType::RawIp, &ping, WireStats { not_tcp: 1, ..WireStats::default() });
}

#[test]
fn a_tunnel_that_came_in_fragments_is_unwrapped_and_so_are_fragments_in_a_tunnel() {
    let vxlan = &tunnels::vxlan(4789, &ethernet(0x0800, &ipv4(protocol::TCP, &body())))[34..];
    let outer = |start: usize, end: usize| {
        let more = if end < vxlan.len() { MORE } else { 0 };
        ipv4_with(more | (start / 8) as u16, protocol::UDP, &[], &vxlan[start..end])
    };
    let mut bench = Bench::new();
    assert_eq!(bench.all(&[outer(1480, vxlan.len()), outer(0, 1480)]), [expected()]);
    assert_eq!(bench.end().tunnelled, 1);

    let mut bench = Bench::new();
    let inner: Vec<_> =
        pieces(1400).iter().map(|piece| tunnels::vxlan(4789, &ethernet(0x0800, piece))[14..].to_vec()).collect();
    assert_eq!(bench.all(&inner), [expected()]);
    assert_eq!(bench.end().tunnelled, 3);
}

#[test]
fn fragments_within_fragments_are_counted_as_dropped() {
    let inner = ipv4_with(MORE, protocol::TCP, &[], &body()[..1480]);
    let half = inner.len() / 16 * 8;
    let mut bench = Bench::new();
    let outer = [
        ipv4_with(MORE, protocol::IPV4, &[], &inner[..half]),
        ipv4_with((half / 8) as u16, protocol::IPV4, &[], &inner[half..]),
    ];
    assert_eq!(bench.all(&outer), []);
    let stats = bench.end();
    assert_eq!((stats.fragments, stats.fragments_joined, stats.fragments_dropped), (3, 2, 1));
}
