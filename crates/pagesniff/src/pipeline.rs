//! What becomes of a record: filter → summary → records out, each step counted.

use std::io;

use analysis::summary::{CaptureFacts, Ledger, Limits, Report, Summary};
use record::Record;

use crate::filter::{Filter, Verdict};
use crate::records::RecordWriter;

/// Takes what the decoder makes. Allocates nothing per record.
pub struct Pipeline {
    filter: Filter,
    ledger: Ledger,
    summary: Summary,
    records: Option<RecordWriter>,
}

impl Pipeline {
    /// A pipeline into `records`, or into the summary alone.
    pub fn new(filter: Filter, records: Option<RecordWriter>) -> Self {
        Self { filter, ledger: Ledger::default(), summary: Summary::new(Limits::default()), records }
    }

    /// Writes what is buffered: the input pauses, or is at its end.
    pub fn flush(&mut self) {
        if let Some(records) = &mut self.records {
            records.flush();
        }
    }

    /// Why nothing more can be written, if so.
    pub fn write_error(&self) -> Option<&io::Error> {
        self.records.as_ref().and_then(RecordWriter::error)
    }

    /// The same, at the end.
    pub fn into_write_error(self) -> Option<io::Error> {
        self.records.and_then(RecordWriter::into_error)
    }

    /// Where each request went so far; `seen` is the sum of the rest.
    pub fn ledger(&self) -> Ledger {
        let write_failed = self.records.as_ref().map_or(0, RecordWriter::failed);
        Ledger { write_failed, kept: self.ledger.kept.saturating_sub(write_failed), ..self.ledger }
    }

    /// How many tenants have requests that were kept.
    pub fn tenants(&self) -> usize {
        self.summary.tenants()
    }

    /// The report of what was kept.
    pub fn report(&self, capture: CaptureFacts) -> Report {
        self.summary.report(capture)
    }
}

impl decode::Sink for Pipeline {
    fn record(&mut self, record: &Record) {
        self.ledger.seen += 1;
        match self.filter.verdict(record) {
            Verdict::Keep => {
                self.ledger.kept += 1;
                self.summary.observe(record);
                if let Some(records) = &mut self.records {
                    records.record(record);
                }
            }
            Verdict::Filtered => self.ledger.filtered += 1,
            Verdict::SampledOut => self.ledger.sampled_out += 1,
            Verdict::Unattributed => self.ledger.unattributed += 1,
        }
    }
}
