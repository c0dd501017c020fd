//! What becomes of a record: attribution → filter → summary → records out and traces, each step counted.

use std::io;

use analysis::summary::{CaptureFacts, Ledger, Limits, Report, Summary};
use decode::Identified;
use record::{Record, TenantId, TenantTimeline, Timestamp};
use trace::Counter;

use crate::attribution::Attributor;
use crate::filter::{Filter, Verdict};
use crate::findings::Findings;
use crate::recorder::{Recorded, Recorder};
use crate::records::RecordWriter;

/// Takes what the decoder makes. Allocates nothing per record.
pub struct Pipeline {
    attributor: Attributor,
    filter: Filter,
    ledger: Ledger,
    summary: Summary,
    outputs: Outputs,
    passed_over: PassedOver,
    /// The time of the packet that is being decoded.
    now: Timestamp,
}

/// Tenants whose requests were left out by the filters, for whoever got none: the first few.
#[derive(Debug, Default)]
pub struct PassedOver {
    tenants: Vec<TenantId>,
    /// Whether there were more.
    more: bool,
}

/// As many as fit a line of a terminal or two.
const MOST_PASSED_OVER: usize = 4;

impl PassedOver {
    fn see(&mut self, owner: Option<TenantTimeline>) {
        let Some(TenantTimeline { tenant, .. }) = owner else { return };
        if self.tenants.contains(&tenant) {
            return;
        }
        match self.tenants.len() < MOST_PASSED_OVER {
            true => self.tenants.push(tenant),
            false => self.more = true,
        }
    }

    /// Says whose requests there were, where none was kept.
    pub fn note(&self, ledger: &Ledger) -> Option<String> {
        if ledger.filtered == 0 || ledger.filtered.saturating_add(ledger.unattributed) < ledger.seen {
            return None;
        }
        let tenants: Vec<String> = self.tenants.iter().map(ToString::to_string).collect();
        let more = if self.more { ", and others" } else { "" };
        Some(format!("the filters left out every request; there were requests of {}{more}", tenants.join(", ")))
            .filter(|_| !tenants.is_empty())
    }
}

/// Where records go.
#[derive(Default)]
pub struct Outputs {
    /// To standard output.
    pub records: Option<RecordWriter>,
    /// To trace files.
    pub recorder: Option<Recorder>,
    /// To the diagnosis.
    pub findings: Option<Findings>,
}

/// What a pipeline ended with.
pub struct Ended {
    /// Where each request went; `seen` is the sum of the rest.
    pub ledger: Ledger,
    /// Why standard output took no more, if so.
    pub write_error: Option<io::Error>,
    /// What the traces came to, where there are any.
    pub recorded: Option<Recorded>,
    /// What the kept records came to.
    pub summary: Summary,
    /// What became of hints and assertions.
    pub attributor: Attributor,
    /// Whose requests the filters left out.
    pub passed_over: PassedOver,
    /// What the requests mean, where that was asked for.
    pub findings: Option<Findings>,
}

impl Ended {
    /// The report of what was kept.
    pub fn report(&self, capture: CaptureFacts) -> Report {
        self.summary.report(capture)
    }
}

impl Pipeline {
    /// A pipeline into these outputs, or into the summary alone.
    pub fn new(attributor: Attributor, filter: Filter, outputs: Outputs) -> Self {
        let summary = Summary::new(Limits::default());
        Self {
            attributor,
            filter,
            ledger: Ledger::default(),
            summary,
            outputs,
            passed_over: PassedOver::default(),
            now: Timestamp(0),
        }
    }

    /// What is decoded next was completed at `now`, in packet time.
    #[inline]
    pub fn at(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// It is `now`, and no packet is at hand: what is buffered is written.
    pub fn idle(&mut self, now: Timestamp) {
        if let Some(records) = &mut self.outputs.records {
            records.flush();
        }
        if let Some(recorder) = &mut self.outputs.recorder {
            recorder.feed.idle(now);
        }
    }

    /// Tells the traces what the whole capture has lost up to now.
    pub fn capture_losses(&mut self, losses: impl FnOnce() -> trace::Ledger) {
        let Outputs { recorder, findings, .. } = &mut self.outputs;
        if recorder.is_none() && findings.is_none() {
            return;
        }
        let losses = losses();
        if let Some(recorder) = recorder {
            recorder.feed.capture_losses(&losses);
        }
        if let Some(findings) = findings {
            findings.capture_losses(&losses, self.now);
        }
    }

    /// Whether there is no sense in going on: an output takes nothing more.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.outputs.records.as_ref().is_some_and(|records| records.error().is_some())
            || self.outputs.recorder.as_ref().is_some_and(|recorder| recorder.thread.has_failed())
    }

    /// How many records were kept so far, by the filters.
    pub fn kept(&self) -> u64 {
        self.ledger.kept
    }

    /// How many tenants have requests that were kept.
    pub fn tenants(&self) -> usize {
        self.summary.tenants()
    }

    /// Writes everything and adds up.
    pub fn finish(self) -> Ended {
        let Self {
            attributor,
            passed_over,
            mut ledger,
            summary,
            outputs: Outputs { mut records, recorder, findings },
            ..
        } = self;
        if let Some(records) = &mut records {
            records.flush();
        }
        let queue_dropped = recorder.as_ref().map_or(0, |recorder| recorder.feed.queue_dropped());
        let recorded = recorder.map(Recorder::finish);
        match &recorded {
            // A record that is in a trace is kept, whatever became of it elsewhere.
            Some(recorded) => account(&mut ledger, queue_dropped, recorded),
            None => {
                ledger.write_failed = records.as_ref().map_or(0, RecordWriter::failed);
                ledger.kept = ledger.kept.saturating_sub(ledger.write_failed);
            }
        }
        Ended {
            ledger,
            write_error: records.and_then(RecordWriter::into_error),
            recorded,
            summary,
            attributor,
            passed_over,
            findings,
        }
    }
}

/// Takes over what the recorder did with the requests that the filters kept.
fn account(ledger: &mut Ledger, queue_dropped: u64, recorded: &Recorded) {
    let offered = ledger.kept;
    ledger.queue_dropped = queue_dropped;
    ledger.rotated = recorded.ledger.value(Counter::Rotated);
    ledger.kept = recorded.kept;
    // Those that the writer refused, and those that a recorder's end by a fault took along.
    let elsewhere = queue_dropped.saturating_add(ledger.rotated).saturating_add(ledger.kept);
    ledger.write_failed = offered.saturating_sub(elsewhere);
}

impl decode::Sink for Pipeline {
    fn record(&mut self, record: &Record) {
        match self.attributor.owner_of(record) {
            None => self.take(record),
            Some((owner, attribution)) => {
                self.take(&Record { owner: Some(owner), attribution: Some(attribution), ..record.clone() });
            }
        }
    }

    fn identified(&mut self, connection: &Identified) {
        let recorder = &mut self.outputs.recorder;
        self.attributor.identified(connection, |earlier| {
            if let Some(recorder) = recorder {
                recorder.feed.attribute(earlier);
            }
        });
    }
}

impl Pipeline {
    /// Takes a record whose owner is settled.
    fn take(&mut self, record: &Record) {
        self.ledger.seen += 1;
        // The proofs rest on all requests of a connection, also on those that the filters leave out.
        if let Some(findings) = &mut self.outputs.findings
            && self.filter.wants_tenant_of(record)
        {
            findings.observe(record, self.now);
        }
        let (count, reason) = match self.filter.verdict(record) {
            Verdict::Keep => {
                self.ledger.kept += 1;
                self.summary.observe(record);
                if let Some(records) = &mut self.outputs.records {
                    records.record(record);
                }
                if let Some(recorder) = &mut self.outputs.recorder {
                    recorder.feed.record(record, self.now);
                }
                return;
            }
            Verdict::Filtered => {
                self.passed_over.see(record.owner);
                (&mut self.ledger.filtered, Counter::Filtered)
            }
            Verdict::SampledOut => (&mut self.ledger.sampled_out, Counter::SampledOut),
            Verdict::Unattributed => (&mut self.ledger.unattributed, Counter::Unattributed),
        };
        *count += 1;
        if let Some(recorder) = &mut self.outputs.recorder {
            recorder.feed.lose(record.owner, reason);
        }
    }
}
