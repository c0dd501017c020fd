//! One owner's trace: its batch becomes a block, its blocks a file.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;

use record::Timestamp;

use super::TraceWriter;
use super::output::{append_whole, create, reopen};
use super::shelf::{Age, Owner, ShelvedFile};
use crate::columns::batch::Batch;
use crate::error::TraceError;
use crate::format::FORMAT_MINOR;
use crate::format::attribution::{self, ConnectionOwner};
use crate::format::header::FileHeader;
use crate::format::ledger::{Counter, Ledger};
use crate::name::FileName;

/// What is known of an owner's trace in memory.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) owner: Owner,
    pub(super) batch: Option<Batch>,
    /// When the batch got its first record.
    pub(super) waiting_since: Timestamp,
    pub(super) attributions: Vec<ConnectionOwner>,
    /// What the next block's ledger says, without the capture's losses.
    pub(super) pending: Ledger,
    /// The capture's losses as of the last block.
    pub(super) told_capture_totals: Ledger,
    /// The file that blocks go to.
    pub(super) current: Option<Age>,
    pub(super) file: Option<File>,
    pub(super) last_sequence: u64,
    /// Its limit was reached under [`super::OnFull::Stop`]: nothing more is written, lest a small block be put behind a
    /// large one that was refused.
    pub(super) is_full: bool,
}

impl Trace {
    /// A trace without file. What the capture lost before is not its loss.
    pub(super) fn new(owner: Owner, last_sequence: u64, capture_totals: &Ledger) -> Self {
        Self {
            owner,
            batch: None,
            waiting_since: Timestamp(0),
            attributions: Vec::new(),
            pending: Ledger::default(),
            told_capture_totals: *capture_totals,
            current: None,
            file: None,
            last_sequence,
            is_full: false,
        }
    }

    /// Whether something is to be written.
    pub(super) fn has_waiting(&self) -> bool {
        self.batch.as_ref().is_some_and(|batch| !batch.is_empty()) || !self.attributions.is_empty()
    }
}

/// What a record usually takes, a little more rather than less.
const USUAL_RECORD_BYTES: u64 = 12;
/// What a block takes besides.
const USUAL_BLOCK_BYTES: u64 = 512;

/// A block ready to be written.
#[derive(Debug, Clone, Copy)]
struct Ready {
    /// The ledger in it.
    ledger: Ledger,
    records: u64,
}

impl TraceWriter {
    /// Writes a trace's batch and attributions.
    pub(super) fn write_batch(&mut self, index: usize, now: Timestamp) -> Result<(), TraceError> {
        let attributed = self.write_attributions(index, now);
        let Some(trace) = self.traces.get_mut(index) else { return attributed };
        let Some(mut batch) = trace.batch.take() else { return attributed };
        let records = batch.len() as u64;
        self.buffered_records = self.buffered_records.saturating_sub(batch.len());
        trace.pending.add(Counter::Seen, records);
        self.totals.add(Counter::Seen, records);
        let written = self.write_records(index, &batch, now);
        if written.is_err() {
            self.totals.add(Counter::WriteFailed, records);
            if let Some(trace) = self.traces.get_mut(index) {
                trace.pending.add(Counter::WriteFailed, records);
            }
        }
        batch.clear();
        if self.spare_batches.len() < super::MAX_SPARE_BATCHES {
            self.spare_batches.push(batch);
        }
        attributed.and(written)
    }

    /// Counts what waits in batches as `write_failed`: after a write that failed, a small block might still fit, and leave a
    /// hole in front of it.
    pub fn give_up(&mut self) {
        for trace in &mut self.traces {
            let Some(batch) = trace.batch.take() else { continue };
            let records = batch.len() as u64;
            self.buffered_records = self.buffered_records.saturating_sub(batch.len());
            for ledger in [&mut self.totals, &mut trace.pending] {
                ledger.add(Counter::Seen, records);
                ledger.add(Counter::WriteFailed, records);
            }
        }
        self.waiting.clear();
    }

    /// Makes a block of a batch and writes it. Room is made first, for what the block should take: deleting a file changes
    /// the ledger, which is then told in this block and not in the next.
    fn write_records(&mut self, index: usize, batch: &Batch, now: Timestamp) -> Result<(), TraceError> {
        if self.config.is_late.load(Ordering::Relaxed) {
            let (path, records) = (self.config.directory.clone(), batch.len() as u64);
            return Err(TraceError::WriteFailed {
                path,
                records,
                source: io::Error::other("there was no time left for it"),
            });
        }
        let expected_bytes = (batch.len() as u64).saturating_mul(USUAL_RECORD_BYTES).saturating_add(USUAL_BLOCK_BYTES);
        self.make_room(index, expected_bytes)?;
        let Some(trace) = self.traces.get(index) else { return Ok(()) };
        let (owner, ledger) = (trace.owner, self.next_ledger(trace));
        self.block.clear();
        let mut block = std::mem::take(&mut self.block);
        self.encoder.encode(batch, (owner, &ledger), &mut block);
        self.block = block;
        let ready = Ready { ledger, records: batch.len() as u64 };
        match self.write_block(index, ready, now) {
            Err(TraceError::WriteFailed { source, .. })
                if source.kind() == io::ErrorKind::StorageFull && self.delete_oldest_of(owner)? =>
            {
                self.write_block(index, ready, now)
            }
            written => written,
        }
    }

    /// Writes the attributions of the unattributed trace.
    fn write_attributions(&mut self, index: usize, now: Timestamp) -> Result<(), TraceError> {
        let Some(trace) = self.traces.get_mut(index) else { return Ok(()) };
        if trace.attributions.is_empty() {
            return Ok(());
        }
        attribution::encode(&trace.attributions, trace.owner, &mut self.block);
        trace.attributions.clear();
        self.write_block(index, Ready { ledger: Ledger::default(), records: 0 }, now)
    }

    /// Writes what is left of a ledger, at the end of the newest file. A trace without file gets none for it.
    pub(super) fn write_ledger(&mut self, index: usize) -> Result<(), TraceError> {
        let Some(trace) = self.traces.get(index) else { return Ok(()) };
        let ledger = self.next_ledger(trace);
        let newest = self.shelf.newest(trace.owner);
        let (Some(newest), false) = (newest, ledger.is_empty()) else { return Ok(()) };
        let owner = trace.owner;
        self.block.clear();
        let mut block = std::mem::take(&mut self.block);
        self.encoder.encode(&Batch::new(), (owner, &ledger), &mut block);
        self.block = block;
        if let Some(trace) = self.traces.get_mut(index)
            && trace.current.as_ref() != Some(&newest)
        {
            (trace.current, trace.file) = (Some(newest), None);
        }
        if !self.fits(index, self.block.len() as u64) {
            // Not worth deleting a file of records for; the summary has it.
            return Ok(());
        }
        self.append_block(index, Ready { ledger, records: 0 })
    }

    /// What the next block of a trace has to say.
    fn next_ledger(&self, trace: &Trace) -> Ledger {
        let mut ledger = trace.pending;
        ledger.merge(&self.capture_totals.since(&trace.told_capture_totals));
        ledger
    }

    /// Writes the block that stands ready to the trace's file, or to a new one.
    fn write_block(&mut self, index: usize, ready: Ready, now: Timestamp) -> Result<(), TraceError> {
        let bytes = self.block.len() as u64;
        let Some(trace) = self.traces.get_mut(index) else { return Ok(()) };
        let current = trace.current.as_ref().and_then(|age| self.shelf.file(age));
        if current.is_none_or(|file| file.bytes.saturating_add(bytes) > self.file_bytes) {
            (trace.current, trace.file) = (None, None);
        }
        self.make_room(index, bytes)?;
        if self.traces.get(index).is_some_and(|trace| trace.current.is_none()) {
            return self.begin_file(index, ready, now);
        }
        self.append_block(index, ready)
    }

    /// Begins a file with its header and the block that stands ready, in one call.
    fn begin_file(&mut self, index: usize, ready: Ready, now: Timestamp) -> Result<(), TraceError> {
        let Some(trace) = self.traces.get_mut(index) else { return Ok(()) };
        let (owner, sequence) = (trace.owner, trace.last_sequence.saturating_add(1));
        let name = FileName::new(now, &self.config.instance, sequence);
        let header = FileHeader {
            minor: FORMAT_MINOR,
            owner,
            instance: self.config.instance.clone(),
            sequence,
            started: now,
            circumstances: self.config.circumstances.clone(),
        };
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        bytes.extend_from_slice(&self.block);
        let directory = self.owner_directory(owner);
        let path = directory.join(name.to_string());
        let failed = |source| TraceError::WriteFailed { path: path.clone(), records: ready.records, source };
        std::fs::create_dir_all(&directory).map_err(failed)?;
        let mut file = create(&path).map_err(failed)?;
        if let Err(source) = append_whole(&mut file, &bytes, 0) {
            // Nothing is in it; a file without a header would only puzzle its readers.
            let _ = std::fs::remove_file(&path);
            return Err(failed(source));
        }
        let shelved = ShelvedFile { path, owner, bytes: bytes.len() as u64, kept: ready.records };
        let age = self.shelf.put(&name, shelved);
        if let Some(trace) = self.traces.get_mut(index) {
            trace.last_sequence = sequence;
            (trace.current, trace.file) = (Some(age), Some(file));
        }
        self.note_written(index, ready);
        Ok(())
    }

    /// Appends the block that stands ready to the trace's current file.
    fn append_block(&mut self, index: usize, ready: Ready) -> Result<(), TraceError> {
        let Some(trace) = self.traces.get_mut(index) else { return Ok(()) };
        let Some((age, shelved)) = trace.current.as_ref().and_then(|age| Some((age, self.shelf.file(age)?))) else {
            return Ok(());
        };
        let opened = match trace.file.take() {
            Some(file) => Ok(file),
            None => reopen(&shelved.path, shelved.bytes),
        };
        let written = opened.and_then(|mut file| {
            append_whole(&mut file, &self.block, shelved.bytes)?;
            io::Result::Ok(file)
        });
        let age = age.clone();
        match written {
            Ok(file) => trace.file = Some(file),
            Err(source) => {
                let error = TraceError::WriteFailed { path: shelved.path.clone(), records: ready.records, source };
                // The next block goes to a file of its own: this one may be unwritable for good.
                trace.current = None;
                return Err(error);
            }
        }
        let bytes = shelved.bytes.saturating_add(self.block.len() as u64);
        self.shelf.grow(&age, (bytes, ready.records));
        self.note_written(index, ready);
        Ok(())
    }

    /// The block is in the file: what it told is no longer pending.
    fn note_written(&mut self, index: usize, ready: Ready) {
        self.kept_records = self.kept_records.saturating_add(ready.records);
        if let Some(trace) = self.traces.get_mut(index)
            && !ready.ledger.is_empty()
        {
            trace.pending = trace.pending.since(&ready.ledger);
            trace.told_capture_totals = self.capture_totals;
        }
        self.note_open(index);
    }

    /// Closes the file that was not written to for the longest time where too many are open.
    fn note_open(&mut self, index: usize) {
        if self.open_files.back() == Some(&index) {
            return;
        }
        self.open_files.retain(|&other| other != index);
        self.open_files.push_back(index);
        if self.open_files.len() > self.config.max_open_files
            && let Some(trace) = self.open_files.pop_front().and_then(|oldest| self.traces.get_mut(oldest))
        {
            trace.file = None;
        }
    }

    /// Ends every file: its time is over.
    pub(super) fn end_all_files(&mut self, now: Timestamp) -> Result<(), TraceError> {
        let mut result = self.flush(now);
        for index in 0..self.traces.len() {
            if self.traces.get(index).is_some_and(|trace| trace.current.is_some()) {
                result = result.and(self.write_ledger(index));
            }
            if let Some(trace) = self.traces.get_mut(index) {
                (trace.current, trace.file) = (None, None);
            }
        }
        self.open_files.clear();
        result
    }
}
