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

mod apart;
mod caches;
mod curve;
mod grid;
mod recency;
mod sizing;
mod stack;
#[cfg(test)]
mod tests;
mod working_set;

use std::io;

use record::{Kind, Record, Status, Target, Timestamp};

pub use curve::{CacheName, CurvePoint, Granularity, Method, MissRatioCurve};
pub use grid::MOST_POINTS;
pub use sizing::{CacheSizing, TARGET_HIT_RATIOS, sizing};
pub use working_set::{MOST_WINDOWS, WINDOWS_S, WindowPoint, WindowReport};

use apart::Apart;
use caches::Caches;
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

/// So many requests are counted at once: what is known of their pages, some 100 KiB, fits into a processor's second cache.
const BATCH: usize = 256;

/// A request that a cache could have answered.
#[derive(Debug, Clone, Copy)]
struct Reference {
    /// The cache's place and its last start; `None` where the input does not tell who asked.
    cache: Option<(usize, Option<Timestamp>)>,
    /// Relation and block.
    page: u64,
    /// Relation and chunk.
    chunk: u64,
    now_s: u32,
}

/// Takes requests in order, and ends in curves.
#[derive(Debug)]
pub(crate) struct Reuse {
    limits: Limits,
    /// Not counted yet.
    waiting: Vec<Reference>,
    caches: Caches,
    /// The thread that has the caches meanwhile.
    apart: Option<Apart>,
}

impl Reuse {
    pub(crate) fn new(limits: Limits) -> Self {
        let limits = Limits { chunk_blocks: limits.chunk_blocks.max(1), ..limits };
        Self { limits, waiting: Vec::with_capacity(BATCH), caches: Caches::new(limits), apart: None }
    }

    /// What is taken from now on is counted on a thread of its own, until [`Self::settle`].
    pub(crate) fn count_apart(&mut self) -> io::Result<()> {
        self.settle();
        let caches = std::mem::replace(&mut self.caches, Caches::new(self.limits));
        self.apart = Some(Apart::start(caches)?);
        Ok(())
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
        self.waiting.push(Reference {
            cache: owned.map(|(place, cache)| (place, cache.epoch)),
            page: relation | u64::from(blkno),
            chunk: relation | u64::from(chunk),
            now_s: seconds_of(record.time),
        });
        if self.waiting.len() >= BATCH {
            self.hand_over();
        }
    }

    /// Counts the requests that wait, or has them counted.
    fn hand_over(&mut self) {
        match &self.apart {
            Some(apart) => self.waiting = apart.count(std::mem::take(&mut self.waiting)),
            None => {
                self.caches.count(&self.waiting);
                self.waiting.clear();
            }
        }
    }

    /// Counts all that was taken, and ends the thread.
    pub(crate) fn settle(&mut self) {
        self.hand_over();
        if let Some(apart) = self.apart.take() {
            self.caches = apart.join();
        }
    }

    /// The curves of what was counted: of all together first, then of each cache, most requests first; of pages, then of
    /// chunks.
    pub(crate) fn curves(&self, caches: &[Cache], captured_one_in: u64) -> Vec<MissRatioCurve> {
        self.caches.curves(caches, captured_one_in)
    }

    /// The working sets, in the same order.
    pub(crate) fn working_sets(&self, caches: &[Cache], captured_one_in: u64) -> Vec<WorkingSetReport> {
        self.caches.working_sets(caches, captured_one_in)
    }

    /// Computes that have no curve of their own.
    pub(crate) fn left_out(&self) -> u64 {
        self.caches.left_out()
    }
}

/// Whether it is a request that a cache could have answered: one that brought a page. An error brought none, of one without
/// an answer it is not known. `unknown` is that of an answer that was seen and may be another request's, and of page traces.
pub(crate) fn is_reference(record: &Record) -> bool {
    record.target.kind() == Kind::GetPage && matches!(record.status, Status::Ok | Status::Unknown)
}
