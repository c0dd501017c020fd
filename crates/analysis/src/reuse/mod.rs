//! How large a cache would have helped: miss-ratio curves of LRU, and working sets.
//!
//! ```text
//! GetPage that was answered → its page, its chunk → Stack: distance since the last time → Histogram by cache size
//!                                                        └ WorkingSet: pages in windows of time
//! ```
//!
//! A request's stack distance is the number of different keys asked for since its own was, itself included: an LRU cache
//! answers it if it holds so many. It is exact up to a bound of different keys, and from there on taken from a sample by
//! key (Waldspurger et al., *Efficient MRC Construction with SHARDS*, FAST '15). `docs/diagnosis.md` says what the figures mean.

mod curve;
mod grid;
mod recency;
mod sizing;
mod stack;
#[cfg(test)]
mod tests;
mod working_set;

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;
use record::{Kind, Record, Status, Target, Timestamp};

pub use curve::{CacheName, CurvePoint, Granularity, Method, MissRatioCurve};
pub use grid::MOST_POINTS;
pub use sizing::{CacheSizing, TARGET_HIT_RATIOS, sizing};
pub use working_set::{MOST_WINDOWS, WINDOWS_S, WindowPoint, WindowReport};

use curve::curve;
use stack::Stack;
use working_set::seconds_of;

use crate::refetch::{Cache, Observation};

/// A page of Postgres, in bytes.
pub const PAGE_BYTES: u64 = 8192;

/// Pages of a chunk unless told otherwise: 1 MiB, as of Neon's local file cache.
pub const CHUNK_BLOCKS: u32 = 128;

/// What bounds the memory of miss-ratio curves.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Different pages that are followed for all computes together, some 20 bytes each. Beyond it half of them are, and so on.
    pub pages: usize,
    /// The same for each compute by itself, where there are several.
    pub pages_of_cache: usize,
    /// Computes with a curve of their own, 160 KiB each beside their pages: the first that come.
    pub caches: usize,
    /// Pages of a chunk, at least 1.
    pub chunk_blocks: u32,
}

impl Limits {
    /// For a report from traces: what hash tables of 2^21 places (36 MiB) and of 2^17 (2 MiB) hold before they grow, 14 GiB
    /// of different pages and 896 MiB.
    pub const REPORT: Self = Self { pages: 7 << 18, pages_of_cache: 7 << 14, caches: 64, chunk_blocks: CHUNK_BLOCKS };

    /// For the findings at a capture's end: 2 MiB and a fourth of one.
    pub const CAPTURE: Self = Self { pages: 7 << 14, pages_of_cache: 7 << 11, caches: 8, chunk_blocks: CHUNK_BLOCKS };
}

/// The pages that a cache, or all, asked for by time.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct WorkingSetReport {
    /// Whose; null for all computes together.
    pub cache: Option<CacheName>,
    /// The share of the pages that were counted, 0 to 1; the counts are of all.
    pub sampling_rate: f64,
    /// Windows of 5 minutes, 15 minutes and an hour.
    pub windows: Vec<WindowReport>,
}

/// The pages and the chunks of one stream of requests.
#[derive(Debug, Clone)]
struct Stacks {
    pages: Stack,
    chunks: Stack,
}

impl Stacks {
    fn new(most_pages: usize) -> Self {
        Self { pages: Stack::new(most_pages), chunks: Stack::new(most_pages) }
    }

    fn observe(&mut self, (page, chunk): (u64, u64), now_s: u32) {
        self.pages.observe(page, now_s);
        self.chunks.observe(chunk, now_s);
    }
}

/// One compute's own.
#[derive(Debug)]
struct Own {
    epoch: Option<Timestamp>,
    stacks: Stacks,
}

/// Takes requests in order, and ends in curves.
#[derive(Debug)]
pub(crate) struct Reuse {
    limits: Limits,
    all: Stacks,
    /// The only compute so far, and its start: `all` is its own, too.
    only: Option<(usize, Option<Timestamp>)>,
    /// Of each cache by its place, from the second compute or the first restart on.
    own: HashMap<usize, Own, RandomState>,
    /// The caches for which there was no room.
    left_out: HashSet<usize, RandomState>,
}

impl Reuse {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits: Limits { chunk_blocks: limits.chunk_blocks.max(1), ..limits },
            all: Stacks::new(limits.pages),
            only: None,
            own: HashMap::default(),
            left_out: HashSet::default(),
        }
    }

    /// Takes the next record in order. `caches` are all that its observation may name.
    pub(crate) fn observe(&mut self, record: &Record, observation: &Observation, caches: &[Cache]) {
        let (Target::GetPage { blkno, .. }, Some(relation)) = (record.target, observation.relation) else { return };
        if !is_reference(record) {
            return;
        }
        let cache = observation.cache.and_then(|place| Some((place, caches.get(place)?)));
        let owned = cache.filter(|(_, cache)| cache.owner.is_some());
        // Pages of unknown tenants may be those of several. A page trace, which names no client either, is of one.
        if owned.is_none() && !record.client.ip().is_unspecified() {
            return;
        }
        let relation = (relation as u64) << u32::BITS;
        let chunk = blkno.checked_div(self.limits.chunk_blocks).unwrap_or(blkno);
        let keys = (relation | u64::from(blkno), relation | u64::from(chunk));
        let now_s = seconds_of(record.time);
        if let Some((place, cache)) = owned {
            self.split_if_told_apart(place, cache.epoch);
            self.observe_own((place, cache.epoch), keys, now_s);
        }
        self.all.observe(keys, now_s);
    }

    /// One compute's curve is that of all, until there are two, or its cache is emptied.
    fn split_if_told_apart(&mut self, place: usize, epoch: Option<Timestamp>) {
        let only = *self.only.get_or_insert((place, epoch));
        if !self.own.is_empty() || only == (place, epoch) {
            return;
        }
        let mut stacks = self.all.clone();
        stacks.pages.limit(self.limits.pages_of_cache);
        stacks.chunks.limit(self.limits.pages_of_cache);
        self.own.insert(only.0, Own { epoch: only.1, stacks });
    }

    fn observe_own(&mut self, (place, epoch): (usize, Option<Timestamp>), keys: (u64, u64), now_s: u32) {
        if self.own.is_empty() {
            return;
        }
        let has_room = self.own.len() < self.limits.caches;
        if !has_room && !self.own.contains_key(&place) {
            self.left_out.insert(place);
            return;
        }
        let new = || Own { epoch, stacks: Stacks::new(self.limits.pages_of_cache) };
        let own = self.own.entry(place).or_insert_with(new);
        if own.epoch != epoch {
            own.epoch = epoch;
            own.stacks.pages.clear();
            own.stacks.chunks.clear();
        }
        own.stacks.observe(keys, now_s);
    }

    /// The curves: of all together first, then of each cache, most requests first; of pages, then of chunks.
    pub(crate) fn curves(&self, caches: &[Cache], captured_one_in: u64) -> Vec<MissRatioCurve> {
        let captured_one_in = captured_one_in.max(1);
        let of = |(name, stacks): (Option<CacheName>, &Stacks)| {
            let pages = curve(&stacks.pages, name.clone(), 1, captured_one_in);
            // A chunk is asked for whenever any of its pages is: which ones a sample of pages does not tell.
            let has_chunks = captured_one_in == 1 && self.limits.chunk_blocks > 1;
            let chunks = has_chunks.then(|| curve(&stacks.chunks, name, self.limits.chunk_blocks, 1));
            std::iter::once(pages).chain(chunks)
        };
        self.named(caches).into_iter().flat_map(of).collect()
    }

    /// The working sets, in the same order.
    pub(crate) fn working_sets(&self, caches: &[Cache], captured_one_in: u64) -> Vec<WorkingSetReport> {
        let captured_one_in = captured_one_in.max(1);
        let of = |(cache, stacks): (Option<CacheName>, &Stacks)| {
            let keys_each = stacks.pages.keys_each().saturating_mul(captured_one_in);
            let windows = stacks.pages.working_set().report(captured_one_in);
            WorkingSetReport { cache, sampling_rate: 1.0 / keys_each as f64, windows }
        };
        self.named(caches).into_iter().map(of).collect()
    }

    /// Computes that have no curve of their own.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out.len() as u64
    }

    fn named(&self, caches: &[Cache]) -> Vec<(Option<CacheName>, &Stacks)> {
        if self.all.pages.requests() == 0 {
            return Vec::new();
        }
        let of_one = self.only.filter(|_| self.own.is_empty()).map(|(place, _)| (place, &self.all));
        let own = self.own.iter().map(|(&place, own)| (place, &own.stacks)).chain(of_one);
        let mut own: Vec<_> = own.filter_map(|(place, stacks)| Some((name(caches.get(place)?)?, stacks))).collect();
        own.sort_by(|(a, of_a), (b, of_b)| of_b.pages.requests().cmp(&of_a.pages.requests()).then_with(|| a.cmp(b)));
        let all = std::iter::once((None, &self.all));
        all.chain(own.into_iter().map(|(name, stacks)| (Some(name), stacks))).collect()
    }
}

/// A cache's name; `None` where its owner is not known.
fn name(cache: &Cache) -> Option<CacheName> {
    let owner = cache.owner?;
    Some(CacheName {
        tenant: owner.tenant.to_string(),
        timeline: owner.timeline.to_string(),
        client: cache.client.to_string(),
        primary: cache.is_primary,
    })
}

/// Whether it is a request that a cache could have answered: one that brought a page. An error brought none, of one without
/// an answer it is not known. `unknown` is that of an answer that was seen and may be another request's, and of page traces.
pub(crate) fn is_reference(record: &Record) -> bool {
    record.target.kind() == Kind::GetPage && matches!(record.status, Status::Ok | Status::Unknown)
}
