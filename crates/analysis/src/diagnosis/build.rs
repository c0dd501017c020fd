//! From what was observed to the report.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use record::{Key, Kind, Status};

use super::report::{
    BackendRow, ByKind, ClientRow, Completeness, KeyRow, RefetchCounts, Refetches, RelationRow, Report, Totals, Window,
};
use super::tallies::{BackendTally, ClientTally, RelationTally};
use super::{Diagnosis, InputFacts, Origin, findings};
use crate::pictures::Pictures;
use crate::refetch::{Cache, KeyFigures, Relation};
use crate::reuse::sizing;
use crate::summary::Ledger;

impl Diagnosis {
    /// What there is to say, together with what the input says of itself.
    pub fn report(&mut self, facts: InputFacts) -> Report {
        self.reuse.settle();
        let says_who = facts.origin == Origin::Traces;
        let unique = UniqueKeys::of(self.refetch.keys().map(|key| (key.relation, key.blkno)));
        let (access, duplicates) = self.access.report(self.connections.iter().map(|connection| &connection.scans));
        let lines = self.connections.iter().map(|connection| &connection.line);
        let rel_of = |place: usize| Some(self.refetch.relations().get(place)?.rel.to_string());
        let (caches, captured_one_in) = (self.refetch.caches(), facts.sampled_one_in);
        let mrc = self.reuse.curves(caches, captured_one_in);
        let mut report = Report {
            window: self.window(),
            totals: self.totals(&unique, says_who),
            refetch: says_who.then(|| self.refetches()),
            latency: says_who.then(|| ByKind::from_fn(|kind| self.durations(kind))),
            queueing: says_who.then(|| ByKind::from_fn(|kind| self.queueing.of(kind))),
            blockers: self.queueing.worst(lines, rel_of),
            depth: self.depth.figures(),
            access: says_who.then_some(access),
            duplicate_prefetches: says_who.then_some(duplicates),
            over_time: self.over_time.report(says_who),
            relations: self.relation_rows(&unique, says_who),
            keys: self.hottest_keys(says_who),
            clients: if says_who { self.client_rows() } else { Vec::new() },
            backends: if says_who { self.backend_rows() } else { Vec::new() },
            findings: Vec::new(),
            working_set: self.reuse.working_sets(caches, captured_one_in),
            cache_sizing: sizing(&mrc, facts.cache_now_bytes),
            mrc,
            shards: self.shards.report(),
            completeness: self.completeness(facts),
        };
        let sums_ns = self.queueing.sums_ns(Kind::GetPage);
        report.findings = findings::of(&report, sums_ns);
        report
    }

    /// What pictures need beside the report; `None` where it was not collected.
    pub fn pictures(&self) -> Option<Pictures> {
        let relations = self.refetch.relations();
        let has_several_owners = relations.windows(2).any(|pair| matches!(pair, [a, b] if a.owner != b.owner));
        let name_of = |place: usize| {
            let Relation { owner, rel } = *relations.get(place)?;
            let owner = owner.filter(|_| has_several_owners);
            Some(owner.map_or(rel.to_string(), |owner| format!("{rel} of {}/{}", owner.tenant, owner.timeline)))
        };
        let requests = || self.refetch.keys().map(|key| key.requests).collect();
        self.pictures.as_ref().map(|pictures| pictures.pictures(name_of, requests()))
    }

    fn window(&self) -> Window {
        Window {
            first_time_ns: self.first.map(|first| first.0),
            last_time_ns: self.last.map(|last| last.0),
            duration_ns: self.last.zip(self.first).and_then(|(last, first)| last.since(first)),
        }
    }

    fn totals(&self, unique: &UniqueKeys, says_who: bool) -> Totals {
        let of = |status| says_who.then(|| self.by_status.of(status));
        Totals {
            requests: self.by_kind.sum(),
            getpage: self.by_kind.of(Kind::GetPage),
            unique_keys: unique.all.saturating_mul(self.refetch.followed_one_in()),
            errors: of(Status::Error),
            unanswered: of(Status::Unanswered),
            unknown: of(Status::Unknown),
            by_kind: self.by_kind.clone(),
        }
    }

    fn refetches(&self) -> Refetches {
        let sampled = self.refetch.sampled();
        let ratio = sampled.redundant as f64 / sampled.requests.max(1) as f64;
        Refetches {
            counts: RefetchCounts::of(self.refetch.counts()),
            followed_redundant_ratio: (sampled.one_in > 1).then_some(ratio),
        }
    }

    fn durations(&self, kind: Kind) -> super::Durations {
        self.latency.get(kind as usize).map_or_else(Default::default, super::Distribution::durations)
    }

    fn completeness(&self, facts: InputFacts) -> Completeness {
        let InputFacts { loss, ledger, files, damaged_bytes, sampled_one_in, is_whole, notes, origin, cache_now_bytes } =
            facts;
        let uncounted = self.refetch.uncounted();
        let Ledger { queue_dropped, write_failed, rotated, .. } = ledger;
        let missing = [
            damaged_bytes,
            self.late_records,
            sampled_one_in.saturating_sub(1),
            uncounted.keys,
            uncounted.caches,
            uncounted.relations,
            queue_dropped,
            write_failed,
            rotated,
        ];
        let says_losses = origin == Origin::Traces;
        let caches = self.refetch.caches().iter().filter(|cache| cache.owner.is_some());
        Completeness {
            complete: says_losses && is_whole && loss.is_none() && missing.iter().all(|&count| count == 0),
            loss,
            ledger,
            files,
            damaged_bytes,
            duplicate_records: self.duplicate_records,
            late_records: self.late_records,
            sampled_one_in,
            followed_one_in: self.refetch.followed_one_in(),
            not_compared: uncounted.into(),
            restarts_visible: says_losses && caches.clone().all(|cache| cache.epoch.is_some()),
            notes,
            caches_without_curve: self.reuse.left_out(),
            cache_now_bytes,
        }
    }

    fn relation_rows(&self, unique: &UniqueKeys, says_who: bool) -> Vec<RelationRow> {
        let one_in = self.refetch.followed_one_in();
        let named = self.relations.iter().filter(|(_, tally)| tally.tally.requests > 0).map(|(place, tally)| {
            let unique_keys = unique.of_relation(place).saturating_mul(one_in);
            relation_row(self.refetch.relations().get(place), tally, (Some(unique_keys), says_who))
        });
        let mut rows: Vec<RelationRow> = named.collect();
        rows.sort_by(|a, b| {
            b.requests
                .cmp(&a.requests)
                .then_with(|| (&a.tenant, &a.timeline, &a.rel).cmp(&(&b.tenant, &b.timeline, &b.rel)))
        });
        let others = &self.relations.others;
        rows.extend((others.tally.requests > 0).then(|| relation_row(None, others, (None, says_who))));
        rows
    }

    fn client_rows(&self) -> Vec<ClientRow> {
        let named = self.clients.iter().filter(|(_, client)| client.tally.requests > 0);
        let mut rows: Vec<ClientRow> =
            named.map(|(place, client)| client_row(self.refetch.caches().get(place), client)).collect();
        rows.sort_by(|a, b| {
            let name = |row: &ClientRow| (row.tenant.clone(), row.timeline.clone(), row.client.clone(), row.primary);
            b.asked.requests.cmp(&a.asked.requests).then_with(|| name(a).cmp(&name(b)))
        });
        let others = &self.clients.others;
        rows.extend((others.tally.requests > 0).then(|| client_row(None, others)));
        rows
    }

    fn backend_rows(&self) -> Vec<BackendRow> {
        let named = self.backends.iter().filter(|(_, backend)| backend.tally.requests > 0).map(|(place, backend)| {
            let (cache, pid) = self.backend_names.get(place).copied().unwrap_or_default();
            backend_row(cache.and_then(|cache| self.refetch.caches().get(cache)), pid, backend)
        });
        let mut rows: Vec<BackendRow> = named.collect();
        rows.sort_by(|a, b| {
            let name =
                |row: &BackendRow| (row.tenant.clone(), row.timeline.clone(), row.client.clone(), row.backend_pid);
            b.asked.requests.cmp(&a.asked.requests).then_with(|| name(a).cmp(&name(b)))
        });
        let others = &self.backends.others;
        rows.extend((others.tally.requests > 0).then(|| backend_row(None, None, others)));
        rows
    }

    /// The pages asked for most often, in a heap that never holds more than are wanted.
    fn hottest_keys(&self, says_who: bool) -> Vec<KeyRow> {
        let rank = |key: &KeyFigures| (key.requests, Reverse((key.cache, key.relation, key.blkno)), key.redundant);
        let mut hottest = BinaryHeap::new();
        for key in self.refetch.keys().filter(|key| key.requests > 1) {
            hottest.push(Reverse(rank(&key)));
            if hottest.len() > self.limits.hottest_keys {
                hottest.pop();
            }
        }
        let keys = hottest.into_sorted_vec().into_iter();
        let rows = keys.filter_map(|Reverse((requests, Reverse((cache, relation, blkno)), redundant))| {
            let Relation { owner, rel } = *self.refetch.relations().get(relation)?;
            Some(KeyRow {
                key: Key { rel, blkno }.to_string(),
                rel: rel.to_string(),
                blkno,
                tenant: owner.map(|owner| owner.tenant.to_string()),
                timeline: owner.map(|owner| owner.timeline.to_string()),
                client: self.refetch.caches().get(cache).filter(|_| says_who).map(|cache| cache.client.to_string()),
                requests: u64::from(requests),
                redundant: says_who.then_some(u64::from(redundant)),
            })
        });
        rows.collect()
    }
}

/// How many different pages there are, in all and of each relation.
struct UniqueKeys {
    all: u64,
    by_relation: Vec<u64>,
}

impl UniqueKeys {
    /// The same page in several caches is one.
    fn of(pages: impl Iterator<Item = (usize, u32)>) -> Self {
        let mut pages: Vec<u64> = pages.map(|(relation, blkno)| (relation as u64) << 32 | u64::from(blkno)).collect();
        pages.sort_unstable();
        pages.dedup();
        let mut by_relation: Vec<u64> = Vec::new();
        for page in &pages {
            let relation = usize::try_from(page >> 32).unwrap_or(usize::MAX);
            if relation >= by_relation.len() {
                by_relation.resize(relation.saturating_add(1), 0);
            }
            by_relation.get_mut(relation).into_iter().for_each(|count| *count += 1);
        }
        Self { all: pages.len() as u64, by_relation }
    }

    fn of_relation(&self, relation: usize) -> u64 {
        self.by_relation.get(relation).copied().unwrap_or(0)
    }
}

fn relation_row(
    relation: Option<&Relation>,
    row: &RelationTally,
    (unique_keys, says_who): (Option<u64>, bool),
) -> RelationRow {
    let owner = relation.and_then(|relation| relation.owner);
    RelationRow {
        tenant: owner.map(|owner| owner.tenant.to_string()),
        timeline: owner.map(|owner| owner.timeline.to_string()),
        rel: relation.map(|relation| relation.rel.to_string()),
        requests: row.tally.requests,
        getpage: row.tally.getpage(),
        unique_keys,
        errors: says_who.then_some(row.tally.errors),
        unanswered: says_who.then_some(row.tally.unanswered),
        refetch: says_who.then(|| RefetchCounts::of(&row.tally.classes)),
        duplicate_prefetches: row.duplicates,
        access: row.access,
        latency: row.latency.durations(),
    }
}

fn client_row(cache: Option<&Cache>, row: &ClientTally) -> ClientRow {
    let owner = cache.and_then(|cache| cache.owner);
    ClientRow {
        tenant: owner.map(|owner| owner.tenant.to_string()),
        timeline: owner.map(|owner| owner.timeline.to_string()),
        client: cache.map(|cache| cache.client.to_string()),
        primary: cache.map(|cache| cache.is_primary),
        epoch_ns: cache.and_then(|cache| cache.epoch).map(|epoch| epoch.0),
        asked: row.tally.asked(),
        latency: row.latency.durations(),
    }
}

fn backend_row(cache: Option<&Cache>, backend_pid: Option<u32>, row: &BackendTally) -> BackendRow {
    let owner = cache.and_then(|cache| cache.owner);
    BackendRow {
        tenant: owner.map(|owner| owner.tenant.to_string()),
        timeline: owner.map(|owner| owner.timeline.to_string()),
        client: cache.map(|cache| cache.client.to_string()),
        backend_pid,
        asked: row.tally.asked(),
        max_latency_ns: row.max_latency_ns,
    }
}
