//! Each dialect of each format, compressed and not.

use decode::LinkType;

use super::super::bytes::ByteOrder::{self, Big, Little};
use super::samples::{self, *};
use super::{Seen, read, read_through};

const TIME_NS: u64 = 1_796_094_784_355_667_000;
const SECONDS: u32 = 1_796_094_784;

fn ethernet(time_ns: u64, data: &[u8]) -> Seen {
    Seen { time_ns, link: LinkType::Ethernet, wire_len: data.len() as u32, data: data.to_vec() }
}

#[test]
fn pcap_in_each_unit_and_byte_order() {
    for order in [Little, Big] {
        for (magic, fraction) in [(MICROSECONDS, 355_667), (NANOSECONDS, 355_667_000), (MODIFIED, 355_667)] {
            let file = PcapFile::new(order, magic, 1).packet(SECONDS, fraction, b"abc").packet(SECONDS, fraction, b"");
            let read = read(&file.bytes).unwrap();
            assert_eq!(read.packets, [ethernet(TIME_NS, b"abc"), ethernet(TIME_NS, b"")], "{order:?} {magic:#x}");
            assert_eq!(read.notes, [""; 0]);
        }
    }
}

#[test]
fn pcap_lengths_are_put_right_as_old_versions_wrote_them() {
    // Version, first and second length field, and what they mean: captured and on the wire.
    let cases = [((2, 4), 3, 9, 9), ((2, 4), 3, 1, 3), ((2, 2), 9, 3, 9), ((2, 3), 9, 3, 9), ((2, 3), 3, 9, 9)];
    for (version, first, second, wire_len) in cases {
        let file = PcapFile::with_version(Big, MICROSECONDS, version, 1).raw([1, 0, first, second], b"abc");
        let read = read(&file.bytes).unwrap();
        assert_eq!(read.packets.len(), 1, "{version:?} {first} {second}");
        assert_eq!((read.packets[0].wire_len, &read.packets[0].data[..]), (wire_len, &b"abc"[..]));
    }
}

#[test]
fn the_checksum_bits_of_the_network_word_are_not_part_of_the_link_type() {
    // 4 bytes of checksum a frame, and the bit that says so.
    let file = PcapFile::new(Little, MICROSECONDS, 0x4400_0000 | 113).packet(1, 0, b"x");
    assert_eq!(read(&file.bytes).unwrap().packets[0].link, LinkType::LinuxSll);
}

#[test]
fn impossible_times_are_carried_over_and_counted() {
    let last = u32::MAX;
    for (magic, ns) in [(MICROSECONDS, 1_000), (NANOSECONDS, 1)] {
        let file = PcapFile::new(Little, magic, 1).packet(last, last, b"x").packet(1, 0, b"y");
        let read = read(&file.bytes).unwrap();
        assert_eq!(read.packets[0].time_ns, u64::from(last) * 1_000_000_000 + u64::from(last) * ns);
        assert_eq!(read.stats.odd_timestamps, 1);
        assert_eq!(read.notes.len(), 1);
    }
}

#[test]
fn packets_may_be_larger_than_the_snap_length_and_the_window() {
    let large: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
    let file = PcapFile::new(Little, MICROSECONDS, 101).packet(1, 0, &large).packet(2, 0, b"after");
    for window_bytes in [0, 1, 17, 64, 4096, 1 << 20] {
        let read = read_through(&file.bytes, window_bytes).unwrap();
        assert_eq!(read.packets.len(), 2);
        assert_eq!(read.packets[0].data, large);
        assert_eq!(read.packets[1].data, b"after");
    }
}

#[test]
fn pcapng_sections_each_with_their_own_byte_order_and_interfaces() {
    let mut bytes = section(Little);
    bytes.extend(interface(Little, 1, &[]));
    bytes.extend(interface(Little, 276, &resolution(Little, 9)));
    bytes.extend(enhanced(Little, 1, TIME_NS, b"second"));
    bytes.extend(enhanced(Little, 0, TIME_NS / 1_000, b"first"));
    bytes.extend(section(Big));
    bytes.extend(interface(Big, 101, &resolution(Big, 3)));
    bytes.extend(enhanced(Big, 0, 5, b"third!"));
    let read = read(&bytes).unwrap();
    let of = |link, time_ns, data: &[u8]| Seen { link, ..ethernet(time_ns, data) };
    let expected = [
        of(LinkType::LinuxSll2, TIME_NS, b"second"),
        of(LinkType::Ethernet, TIME_NS, b"first"),
        of(LinkType::RawIp, 5_000_000, b"third!"),
    ];
    assert_eq!(read.packets, expected);
    assert_eq!(read.notes, [""; 0]);
}

#[test]
fn pcapng_blocks_of_no_interest_are_passed_over_whatever_their_size() {
    for order in [Little, Big] {
        let mut bytes = section(order);
        bytes.extend(block(order, 0x0000_0bad, &[9; 100_000]));
        bytes.extend(interface(order, 1, &[]));
        bytes.extend(block(order, 4, b"names"));
        bytes.extend(enhanced(order, 0, 1, b"x"));
        bytes.extend(block(order, 0x8000_0001, b""));
        for window_bytes in [0, 64, 4096] {
            let read = read_through(&bytes, window_bytes).unwrap();
            assert_eq!(read.packets, [ethernet(1_000, b"x")]);
        }
    }
}

#[test]
fn pcapng_obsolete_packets_and_their_drop_counts() {
    let body = |dropped: u16| {
        let fields = [u16_in(Big, 0), u16_in(Big, dropped)].concat();
        let words = [0, 7, 1, 60].map(|word| u32_in(Big, word)).concat();
        block(Big, 2, &[&fields[..], &words, b"x"].concat())
    };
    let bytes = [section(Big), interface(Big, 1, &[]), body(0), body(12), body(0xffff)].concat();
    let read = read(&bytes).unwrap();
    assert_eq!(read.packets, vec![Seen { wire_len: 60, ..ethernet(7_000, b"x") }; 3]);
    assert_eq!(read.stats.kernel_dropped, 12);
}

#[test]
fn pcapng_statistics_count_what_the_capture_lost() {
    let statistics = |interface: u32, code: u16, count: u64| {
        let option = [&u16_in(Little, code)[..], &u16_in(Little, 8), &count.to_le_bytes()].concat();
        block(Little, 5, &[&u32_in(Little, interface)[..], &[0; 8], &option].concat())
    };
    let mut bytes = [section(Little), interface(Little, 1, &[]), interface(Little, 1, &[])].concat();
    bytes.extend([statistics(0, 7, 3), statistics(0, 7, 10), statistics(1, 5, 4), statistics(9, 7, 1_000)].concat());
    bytes.extend([section(Little), interface(Little, 1, &[]), statistics(0, 7, 100)].concat());
    let stats = read(&bytes).unwrap().stats;
    assert_eq!((stats.kernel_dropped, stats.interface_dropped), (110, 4));
}

#[test]
fn pcapng_packets_of_other_link_types_are_passed_over_and_counted() {
    let mut bytes = [section(Little), interface(Little, 9, &[]), interface(Little, 1, &[])].concat();
    bytes.extend(
        [enhanced(Little, 0, 1, b"ppp"), enhanced(Little, 1, 2, b"x"), enhanced(Little, 0, 3, b"ppp")].concat(),
    );
    let read = read(&bytes).unwrap();
    assert_eq!(read.packets, [ethernet(2_000, b"x")]);
    assert_eq!(read.stats.unsupported_link, 2);
    assert_eq!(read.notes, ["F: 2 packets passed over: their link type is not supported: 9 (PPP)"]);
}

#[test]
fn pcapng_packets_without_a_time_are_passed_over_and_counted() {
    let simple = block(Little, 3, &[&u32_in(Little, 1)[..], b"x"].concat());
    let bytes = [section(Little), interface(Little, 1, &[]), simple, enhanced(Little, 0, 2, b"y")].concat();
    let read = read(&bytes).unwrap();
    assert_eq!(read.packets, [ethernet(2_000, b"y")]);
    assert_eq!((read.stats.untimed, read.notes.len()), (1, 1));
}

#[test]
fn compression_changes_nothing() {
    let pcap = pcap_at(&[1, 2, 3], b'p');
    let pcapng = [section(Little), interface(Little, 1, &[]), enhanced(Little, 0, 2, b"y")].concat();
    for plain in [pcap, pcapng] {
        let expected = read(&plain).unwrap();
        let (front, back) = plain.split_at(50);
        let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc", &samples::zstd(&plain)].concat();
        let compressed = [
            gzip(&plain),
            [gzip(front), gzip(back)].concat(),
            samples::zstd(&plain),
            [samples::zstd(front), samples::zstd(back)].concat(),
            skippable,
        ];
        for (number, bytes) in compressed.iter().enumerate() {
            assert_eq!(read(bytes).unwrap(), expected, "variant {number}");
        }
    }
}

#[test]
fn a_header_alone_is_a_capture_without_packets() {
    let pcapng: fn(ByteOrder) -> Vec<u8> = |order| [section(order), interface(order, 1, &[])].concat();
    for bytes in [pcap_at(&[], 0), pcapng(Big), section(Little)] {
        let read = read(&bytes).unwrap();
        assert_eq!((read.packets.len(), read.notes.len()), (0, 0));
    }
}
