//! Takes records in order, and classifies each GetPage.

use std::collections::HashMap;
use std::net::IpAddr;

use foldhash::fast::RandomState;
use record::{Lsn, Record, RelTag, Target, TenantTimeline, Timestamp};

pub(crate) use super::cache::Cache;
use super::cache::{CacheId, LAST_EPOCH_ORDINAL};
use super::class::Class;
use super::classify::{Surroundings, classify};
use super::connection::{Before, Connections};
use super::counts::ClassCounts;
use super::latest::{LatestFetches, PageOf, SampledCounts};
use crate::loss::LossTimes;

/// What bounds the memory of a [`Refetch`].
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Pages that are followed, 80 bytes each. Beyond it half of them are, and so on.
    pub keys: usize,
    /// Caches that are told apart. GetPage of further ones are [`Class::Unproven`].
    pub caches: usize,
    /// Relations that are told apart. GetPage of further ones are [`Class::Unproven`].
    pub relations: usize,
    /// Connections that are remembered. One that comes back after it was forgotten has shown nothing yet.
    pub connections: usize,
}

impl Limits {
    /// For a report from traces: what a hash table of 2^21 places (162 MiB) holds before it grows, 14 GiB of different
    /// pages.
    pub const REPORT: Self = Self { keys: 7 << 18, caches: 65_536, relations: 65_536, connections: 16_384 };

    /// For the findings at a capture's end, on a node that has other work: 2^18 places (20 MiB), 1.8 GiB of pages.
    pub const CAPTURE: Self = Self { keys: 7 << 15, caches: 8_192, relations: 16_384, connections: 8_192 };
}

/// A relation's fork of one owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Relation {
    /// Whose; `None` where the tenant is not known.
    pub owner: Option<TenantTimeline>,
    /// Which fork.
    pub rel: RelTag,
}

/// What [`Refetch::observe`] found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observation {
    /// The class, for a GetPage.
    pub class: Option<Class>,
    /// The cache's place among all; `None` beyond [`Limits::caches`].
    pub cache: Option<usize>,
    /// The relation's place among all, where the kind has one; `None` beyond [`Limits::relations`].
    pub relation: Option<usize>,
    /// The connection's place among all. Places are used again: `connection_id` tells.
    pub connection: usize,
    /// Unique for the connection.
    pub connection_id: u32,
    /// So many requests of this connection ago it asked for the same page, if that was the latest request for it.
    pub asked_ago: Option<u32>,
    /// How long before, in this epoch, the same cache had fetched the page, or asked for it where no fetch was seen; only of
    /// pages that are followed.
    pub reused_after_ns: Option<u64>,
}

/// GetPage that were not compared with earlier ones, by the bound that was reached. They are all unproven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Uncounted {
    /// [`Limits::keys`].
    pub keys: u64,
    /// [`Limits::caches`].
    pub caches: u64,
    /// [`Limits::relations`].
    pub relations: u64,
    /// Their tenant is not known, so neither is the cache.
    pub owner: u64,
}

impl Uncounted {
    /// Those for which there was no room.
    pub(crate) fn beyond_bounds(&self) -> u64 {
        self.keys.saturating_add(self.caches).saturating_add(self.relations)
    }
}

/// A page and how often it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyFigures {
    pub(crate) cache: usize,
    pub(crate) relation: usize,
    pub(crate) blkno: u32,
    pub(crate) requests: u32,
    pub(crate) redundant: u32,
}

/// Classifies GetPage requests.
#[derive(Debug)]
pub struct Refetch {
    limits: Limits,
    losses: LossTimes,
    connections: Connections,
    caches: Vec<Cache>,
    cache_of: HashMap<(Option<TenantTimeline>, IpAddr, bool), CacheId, RandomState>,
    relations: Vec<Relation>,
    relation_of: HashMap<Relation, u32, RandomState>,
    last_relation: Option<(Relation, u32)>,
    latest: LatestFetches,
    /// Pages that are asked for next.
    expected: Vec<(u64, PageOf)>,
    counts: ClassCounts,
    uncounted: Uncounted,
}

impl Refetch {
    /// One that has seen nothing.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            losses: LossTimes::default(),
            connections: Connections::new(limits.connections),
            caches: Vec::new(),
            cache_of: HashMap::default(),
            relations: Vec::new(),
            relation_of: HashMap::default(),
            last_relation: None,
            latest: LatestFetches::new(limits.keys),
            expected: Vec::new(),
            counts: ClassCounts::default(),
            uncounted: Uncounted::default(),
        }
    }

    /// The capture lost something between these two moments. Only what is observed afterwards heeds it.
    pub fn lost(&mut self, from: Timestamp, until: Timestamp) {
        self.losses.add(from, until);
    }

    /// Brings what is known of the pages of records that come next into the processor's caches. Changes nothing.
    pub(crate) fn fetch<'a>(&mut self, next: impl Iterator<Item = &'a Record>) {
        // First where to look, then the looks alone: the shorter they are, the more of them wait for memory together.
        self.expected.clear();
        for record in next {
            let Target::GetPage { rel, blkno } = record.target else { continue };
            let relation = Relation { owner: record.owner, rel };
            let last = self.last_relation.filter(|(last, _)| *last == relation).map(|(_, place)| place);
            let relation = last.or_else(|| self.relation_of.get(&relation).copied());
            let page = self.connections.cache_asked(record).zip(relation);
            let page = page.map(|(cache, relation)| PageOf { cache: cache.0, relation, blkno });
            self.expected.extend(page.map(|page| self.latest.place_of(page)));
        }
        self.latest.fetch(&self.expected);
    }

    /// Takes the next record in the order of (`time`, `client`, `server`, `seq`).
    pub fn observe(&mut self, record: &Record) -> Observation {
        let (connection, before) = self.connections.observe(record);
        let cache = self.cache(connection, record);
        let relation = record.target.rel().and_then(|rel| self.relation(Relation { owner: record.owner, rel }));
        let here = self.connections.at(connection).map_or((0, record.time, 0), |at| (at.id, at.first, at.ordinal));
        let (connection_id, first, ordinal) = here;
        if let Some(cache) = cache.and_then(|id| self.caches.get_mut(id.0 as usize)) {
            cache.observe(record, first);
        }
        let mut observation = Observation {
            class: None,
            cache: cache.map(|id| id.0 as usize),
            relation: relation.map(|place| place as usize),
            connection,
            connection_id,
            asked_ago: None,
            reused_after_ns: None,
        };
        if let Target::GetPage { blkno, .. } = record.target {
            let page = cache.zip(relation).map(|(cache, relation)| PageOf { cache: cache.0, relation, blkno });
            let class = self.getpage((record, page), (connection_id, ordinal, before), &mut observation);
            observation.class = Some(class);
            self.counts.add(class, record.request_lsn == Lsn::MAX);
        }
        observation
    }

    /// The class of a GetPage. Tells also how far it is from the request for its page before.
    fn getpage(
        &mut self,
        (record, page): (&Record, Option<PageOf>),
        (connection_id, ordinal, before): (u32, u32, Before),
        observation: &mut Observation,
    ) -> Class {
        let Some(page) = page else {
            let beyond_caches = self.caches.len() >= self.limits.caches;
            let reason = if beyond_caches { &mut self.uncounted.caches } else { &mut self.uncounted.relations };
            *reason += 1;
            return Class::Unproven;
        };
        let Some(cache) = self.caches.get(page.cache as usize) else { return Class::Unproven };
        let relations = &self.relations;
        let target_at = |page: PageOf| {
            let rel = relations.get(page.relation as usize)?.rel;
            Some(Target::GetPage { rel, blkno: page.blkno })
        };
        let Some(latest) = self.latest.of(page, cache.epoch_ordinal, target_at) else {
            self.uncounted.keys += 1;
            return Class::Unproven;
        };
        if latest.epoch_ordinal != cache.epoch_ordinal {
            latest.begin_epoch(cache.epoch_ordinal);
        }
        let class = match latest.fetch(cache.is_primary) {
            _ if cache.owner.is_none() || cache.epoch_ordinal == LAST_EPOCH_ORDINAL => Class::Unproven,
            Some(earlier) => {
                let (from, until) = (earlier.time, record.time);
                let restart_possible = self.losses.may_hide(from, until) && !cache.was_present(from, until);
                classify(&earlier, record, &Surroundings { promised: before.promised, restart_possible })
            }
            None if latest.may_have_been_fetched() => Class::Unproven,
            None => Class::First,
        };
        self.uncounted.owner += u64::from(cache.owner.is_none());
        observation.asked_ago = (latest.asked_by == connection_id).then(|| ordinal.saturating_sub(latest.asked_at));
        observation.reused_after_ns = latest.last_time().and_then(|last| record.time.since(last));
        latest.observe(record, before.reached);
        latest.requests = latest.requests.saturating_add(1);
        latest.redundant = latest.redundant.saturating_add(u32::from(class.is_redundant()));
        (latest.asked_by, latest.asked_at) = (connection_id, ordinal);
        class
    }

    /// The cache that a connection's request is for, made where there is room for one more.
    fn cache(&mut self, connection: usize, record: &Record) -> Option<CacheId> {
        let is_primary = record.request_lsn == Lsn::MAX;
        let connection = self.connections.at(connection)?;
        let known = connection.caches.get_mut(usize::from(is_primary))?;
        if known.is_none() {
            let key = (record.owner, record.client.ip(), is_primary);
            *known = self.cache_of.get(&key).copied();
            if known.is_none() && self.caches.len() < self.limits.caches {
                let id = CacheId(u32::try_from(self.caches.len()).ok()?);
                self.caches.push(Cache::new(record, is_primary));
                self.cache_of.insert(key, id);
                *known = Some(id);
            }
        }
        *known
    }

    /// A relation's place, made where there is room for one more.
    fn relation(&mut self, relation: Relation) -> Option<u32> {
        if let Some((_, place)) = self.last_relation.filter(|(last, _)| *last == relation) {
            return Some(place);
        }
        let place = match self.relation_of.get(&relation) {
            Some(&place) => place,
            None if self.relations.len() < self.limits.relations => {
                let place = u32::try_from(self.relations.len()).ok()?;
                self.relations.push(relation);
                self.relation_of.insert(relation, place);
                place
            }
            None => return None,
        };
        self.last_relation = Some((relation, place));
        Some(place)
    }

    /// Counts a GetPage whose place in the order is past, so that it was compared with nothing.
    pub(crate) fn count_late(&mut self, class: Option<Class>) {
        class.into_iter().for_each(|class| self.counts.add(class, false));
    }

    /// How many GetPage of each class there were so far.
    pub fn counts(&self) -> &ClassCounts {
        &self.counts
    }

    /// GetPage that could not be compared.
    pub fn uncounted(&self) -> Uncounted {
        self.uncounted
    }

    /// Connections that were forgotten to make room for others.
    pub fn forgotten_connections(&self) -> u64 {
        self.connections.forgotten()
    }

    /// The counts of the pages that are followed; all are until [`Limits::keys`] is reached.
    pub fn sampled(&self) -> SampledCounts {
        self.latest.counts()
    }

    /// One page in how many is followed; 1 is all.
    pub fn followed_one_in(&self) -> u64 {
        self.latest.one_in()
    }

    pub(crate) fn caches(&self) -> &[Cache] {
        &self.caches
    }

    pub(crate) fn relations(&self) -> &[Relation] {
        &self.relations
    }

    /// The pages that are followed, in no order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = KeyFigures> + '_ {
        self.latest.iter().map(|latest| KeyFigures {
            cache: latest.page.cache as usize,
            relation: latest.page.relation as usize,
            blkno: latest.page.blkno,
            requests: latest.requests,
            redundant: latest.redundant,
        })
    }
}
