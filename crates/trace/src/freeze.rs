//! The latest part of a trace file as a file of its own.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use record::Timestamp;

use crate::error::TraceError;
use crate::format::block::BlockKind;
use crate::read::TraceReader;

/// What was taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Frozen {
    /// Records in the new file.
    pub records: u64,
    /// Its length; 0 where there is none, since nothing was to be taken over.
    pub bytes: u64,
}

/// Copies the blocks of `from` that hold records of `since` or later to a new file, whole as they are: the first of them may
/// begin earlier. The file may be live. No file is made where there is no such block. The new one is on the disk when this
/// returns.
///
/// # Errors
///
/// `from` cannot be read, or `to` cannot be written; then nothing is left of it.
pub fn freeze(from: &Path, to: &Path, since: Timestamp) -> Result<Frozen, TraceError> {
    let mut reader = TraceReader::open(from)?;
    let mut start = Vec::new();
    if let Some(header) = reader.header() {
        header.encode(&mut start);
    }
    let mut frozen = Frozen::default();
    let mut file = None;
    while let Some(block) = reader.next_block()? {
        let header = *block.header();
        let is_wanted = match header.kind {
            BlockKind::Records if header.records > 0 => header.last_time >= since,
            // What was lost, and whose connections were, belongs to what stands around it.
            _ => file.is_some(),
        };
        if !is_wanted {
            continue;
        }
        let written = append(&mut file, to, &start, block.bytes());
        match written {
            Ok(bytes) => frozen.bytes = frozen.bytes.saturating_add(bytes),
            Err(source) => return Err(abandoned(to, source)),
        }
        if header.kind == BlockKind::Records {
            frozen.records = frozen.records.saturating_add(u64::from(header.records));
        }
    }
    match file.map_or(Ok(()), |file| file.sync_all()) {
        Ok(()) => Ok(frozen),
        Err(source) => Err(abandoned(to, source)),
    }
}

/// Writes a block, and before the first one the file's start; says how many bytes these were.
fn append(file: &mut Option<File>, to: &Path, start: &[u8], block: &[u8]) -> io::Result<u64> {
    let (file, start) = match file {
        Some(file) => (file, &[][..]),
        None => (file.insert(File::create_new(to)?), start),
    };
    file.write_all(start)?;
    file.write_all(block)?;
    Ok((start.len() as u64).saturating_add(block.len() as u64))
}

/// Half a file would look like a whole one. One that was there before is somebody else's.
fn abandoned(to: &Path, source: io::Error) -> TraceError {
    if source.kind() != io::ErrorKind::AlreadyExists {
        let _ = fs::remove_file(to);
    }
    TraceError::io("cannot write", to)(source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::write::{TraceWriter, WriterConfig};

    /// One second apart, each in a block of its own.
    fn written(directory: &Path, count: u64) -> Vec<record::Record> {
        let mut writer = TraceWriter::open(WriterConfig::new(directory, "t")).unwrap();
        let one_owner = |(second, record): (u64, record::Record)| record::Record {
            time: Timestamp(second * 1_000_000_000),
            owner: Some(sample::OWNER),
            ..record
        };
        let records: Vec<_> = (1..).zip(sample::records(count as usize, 1)).map(one_owner).collect();
        for record in &records {
            writer.append(record, record.time).unwrap();
            writer.flush(record.time).unwrap();
        }
        writer.close(Timestamp(count * 1_000_000_000)).1.unwrap();
        records
    }

    #[test]
    fn the_blocks_from_a_moment_on_are_a_trace_and_no_others() {
        let directory = tempfile::tempdir().unwrap();
        let records = written(&directory.path().join("ring"), 10);
        let from = crate::trace_files(&[directory.path().join("ring")]).unwrap().remove(0);
        for (since, expected) in [(0, 10), (7, 4), (10, 1)] {
            let to = directory.path().join(format!("frozen-{since}.pgtrace"));
            let frozen = freeze(&from, &to, Timestamp(since * 1_000_000_000)).unwrap();
            assert_eq!((frozen.records, frozen.bytes), (expected, fs::metadata(&to).unwrap().len()));
            let mut reader = TraceReader::open(&to).unwrap();
            let read: Vec<_> = reader.records().map(Result::unwrap).collect();
            assert_eq!(read, records[records.len() - expected as usize..]);
            assert_eq!(reader.damaged_bytes(), 0);
            assert!(freeze(&from, &to, Timestamp(0)).is_err() && to.exists());
        }
        let to = directory.path().join("none.pgtrace");
        assert_eq!(freeze(&from, &to, Timestamp(11_000_000_000)).unwrap(), Frozen::default());
        assert!(!to.exists());
    }
}
