//! What trace files say of how they were taken: losses, ledgers, sampling, filters.

use std::collections::{BTreeMap, BTreeSet};

use analysis::loss::LossTimes;
use analysis::summary::{Ledger, Loss};
use record::{TenantId, TenantShardId, TenantTimeline, Timestamp};
use trace::{Counter, TraceError, TraceReader};

use super::loss_times::LossScan;
use crate::filter::keys_of_both;

/// Who wrote a trace, and whose it is.
type Series = (String, Option<TenantTimeline>);

/// What the files so far say.
#[derive(Debug, Default)]
pub(super) struct TraceFacts {
    series: BTreeMap<Series, SeriesFacts>,
    pub(super) files: u64,
    pub(super) records: u64,
    pub(super) damaged_bytes: u64,
    /// Files without a byte.
    pub(super) empty_files: u64,
    /// One key in how many is in all of them; 0 before the first file.
    pub(super) sampled_one_in: u64,
    filters: Vec<String>,
    /// Tenants of whose requests a capture kept those of some shards.
    selected: BTreeSet<TenantId>,
}

#[derive(Debug, Default)]
struct SeriesFacts {
    ledger: trace::Ledger,
    losses: LossScan,
}

/// What readers of traces say whose latencies are left out.
pub(crate) const UNPROVEN_LATENCIES: &str = "the capture's two directions were stamped by clocks that disagree: all latencies are \
                                             left out, also those that records have from before it was noticed";

/// What readers of traces say of a file without a byte.
pub(crate) const EMPTY_FILE: &str = "nothing is in it, as who wrote it had not begun, or it or the machine came to an end before \
                                     anything was on the disk";

/// Filters that are named one by one.
const MOST_FILTERS: usize = 4;

impl TraceFacts {
    /// Goes over one file. Files of one writer come in the order in which they were written.
    pub(super) fn read(&mut self, reader: &mut TraceReader) -> Result<(), TraceError> {
        let header = reader.header().cloned();
        let series = header.as_ref().map_or_else(Series::default, |header| (header.instance.clone(), header.owner));
        let facts = self.series.entry(series).or_default();
        let mut damaged_bytes = 0;
        while let Some(block) = reader.next_block()? {
            let header = *block.header();
            let lost = block.ledger().unwrap_or_default();
            let last_time = (header.records > 0).then_some(header.last_time);
            let is_damaged = reader.damaged_bytes() > damaged_bytes;
            damaged_bytes = reader.damaged_bytes();
            facts.ledger.merge(&lost);
            facts.losses.block(last_time, &lost, is_damaged);
            if header.kind == trace::BlockKind::Records {
                self.records = self.records.saturating_add(u64::from(header.records));
            }
        }
        if reader.damaged_bytes() > damaged_bytes {
            facts.losses.block(None, &trace::Ledger::default(), true);
        }
        self.files = self.files.saturating_add(1);
        self.damaged_bytes = self.damaged_bytes.saturating_add(reader.damaged_bytes());
        self.empty_files = self.empty_files.saturating_add(u64::from(reader.is_empty()));
        let circumstances = header.map(|header| header.circumstances).unwrap_or_default();
        self.sampled_one_in = keys_of_both(self.sampled_one_in.max(1), u64::from(circumstances.sample_one_in).max(1));
        let filter = circumstances.filter;
        self.selected.extend(selected_by_shard(&filter));
        if !filter.is_empty() && !self.filters.contains(&filter) && self.filters.len() < MOST_FILTERS {
            self.filters.push(filter);
        }
        Ok(())
    }

    /// What the captures lost: each trace of one writer says the same of the whole capture, writers add up.
    pub(super) fn loss(&self) -> Loss {
        let mut by_instance: BTreeMap<&str, trace::Ledger> = BTreeMap::new();
        for ((instance, _), facts) in &self.series {
            let most = by_instance.entry(instance).or_default();
            for (counter, value) in facts.ledger.iter().filter(|(counter, _)| counter.is_capture_wide()) {
                most.add(counter, value.saturating_sub(most.value(counter)));
            }
        }
        let mut sum = trace::Ledger::default();
        by_instance.values().for_each(|ledger| sum.merge(ledger));
        Loss {
            kernel_dropped: sum.value(Counter::KernelDropped),
            interface_dropped: sum.value(Counter::InterfaceDropped),
            truncated_packets: sum.value(Counter::TruncatedPackets),
            gap_bytes: sum.value(Counter::GapBytes),
            lost_requests: sum.value(Counter::LostRequests),
            lost_responses: sum.value(Counter::LostResponses),
            malformed: sum.value(Counter::Malformed),
            evicted_connections: sum.value(Counter::EvictedConnections),
            dropped_records: sum.value(Counter::DroppedRecords),
        }
    }

    /// Where each request went that the captures saw of these owners.
    pub(super) fn ledger(&self) -> Ledger {
        let mut sum = trace::Ledger::default();
        self.series.values().for_each(|facts| sum.merge(&facts.ledger));
        Ledger {
            seen: sum.value(Counter::Seen),
            filtered: sum.value(Counter::Filtered),
            sampled_out: sum.value(Counter::SampledOut),
            unattributed: sum.value(Counter::Unattributed),
            queue_dropped: sum.value(Counter::QueueDropped),
            write_failed: sum.value(Counter::WriteFailed),
            rotated: sum.value(Counter::Rotated),
            kept: self.records,
        }
    }

    /// What a reader of the figures must know, in plain sentences.
    pub(super) fn notes(&self) -> Vec<String> {
        let note = |filter: &String| format!("the traces hold only what the capture's filter kept: {filter}");
        let mut notes: Vec<String> = self.filters.iter().map(note).collect();
        match self.empty_files {
            0 => {}
            1 => notes.push(format!("of one file: {EMPTY_FILE}")),
            files => notes.push(format!("of {files} files: {EMPTY_FILE}")),
        }
        if self.clocks_disagree() {
            notes.push(UNPROVEN_LATENCIES.to_owned());
        }
        notes
    }

    /// Whether a capture had its two directions stamped by clocks that disagree.
    pub(super) fn clocks_disagree(&self) -> bool {
        self.series.values().any(|facts| facts.ledger.value(Counter::ClockConflicts) > 0)
    }

    /// Tenants of whose requests a capture kept those of some shards.
    pub(super) fn selected(&self) -> impl Iterator<Item = TenantId> + '_ {
        self.selected.iter().copied()
    }

    /// When something was lost that may have been a compute's restart.
    pub(super) fn into_loss_times(self) -> Vec<LossTimes> {
        self.series.into_values().map(|facts| facts.losses.finish()).collect()
    }
}

/// The tenants of whose shards a filter in words kept some.
fn selected_by_shard(filter: &str) -> impl Iterator<Item = TenantId> + '_ {
    let words = filter.split_whitespace().filter_map(|word| word.parse::<TenantShardId>().ok());
    words.filter(|wanted| wanted.shard.is_some()).map(|wanted| wanted.tenant)
}

/// The spans of several.
pub(super) fn each_span(times: &[LossTimes]) -> impl Iterator<Item = (Timestamp, Timestamp)> + '_ {
    times.iter().flat_map(LossTimes::spans)
}
