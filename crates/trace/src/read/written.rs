//! The records of many files in the order in which they were completed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::path::{Path, PathBuf};

use record::{Record, Timestamp};

use super::files::{is_gone, trace_files};
use super::{Damage, TraceReader};
use crate::error::TraceError;
use crate::name::FileName;

/// The files of one directory that one instance wrote, and how far they have been read.
#[derive(Debug)]
struct Trace {
    files: VecDeque<PathBuf>,
    reader: Option<TraceReader>,
    /// The record that comes next.
    next: Option<Record>,
    /// When the last one was completed, as far as its fields tell.
    completed: Timestamp,
}

/// What of a file belongs to no whole block; no bytes where the file has none at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDamage {
    /// The file.
    pub path: PathBuf,
    /// How many bytes.
    pub bytes: u64,
    /// Where the first of them are.
    pub damage: Vec<Damage>,
}

/// The records of several files in the order of the packets that completed them, which is the order of a capture's own
/// output. Within a trace this is the order in which they were written. Between traces the answers' ends decide; where
/// these are equal or unknown, the order of the traces' paths.
///
/// Holds one block of each trace.
#[derive(Debug)]
pub struct WrittenRecords {
    traces: Vec<Trace>,
    waiting: BinaryHeap<Reverse<(Timestamp, usize)>>,
    damaged: Vec<FileDamage>,
    failed: Option<TraceError>,
}

impl WrittenRecords {
    /// Finds the files that these paths stand for, and reads the beginning of each trace.
    ///
    /// # Errors
    ///
    /// As [`trace_files`] and [`TraceReader::open`].
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Self, TraceError> {
        let mut by_writer: BTreeMap<(PathBuf, Option<String>), VecDeque<PathBuf>> = BTreeMap::new();
        for path in trace_files(paths)? {
            let directory = path.parent().unwrap_or(Path::new("")).to_owned();
            // A file that was given another name is a trace of its own.
            let writer = FileName::parse(&path).map_or_else(|| path.display().to_string(), |name| name.instance);
            by_writer.entry((directory, Some(writer))).or_default().push_back(path);
        }
        let traces = by_writer.into_values().map(|mut files| {
            files.make_contiguous().sort_by_cached_key(|path| FileName::parse(path).map(|name| name.order()));
            Trace { files, reader: None, next: None, completed: Timestamp(0) }
        });
        let mut records =
            Self { traces: traces.collect(), waiting: BinaryHeap::new(), damaged: Vec::new(), failed: None };
        for index in 0..records.traces.len() {
            records.advance(index)?;
        }
        Ok(records)
    }

    /// The files read to their end so far of which some bytes belong to no whole block, or that have none.
    pub fn damaged(&self) -> &[FileDamage] {
        &self.damaged
    }

    /// Brings a trace's next record forward.
    fn advance(&mut self, index: usize) -> Result<(), TraceError> {
        let Some(trace) = self.traces.get_mut(index) else { return Ok(()) };
        while trace.next.is_none() {
            let Some(reader) = &mut trace.reader else {
                let Some(path) = trace.files.pop_front() else { return Ok(()) };
                match TraceReader::open(&path) {
                    Ok(reader) => trace.reader = Some(reader),
                    // Retention has deleted it in the meantime.
                    Err(error) if is_gone(&error) => {}
                    Err(error) => return Err(error),
                }
                continue;
            };
            trace.next = reader.records().next().transpose()?;
            if trace.next.is_none() {
                if reader.damaged_bytes() > 0 || reader.is_empty() {
                    let (path, bytes) = (reader.path().to_owned(), reader.damaged_bytes());
                    self.damaged.push(FileDamage { path, bytes, damage: reader.damage().collect() });
                }
                trace.reader = None;
            }
        }
        if let Some(record) = &trace.next {
            let end_ns = [record.latency_ns, record.transfer_ns].into_iter().flatten();
            let end = end_ns.fold(record.time.0, u64::saturating_add);
            trace.completed = trace.completed.max(Timestamp(end));
            self.waiting.push(Reverse((trace.completed, index)));
        }
        Ok(())
    }
}

impl Iterator for WrittenRecords {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        let Reverse((_, index)) = self.waiting.pop()?;
        let record = self.traces.get_mut(index)?.next.take()?;
        // The record is whole, whatever is wrong with the one behind it.
        self.failed = self.advance(index).err();
        Some(Ok(record))
    }
}
