//! The reader of capture files.
//!
//! Input: a byte, then a file; where the byte is odd, two files, the first of them with its length in front (u16).

use std::io::Write;
use std::path::{Path, PathBuf};

use decode::LinkType;
use pagesniff::capture::{CaptureError, Files, Source, SourceStats};
use tempfile::NamedTempFile;

use crate::input::Input;

/// Compressed input may hold millions of packets; these are enough to see how they are read.
const MAX_PACKETS: usize = 20_000;

/// Runs the target.
pub fn check(data: &[u8]) {
    let mut input = Input(data);
    if input.byte() & 1 == 0 {
        return check_one(input.0);
    }
    let first = input.counted();
    check_two(first, input.0);
}

/// A packet that owns its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    time_ns: u64,
    link: LinkType,
    wire_len: u32,
    data: Vec<u8>,
}

/// What reading came to.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    packets: Vec<Seen>,
    /// Whether it came to the end, or to [`MAX_PACKETS`].
    is_ended: bool,
    stats: SourceStats,
    notes: Vec<String>,
}

fn check_one(content: &[u8]) {
    let file = written(content);
    let Ok(whole) = read(&[file.path().to_path_buf()]) else { return };
    let again = read(&[file.path().to_path_buf()]);
    assert_eq!(again.ok().as_ref(), Some(&whole), "the same file was read differently");
    let damaged = whole.stats.cut_files + whole.stats.damaged_files;
    assert!(damaged <= 1, "one file ends once: {:?}", whole.stats);
    assert!(damaged == 0 || !whole.notes.is_empty(), "damage without a word: {:?}", whole.stats);
    // A file that is cut anywhere gives the first packets of the whole one.
    for tenth in [3, 7, 9] {
        let cut = written(&content[..content.len() * tenth / 10]);
        if let Ok(part) = read(&[cut.path().to_path_buf()]) {
            assert!(whole.packets.starts_with(&part.packets), "cut to {tenth} tenths");
        }
    }
}

/// Merged, each file's packets come in their order, and none is left out.
fn check_two(first: &[u8], second: &[u8]) {
    let files = [written(first), written(second)];
    let paths: Vec<PathBuf> = files.iter().map(|file| file.path().to_path_buf()).collect();
    let (Ok(one), Ok(two)) = (read(&paths[..1]), read(&paths[1..])) else { return };
    let Ok(both) = read(&paths) else { panic!("two files that can be read cannot be read together") };
    if !(one.is_ended && two.is_ended && both.is_ended) {
        return;
    }
    assert_eq!(both.packets.len(), one.packets.len() + two.packets.len());
    for single in [&one, &two] {
        let mut merged = both.packets.iter();
        assert!(single.packets.iter().all(|packet| merged.any(|other| other == packet)), "a file's own order is lost");
    }
}

fn written(content: &[u8]) -> NamedTempFile {
    let in_memory = Path::new("/dev/shm");
    let file = if in_memory.is_dir() { NamedTempFile::new_in(in_memory) } else { NamedTempFile::new() };
    let mut file = file.expect("a temporary file");
    file.write_all(content).expect("room for a temporary file");
    file
}

fn read(paths: &[PathBuf]) -> Result<Read, CaptureError> {
    let mut files = Files::open(paths)?;
    let (mut packets, mut is_ended) = (Vec::new(), false);
    while packets.len() < MAX_PACKETS && !is_ended {
        match files.next_packet()? {
            Some(packet) => {
                assert!(packet.data.len() <= packet.wire_len as usize, "more captured than there was: {packet:?}");
                packets.push(Seen {
                    time_ns: packet.time.0,
                    link: packet.link,
                    wire_len: packet.wire_len,
                    data: packet.data.to_vec(),
                });
            }
            None => is_ended = true,
        }
    }
    if is_ended {
        assert!(matches!(files.next_packet(), Ok(None)), "an end that was none");
    }
    Ok(Read { packets, is_ended, stats: files.statistics(), notes: files.notes() })
}
