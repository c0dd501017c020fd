//! Writing traces: batches, blocks, files, limits.
//!
//! ```text
//! append → Trace.batch → (full, or flush_interval) → BlockEncoder → make_room → append_whole
//! ```

mod config;
mod lock;
mod output;
mod room;
mod shelf;
mod trace;

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

use record::{Record, TenantTimeline, Timestamp};

pub use config::{Change, DEFAULT_FLUSH_INTERVAL_NS, DEFAULT_MAX_BYTES, MIN_LIMIT_BYTES, OnFull, WriterConfig};

use crate::columns::batch::Batch;
use crate::columns::encode::BlockEncoder;
use crate::error::TraceError;
use crate::format::attribution::ConnectionOwner;
use crate::format::ledger::{Counter, Ledger};
use lock::DirectoryLock;
use shelf::{Owner, Shelf};
use trace::Trace;

/// Emptied batches are kept for the next owner, so many of them: the busy tenants of a node.
const MAX_SPARE_BATCHES: usize = 8;

/// Attributions wait for the next flush, but no more than so many.
const MAX_WAITING_ATTRIBUTIONS: usize = 1024;

/// Writes the traces of all tenants into one directory.
///
/// Time comes from the caller with each call: the wall clock live, the packets' time in a replay; then names, blocks and
/// rotation are the same on every machine.
///
/// An error of a call does not end the writer. What could not be written is in the ledger as `write_failed`, and the next
/// call tries again with what it has.
///
/// Dropped without [`Self::close`], it loses what waits in batches, as a crash does.
#[derive(Debug)]
pub struct TraceWriter {
    config: WriterConfig,
    file_bytes: u64,
    batch_records: usize,
    shelf: Shelf,
    traces: Vec<Trace>,
    by_owner: HashMap<Owner, usize, foldhash::fast::RandomState>,
    last_appended: Option<usize>,
    /// Batches that wait, by the time of their first record; one that was written meanwhile is passed over.
    waiting: VecDeque<(Timestamp, usize)>,
    buffered_records: usize,
    spare_batches: Vec<Batch>,
    encoder: BlockEncoder,
    block: Vec<u8>,
    /// Traces with an open file, the one written to last at the back.
    open_files: VecDeque<usize>,
    /// Files begun in it go on until it is over, in nanoseconds; empty before the first call.
    rotation_period: std::ops::Range<u64>,
    capture_totals: Ledger,
    totals: Ledger,
    kept_records: u64,
    _lock: DirectoryLock,
}

impl TraceWriter {
    /// Takes the directory. Files that an earlier run of the same instance left count towards the limits, and numbering
    /// goes on behind them.
    ///
    /// # Errors
    ///
    /// The directory cannot be made or written to, another process holds the instance name there, or the configuration
    /// cannot work.
    pub fn open(config: WriterConfig) -> Result<Self, TraceError> {
        config.check()?;
        let directory = &config.directory;
        std::fs::create_dir_all(directory).map_err(TraceError::io("cannot make the trace directory", directory))?;
        let lock = DirectoryLock::acquire(directory, &config.instance)?;
        Ok(Self {
            file_bytes: config.file_bytes(),
            batch_records: config.batch_records(),
            shelf: Shelf::open(directory, &config.instance)?,
            traces: Vec::new(),
            by_owner: HashMap::default(),
            last_appended: None,
            waiting: VecDeque::new(),
            buffered_records: 0,
            spare_batches: Vec::new(),
            encoder: BlockEncoder::new().map_err(TraceError::io("cannot prepare zstd for", directory))?,
            block: Vec::new(),
            open_files: VecDeque::new(),
            rotation_period: 0..0,
            capture_totals: Ledger::default(),
            totals: Ledger::default(),
            kept_records: 0,
            _lock: lock,
            config,
        })
    }

    /// The directory of all traces.
    pub fn directory(&self) -> &Path {
        &self.config.directory
    }

    /// Takes a record into its owner's batch, and writes what is due. The record counts as `seen`.
    ///
    /// # Errors
    ///
    /// A block could not be written: see [`TraceWriter`].
    #[inline]
    pub fn append(&mut self, record: &Record, now: Timestamp) -> Result<(), TraceError> {
        let due = self.tick(now);
        let index = match self.last_appended {
            Some(index) if self.traces.get(index).is_some_and(|trace| trace.owner == record.owner) => index,
            _ => match self.trace_of(record.owner) {
                Ok(index) => index,
                Err(error) => {
                    self.totals.add(Counter::Seen, 1);
                    self.totals.add(Counter::WriteFailed, 1);
                    return due.and(Err(error));
                }
            },
        };
        self.last_appended = Some(index);
        let Some(trace) = self.traces.get_mut(index) else { return due };
        let batch = trace.batch.get_or_insert_with(|| self.spare_batches.pop().unwrap_or_else(Batch::new));
        if batch.is_empty() {
            trace.waiting_since = now;
            self.waiting.push_back((now, index));
        }
        batch.push(record);
        self.buffered_records = self.buffered_records.saturating_add(1);
        if batch.len() >= self.batch_records {
            return due.and(self.write_batch(index, now));
        }
        if self.buffered_records > self.config.max_buffered_records {
            return due.and(self.write_oldest_batch(now));
        }
        due
    }

    /// Counts requests that were seen and do not come to [`Self::append`]. They count as `seen` too.
    pub fn lose(&mut self, owner: Option<TenantTimeline>, reason: Counter, requests: u64) {
        let trace = self.by_owner.get(&owner).and_then(|&index| self.traces.get_mut(index));
        let pending = trace.map(|trace| &mut trace.pending);
        for ledger in [Some(&mut self.totals), pending].into_iter().flatten() {
            ledger.add(Counter::Seen, requests);
            ledger.add(reason, requests);
        }
    }

    /// Tells what the whole capture has lost since its beginning ([`Counter::is_capture_wide`]; other counters are passed
    /// over). Each trace's next block says how much of it came since its last.
    pub fn capture_losses(&mut self, since_the_beginning: &Ledger) {
        let mut totals = Ledger::default();
        for (counter, value) in since_the_beginning.iter().filter(|(counter, _)| counter.is_capture_wide()) {
            totals.add(counter, value);
        }
        self.capture_totals = totals;
    }

    /// Says whose a connection was whose records were written without owner. Nothing happens where there is no such trace.
    ///
    /// # Errors
    ///
    /// A block could not be written.
    pub fn attribute(&mut self, connection: ConnectionOwner, now: Timestamp) -> Result<(), TraceError> {
        let Some(&index) = self.by_owner.get(&None) else { return Ok(()) };
        let Some(trace) = self.traces.get_mut(index) else { return Ok(()) };
        trace.attributions.push(connection);
        if trace.attributions.len() >= MAX_WAITING_ATTRIBUTIONS { self.write_batch(index, now) } else { Ok(()) }
    }

    /// Writes the batches that have waited long enough and ends files whose time is over. To be called several times a
    /// second when no record comes; [`Self::append`] does it by itself.
    ///
    /// # Errors
    ///
    /// A block could not be written: see [`TraceWriter`].
    #[inline]
    pub fn tick(&mut self, now: Timestamp) -> Result<(), TraceError> {
        let mut result = Ok(());
        if !self.rotation_period.contains(&now.0) {
            result = self.end_period(now);
        }
        let Some(interval_ns) = self.config.flush_interval_ns else { return result };
        while let Some(&(since, index)) = self.waiting.front() {
            // A clock that was set back would hold batches up; they are written at once.
            if now.since(since).is_some_and(|waited_ns| waited_ns < interval_ns) {
                break;
            }
            self.waiting.pop_front();
            if self.is_waiting_since(index, since) {
                result = result.and(self.write_batch(index, now));
            }
        }
        result
    }

    /// Another period of rotation has begun.
    fn end_period(&mut self, now: Timestamp) -> Result<(), TraceError> {
        let is_first = self.rotation_period.is_empty();
        let interval_ns = self.config.rotate_interval_ns.unwrap_or(u64::MAX).max(1);
        let start = now.0.saturating_sub(now.0.checked_rem(interval_ns).unwrap_or(0));
        self.rotation_period = start..start.saturating_add(interval_ns);
        if is_first { Ok(()) } else { self.end_all_files(now) }
    }

    /// Goes on under other circumstances: every file is ended, and those that begin from now on say the new ones. Where they
    /// are those that there are, nothing happens.
    ///
    /// # Errors
    ///
    /// A limit is below [`MIN_LIMIT_BYTES`], then nothing changes; or a block could not be written: see [`TraceWriter`].
    pub fn change(&mut self, change: Change, now: Timestamp) -> Result<(), TraceError> {
        let config = self.config.changed(change)?;
        if config.circumstances == self.config.circumstances {
            return Ok(());
        }
        let ended = self.end_all_files(now);
        (self.file_bytes, self.batch_records) = (config.file_bytes(), config.batch_records());
        self.config = config;
        ended
    }

    /// Writes every batch.
    ///
    /// # Errors
    ///
    /// A block could not be written: see [`TraceWriter`].
    pub fn flush(&mut self, now: Timestamp) -> Result<(), TraceError> {
        let mut result = Ok(());
        for index in 0..self.traces.len() {
            if self.traces.get(index).is_some_and(Trace::has_waiting) {
                result = result.and(self.write_batch(index, now));
            }
        }
        self.waiting.clear();
        result
    }

    /// Writes every batch and what is left of the ledgers, and lets go of the directory.
    ///
    /// # Errors
    ///
    /// A block could not be written; everything else was.
    pub fn close(mut self, now: Timestamp) -> (Ledger, Result<(), TraceError>) {
        let mut result = self.flush(now);
        for index in 0..self.traces.len() {
            result = result.and(self.write_ledger(index));
        }
        (self.ledger(), result)
    }

    /// What this run has come to: `seen` and every reason for which a request is not kept, and what the capture lost.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = self.totals;
        ledger.merge(&self.capture_totals);
        ledger
    }

    /// How many requests of this run could not be written.
    pub fn write_failed(&self) -> u64 {
        self.totals.value(Counter::WriteFailed)
    }

    /// How many records of this run are in files, and were not deleted with them.
    pub fn kept_records(&self) -> u64 {
        self.kept_records
    }

    /// The files of this instance with their lengths in bytes, oldest first.
    pub fn files(&self) -> impl Iterator<Item = (&Path, u64)> {
        self.shelf.files().map(|file| (file.path.as_path(), file.bytes))
    }

    /// Whether this trace's batch is still the one that began waiting then.
    fn is_waiting_since(&self, index: usize, since: Timestamp) -> bool {
        self.traces.get(index).is_some_and(|trace| trace.has_waiting() && trace.waiting_since == since)
    }

    /// Too many records wait: the batch that waits longest is written.
    fn write_oldest_batch(&mut self, now: Timestamp) -> Result<(), TraceError> {
        while let Some((since, index)) = self.waiting.pop_front() {
            if self.is_waiting_since(index, since) {
                return self.write_batch(index, now);
            }
        }
        Ok(())
    }

    /// The trace of an owner, begun where there is none.
    fn trace_of(&mut self, owner: Owner) -> Result<usize, TraceError> {
        if let Some(&index) = self.by_owner.get(&owner) {
            return Ok(index);
        }
        if let Some(index) = self.begin_trace(owner) {
            return Ok(index);
        }
        let trace = Trace::new(owner, self.shelf.last_sequence(owner), &self.capture_totals);
        let idle = self.idle_trace().and_then(|index| Some((index, self.traces.get_mut(index)?)));
        let Some((index, place)) = idle else {
            let (directory, limit) = (self.config.directory.clone(), self.config.max_traces);
            return Err(TraceError::TooManyTraces { directory, limit });
        };
        let forgotten = std::mem::replace(place, trace);
        self.by_owner.remove(&forgotten.owner);
        self.by_owner.insert(owner, index);
        Ok(index)
    }

    /// Begins a trace, where one more is allowed.
    fn begin_trace(&mut self, owner: Owner) -> Option<usize> {
        let index = self.traces.len();
        if index >= self.config.max_traces {
            return None;
        }
        self.traces.push(Trace::new(owner, self.shelf.last_sequence(owner), &self.capture_totals));
        self.by_owner.insert(owner, index);
        Some(index)
    }

    /// The trace of an owner whose files are on the disk, to carry their ledger; it takes no other trace's place.
    fn known_trace(&mut self, owner: Owner) -> Option<&mut Trace> {
        let index = self.by_owner.get(&owner).copied().or_else(|| self.begin_trace(owner))?;
        self.traces.get_mut(index)
    }

    /// A trace with nothing in memory and nothing on the disk: its place may be taken.
    fn idle_trace(&self) -> Option<usize> {
        self.traces.iter().position(|trace| !trace.has_waiting() && self.shelf.newest(trace.owner).is_none())
    }

    /// Where an owner's files are.
    fn owner_directory(&self, owner: Owner) -> PathBuf {
        shelf::owner_directory(&self.config.directory, owner)
    }
}
