//! Keeping the limits: which file goes when a block needs its place.

use record::TenantId;

use super::shelf::{Age, Owner};
use super::{OnFull, TraceWriter};
use crate::error::TraceError;
use crate::format::ledger::{Counter, Ledger};
use crate::read::TraceReader;

/// Under [`OnFull::Stop`] this much is left for the ledger's last words.
const LAST_WORDS_BYTES: u64 = 8 << 10;

/// Which limit is in the way.
#[derive(Debug, Clone, Copy)]
enum Limit {
    /// The tenant's.
    Tenant(Option<TenantId>),
    /// That of all traces.
    Total,
}

impl TraceWriter {
    /// Deletes oldest files until `bytes` more may be written to the trace, or says why they may not.
    pub(super) fn make_room(&mut self, index: usize, bytes: u64) -> Result<(), TraceError> {
        let reserve = if self.config.on_full == OnFull::Stop { LAST_WORDS_BYTES } else { 0 };
        let is_full = self.traces.get(index).is_some_and(|trace| trace.is_full);
        // What is full stays so: its limit is then exceeded by any number of bytes.
        let bytes = if is_full { u64::MAX } else { bytes };
        while let Some((limit, limit_bytes)) = self.exceeded(index, bytes.saturating_add(reserve)) {
            let oldest = match limit {
                Limit::Tenant(tenant) => self.shelf.oldest(Some(tenant)),
                Limit::Total => self.shelf.oldest(None),
            };
            match oldest {
                Some(age) if self.config.on_full == OnFull::Rotate => self.delete(&age)?,
                _ => {
                    if let Some(trace) = self.traces.get_mut(index) {
                        trace.is_full = true;
                    }
                    return Err(self.full(index, limit_bytes));
                }
            }
        }
        Ok(())
    }

    /// Whether `bytes` more may be written to the trace.
    pub(super) fn fits(&self, index: usize, bytes: u64) -> bool {
        self.exceeded(index, bytes).is_none()
    }

    /// The limit that would be exceeded by a block of `bytes`. A new file's header is counted whether it comes or not.
    fn exceeded(&self, index: usize, bytes: u64) -> Option<(Limit, u64)> {
        let trace = self.traces.get(index)?;
        let mut more = bytes;
        if trace.current.is_none() {
            more = more.saturating_add(self.header_bytes());
        }
        let (tenant_bytes, total_bytes) = self.shelf.bytes_with(trace.owner, (trace.current.as_ref(), more));
        let facts = &self.config.circumstances;
        let exceeds = |limit: Option<u64>, bytes: u64| limit.filter(|&limit| bytes > limit);
        match (exceeds(facts.max_bytes, tenant_bytes), exceeds(facts.max_total_bytes, total_bytes)) {
            (Some(limit), _) => Some((Limit::Tenant(trace.owner.map(|owner| owner.tenant)), limit)),
            (None, Some(limit)) => Some((Limit::Total, limit)),
            (None, None) => None,
        }
    }

    /// The most that a file header takes here.
    fn header_bytes(&self) -> u64 {
        let facts = &self.config.circumstances;
        let texts = [&facts.program, &facts.link, &facts.clock, &facts.filter, &facts.assertion, &self.config.instance];
        // Ids, lengths and numbers take under 256 bytes.
        texts.iter().fold(256, |sum, text| sum.saturating_add(text.len() as u64))
    }

    /// Deletes a file. What its ledger told, and its records as `rotated`, goes into its trace's next block, so that the
    /// ledger of what remains still adds up.
    fn delete(&mut self, age: &Age) -> Result<(), TraceError> {
        let Some(file) = self.shelf.file(age) else { return Ok(()) };
        let (owner, kept) = (file.owner, file.kept);
        let (carried, records) = told_by(&file.path);
        self.shelf.delete(age)?;
        self.kept_records = self.kept_records.saturating_sub(kept);
        self.totals.add(Counter::Rotated, kept);
        if let Some(trace) = self.known_trace(owner) {
            trace.pending.merge(&carried);
            trace.pending.add(Counter::Rotated, records);
            if trace.current.as_ref() == Some(age) {
                (trace.current, trace.file) = (None, None);
            }
        }
        Ok(())
    }

    /// The disk is full before a limit is reached: as with a limit, the tenant's oldest file makes room, where that is
    /// allowed and there is one.
    pub(super) fn delete_oldest_of(&mut self, owner: Owner) -> Result<bool, TraceError> {
        match self.shelf.oldest(Some(owner.map(|owner| owner.tenant))) {
            Some(age) if self.config.on_full == OnFull::Rotate => self.delete(&age).map(|()| true),
            _ => Ok(false),
        }
    }

    /// The trace has reached its limit for good.
    fn full(&self, index: usize, limit_bytes: u64) -> TraceError {
        let mut path = self.config.directory.clone();
        if let Some(trace) = self.traces.get(index) {
            path = super::shelf::owner_directory(&path, trace.owner);
        }
        TraceError::Full { path, limit_bytes }
    }
}

/// The sum of a file's ledgers, and its records. A file that cannot be read any more tells nothing.
fn told_by(path: &std::path::Path) -> (Ledger, u64) {
    let Ok(mut reader) = TraceReader::open(path) else { return (Ledger::default(), 0) };
    let mut records = 0u64;
    while let Ok(Some(block)) = reader.next_block() {
        if block.header().kind == crate::format::block::BlockKind::Records {
            records = records.saturating_add(u64::from(block.header().records));
        }
    }
    (*reader.ledger(), records)
}
