//! Packets of any link type through the wire layer.
//!
//! Input: packets, each `link and seconds, cut, count u16, bytes`. The low three bits of the first byte name the link type, the
//! others are seconds since the packet before; `cut` bytes more were on the wire than are there.

use decode::wire::{Segment, Wire};
use decode::{LinkType, Packet, WireStats};
use etherparse::{SlicedPacket, TransportSlice};
use record::Timestamp;

use crate::input::Input;
use crate::segment::LINKS;

/// Enough for every bound on fragments to be met.
const MAX_PACKETS: usize = 300;

/// What fragments may take, in bytes: little, so that it is met.
const FRAGMENT_BYTES: usize = 64 << 10;

/// Packets that are also looked at with every shorter snap length; it takes time.
const CUT_PACKETS: usize = 4;

/// Runs the target.
pub fn check(data: &[u8]) {
    let mut input = Input(data);
    let (mut wire, mut stats) = (Wire::new(FRAGMENT_BYTES), WireStats::default());
    let (mut time, mut packets, mut segments) = (Timestamp(1_700_000_000_000_000_000), 0, 0);
    while !input.is_empty() && packets < MAX_PACKETS {
        let first = input.byte();
        let link = LINKS[usize::from(first & 7)];
        time = time.plus(u64::from(first >> 3) * 1_000_000_000);
        let cut = input.byte();
        let data = input.counted();
        let packet = Packet { time, link, data, wire_len: data.len() as u32 + u32::from(cut) };
        let fragments_before = stats.fragments;
        let segment = wire.parse(&packet, &mut stats);
        if let Some(segment) = &segment {
            segments += 1;
            check_segment(segment, &packet, stats.fragments > fragments_before);
        }
        let is_whole = stats.fragments == fragments_before;
        if is_whole && packets < CUT_PACKETS {
            check_cuts(&packet, segment.as_ref());
        }
        if is_whole && cut == 0 {
            check_against_other_reader(&packet);
        }
        packets += 1;
    }
    wire.finish(&mut stats);
    check_counters(&stats, packets as u64, segments);
}

fn check_counters(stats: &WireStats, packets: u64, segments: u64) {
    let skipped = stats.not_ip + stats.not_tcp + stats.truncated_header + stats.malformed;
    assert_eq!(packets, segments + skipped + stats.fragments - stats.datagrams_joined, "{stats:?}");
    assert_eq!(stats.fragments, stats.fragments_joined + stats.fragment_copies + stats.fragments_dropped, "{stats:?}");
}

/// The payload is the packet's, unless it was put together, and no longer than the packet was.
fn check_segment(segment: &Segment<'_>, packet: &Packet<'_>, is_joined: bool) {
    assert!(segment.payload.len() <= segment.payload_len as usize, "{segment:?}");
    if is_joined {
        assert!(segment.payload_len <= 65_535, "a datagram of {} bytes", segment.payload_len);
        return;
    }
    assert!(segment.payload_len <= packet.wire_len, "{segment:?}");
    let (whole, part) = (packet.data.as_ptr_range(), segment.payload.as_ptr_range());
    assert!(segment.payload.is_empty() || whole.start <= part.start && part.end <= whole.end, "{segment:?}");
}

/// A snap length takes knowledge away; it never changes what is left.
fn check_cuts(packet: &Packet<'_>, whole: Option<&Segment<'_>>) {
    for captured in 0..packet.data.len().min(160) {
        let cut = Packet { data: &packet.data[..captured], ..*packet };
        let (mut wire, mut stats) = (Wire::new(0), WireStats::default());
        let Some(segment) = wire.parse(&cut, &mut stats) else { continue };
        let Some(whole) = whole else {
            panic!("a segment in {captured} bytes of a packet that has none: {segment:?}");
        };
        assert_eq!(
            (
                segment.source,
                segment.destination,
                segment.seq,
                segment.ack,
                segment.flags,
                segment.window,
                segment.ip_id
            ),
            (whole.source, whole.destination, whole.seq, whole.ack, whole.flags, whole.window, whole.ip_id),
            "cut to {captured}"
        );
        assert_eq!(segment.payload_len, whole.payload_len, "cut to {captured}");
        assert!(whole.payload.starts_with(segment.payload), "cut to {captured}");
        assert!(segment.timestamps.is_none() || segment.timestamps == whole.timestamps, "cut to {captured}");
        assert!(!segment.sacks || whole.sacks, "cut to {captured}");
    }
}

/// Where etherparse finds TCP without objection, so do we, and the same. (We find more: it knows no tunnels, and gives up
/// where a length is wrong.)
fn check_against_other_reader(packet: &Packet<'_>) {
    let theirs = match packet.link {
        LinkType::Ethernet => SlicedPacket::from_ethernet(packet.data),
        LinkType::RawIp => SlicedPacket::from_ip(packet.data),
        LinkType::LinuxSll => SlicedPacket::from_linux_sll(packet.data),
        _ => return,
    };
    let Ok(SlicedPacket { transport: Some(TransportSlice::Tcp(theirs)), .. }) = theirs else { return };
    let (mut wire, mut stats) = (Wire::new(0), WireStats::default());
    let Some(ours) = wire.parse(packet, &mut stats) else {
        panic!("no segment where etherparse finds {theirs:?} ({stats:?})");
    };
    assert_eq!(
        (ours.source.port, ours.destination.port, ours.seq, ours.ack, ours.window),
        (
            theirs.source_port(),
            theirs.destination_port(),
            theirs.sequence_number(),
            theirs.acknowledgment_number(),
            theirs.window_size()
        )
    );
    assert_eq!(
        (ours.flags.fin(), ours.flags.syn(), ours.flags.rst(), ours.flags.ack()),
        (theirs.fin(), theirs.syn(), theirs.rst(), theirs.ack())
    );
    assert_eq!(ours.payload, theirs.payload());
}
