//! What is diagnosed: pagesniff's traces, or Neon's own page traces.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};

use analysis::diagnosis::{Diagnosis, EXPECTED_RECORDS, InputFacts, Origin};
use analysis::page_trace::PageTraceEvent;
use analysis::render::count_text;
use anyhow::{anyhow, bail};
use record::Record;
use trace::{OrderedRecords, TraceError, TraceReader, trace_files};

use super::circumstances::{TraceFacts, each_span};
use super::progress::ReportProgress;
use crate::export::LaterOwners;
use crate::filter::{Filter, Verdict};
use crate::flags::{RawFilter, RawOwnerFilter, SampleRate};

/// A page trace is sorted in memory: the pageserver sends at most what `size_limit_bytes` allows, a few MiB. Of so much,
/// twenty million events take another 1.2 GiB.
const MAX_PAGE_TRACE_BYTES: u64 = 720 << 20;

/// Records that are handed over at once: enough that the hand-over costs nothing beside them, some 300 KiB.
const BATCH_RECORDS: usize = 1024;

/// So many batches are read ahead, 2 MiB.
const MOST_BATCHES: usize = 8;

/// The inputs, opened and gone over once.
pub(super) enum Input {
    Traces { files: Vec<PathBuf>, facts: TraceFacts, filter: Box<RawOwnerFilter> },
    PageTraces { files: u64, events: Vec<PageTraceEvent> },
}

impl Input {
    /// Finds out what each path is, and goes once over the traces for what they say of themselves.
    pub(super) fn open(paths: &[PathBuf], filter: &RawOwnerFilter) -> anyhow::Result<Self> {
        let (mut traces, mut page_traces) = (Vec::new(), Vec::new());
        let mut facts = TraceFacts::default();
        for path in trace_files(paths)? {
            match TraceReader::open(&path) {
                Ok(mut reader) => {
                    let owner = reader.header().and_then(|header| header.owner);
                    if owner.is_none_or(|owner| filter.may_want(owner.tenant)) {
                        facts.read(&mut reader)?;
                        traces.push(path);
                    }
                }
                Err(TraceError::Foreign { .. }) => page_traces.push(path),
                // Rotation has deleted it in the meantime.
                Err(TraceError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        match (traces.first(), page_traces.first()) {
            (Some(trace), Some(page_trace)) => bail!(
                "{} is a trace and {} is none: a page trace tells too little to be merged; give it a report of its own",
                trace.display(),
                page_trace.display()
            ),
            (None, Some(_)) => Self::open_page_traces(&page_traces, filter),
            (None, None) => bail!("no trace of what is wanted in {}; traces end in .pgtrace", listed(paths)),
            (Some(_), None) => Ok(Self::Traces { files: traces, facts, filter: Box::new(filter.clone()) }),
        }
    }

    fn open_page_traces(paths: &[PathBuf], filter: &RawOwnerFilter) -> anyhow::Result<Self> {
        if filter.names_owner() || !filter.client.is_empty() {
            bail!("a page trace does not tell whose it is nor who asked: give no --tenant, --timeline or --client");
        }
        let mut events = Vec::new();
        let mut bytes_left = MAX_PAGE_TRACE_BYTES;
        for path in paths {
            let bytes = read_page_trace(path, &mut bytes_left)?;
            events.append(&mut PageTraceEvent::decode_all(&bytes).map_err(|fault| {
                anyhow!(
                    "{}: neither a trace of pagesniff, which begins with the bytes 89 50 47 54, nor a page trace of Neon's: \
                     {fault}",
                    path.display()
                )
            })?);
        }
        events.sort_unstable();
        Ok(Self::PageTraces { files: paths.len() as u64, events })
    }

    /// How many records there are, before any filter.
    pub(super) fn records(&self) -> u64 {
        match self {
            Self::Traces { facts, .. } => facts.records,
            Self::PageTraces { events, .. } => events.len() as u64,
        }
    }

    /// Hands all records to the diagnosis, in order.
    pub(super) fn feed(self, diagnosis: &mut Diagnosis, progress: &mut ReportProgress) -> anyhow::Result<InputFacts> {
        match self {
            Self::Traces { files, facts, filter } => feed_traces((&files, facts), &filter, (diagnosis, progress)),
            Self::PageTraces { files, events } => {
                for event in &events {
                    diagnosis.observe(&event.to_record());
                    progress.step();
                }
                let note = "a page trace tells neither who asked nor what came back, and the pageserver drops events \
                            without a count: there are no classes, latencies, errors or losses here";
                let notes = vec![note.to_owned()];
                Ok(InputFacts { origin: Origin::PageTraces, files, notes, ..InputFacts::default() })
            }
        }
    }
}

/// What a daemon has left beside its traces, where they did not come to their end.
#[cfg(all(feature = "live", target_os = "linux"))]
fn stories(files: &[PathBuf]) -> Vec<String> {
    // ID/TENANT/TIMELINE/FILE
    let directories = files.iter().filter_map(|file| file.ancestors().nth(3));
    let directories: std::collections::BTreeSet<&Path> = directories.collect();
    directories.into_iter().filter_map(crate::daemon::unfinished).collect()
}

#[cfg(not(all(feature = "live", target_os = "linux")))]
fn stories(_files: &[PathBuf]) -> Vec<String> {
    Vec::new()
}

fn feed_traces(
    (files, facts): (&[PathBuf], TraceFacts),
    raw_filter: &RawOwnerFilter,
    (diagnosis, progress): (&mut Diagnosis, &mut ReportProgress),
) -> anyhow::Result<InputFacts> {
    let mut input = InputFacts {
        origin: Origin::Traces,
        loss: facts.loss(),
        ledger: facts.ledger(),
        files: facts.files,
        damaged_bytes: facts.damaged_bytes,
        sampled_one_in: facts.sampled_one_in.max(1),
        is_whole: facts.empty_files == 0,
        notes: facts.notes(),
        ..InputFacts::default()
    };
    facts.selected().for_each(|tenant| diagnosis.shards_selected(tenant));
    input.notes.extend(stories(files));
    raw_filter.shard_claims().for_each(|claim| diagnosis.claim_shard(claim));
    let clocks_disagree = facts.clocks_disagree();
    let losses = facts.into_loss_times();
    each_span(&losses).for_each(|(from, until)| diagnosis.lost(from, until));
    let owners = LaterOwners::read(files)?;
    // Where some files have fewer keys than others, the figures rest on those that all of them have.
    let sample = Some(SampleRate { one_in: input.sampled_one_in }).filter(|rate| rate.one_in > 1);
    let wanted = RawFilter { owner: raw_filter.clone(), sample, ..RawFilter::default() };
    let filter = Filter::from_raw(&wanted, !raw_filter.names_owner());
    let (mut left_out, mut sampled_out) = (0u64, 0u64);
    let mut take = |record: &mut Record, diagnosis: &mut Diagnosis| {
        owners.join(record);
        if clocks_disagree {
            forget_times(record);
        }
        progress.step();
        match filter.verdict(record) {
            Verdict::Keep => diagnosis.observe(record),
            verdict => {
                let count = if verdict == Verdict::SampledOut { &mut sampled_out } else { &mut left_out };
                *count = count.saturating_add(1);
                if filter.wants_tenant_of(record) {
                    diagnosis.observe_left_out(record);
                }
            }
        }
    };
    read_ahead(OrderedRecords::open(files)?, |mut batch| {
        for records in batch.chunks_mut(EXPECTED_RECORDS) {
            diagnosis.expect(records.iter());
            records.iter_mut().for_each(|record| take(record, diagnosis));
        }
    })?;
    if sampled_out > 0 {
        input.notes.push(format!(
            "fewer keys were kept at times, one in {} at the fewest: the figures rest on those that were kept all the time, and \
             leave out {} records of others",
            count_text(input.sampled_one_in),
            count_text(sampled_out)
        ));
    }
    if left_out > 0 {
        input.notes.push(format!("{} records are left out by the report's filters", count_text(left_out)));
    }
    Ok(input)
}

/// Takes from a record what rests on the clocks of both directions.
pub(crate) fn forget_times(record: &mut Record) {
    (record.latency_ns, record.depth) = (None, None);
}

/// Hands on all records in order, while a thread of its own reads ahead: merging takes about as long as diagnosing.
fn read_ahead(records: OrderedRecords, mut take: impl FnMut(Vec<Record>)) -> Result<(), TraceError> {
    std::thread::scope(|scope| {
        let (to_take, batches) = sync_channel(MOST_BATCHES);
        scope.spawn(move || read_batches(records, &to_take));
        // Where a batch failed the receiver is dropped, and the reader ends with its next one.
        for batch in batches {
            take(batch?);
        }
        Ok(())
    })
}

/// Reads until the end, the first failure, or until nobody takes any more.
fn read_batches(records: OrderedRecords, to_take: &SyncSender<Result<Vec<Record>, TraceError>>) {
    let mut batch = Vec::with_capacity(BATCH_RECORDS);
    for record in records {
        match record {
            Ok(record) => batch.push(record),
            Err(error) => {
                let _ = to_take.send(Ok(batch)).and_then(|()| to_take.send(Err(error)));
                return;
            }
        }
        if batch.len() >= BATCH_RECORDS {
            let full = std::mem::replace(&mut batch, Vec::with_capacity(BATCH_RECORDS));
            if to_take.send(Ok(full)).is_err() {
                return;
            }
        }
    }
    let _ = to_take.send(Ok(batch));
}

/// The whole file, where it is not larger than what is left of the bound.
fn read_page_trace(path: &Path, bytes_left: &mut u64) -> anyhow::Result<Vec<u8>> {
    let cannot = |error| anyhow!("cannot read {}: {error}", path.display());
    let length = std::fs::metadata(path).map_err(cannot)?.len();
    *bytes_left = bytes_left.checked_sub(length).ok_or_else(|| {
        anyhow!(
            "{}: page traces of more than {MAX_PAGE_TRACE_BYTES} bytes together are too large; give fewer",
            path.display()
        )
    })?;
    std::fs::read(path).map_err(cannot)
}

fn listed(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    names.join(", ")
}
