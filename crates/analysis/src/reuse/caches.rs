//! The stacks of all computes together and of each by itself, and what becomes of them.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;
use record::Timestamp;

use super::curve::{CacheName, MissRatioCurve, curve};
use super::stack::Stack;
use super::{Limits, Reference, WorkingSetReport};
use crate::refetch::Cache;

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

    fn observe(&mut self, reference: &Reference) {
        self.pages.observe(reference.page, reference.now_s);
        self.chunks.observe(reference.chunk, reference.now_s);
    }

    fn fetch(&self, reference: &Reference) {
        self.pages.fetch(reference.page);
        self.chunks.fetch(reference.chunk);
    }
}

/// One compute's own.
#[derive(Debug)]
struct Own {
    epoch: Option<Timestamp>,
    stacks: Stacks,
}

/// Counts requests in order, and ends in curves.
#[derive(Debug)]
pub(super) struct Caches {
    limits: Limits,
    all: Stacks,
    /// The only compute so far, and its start: `all` is its own, too.
    only: Option<(usize, Option<Timestamp>)>,
    /// Of each cache by its place, from the second compute or the first restart on.
    own: HashMap<usize, Own, RandomState>,
    /// The caches for which there was no room.
    left_out: HashSet<usize, RandomState>,
}

impl Caches {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            all: Stacks::new(limits.pages),
            only: None,
            own: HashMap::default(),
            left_out: HashSet::default(),
        }
    }

    /// Counts the next requests. What is known of their pages is fetched into the processor's caches for all of them at once:
    /// one after the other they would wait for memory most of the time.
    pub(super) fn count(&mut self, references: &[Reference]) {
        references.iter().for_each(|reference| self.fetch(reference));
        references.iter().for_each(|reference| self.count_one(reference));
    }

    fn fetch(&self, reference: &Reference) {
        self.all.fetch(reference);
        let own = reference.cache.and_then(|(place, _)| self.own.get(&place));
        own.into_iter().for_each(|own| own.stacks.fetch(reference));
    }

    fn count_one(&mut self, reference: &Reference) {
        if let Some((place, epoch)) = reference.cache {
            self.split_if_told_apart(place, epoch);
            self.observe_own((place, epoch), reference);
        }
        self.all.observe(reference);
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

    fn observe_own(&mut self, (place, epoch): (usize, Option<Timestamp>), reference: &Reference) {
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
        own.stacks.observe(reference);
    }

    /// The curves: of all together first, then of each cache, most requests first; of pages, then of chunks.
    pub(super) fn curves(&self, caches: &[Cache], captured_one_in: u64) -> Vec<MissRatioCurve> {
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
    pub(super) fn working_sets(&self, caches: &[Cache], captured_one_in: u64) -> Vec<WorkingSetReport> {
        let captured_one_in = captured_one_in.max(1);
        let of = |(cache, stacks): (Option<CacheName>, &Stacks)| {
            let keys_each = stacks.pages.keys_each().saturating_mul(captured_one_in);
            let windows = stacks.pages.working_set().report(captured_one_in);
            WorkingSetReport { cache, sampling_rate: 1.0 / keys_each as f64, windows }
        };
        self.named(caches).into_iter().map(of).collect()
    }

    /// Computes that have no curve of their own.
    pub(super) fn left_out(&self) -> u64 {
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
