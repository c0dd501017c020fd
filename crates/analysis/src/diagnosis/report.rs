//! What a diagnosis says. Serialised, it is what `pagesniff report --json` writes; its names are fixed.

use record::Kind;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::access::{AccessCounts, AccessReport, DuplicateReport};
use super::distribution::{Durations, Figures};
use super::findings::Finding;
use super::over_time::OverTimeReport;
use super::queueing::{Blocker, KindQueueing};
use crate::refetch::{Class, ClassCounts, Uncounted};
use crate::reuse::{CacheSizing, MissRatioCurve, WorkingSetReport};
use crate::shards::ShardReport;
use crate::summary::{Counts, Ledger, Loss};

/// What a diagnosis says.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Report {
    /// From when to when.
    pub window: Window,
    /// How much of the picture is there.
    pub completeness: Completeness,
    /// All requests together.
    pub totals: Totals,
    /// What the GetPage were, compared with earlier ones; null where the input does not say who asked.
    pub refetch: Option<Refetches>,
    /// How long answers took, by kind; null where the input has no latencies.
    pub latency: Option<ByKind<Durations>>,
    /// Waiting and service, by kind; null where the input has no latencies.
    pub queueing: Option<ByKind<KindQueueing>>,
    /// The requests that held up others longest.
    pub blockers: Vec<Blocker>,
    /// Requests of a connection in flight when another arrived, itself included.
    pub depth: Figures,
    /// How pages follow one another; null where the input does not say who asked.
    pub access: Option<AccessReport>,
    /// The same page twice within a scan; null where the input does not say who asked.
    pub duplicate_prefetches: Option<DuplicateReport>,
    /// What happened when.
    pub over_time: OverTimeReport,
    /// By relation and fork, most requests first.
    pub relations: Vec<RelationRow>,
    /// The pages asked for most often, most first.
    pub keys: Vec<KeyRow>,
    /// By compute, most requests first.
    pub clients: Vec<ClientRow>,
    /// By backend of a compute, most requests first.
    pub backends: Vec<BackendRow>,
    /// What there is to say first, the gravest first.
    pub findings: Vec<Finding>,
    /// Miss-ratio curves: of all computes together first, then of each; of pages, then of chunks.
    pub mrc: Vec<MissRatioCurve>,
    /// Different pages in windows of time, in the same order.
    pub working_set: Vec<WorkingSetReport>,
    /// What cache would spare which share of the fetches.
    pub cache_sizing: Vec<CacheSizing>,
    /// Shards of tenants, where they are proven or were named.
    pub shards: Vec<ShardReport>,
}

/// From when to when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Window {
    /// The earliest request, unix ns.
    pub first_time_ns: Option<u64>,
    /// The latest, unix ns.
    pub last_time_ns: Option<u64>,
    /// From the one to the other.
    pub duration_ns: Option<u64>,
}

/// How much of the picture is there.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Completeness {
    /// Whether nothing is known to be missing: no loss, no damage, no sample, no bound
    /// reached. False where the input does not tell.
    pub complete: bool,
    /// What the captures lost.
    pub loss: Loss,
    /// Where each request went that they saw.
    pub ledger: Ledger,
    /// Files that were read.
    pub files: u64,
    /// Bytes of them that belong to no whole block.
    pub damaged_bytes: u64,
    /// Records that stand in several of the files; each counts once.
    pub duplicate_records: u64,
    /// Records that came too late to be put in order. They are counted, and unproven.
    pub late_records: u64,
    /// One key in how many was captured; 1 is all.
    pub sampled_one_in: u64,
    /// One key in how many was compared with its earlier fetches; 1 is all.
    pub followed_one_in: u64,
    /// GetPage that were not compared, by the bound that was reached. They count as unproven.
    pub not_compared: NotCompared,
    /// Whether a compute's restart was seen, or would have been: for each client at least one start is known.
    pub restarts_visible: bool,
    /// What a reader must know, in plain sentences.
    pub notes: Vec<String>,
    /// Computes that have no miss-ratio curve of their own.
    pub caches_without_curve: u64,
    /// How large the computes' caches are, in bytes; null where nobody said so.
    pub cache_now_bytes: Option<u64>,
}

/// GetPage that were not compared with earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct NotCompared {
    /// More pages than can be followed.
    pub keys: u64,
    /// More caches.
    pub caches: u64,
    /// More relations.
    pub relations: u64,
    /// The tenant is not known.
    pub unattributed: u64,
}

impl From<Uncounted> for NotCompared {
    fn from(Uncounted { keys, caches, relations, owner }: Uncounted) -> Self {
        Self { keys, caches, relations, unattributed: owner }
    }
}

/// All requests together.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Totals {
    /// Requests of all kinds.
    pub requests: u64,
    /// GetPage.
    pub getpage: u64,
    /// Different pages; an estimate where not all are followed.
    pub unique_keys: u64,
    /// Answered with an error; null where the input does not say.
    pub errors: Option<u64>,
    /// Without answer; null where the input does not say.
    pub unanswered: Option<u64>,
    /// Of which it is not proven which answer was theirs; null where the input does not say.
    pub unknown: Option<u64>,
    /// By kind.
    pub by_kind: Counts<Kind>,
}

/// GetPage by class; the sum of the ten is `getpage` (`redundant` is the sum of its three).
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct RefetchCounts {
    /// No earlier fetch in this epoch.
    pub first: u64,
    /// Asked for while the same page was on its way.
    pub in_flight: u64,
    /// Proven to have brought a page that had not changed.
    pub redundant: u64,
    /// By the first rule.
    pub redundant_r1: u64,
    /// By the second.
    pub redundant_r2: u64,
    /// By the third.
    pub redundant_r3: u64,
    /// The content is the same, why is not proven.
    pub same_content: u64,
    /// The content differs.
    pub changed: u64,
    /// A promise raced with a change, harmlessly.
    pub raced: u64,
    /// A promise was broken.
    pub contradictions: u64,
    /// Nothing is claimed of them.
    pub unproven: u64,
    /// `redundant` of all GetPage, 0 to 1; null where there are none.
    pub redundant_ratio: Option<f64>,
    /// What a large enough cache would have answered.
    pub avoidable: u64,
}

impl RefetchCounts {
    /// The counts in the report's words.
    pub fn of(counts: &ClassCounts) -> Self {
        let getpage = counts.sum();
        Self {
            first: counts.of(Class::First),
            in_flight: counts.of(Class::InFlight),
            redundant: counts.redundant(),
            redundant_r1: counts.of(Class::RedundantR1),
            redundant_r2: counts.of(Class::RedundantR2),
            redundant_r3: counts.of(Class::RedundantR3),
            same_content: counts.of(Class::SameContent),
            changed: counts.of(Class::Changed),
            raced: counts.of(Class::Raced),
            contradictions: counts.of(Class::Contradiction),
            unproven: counts.of(Class::Unproven),
            redundant_ratio: (getpage > 0).then(|| counts.redundant() as f64 / getpage as f64),
            avoidable: counts.avoidable(),
        }
    }
}

/// What the GetPage were, compared with earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Refetches {
    /// All of them by class.
    #[serde(flatten)]
    pub counts: RefetchCounts,
    /// The same ratio among the pages that were followed from the start; null where all were.
    pub followed_redundant_ratio: Option<f64>,
}

/// A value for each kind of request. As JSON an object that names every kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ByKind<T> {
    values: [T; Kind::ALL.len()],
}

impl<T: Default + Copy> ByKind<T> {
    pub(super) fn from_fn(of: impl Fn(Kind) -> T) -> Self {
        let mut values = [T::default(); Kind::ALL.len()];
        for (value, &kind) in values.iter_mut().zip(Kind::ALL) {
            *value = of(kind);
        }
        Self { values }
    }

    /// The value of one kind.
    pub fn of(&self, kind: Kind) -> T {
        self.values.get(kind as usize).copied().unwrap_or_default()
    }
}

impl<T: Serialize> Serialize for ByKind<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(Kind::ALL.len()))?;
        for (kind, value) in Kind::ALL.iter().zip(&self.values) {
            map.serialize_entry(kind.as_str(), value)?;
        }
        map.end()
    }
}

/// One fork of one relation.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct RelationRow {
    /// Whose; null where the tenant is not known.
    pub tenant: Option<String>,
    /// Of which timeline.
    pub timeline: Option<String>,
    /// As it prints, `1663/16384/16402_vm`; null for all further relations together.
    pub rel: Option<String>,
    /// Requests of all kinds.
    pub requests: u64,
    /// GetPage.
    pub getpage: u64,
    /// Different pages; null for the row of all further relations.
    pub unique_keys: Option<u64>,
    /// Answered with an error; null where the input does not say.
    pub errors: Option<u64>,
    /// Without answer; null where the input does not say.
    pub unanswered: Option<u64>,
    /// GetPage by class; left out where the input does not say who asked.
    #[serde(flatten)]
    pub refetch: Option<RefetchCounts>,
    /// GetPage for a page that the same connection had just asked for.
    pub duplicate_prefetches: u64,
    /// How its pages follow one another.
    #[serde(flatten)]
    pub access: AccessCounts,
    /// How long its answers took.
    pub latency: Durations,
}

/// One page of one cache.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct KeyRow {
    /// Neon's key, 36 hex digits.
    pub key: String,
    /// The relation, as it prints.
    pub rel: String,
    /// The block.
    pub blkno: u32,
    /// Whose; null where the tenant is not known.
    pub tenant: Option<String>,
    /// Of which timeline.
    pub timeline: Option<String>,
    /// Who asked; null where the input does not say.
    pub client: Option<String>,
    /// GetPage for it.
    pub requests: u64,
    /// Those of them that were redundant; null where the input does not say who asked.
    pub redundant: Option<u64>,
}

/// What somebody asked for, and what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize)]
pub struct AskedCounts {
    /// Requests of all kinds.
    pub requests: u64,
    /// GetPage.
    pub getpage: u64,
    /// Answered with an error.
    pub errors: u64,
    /// Without answer.
    pub unanswered: u64,
    /// GetPage by class.
    #[serde(flatten)]
    pub refetch: RefetchCounts,
}

/// One compute: a cache.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ClientRow {
    /// Whose pages; null where the tenant is not known.
    pub tenant: Option<String>,
    /// Of which timeline.
    pub timeline: Option<String>,
    /// The compute's address; null for all further ones together.
    pub client: Option<String>,
    /// It asks for the latest version, as a primary does.
    pub primary: Option<bool>,
    /// Its latest start that was seen, unix ns.
    pub epoch_ns: Option<u64>,
    /// What it asked for.
    #[serde(flatten)]
    pub asked: AskedCounts,
    /// How long its answers took.
    pub latency: Durations,
}

/// One backend of a compute.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct BackendRow {
    /// Whose pages.
    pub tenant: Option<String>,
    /// Of which timeline.
    pub timeline: Option<String>,
    /// The compute's address; null for all further backends together.
    pub client: Option<String>,
    /// Its process; null where it is not known.
    pub backend_pid: Option<u32>,
    /// What it asked for.
    #[serde(flatten)]
    pub asked: AskedCounts,
    /// The longest latency.
    pub max_latency_ns: Option<u64>,
}
