//! The diagnosis of traces: what was fetched again, for whom, how slowly, and how much of that is proven.
//!
//! ```text
//! records in order → Diagnosis::observe ─┬─ Refetch          the class of each GetPage
//!                                        ├─ Reuse            what a cache of which size would answer
//!                                        ├─ Queueing, Scans  waiting, service, runs: by connection
//!                                        └─ Rows, OverTime   by relation, compute, backend and time
//!                    Diagnosis::report → Report (findings first) → text or JSON
//! ```
//!
//! Records must come in the order of (`time`, `client`, `server`, `seq`); [`Reorder`] makes it from the order of completion.
//! Everything is bounded by [`Limits`]; where a bound makes a figure partial, the report says so.

mod access;
mod build;
mod cache_findings;
mod compare;
mod distribution;
mod findings;
mod over_time;
mod queueing;
mod redundant_findings;
mod reorder;
mod report;
mod shard_findings;
mod tallies;

use std::collections::HashMap;
use std::io;

use foldhash::fast::RandomState;
use record::{Kind, Lsn, Record, Status, Target, TenantId, Timestamp};

pub use access::{AccessCounts, AccessReport, DUPLICATE_WITHIN, DuplicateReport};
pub use compare::{Change, Comparison, Unit};
pub use distribution::{Durations, Figures};
pub use findings::{Finding, Severity};
pub use over_time::{OverTimeReport, SpanReport};
pub use queueing::{Blocker, KindQueueing};
pub use reorder::{REORDER_RECORDS, Reorder};
pub use report::{
    AskedCounts, BackendRow, ByKind, ClientRow, Completeness, KeyRow, NotCompared, RefetchCounts, Refetches,
    RelationRow, Report, Totals, Window,
};

use crate::pictures::Collector;
use crate::refetch::{self, Class, Observation, Refetch};
use crate::reuse::{self, Reuse};
use crate::shards::{ShardClaim, Shards};
use crate::summary::{Counts, Ledger, Loss};
use access::{AccessTally, Scans};
use distribution::Distribution;
use over_time::OverTime;
use queueing::{Line, Queueing};
use tallies::{BackendTally, ClientTally, RelationTally, Rows};

/// What bounds a diagnosis' memory.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Of the comparison with earlier fetches.
    pub refetch: refetch::Limits,
    /// Relations with a row of their own, some 12 KiB each; the others share one.
    pub relations: usize,
    /// Computes with a row of their own, some 12 KiB each; the others share one.
    pub clients: usize,
    /// Backends with a row of their own, some 200 bytes each; the others share one.
    pub backends: usize,
    /// Pages that are listed as the hottest.
    pub hottest_keys: usize,
    /// Of the miss-ratio curves.
    pub reuse: reuse::Limits,
}

impl Limits {
    /// For a report from traces: a database has some hundreds of relations, a pageserver some hundreds of computes.
    pub const REPORT: Self = Self {
        refetch: refetch::Limits::REPORT,
        relations: 2048,
        clients: 1024,
        backends: 16_384,
        hottest_keys: 100,
        reuse: reuse::Limits::REPORT,
    };

    /// For the findings at a capture's end: a few MiB beside what the comparison takes.
    pub const CAPTURE: Self = Self {
        refetch: refetch::Limits::CAPTURE,
        relations: 256,
        clients: 128,
        backends: 2048,
        hottest_keys: 100,
        reuse: reuse::Limits::CAPTURE,
    };
}

/// What is known of the pages of so many records, some 30 KiB, stays in a processor's caches until they have been observed.
pub const EXPECTED_RECORDS: usize = 128;

/// What the records come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Origin {
    /// A capture, or pagesniff's own traces.
    #[default]
    Traces,
    /// Page traces that the pageserver took: no client, no version, no latency, no answer.
    PageTraces,
}

/// What the input says of itself, beside its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFacts {
    /// What the records come from.
    pub origin: Origin,
    /// What the captures lost.
    pub loss: Loss,
    /// Where each request went that they saw.
    pub ledger: Ledger,
    /// Files that were read; 0 for a capture.
    pub files: u64,
    /// Bytes of them that belong to no whole block.
    pub damaged_bytes: u64,
    /// One key in how many was captured.
    pub sampled_one_in: u64,
    /// False where the input ended early.
    pub is_whole: bool,
    /// What a reader must know, in plain sentences without their full stop.
    pub notes: Vec<String>,
    /// How large the computes' caches are, in bytes, where somebody said so.
    pub cache_now_bytes: Option<u64>,
}

impl Default for InputFacts {
    fn default() -> Self {
        Self {
            origin: Origin::default(),
            loss: Loss::default(),
            ledger: Ledger::default(),
            files: 0,
            damaged_bytes: 0,
            sampled_one_in: 1,
            is_whole: true,
            notes: Vec::new(),
            cache_now_bytes: None,
        }
    }
}

/// What is remembered of a connection beside what [`Refetch`] does.
#[derive(Debug, Default)]
struct ConnectionState {
    id: u32,
    line: Line,
    scans: Scans,
    backend: Option<usize>,
}

/// Observes records in order and ends in a [`Report`].
#[derive(Debug)]
pub struct Diagnosis {
    limits: Limits,
    refetch: Refetch,
    reuse: Reuse,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    previous: Option<Record>,
    duplicate_records: u64,
    late_records: u64,
    by_kind: Counts<Kind>,
    by_status: Counts<Status>,
    latency: [Distribution; Kind::ALL.len()],
    depth: Distribution,
    queueing: Queueing,
    access: AccessTally,
    over_time: OverTime,
    shards: Shards,
    pictures: Option<Box<Collector>>,
    connections: Vec<ConnectionState>,
    relations: Rows<RelationTally>,
    clients: Rows<ClientTally>,
    backends: Rows<BackendTally>,
    backend_of: HashMap<(Option<usize>, Option<u32>), usize, RandomState>,
    backend_names: Vec<(Option<usize>, Option<u32>)>,
}

impl Diagnosis {
    /// One that has seen nothing.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            refetch: Refetch::new(limits.refetch),
            reuse: Reuse::new(limits.reuse),
            first: None,
            last: None,
            previous: None,
            duplicate_records: 0,
            late_records: 0,
            by_kind: Counts::default(),
            by_status: Counts::default(),
            latency: Default::default(),
            depth: Distribution::default(),
            queueing: Queueing::default(),
            access: AccessTally::default(),
            over_time: OverTime::new(),
            shards: Shards::default(),
            pictures: None,
            connections: Vec::new(),
            relations: Rows::new(limits.relations),
            clients: Rows::new(limits.clients),
            backends: Rows::new(limits.backends),
            backend_of: HashMap::default(),
            backend_names: Vec::new(),
        }
    }

    /// One that has seen nothing, and collects what pictures need as well.
    pub fn with_pictures(limits: Limits) -> Self {
        Self { pictures: Some(Box::new(Collector::new())), ..Self::new(limits) }
    }

    /// Counts what the curves rest on with a thread of its own: of two processors both have work.
    ///
    /// # Errors
    ///
    /// The system has no thread to give.
    pub fn count_curves_apart(&mut self) -> io::Result<()> {
        self.reuse.count_apart()
    }

    /// The capture lost something between these two moments. Only what is observed afterwards heeds it.
    pub fn lost(&mut self, from: Timestamp, until: Timestamp) {
        self.refetch.lost(from, until);
    }

    /// Holds what follows against what somebody said of a tenant's shards.
    pub fn claim_shard(&mut self, claim: ShardClaim) {
        self.shards.claim(claim);
    }

    /// What follows of that tenant was selected by its shard: it proves nothing of how many there are.
    pub fn shards_selected(&mut self, tenant: TenantId) {
        self.shards.selected(tenant);
    }

    /// Takes a record of a wanted tenant that is left out of all else: only what is said of shards rests on it.
    pub fn observe_left_out(&mut self, record: &Record) {
        self.shards.observe(record);
    }

    /// Prepares for the records that come next, some [`EXPECTED_RECORDS`]; it changes no result, and spares waiting for memory.
    pub fn expect<'a>(&mut self, next: impl Iterator<Item = &'a Record>) {
        self.refetch.fetch(next);
    }

    /// Takes the next record in the order of (`time`, `client`, `server`, `seq`).
    pub fn observe(&mut self, record: &Record) {
        if self.is_duplicate(record) {
            self.duplicate_records += 1;
            return;
        }
        let observation = self.refetch.observe(record);
        self.reuse.observe(record, &observation, self.refetch.caches());
        self.shards.observe(record);
        self.count(record, &observation);
        self.follow_connection(record, &observation);
        if let Some(pictures) = &mut self.pictures {
            pictures.observe(record, &observation);
        }
        self.previous = Some(record.clone());
    }

    /// Takes a record whose place in the order is past: it is counted, and compared with nothing.
    pub fn observe_late(&mut self, record: &Record) {
        self.late_records += 1;
        let class = (record.target.kind() == Kind::GetPage).then_some(Class::Unproven);
        let nowhere = Observation {
            class,
            cache: None,
            relation: None,
            connection: 0,
            connection_id: 0,
            asked_ago: None,
            reused_after_ns: None,
        };
        self.refetch.count_late(class);
        self.count(record, &nowhere);
        self.backends.others.observe(record, class, record.request_lsn == Lsn::MAX);
    }

    /// The same file given twice, or two that overlap.
    fn is_duplicate(&self, record: &Record) -> bool {
        // Without an ordinal or a latency two requests may be alike in everything and yet be two.
        let is_unique = record.seq.is_some() || record.latency_ns.is_some();
        is_unique && self.previous.as_ref().is_some_and(|previous| previous.time == record.time && previous == record)
    }

    /// Counts a record in all that needs no connection.
    fn count(&mut self, record: &Record, observation: &Observation) {
        let kind = record.target.kind();
        let is_primary = record.request_lsn == Lsn::MAX;
        self.first = Some(self.first.map_or(record.time, |first| first.min(record.time)));
        self.last = self.last.max(Some(record.time));
        self.by_kind.add(kind);
        self.by_status.add(record.status);
        if let (Some(latency_ns), Some(latency)) = (record.latency_ns, self.latency.get_mut(kind as usize)) {
            latency.observe(latency_ns);
        }
        record.depth.into_iter().for_each(|depth| self.depth.observe(u64::from(depth)));
        self.over_time.observe(record, observation.class, is_primary);
        self.clients.at(observation.cache).observe(record, observation.class, is_primary);
        if record.target.rel().is_some() {
            self.relations.at(observation.relation).observe(record, observation.class, is_primary);
        }
    }

    /// What follows from a record's place on its connection.
    fn follow_connection(&mut self, record: &Record, observation: &Observation) {
        let place = observation.connection;
        if place >= self.connections.len() {
            self.connections.resize_with(place + 1, ConnectionState::default);
        }
        let Some(connection) = self.connections.get_mut(place) else { return };
        if connection.id != observation.connection_id {
            self.queueing.close(&mut connection.line);
            connection.scans.open_runs().for_each(|blocks| self.access.run_ended(Some(blocks)));
            *connection = ConnectionState { id: observation.connection_id, ..ConnectionState::default() };
        }
        self.queueing.observe(&mut connection.line, record, observation.relation);
        if let (Target::GetPage { blkno, .. }, Some(relation)) = (record.target, observation.relation) {
            let (follows, ended) = connection.scans.observe(relation, blkno);
            self.access.counts.add(follows);
            self.access.run_ended(ended);
            let is_duplicate = self.access.asked_ago(observation.asked_ago);
            self.relations.at(Some(relation)).observe_access(follows, is_duplicate);
        }
        let name = (observation.cache, record.backend_pid);
        let known = connection.backend.filter(|&backend| self.backend_names.get(backend) == Some(&name));
        let backend = known.or_else(|| backend(&mut self.backend_of, &mut self.backend_names, name, &self.limits));
        connection.backend = backend;
        self.backends.at(backend).observe(record, observation.class, record.request_lsn == Lsn::MAX);
    }
}

/// A backend's place, made where there is room for one more.
fn backend(
    places: &mut HashMap<(Option<usize>, Option<u32>), usize, RandomState>,
    names: &mut Vec<(Option<usize>, Option<u32>)>,
    name: (Option<usize>, Option<u32>),
    limits: &Limits,
) -> Option<usize> {
    match places.get(&name) {
        Some(&place) => Some(place),
        None if names.len() < limits.backends => {
            names.push(name);
            places.insert(name, names.len() - 1);
            Some(names.len() - 1)
        }
        None => None,
    }
}
