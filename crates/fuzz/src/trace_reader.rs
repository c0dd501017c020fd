//! The reader of trace files.
//!
//! Input: a byte that says what follows (modulo 3).
//!
//! - 0: a file of any bytes.
//! - 1: a forged file, whose checksums are right: the header's fields with their count in front (u16), then blocks: `kind,
//!   records u16, unit u16, times, count u16, sections`. `times` holds the exponents of the earliest time and of the span. A kind
//!   with the top bit is no block: as many bytes as `records` follow as they are.
//! - 2: records, which are written, read, and read again from the damaged file: `count`, the records, then damage: `cut u16`, and
//!   `offset u16, bits` for each damaged byte.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use record::{Record, Timestamp};
use tempfile::TempDir;
use trace::{
    BLOCK_HEADER_BYTES, BLOCK_MAGIC, FILE_HEADER_FIXED_BYTES, FILE_MAGIC, FORMAT_MAJOR, FORMAT_MINOR, FileHeader,
    Ledger, TraceReader, TraceWriter, WriterConfig,
};

use crate::input::Input;

mod made;

/// A forged block of a few bytes may claim many records, and have them; so many are kept.
const MAX_RECORDS: usize = 200_000;

/// So many of the records of a forged file are written and read again.
const MAX_REWRITTEN: usize = 300;

/// Runs the target.
pub fn check(data: &[u8]) {
    let mut input = Input(data);
    match input.byte() % 3 {
        0 => {
            check_file(input.0);
        }
        1 => {
            let records = check_file(&forged(&mut input));
            check_rewritten(records);
        }
        _ => check_damaged(&mut input),
    }
}

/// Whatever a file says: all of its bytes are accounted for, and it reads the same twice. Gives its records.
fn check_file(content: &[u8]) -> Vec<Record> {
    let directory = directory();
    let path = directory.path().join("a.pgtrace");
    fs::write(&path, content).expect("room for a temporary file");
    let Ok(blocks) = Blocks::read(&path) else { return Vec::new() };
    blocks.check(content.len() as u64);
    let records = Records::read(&path);
    records.check(content.len() as u64, blocks.records);
    assert_eq!(Records::read(&path), records, "the same file was read differently");
    records.records
}

/// A file, read block by block.
struct Blocks {
    header: Option<FileHeader>,
    /// Where each block begins and ends.
    places: Vec<(u64, u64)>,
    /// What their headers claim.
    records: u64,
    damage: Vec<(u64, u64)>,
    damaged_bytes: u64,
}

impl Blocks {
    fn read(path: &Path) -> Result<Self, trace::TraceError> {
        let mut reader = TraceReader::open(path)?;
        let (mut places, mut records) = (Vec::new(), 0);
        while let Some(block) = reader.next_block()? {
            let (header, offset) = (*block.header(), block.offset());
            places.push((offset, offset + u64::from(header.length)));
            records += u64::from(header.records);
            // Forged sections are refused, each by itself.
            let (_, _) = (block.owner().is_ok(), block.ledger().is_ok());
            let attributions = block.attributions().map_or(0, |attributions| attributions.len());
            assert!(attributions <= header.records as usize, "{attributions} attributions of {}", header.records);
        }
        let damage = reader.damage().map(|damage| (damage.offset, damage.offset + damage.bytes)).collect();
        Ok(Self { header: reader.header().cloned(), places, records, damage, damaged_bytes: reader.damaged_bytes() })
    }

    /// Header, blocks, and what belongs to none of them make up the file.
    fn check(&self, file_bytes: u64) {
        assert!(self.places.windows(2).all(|pair| pair[0].1 <= pair[1].0), "blocks overlap: {:?}", self.places);
        assert!(self.places.last().is_none_or(|last| last.1 <= file_bytes), "a block behind the end of the file");
        check_damage(&self.damage, self.damaged_bytes, file_bytes);
        let mut covered: Vec<(u64, u64)> = self.places.iter().chain(&self.damage).copied().collect();
        covered.sort_unstable();
        covered.dedup();
        // A block whose ledger is forged is a block, and damaged.
        let begins_at = covered.first().map_or(file_bytes, |first| first.0);
        let mut reached = begins_at;
        for (start, end) in covered {
            assert!(start <= reached, "bytes {reached} to {start} are nowhere");
            reached = reached.max(end);
        }
        assert_eq!(reached, file_bytes, "the file's end is nowhere");
        let has_header = begins_at >= FILE_HEADER_FIXED_BYTES as u64;
        assert_eq!(has_header, self.header.is_some(), "the blocks begin at {begins_at}");
    }
}

/// A file, read record by record.
#[derive(Debug, PartialEq, Eq)]
struct Records {
    records: Vec<Record>,
    ledger: Ledger,
    damage: Vec<(u64, u64)>,
    damaged_bytes: u64,
}

impl Records {
    fn read(path: &Path) -> Self {
        let mut reader = TraceReader::open(path).expect("a file that was opened before");
        let records =
            reader.records().take(MAX_RECORDS).map(|record| record.expect("a file that can be read")).collect();
        let damage = reader.damage().map(|damage| (damage.offset, damage.offset + damage.bytes)).collect();
        Self { records, ledger: *reader.ledger(), damage, damaged_bytes: reader.damaged_bytes() }
    }

    fn check(&self, file_bytes: u64, claimed: u64) {
        assert!(self.records.len() as u64 <= claimed, "{} records, {claimed} claimed", self.records.len());
        check_damage(&self.damage, self.damaged_bytes, file_bytes);
    }
}

/// The pieces lie in the file, apart from one another, and are as long as is said.
fn check_damage(damage: &[(u64, u64)], damaged_bytes: u64, file_bytes: u64) {
    assert!(damage.windows(2).all(|pair| pair[0].1 <= pair[1].0), "damage that overlaps: {damage:?}");
    assert!(damage.last().is_none_or(|last| last.1 <= file_bytes), "damage behind the end: {damage:?}");
    // Beyond a thousand pieces the bytes are counted, the places not kept.
    let kept: u64 = damage.iter().map(|(start, end)| end - start).sum();
    assert!(kept == damaged_bytes || damage.len() >= 1024 && kept < damaged_bytes, "{kept} of {damaged_bytes}");
    assert!(damaged_bytes <= file_bytes, "{damaged_bytes} damaged bytes of {file_bytes}");
}

/// What was read from a file, however forged, is written and read again: every field returns.
fn check_rewritten(mut records: Vec<Record>) {
    let Some(owner) = records.first().map(|record| record.owner) else { return };
    records.retain(|record| record.owner == owner);
    records.truncate(MAX_REWRITTEN);
    let (_directory, path) = written(&records, |_| false);
    assert_eq!(Records::read(&path).records, records, "written and read again");
}

/// Writes records, reads them, and reads what damage leaves of them.
fn check_damaged(input: &mut Input<'_>) {
    let mut flushes = Vec::new();
    let count = usize::from(input.byte());
    let mut records = Vec::new();
    for at in 0..count {
        if input.is_empty() {
            break;
        }
        if input.byte() & 0xc0 == 0xc0 {
            flushes.push(at);
        }
        records.push(made::record(input));
    }
    let (directory, path) = written(&records, |at| flushes.contains(&at));
    if records.is_empty() {
        return;
    }
    let whole = Records::read(&path);
    assert_eq!(whole.records, records, "what was written");
    assert_eq!(whole.damaged_bytes, 0);
    let content = fs::read(&path).expect("a file that was written");
    let cut = usize::from(input.u16());
    check_growing(&directory.path().join("growing.pgtrace"), &content, cut % content.len(), &records);
    let mut damaged = content[..content.len() - (cut >> 8) % content.len()].to_vec();
    while !input.is_empty() {
        let offset = usize::from(input.u16()) % damaged.len();
        damaged[offset] ^= input.byte();
    }
    let left = check_file(&damaged);
    let mut in_order = records.iter();
    assert!(left.iter().all(|record| in_order.any(|written| written == record)), "a record that nobody wrote");
}

/// A reader that goes on while the file grows finds what a later one finds.
fn check_growing(path: &Path, content: &[u8], first: usize, records: &[Record]) {
    fs::write(path, &content[..first]).expect("room for a temporary file");
    let Ok(mut reader) = TraceReader::open(path) else { return };
    let mut read: Vec<Record> = reader.records().map(|record| record.expect("a file that can be read")).collect();
    let mut file = OpenOptions::new().append(true).open(path).expect("a file that was written");
    file.write_all(&content[first..]).expect("room for a temporary file");
    read.extend(reader.records().map(|record| record.expect("a file that can be read")));
    assert_eq!(read, records, "read while it grew from {first} bytes on");
}

fn directory() -> TempDir {
    let in_memory = Path::new("/dev/shm");
    let directory = if in_memory.is_dir() { TempDir::new_in(in_memory) } else { TempDir::new() };
    directory.expect("a temporary directory")
}

/// Writes records of one owner into one file; `flushes_before` says where a block ends.
fn written(records: &[Record], flushes_before: impl Fn(usize) -> bool) -> (TempDir, PathBuf) {
    let directory = directory();
    let now = Timestamp(1_796_094_784_000_000_000);
    let mut writer = TraceWriter::open(WriterConfig::new(directory.path(), "fuzz")).expect("a directory to write to");
    for (at, record) in records.iter().enumerate() {
        if flushes_before(at) {
            writer.flush(now).expect("room for a trace");
        }
        writer.append(record, now).expect("room for a trace");
    }
    writer.flush(now).expect("room for a trace");
    let path = writer.files().next().map(|(path, _)| path.to_owned()).unwrap_or_default();
    (directory, path)
}

/// A file with the checksums that its bytes ask for.
fn forged(input: &mut Input<'_>) -> Vec<u8> {
    let fields = input.counted();
    let mut file = Vec::new();
    if !fields.is_empty() {
        let mut header = FILE_MAGIC.to_vec();
        header.extend(FORMAT_MAJOR.to_le_bytes());
        header.extend(FORMAT_MINOR.to_le_bytes());
        header.extend(((FILE_HEADER_FIXED_BYTES + fields.len()) as u32).to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&header), fields);
        file.extend(header);
        file.extend(crc.to_le_bytes());
        file.extend(fields);
    }
    while !input.is_empty() {
        let (kind, records) = (input.byte(), input.u16());
        if kind & 0x80 != 0 {
            file.extend(input.take(usize::from(records)));
            continue;
        }
        let unit = u32::from(input.u16());
        let times = input.byte();
        let sections = input.counted();
        let earliest = (1_u64 << (times & 0x3f)).wrapping_mul(0x18ed);
        let latest = earliest.saturating_add(1 << (times >> 2 & 0x3f));
        let mut rest = vec![kind, 0, 0, 0];
        rest.extend(u32::from(records).to_le_bytes());
        rest.extend(unit.to_le_bytes());
        rest.extend(earliest.to_le_bytes());
        rest.extend(latest.to_le_bytes());
        rest.extend(sections);
        let mut start = BLOCK_MAGIC.to_vec();
        start.extend(((BLOCK_HEADER_BYTES + sections.len()) as u32).to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&start), &rest);
        file.extend(start);
        file.extend(crc.to_le_bytes());
        file.extend(rest);
    }
    file
}
