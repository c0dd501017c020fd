//! The tally of one tenant's timeline.

use record::{Kind, Record, Status, TenantTimeline, Timestamp};

use super::counts::Counts;
use super::keys::KeyTally;
use super::latency::LatencyTally;
use super::report::TenantReport;
use crate::target_hash;

/// A page of Postgres, in bytes (`BLCKSZ`; Neon supports no other).
const PAGE_BYTES: u64 = 8192;

/// Apart from the seed of `--sample` (0), so that a sample by key does not all fall on the same places of a table.
const KEY_SEED: u64 = 1;

#[derive(Debug)]
pub(super) struct TenantTally {
    by_kind: Counts<Kind>,
    by_status: Counts<Status>,
    keys: KeyTally,
    latency: LatencyTally,
    page_bytes: u64,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
}

impl TenantTally {
    pub(super) fn new() -> Self {
        Self {
            by_kind: Counts::default(),
            by_status: Counts::default(),
            keys: KeyTally::default(),
            latency: LatencyTally::new(),
            page_bytes: 0,
            first: None,
            last: None,
        }
    }

    /// Takes one record, but for its key.
    pub(super) fn observe(&mut self, record: &Record) {
        let kind = record.target.kind();
        self.by_kind.add(kind);
        self.by_status.add(record.status);
        if let Some(latency_ns) = record.latency_ns {
            self.latency.observe(latency_ns);
        }
        if kind == Kind::GetPage && record.status == Status::Ok {
            self.page_bytes += PAGE_BYTES;
        }
        self.first = Some(self.first.map_or(record.time, |first| first.min(record.time)));
        self.last = Some(self.last.map_or(record.time, |last| last.max(record.time)));
    }

    /// Takes the record's key, where it has one. True where one more key is followed by it.
    pub(super) fn observe_key(&mut self, record: &Record) -> bool {
        record.target.kind() == Kind::GetPage && self.keys.observe(target_hash(&record.target, KEY_SEED))
    }

    pub(super) fn followed_keys(&self) -> usize {
        self.keys.followed()
    }

    pub(super) fn halve_keys(&mut self) {
        self.keys.halve();
    }

    pub(super) fn requests(&self) -> u64 {
        self.by_kind.sum()
    }

    pub(super) fn timed(&self) -> u64 {
        self.latency.quantiles().measured
    }

    pub(super) fn report(&self, owner: Option<TenantTimeline>) -> TenantReport {
        TenantReport {
            tenant: owner.map(|owner| owner.tenant.to_string()),
            timeline: owner.map(|owner| owner.timeline.to_string()),
            requests: self.requests(),
            by_kind: self.by_kind.clone(),
            by_status: self.by_status.clone(),
            unique_keys: self.keys.unique(),
            repeated_keys: self.keys.repeated(),
            followed_one_in: self.keys.followed_one_in(),
            latency_ns: self.latency.quantiles(),
            page_bytes: self.page_bytes,
            first_time_ns: self.first.map(|time| time.0),
            last_time_ns: self.last.map(|time| time.0),
        }
    }
}
