//! Files that are cut, damaged, or were never captures.

use proptest::prelude::*;

use super::super::bytes::ByteOrder::{Big, Little};
use super::super::{CaptureError, SourceStats};
use super::samples::{self, *};
use super::{Read, read, read_through};

fn pcapng_sample() -> Vec<u8> {
    let mut bytes = [section(Big), interface(Big, 1, &resolution(Big, 9))].concat();
    bytes.extend([enhanced(Big, 0, 1, b"one"), block(Big, 77, b"other"), enhanced(Big, 0, 2, b"second")].concat());
    bytes
}

/// Where the packets of `bytes` end, by reading ever longer pieces of it.
fn assert_every_cut_is_told(bytes: &[u8], header_bytes: usize, boundaries: &[usize]) {
    let whole = read(bytes).unwrap();
    for length in 1..bytes.len() {
        let result = read_through(&bytes[..length], 16);
        if length < header_bytes {
            let refused = matches!(result, Err(CaptureError::Damaged { .. } | CaptureError::Foreign { .. }));
            assert!(refused, "{length}: {result:?}");
            continue;
        }
        let cut = result.unwrap();
        assert_eq!(cut.packets, whole.packets[..cut.packets.len()], "{length}");
        if boundaries.contains(&length) {
            assert_eq!((cut.stats.cut_files, cut.notes.len()), (0, 0), "{length}");
            continue;
        }
        assert_eq!(cut.stats.cut_files, 1, "{length}");
        let before = boundaries.iter().rev().find(|&&end| end < length).unwrap();
        let expected = format!(
            "F: cut at byte {length}: the {} bytes from byte {before} on are an incomplete packet and were left out; \
             everything before them was used",
            length - before
        );
        assert_eq!(cut.notes, [expected]);
    }
}

#[test]
fn pcap_cut_at_every_byte() {
    assert_every_cut_is_told(&pcap_at(&[1, 2, 3], b'p'), 24, &[24, 43, 62, 81]);
}

#[test]
fn pcapng_cut_at_every_byte() {
    // A section header of 28 bytes, an interface of 32, packets of 36 and 40, the other block of 20 between them.
    assert_every_cut_is_told(&pcapng_sample(), 28, &[28, 60, 96, 116, 156]);
}

#[test]
fn compressed_files_cut_at_every_byte_yield_a_beginning() {
    let plain = pcap_at(&(0..200).collect::<Vec<_>>(), b'p');
    let whole = read(&plain).unwrap();
    for compressed in [gzip(&plain), samples::zstd(&plain)] {
        for length in 1..compressed.len() {
            match read(&compressed[..length]) {
                Ok(cut) => {
                    assert_eq!(cut.packets, whole.packets[..cut.packets.len()]);
                    assert_eq!((cut.stats.cut_files, cut.notes.len()), (1, 1), "{length}");
                }
                Err(error) => assert!(
                    matches!(error, CaptureError::Damaged { .. } | CaptureError::Foreign { .. }),
                    "{length}: {error:?}"
                ),
            }
        }
    }
}

/// Damaged after one packet: the packet is used, and a note says the rest.
fn assert_used_up_to(read: &Read, note: &str) {
    assert_eq!(read.packets.len(), 1);
    assert_eq!(read.stats, SourceStats { damaged_files: 1, ..SourceStats::default() });
    assert_eq!(read.notes, [format!("F: damaged at byte {note}; everything before it was used")]);
}

#[test]
fn pcap_damage_ends_the_file() {
    let with = |fields| {
        let file = PcapFile::new(Little, MICROSECONDS, 1).packet(1, 0, b"abc").raw(fields, b"");
        read(&file.packet(2, 0, b"later").bytes).unwrap()
    };
    assert_used_up_to(&with([1, 0, 0x7fff_ffff, 3]), "43: a packet of 2147483647 bytes");
    assert_used_up_to(&with([0, 0, 0, 0]), "43: zeros where a packet should begin");
}

#[test]
fn pcap_damage_before_the_first_packet_is_an_error() {
    let file = PcapFile::new(Little, MICROSECONDS, 1).raw([1, 0, u32::MAX, 3], b"abc");
    assert!(matches!(read(&file.bytes), Err(CaptureError::Damaged { offset: 24, .. })));
}

#[test]
fn pcapng_damage_ends_the_file() {
    let start = [section(Little), interface(Little, 1, &[]), enhanced(Little, 0, 1, b"abc")].concat();
    assert_eq!(start.len(), 84);
    let with = |block: &[u8]| read(&[&start[..], block, &enhanced(Little, 0, 2, b"later")].concat()).unwrap();
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    for kind in [4, 6] {
        for length in [0, 4, 11, 13, 35] {
            assert_used_up_to(&with(&words(&[kind, length, 1])), &format!("84: a block of {length} bytes"));
        }
    }
    assert_used_up_to(&with(&words(&[6, 0x7fff_fffc, 0])), "84: a block of 2147483644 bytes");
    for kind in [1, 3, 4, 5, 6] {
        assert_used_up_to(&with(&words(&[kind, 16, 0, 20])), "84: a block whose two lengths differ");
    }
    assert_used_up_to(&with(&block(Little, 6, &[0; 16])), "84: a packet block that is too short");
    assert_used_up_to(&with(&block(Little, 1, &[0; 4])), "84: an interface description that is too short");
    assert_used_up_to(&with(&enhanced(Little, 1, 2, b"x")), "84: a packet of interface 1, of 1");
    let too_large = words(&[0, 0, 0, 5, 5, 0]);
    assert_used_up_to(&with(&block(Little, 6, &too_large)), "84: a packet that is larger than its block");
    assert_used_up_to(&with(&words(&[0x0a0d_0d0a, 28, 7, 1])), "84: a section whose byte order mark is wrong");
}

#[test]
fn a_later_section_of_another_version_ends_the_file() {
    let mut bytes = [section(Little), interface(Little, 1, &[]), enhanced(Little, 0, 1, b"abc"), section(Big)].concat();
    bytes[84 + 13] = 2;
    let read = read(&bytes).unwrap();
    assert_eq!((read.packets.len(), read.stats.damaged_files), (1, 1));
    assert!(read.notes[0].contains("a section at byte 84 has pcapng version 2.0"), "{:?}", read.notes);
}

#[test]
fn damage_within_compressed_data_ends_the_file() {
    // Incompressible packets, so that many have come out before the damage.
    let mut state = 1_u64;
    let file = (0..4_000).fold(PcapFile::new(Little, MICROSECONDS, 1), |file, second| {
        let data: Vec<u8> = (0..200)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        file.packet(second, 0, &data)
    });
    let whole = read(&file.bytes).unwrap();
    for mut compressed in [gzip(&file.bytes), samples::zstd(&file.bytes)] {
        let middle = compressed.len() / 2;
        // Over several block headers, whatever they are.
        compressed[middle..middle + 140_000].fill(0xff);
        let damaged = read(&compressed).unwrap();
        assert!(damaged.packets.len() > 500, "{}", damaged.packets.len());
        assert_eq!(damaged.packets[..500], whole.packets[..500]);
        assert_eq!(damaged.stats.damaged_files, 1);
        assert!(damaged.notes[0].contains("cannot be decompressed"), "{:?}", damaged.notes);
    }
}

#[test]
fn what_follows_compressed_data_is_told() {
    let plain = pcap_at(&[1, 2, 3], b'p');
    for compressed in [gzip(&plain), samples::zstd(&plain)] {
        let read = read(&[&compressed[..], b"something else follows here"].concat()).unwrap();
        assert_eq!((read.packets.len(), read.stats.damaged_files), (3, 1));
    }
}

proptest! {
    #[test]
    fn any_bytes_behind_a_magic_number_end(
        start in prop::sample::select(vec![
            pcap_at(&[], 0), PcapFile::new(Big, MODIFIED, 1).bytes, pcapng_sample(), section(Little), vec![],
            vec![0x1f, 0x8b, 8, 0], vec![0x28, 0xb5, 0x2f, 0xfd],
        ]),
        rest in prop::collection::vec(any::<u8>(), 0..400),
        window_bytes in 0_usize..200,
    ) {
        let bytes = [start, rest].concat();
        if let Ok(read) = read_through(&bytes, window_bytes) {
            // No format puts a packet into fewer than 16 bytes; compressed ones cannot come out of this.
            prop_assert!(read.packets.len() <= bytes.len() / 16);
        }
    }

    #[test]
    fn any_changed_byte_ends_and_leaves_what_comes_before(
        pcapng in any::<bool>(),
        place in any::<prop::sample::Index>(),
        value in any::<u8>(),
    ) {
        let original = if pcapng { pcapng_sample() } else { pcap_at(&[1, 2, 3, 4, 5], b'p') };
        let mut bytes = original.clone();
        let at = place.index(bytes.len());
        bytes[at] = value;
        let before = read(&original[..at]).map_or_else(|_| Vec::new(), |read| read.packets);
        if let Ok(read) = read(&bytes) {
            // A changed header changes what all packets are.
            if at >= 60 {
                prop_assert_eq!(&read.packets[..before.len()], &before[..]);
            }
        }
    }
}
