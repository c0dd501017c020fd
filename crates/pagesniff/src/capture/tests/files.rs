//! Several files, pipes, and files that change.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

use super::super::bytes::ByteOrder::Little;
use super::super::reader::{Access, Reader};
use super::super::storage::Origin;
use super::super::{After, CaptureError, Files, Progress, Source};
use super::samples::*;

/// Writes captures, each of packets at these seconds.
fn captures(directory: &Path, captures: &[&[u32]]) -> Vec<PathBuf> {
    let write = |(number, seconds): (usize, &&[u32])| {
        let path = directory.join(format!("{number}.pcap"));
        fs::write(&path, pcap_at(seconds, number as u8)).unwrap();
        path
    };
    captures.iter().enumerate().map(write).collect()
}

/// Time in seconds and the file of each packet.
fn walk(files: &mut Files) -> Result<Vec<(u64, u8)>, CaptureError> {
    let mut seen = Vec::new();
    loop {
        match files.burst(|packet| seen.push((packet.time.0 / 1_000_000_000, packet.data[0])))? {
            After::Packets => {}
            After::Idle { .. } => panic!("files never idle"),
            After::End => return Ok(seen),
        }
    }
}

#[test]
fn files_are_merged_by_time_and_ties_by_argument() {
    let directory = tempfile::tempdir().unwrap();
    let paths = captures(directory.path(), &[&[1, 4, 4, 9], &[2, 4, 9, 9, 10], &[], &[0, 4]]);
    let mut files = Files::open(&paths).unwrap();
    let expected = [(0, 3), (1, 0), (2, 1), (4, 0), (4, 0), (4, 1), (4, 3), (9, 0), (9, 1), (9, 1), (10, 1)];
    assert_eq!(walk(&mut files).unwrap(), expected);
    assert!(matches!(files.next_packet(), Ok(None)));
}

#[test]
fn rotated_files_come_in_order_however_they_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let mut paths = captures(directory.path(), &[&[1, 2], &[2, 3], &[3, 5]]);
    paths.reverse();
    let seen = walk(&mut Files::open(&paths).unwrap()).unwrap();
    assert_eq!(seen, [(1, 0), (2, 1), (2, 0), (3, 2), (3, 1), (5, 2)]);
}

#[test]
fn a_file_that_goes_back_in_time_is_passed_on_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let paths = captures(directory.path(), &[&[5, 3, 4, 8], &[4, 6]]);
    let mut one = Files::open(&paths[..1]).unwrap();
    assert_eq!(walk(&mut one).unwrap(), [(5, 0), (3, 0), (4, 0), (8, 0)]);
    let mut both = Files::open(&paths).unwrap();
    assert_eq!(walk(&mut both).unwrap(), [(4, 1), (5, 0), (3, 0), (4, 0), (6, 1), (8, 0)]);
}

#[test]
fn many_files_overlap_without_many_descriptors() {
    let directory = tempfile::tempdir().unwrap();
    let write = |number: u32| {
        let path = directory.path().join(format!("{number}.pcap"));
        fs::write(&path, pcap_at(&[number, 1_000 + number, 2_000 + number], 0)).unwrap();
        path
    };
    let paths: Vec<PathBuf> = (0..600).map(write).collect();
    let mut files = Files::open(&paths).unwrap();
    let mut times = Vec::new();
    let mut descriptors = 0;
    while let Some(packet) = files.next_packet().unwrap() {
        times.push(packet.time);
        if times.len() == 900 {
            let of_ours = |link: &PathBuf| link.starts_with(directory.path());
            let open =
                fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
            descriptors = open.filter(of_ours).count();
        }
    }
    assert_eq!(times.len(), 1_800);
    assert!(times.is_sorted());
    assert_eq!(descriptors, 128);
}

#[test]
fn notes_and_counts_of_all_files_are_kept_within_a_bound() {
    let directory = tempfile::tempdir().unwrap();
    let paths = captures(directory.path(), &[&[1, 2][..]; 30]);
    for path in &paths {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
    }
    let mut files = Files::open(&paths).unwrap();
    assert_eq!(walk(&mut files).unwrap().len(), 30);
    assert_eq!(files.statistics().cut_files, 30);
    let notes = files.notes();
    assert_eq!((notes.len(), &notes[20][..]), (21, "10 more notes about files are not shown"));
}

#[test]
fn progress_counts_the_bytes_as_they_lie_on_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let mut paths = captures(directory.path(), &[&[1, 2, 3]]);
    let compressed = gzip(&fs::read(&paths[0]).unwrap());
    paths.push(directory.path().join("compressed"));
    fs::write(&paths[1], &compressed).unwrap();
    let mut files = Files::open(&paths).unwrap();
    let total = 81 + compressed.len() as u64;
    assert_eq!(files.progress(), Some(Progress { read_bytes: 0, total_bytes: Some(total) }));
    walk(&mut files).unwrap();
    assert_eq!(files.progress(), Some(Progress { read_bytes: total, total_bytes: Some(total) }));
}

/// A capture of 4 MB, so that it does not fit into a window.
fn large_capture(path: &Path) -> u64 {
    let data = [0; 1_000];
    let file = (0..4_000).fold(PcapFile::new(Little, MICROSECONDS, 1), |file, second| file.packet(second, 0, &data));
    fs::write(path, &file.bytes).unwrap();
    file.bytes.len() as u64
}

#[test]
fn a_file_that_shrinks_while_it_is_read_ends_with_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shrinking.pcap");
    let length_bytes = large_capture(&path);
    let mut files = Files::open(std::slice::from_ref(&path)).unwrap();
    assert!(matches!(files.next_packet(), Ok(Some(_))));
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(100).unwrap();
    let error = walk(&mut files).unwrap_err().to_string();
    assert!(error.contains(&format!("it had {length_bytes} bytes at first and now ends at byte ")), "{error}");
    assert!(matches!(files.next_packet(), Ok(None)));
}

#[test]
fn a_file_that_grows_while_it_is_read_is_read_to_its_new_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("growing.pcap");
    large_capture(&path);
    let (origin, _) = Origin::examine(&path).unwrap();
    let access = Access { held_open: true, window_bytes: 10_000, read_bytes: Default::default() };
    let mut reader = Reader::open(&origin, access).unwrap();
    assert!(reader.advance().unwrap());
    let more = pcap_at(&[4_000, 4_001], 7);
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(&more[24..]).unwrap();
    let mut packets = 1;
    while reader.advance().unwrap() {
        packets += 1;
    }
    assert_eq!((packets, reader.statistics().cut_files), (4_002, 0));
}

#[test]
fn a_file_that_is_replaced_while_it_is_closed_ends_with_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("replaced.pcap");
    let other = directory.path().join("other.pcap");
    large_capture(&path);
    large_capture(&other);
    let (origin, _) = Origin::examine(&path).unwrap();
    let access = Access { held_open: false, window_bytes: 10_000, read_bytes: Default::default() };
    let mut reader = Reader::open(&origin, access).unwrap();
    assert!(reader.advance().unwrap());
    fs::rename(&other, &path).unwrap();
    let error = loop {
        match reader.advance() {
            Ok(more) => assert!(more, "it must not end as if it were whole"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, CaptureError::Changed { .. }), "{error}");
}

/// Delivers what arrives in the channel, and waits for more like a pipe.
struct Pipe(Receiver<Vec<u8>>);

impl std::io::Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let piece = self.0.recv().unwrap_or_default();
        buffer[..piece.len()].copy_from_slice(&piece);
        Ok(piece.len())
    }
}

#[test]
fn packets_from_a_pipe_come_as_they_arrive() {
    let whole = pcap_at(&[1, 2, 3], b'p');
    for plain in [true, false] {
        let (sender, receiver) = channel();
        // Each packet is sent only when the one before has come out: a reader that wants more would wait forever.
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut send = |bytes: &[u8]| {
            encoder.write_all(bytes).unwrap();
            encoder.flush().unwrap();
            let compressed = std::mem::take(encoder.get_mut());
            sender.send(if plain { bytes.to_vec() } else { compressed }).unwrap();
        };
        send(&whole[..24]);
        let mut reader = Reader::over("F".to_owned(), Box::new(Pipe(receiver)), 4096).unwrap();
        for packet in whole[24..].chunks(19) {
            send(packet);
            assert!(reader.advance().unwrap());
            assert_eq!(reader.packet().unwrap().data, &packet[16..]);
        }
        drop(sender);
        assert!(!reader.advance().unwrap());
    }
}

#[test]
fn a_named_pipe_is_merged_with_files_and_read_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut paths = captures(directory.path(), &[&[2, 4]]);
    let pipe = directory.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    paths.push(pipe.clone());
    // Before anyone writes to the pipe: opening must not wait for it.
    let mut files = Files::open(&paths).unwrap();
    let writer = std::thread::spawn(move || fs::write(pipe, pcap_at(&[1, 3, 5], 9)).unwrap());
    assert_eq!(walk(&mut files).unwrap(), [(1, 9), (2, 0), (3, 9), (4, 0), (5, 9)]);
    assert_eq!(files.progress().unwrap().total_bytes, None);
    writer.join().unwrap();
}
