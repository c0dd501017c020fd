//! Each refusal says what is wrong, where, and what to do.

use std::fs;

use super::super::Files;
use super::super::bytes::ByteOrder::{Big, Little};
use super::read;
use super::samples::{self, *};

fn refusal(bytes: &[u8]) -> String {
    read(bytes).expect_err("refused").to_string()
}

#[test]
fn foreign_files_are_named() {
    let capture = pcap_at(&[1], 0);
    let readable = "pagesniff reads pcap and pcapng, each plain, .gz or .zst";
    let cases: [(&[u8], &str); 8] = [
        (b"hello\nworld\n", &format!("it is text; {readable}")),
        ("größe".as_bytes(), &format!("it is text; {readable}")),
        (b"\x7fELF\x02\x01\x01\0", &format!("it is a program (ELF); {readable}")),
        (b"\xfd7zXZ\0\0", "it is compressed with xz; decompress it: `xz -dc FILE | pagesniff --read -`"),
        (b"PK\x03\x04....", "it is a zip archive; unpack it and name the captures in it"),
        (b"\0\x01\x02\x03\x04", &format!("it begins with the bytes 00 01 02 03; {readable}")),
        (&gzip(&gzip(&capture)), "it is compressed twice; decompress it once"),
        (&samples::zstd(b"plain text"), &format!("it is text; {readable}")),
    ];
    for (bytes, expected) in cases {
        assert_eq!(refusal(bytes), format!("F: not a capture file: {expected}"));
    }
}

#[test]
fn link_types_are_named() {
    let expected = "F: link type 9 (PPP) is not supported: capture on an interface of one of these: Ethernet (1), \
                    Linux cooked (113, 276), BSD loopback (0, 108), raw IP (12, 14, 101, 228, 229)";
    assert_eq!(refusal(&PcapFile::new(Big, NANOSECONDS, 9).packet(1, 0, b"x").bytes), expected);
    let interfaces = [section(Little), interface(Little, 9, &[]), interface(Little, 8, &[])].concat();
    assert_eq!(refusal(&interfaces), expected);
    assert_eq!(refusal(&[interfaces, enhanced(Little, 1, 1, b"x")].concat()), expected);
}

#[test]
fn other_versions_are_named() {
    let other = PcapFile::with_version(Little, MICROSECONDS, (1, 4), 1);
    let advice = "is not supported: if Wireshark opens it, save it from there as pcapng";
    assert_eq!(refusal(&other.bytes), format!("F: pcap version 1.4 {advice}"));
    let mut section = section(Big);
    section[13] = 2;
    assert_eq!(refusal(&section), format!("F: pcapng version 2.0 {advice}"));
}

#[test]
fn nothing_where_a_capture_should_be() {
    let empty = "F: is empty: a capture has at least a header, so nothing was written to it yet; capture again";
    assert_eq!(refusal(b""), empty);
    assert_eq!(refusal(&gzip(b"")), empty);
    let ends = "it ends within its header; no packet comes before that: capture or copy it again";
    assert_eq!(refusal(&pcap_at(&[], 0)[..20]), format!("F: damaged at byte 20: {ends}"));
    assert_eq!(refusal(&section(Big)[..20]), format!("F: damaged at byte 20: {ends}"));
}

#[test]
fn paths_that_are_no_files() {
    let directory = tempfile::tempdir().unwrap();
    let name = directory.path().display().to_string();
    let open = |path: &str| Files::open(&[path.into()]).err().expect("refused").to_string();
    assert_eq!(open(&name), format!("{name}: is a directory: name the capture files in it, such as {name}/*.pcap"));
    assert!(open(&format!("{name}/missing")).starts_with(&format!("{name}/missing: cannot be opened: No such file")));
    fs::write(format!("{name}/empty"), "").unwrap();
    assert!(open(&format!("{name}/empty")).starts_with(&format!("{name}/empty: is empty")));
}

#[test]
fn one_bad_file_among_several_is_refused_before_any_work() {
    let directory = tempfile::tempdir().unwrap();
    let (good, bad) = (directory.path().join("good"), directory.path().join("bad"));
    fs::write(&good, pcap_at(&[1], 0)).unwrap();
    fs::write(&bad, "not a capture").unwrap();
    assert!(Files::open(&[good.clone(), bad]).is_err());
    let mut files = Files::open(&[good]).unwrap();
    assert!(matches!(files.next_packet(), Ok(Some(_))));
}
