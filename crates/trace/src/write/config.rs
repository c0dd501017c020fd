//! How traces are written.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::error::TraceError;
use crate::format::header::Circumstances;
use crate::name::check_instance;

/// A tenant's trace by default: 2.4 million records at 14 bytes each, which is a busy tenant's quarter of an hour.
pub const DEFAULT_MAX_BYTES: u64 = 32 << 20;

/// The smallest limit: eight files of one block each.
pub const MIN_LIMIT_BYTES: u64 = 128 << 10;

/// A batch waits so long for more records by default. A crash loses at most this much.
pub const DEFAULT_FLUSH_INTERVAL_NS: u64 = 1_000_000_000;

/// A trace is made of this many files by default, so that deleting the oldest keeps seven eighths of the history.
const FILES_IN_A_LIMIT: u64 = 8;

/// A file where no limit says how large it may be: quick to copy, and 5 million records.
const UNLIMITED_FILE_BYTES: u64 = 64 << 20;

/// Smaller files would be more header than records.
const MIN_FILE_BYTES: u64 = 16 << 10;

/// A block of so many records is large enough for zstd and for the dictionaries not to count, and small enough for its
/// columns to stay in the second-level cache.
const MAX_BATCH_RECORDS: u64 = 16 << 10;

/// Small files still hold several blocks: a quarter of the file, were a record to take this many bytes.
const BYTES_PER_RECORD_AT_MOST: u64 = 32;

/// What happens when a limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFull {
    /// The oldest file goes.
    #[default]
    Rotate,
    /// What is there stays, and nothing more is written.
    Stop,
}

/// What may change while traces are written; `None` stays as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Change {
    /// One key in how many is kept from now on.
    pub sample_one_in: Option<u32>,
    /// The most bytes of one tenant's traces, where there is a limit.
    pub max_bytes: Option<u64>,
    /// The most bytes of all, where there is a limit.
    pub max_total_bytes: Option<u64>,
}

/// Where and how traces are written.
#[derive(Debug, Clone)]
pub struct WriterConfig {
    /// The directory of all traces; made where it is missing.
    pub directory: PathBuf,
    /// This writer's name in file names. Two writers in one directory need two names.
    pub instance: String,
    /// Goes into every file's header. `max_bytes` and `max_total_bytes` in it are the limits that are kept:
    /// the bytes of one tenant's files and directories, and of all.
    pub circumstances: Circumstances,
    /// What happens when a limit is reached.
    pub on_full: OnFull,
    /// A batch is written when its first record is so old; `None` waits until it is full.
    pub flush_interval_ns: Option<u64>,
    /// A file is ended when the clock passes a multiple of this, with traffic or without; `None` goes by size only.
    pub rotate_interval_ns: Option<u64>,
    /// So many files are held open; beyond, the one that was not written to for the longest time is closed.
    pub max_open_files: usize,
    /// So many tenants' timelines have a trace at once. Records of further ones count as `write_failed`: somebody may
    /// invent tenants.
    pub max_traces: usize,
    /// So many records wait in all batches together, a hundred bytes each. Beyond, the oldest batch is written early.
    pub max_buffered_records: usize,
    /// Once this is set no more records are written: those that come or wait count as `write_failed`, and only ledgers are
    /// still told.
    pub is_late: Arc<AtomicBool>,
}

impl WriterConfig {
    /// The defaults, in this directory under this name, without limits.
    pub fn new(directory: impl Into<PathBuf>, instance: impl Into<String>) -> Self {
        Self {
            directory: directory.into(),
            instance: instance.into(),
            circumstances: Circumstances { sample_one_in: 1, ..Circumstances::default() },
            on_full: OnFull::default(),
            flush_interval_ns: Some(DEFAULT_FLUSH_INTERVAL_NS),
            rotate_interval_ns: None,
            // A process may have 1,024 files open by default; the capture and the HTTP API need some of them.
            max_open_files: 128,
            // Twice what a pageserver holds of connections (4,000 at most), each of which has one timeline.
            max_traces: 8192,
            // Four full blocks: 6 MB.
            max_buffered_records: 64 << 10,
            is_late: Arc::default(),
        }
    }

    /// Refuses what cannot work, before anything is touched; [`crate::TraceWriter::open`] asks this too.
    ///
    /// # Errors
    ///
    /// An instance name that cannot be part of a file name, or a limit below [`MIN_LIMIT_BYTES`].
    pub fn check(&self) -> Result<(), TraceError> {
        check_instance(&self.instance)?;
        for limit in [self.circumstances.max_bytes, self.circumstances.max_total_bytes].into_iter().flatten() {
            if limit < MIN_LIMIT_BYTES {
                return Err(TraceError::LimitTooSmall { bytes: limit });
            }
        }
        Ok(())
    }

    /// The same with a change.
    ///
    /// # Errors
    ///
    /// A limit is below [`MIN_LIMIT_BYTES`].
    pub(super) fn changed(&self, change: Change) -> Result<Self, TraceError> {
        let mut config = self.clone();
        let facts = &mut config.circumstances;
        facts.sample_one_in = change.sample_one_in.unwrap_or(facts.sample_one_in);
        facts.max_bytes = change.max_bytes.or(facts.max_bytes);
        facts.max_total_bytes = change.max_total_bytes.or(facts.max_total_bytes);
        config.check()?;
        Ok(config)
    }

    /// A file of this size is ended.
    pub(super) fn file_bytes(&self) -> u64 {
        let limits = [self.circumstances.max_bytes, self.circumstances.max_total_bytes];
        let limit = limits.into_iter().flatten().min();
        limit.map_or(UNLIMITED_FILE_BYTES, |bytes| {
            (bytes / FILES_IN_A_LIMIT).clamp(MIN_FILE_BYTES, UNLIMITED_FILE_BYTES)
        })
    }

    /// A batch of so many records is written.
    pub(super) fn batch_records(&self) -> usize {
        (self.file_bytes() / BYTES_PER_RECORD_AT_MOST).min(MAX_BATCH_RECORDS) as usize
    }
}
