//! The latest fetch of each page by each cache, in 80 bytes each.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use record::{Lsn, Record, Status, Target, Timestamp};

use super::classify::is_fetch;
use super::fetch::{Fetch, Page};
use crate::target_hash;

/// Apart from the seeds of `--sample` (0) and of the summary's keys (1), so that the samples do not coincide.
const SAMPLE_SEED: u64 = 2;

/// One page in 2^32 is followed at least; a table that does not shrink by then is filled by somebody who means it, and
/// takes no more pages.
const MOST_HALVINGS: u32 = 32;

/// A page in a cache, by the places of the cache and of the relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PageOf {
    pub(super) cache: u32,
    pub(super) relation: u32,
    pub(super) blkno: u32,
}

impl PageOf {
    fn packed(self) -> u128 {
        u128::from(self.cache) << 64 | u128::from(self.relation) << 32 | u128::from(self.blkno)
    }
}

/// What is remembered of a page. Times and LSNs are bare numbers, and their presence is in the flags: an `Option` would
/// take 8 bytes more for each.
#[derive(Debug, Clone)]
pub(super) struct Latest {
    pub(super) page: PageOf,
    pub(super) epoch_ordinal: u16,
    flags: u8,
    time: u64,
    began: u64,
    not_modified_since: u64,
    /// Of a primary's cache W, of another's the LSN asked at.
    bound: u64,
    page_lsn: u64,
    page_hash: u64,
    /// Requests for it.
    pub(super) requests: u32,
    /// Those of them that were redundant.
    pub(super) redundant: u32,
    /// The connection that asked for it last, and the request's ordinal there.
    pub(super) asked_by: u32,
    pub(super) asked_at: u32,
}

const _: () = assert!(size_of::<Latest>() == 80);

/// It was fetched in this epoch, and the numbers are that fetch's.
const FETCHED: u8 = 1;
/// It was asked for in this epoch, and what came back was not seen.
const UNSEEN: u8 = 1 << 1;
const BEGAN_KNOWN: u8 = 1 << 2;
const BOUND_KNOWN: u8 = 1 << 3;
const PAGE_LSN_KNOWN: u8 = 1 << 4;
const HASH_KNOWN: u8 = 1 << 5;
const ZERO_KNOWN: u8 = 1 << 6;
const ZERO: u8 = 1 << 7;

impl Latest {
    fn new(page: PageOf, epoch_ordinal: u16) -> Self {
        Self {
            page,
            epoch_ordinal,
            flags: 0,
            time: 0,
            began: 0,
            not_modified_since: 0,
            bound: 0,
            page_lsn: 0,
            page_hash: 0,
            requests: 0,
            redundant: 0,
            asked_by: 0,
            asked_at: 0,
        }
    }

    /// The compute has started: what it had fetched is gone.
    pub(super) fn begin_epoch(&mut self, epoch_ordinal: u16) {
        self.epoch_ordinal = epoch_ordinal;
        self.flags = 0;
    }

    /// The latest fetch, if there was one in this epoch.
    pub(super) fn fetch(&self, is_primary: bool) -> Option<Fetch> {
        let known = |flag: u8| self.flags & flag != 0;
        let bound = known(BOUND_KNOWN).then_some(Lsn(self.bound));
        known(FETCHED).then(|| Fetch {
            time: Timestamp(self.time),
            began: known(BEGAN_KNOWN).then_some(Timestamp(self.began)),
            request_lsn: if is_primary { Lsn::MAX } else { bound.unwrap_or_default() },
            not_modified_since: Lsn(self.not_modified_since),
            reached: bound.filter(|_| is_primary),
            page: Page {
                lsn: known(PAGE_LSN_KNOWN).then_some(Lsn(self.page_lsn)),
                hash: known(HASH_KNOWN).then_some(self.page_hash),
                zero: known(ZERO_KNOWN).then_some(known(ZERO)),
            },
        })
    }

    /// Whether it may have been fetched in this epoch by a request whose answer was not seen.
    pub(super) fn may_have_been_fetched(&self) -> bool {
        self.flags & UNSEEN != 0
    }

    /// When it was fetched last in this epoch; where no fetch was seen, when it was asked for.
    pub(super) fn last_time(&self) -> Option<Timestamp> {
        (self.flags & (FETCHED | UNSEEN) != 0).then_some(Timestamp(self.time))
    }

    /// Takes the next request for it.
    pub(super) fn observe(&mut self, record: &Record, reached: Option<Lsn>) {
        if is_fetch(record) {
            self.store(&Fetch::of(record, reached));
        } else if record.status != Status::Error {
            if self.flags & FETCHED == 0 {
                self.time = record.time.0;
            }
            self.flags |= UNSEEN;
        }
    }

    fn store(&mut self, fetch: &Fetch) {
        let is_primary = fetch.request_lsn == Lsn::MAX;
        let bound = if is_primary { fetch.reached } else { Some(fetch.request_lsn) };
        let Page { lsn, zero, hash } = fetch.page;
        let flag = |flag: u8, is_set: bool| if is_set { flag } else { 0 };
        self.flags = FETCHED
            | flag(BEGAN_KNOWN, fetch.began.is_some())
            | flag(BOUND_KNOWN, bound.is_some())
            | flag(PAGE_LSN_KNOWN, lsn.is_some())
            | flag(HASH_KNOWN, hash.is_some())
            | flag(ZERO_KNOWN, zero.is_some())
            | flag(ZERO, zero == Some(true));
        self.time = fetch.time.0;
        self.began = fetch.began.unwrap_or_default().0;
        self.not_modified_since = fetch.not_modified_since.0;
        self.bound = bound.unwrap_or_default().0;
        self.page_lsn = lsn.unwrap_or_default().0;
        self.page_hash = hash.unwrap_or_default();
    }
}

/// The counts of the pages that are followed, from which the whole can be estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledCounts {
    /// One page in how many is followed; 1 is all.
    pub one_in: u64,
    /// Requests for the pages that are followed.
    pub requests: u64,
    /// Those of them that were redundant.
    pub redundant: u64,
}

/// All pages that are followed.
#[derive(Debug)]
pub(super) struct LatestFetches {
    limit: usize,
    pages: HashTable<Latest>,
    hasher: RandomState,
    halvings: u32,
}

impl LatestFetches {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, pages: HashTable::new(), hasher: RandomState::default(), halvings: 0 }
    }

    /// Where a page is found.
    pub(super) fn place_of(&self, page: PageOf) -> (u64, PageOf) {
        (self.hasher.hash_one(page.packed()), page)
    }

    /// Brings what is remembered of pages into the processor's caches.
    pub(super) fn fetch(&self, places: &[(u64, PageOf)]) {
        for (hash, page) in places {
            std::hint::black_box(self.pages.find(*hash, |latest| latest.page == *page));
        }
    }

    /// What is remembered of a page, made where it is new; `None` where it is not followed. `target_at` tells what a page's
    /// relation place and block stand for.
    pub(super) fn of(
        &mut self,
        page: PageOf,
        epoch_ordinal: u16,
        target_at: impl Fn(PageOf) -> Option<Target>,
    ) -> Option<&mut Latest> {
        let follows =
            |page: PageOf, halvings| halvings == 0 || target_at(page).is_some_and(|at| in_sample(&at, halvings));
        if !follows(page, self.halvings) {
            return None;
        }
        let hash = self.hasher.hash_one(page.packed());
        if self.pages.len() >= self.limit && self.pages.find(hash, |latest| latest.page == page).is_none() {
            self.make_room(follows);
            if self.pages.len() >= self.limit || !follows(page, self.halvings) {
                return None;
            }
        }
        let hasher = &self.hasher;
        let rehash = |latest: &Latest| hasher.hash_one(latest.page.packed());
        let entry = self.pages.entry(hash, |latest| latest.page == page, rehash);
        Some(entry.or_insert_with(|| Latest::new(page, epoch_ordinal)).into_mut())
    }

    /// Forgets every second page until there is room, and does not follow their like any more. Those that stay have been
    /// followed from the start.
    fn make_room(&mut self, follows: impl Fn(PageOf, u32) -> bool) {
        while self.pages.len() >= self.limit && self.halvings < MOST_HALVINGS {
            self.halvings += 1;
            let halvings = self.halvings;
            self.pages.retain(|latest| follows(latest.page, halvings));
        }
    }

    pub(super) fn one_in(&self) -> u64 {
        1 << self.halvings
    }

    pub(super) fn counts(&self) -> SampledCounts {
        let sum = |count: fn(&Latest) -> u32| self.pages.iter().map(|latest| u64::from(count(latest))).sum();
        SampledCounts {
            one_in: self.one_in(),
            requests: sum(|latest| latest.requests),
            redundant: sum(|latest| latest.redundant),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Latest> {
        self.pages.iter()
    }
}

/// Whether a page is among those that are followed after so many halvings.
fn in_sample(target: &Target, halvings: u32) -> bool {
    target_hash(target, SAMPLE_SEED).trailing_zeros() >= halvings
}

#[cfg(test)]
mod tests {
    use record::RelTag;

    use super::*;
    use crate::render::samples;

    fn target_at(page: PageOf) -> Option<Target> {
        let rel = RelTag { spcnode: 1663, dbnode: 5, relnode: page.relation, forknum: 0 };
        Some(Target::GetPage { rel, blkno: page.blkno })
    }

    fn page(blkno: u32) -> PageOf {
        PageOf { cache: 1, relation: 2, blkno }
    }

    #[test]
    fn a_fetch_comes_back_as_it_was_stored() {
        let base = samples::getpage();
        for (latency_ns, page_lsn, page_zero, page_hash) in [
            (None, None, None, None),
            (Some(3), Some(Lsn(4)), Some(false), Some(5)),
            (Some(0), Some(Lsn(0)), Some(true), None),
        ] {
            let record = Record { latency_ns, page_lsn, page_zero, page_hash, ..base.clone() };
            for (is_primary, reached) in [(true, None), (true, Some(Lsn(9))), (false, None)] {
                let request_lsn = if is_primary { Lsn::MAX } else { Lsn(77) };
                let record = Record { request_lsn, ..record.clone() };
                let mut latest = Latest::new(page(1), 0);
                latest.observe(&record, reached);
                assert_eq!(latest.fetch(is_primary), Some(Fetch::of(&record, reached)));
            }
        }
    }

    #[test]
    fn an_unseen_answer_is_remembered_and_an_error_is_not() {
        let mut latest = Latest::new(page(1), 0);
        latest.observe(&Record { status: Status::Error, ..samples::getpage() }, None);
        assert!(!latest.may_have_been_fetched() && latest.fetch(true).is_none() && latest.last_time().is_none());
        latest.observe(&samples::unanswered(), None);
        assert!(latest.may_have_been_fetched() && latest.fetch(true).is_none());
        assert_eq!(latest.last_time(), Some(samples::unanswered().time));
        let fetch = Record { time: Timestamp(5), ..samples::getpage() };
        latest.observe(&fetch, None);
        latest.observe(&samples::unanswered(), None);
        assert!(latest.fetch(true).is_some() && latest.last_time() == Some(fetch.time));
        latest.begin_epoch(1);
        assert!(!latest.may_have_been_fetched() && latest.fetch(true).is_none() && latest.last_time().is_none());
    }

    #[test]
    fn beyond_the_bound_half_of_the_pages_are_followed_and_those_from_the_start() {
        let mut fetches = LatestFetches::new(1000);
        for round in 0..2u32 {
            for blkno in 0..5000 {
                if let Some(latest) = fetches.of(page(blkno), 0, target_at) {
                    latest.requests += 1;
                    latest.redundant += round;
                }
            }
            assert!(fetches.pages.len() <= 1000);
        }
        assert!(fetches.one_in() >= 8);
        let counts = fetches.counts();
        assert_eq!(counts.requests, 2 * counts.redundant, "each page that is followed was so twice");
        let estimate = counts.requests * counts.one_in;
        assert!((8000..12_000).contains(&estimate), "{estimate}");
    }

    #[test]
    fn a_table_that_does_not_shrink_takes_no_more() {
        let one =
            |_: PageOf| target_at(page((0..).find(|&blkno| in_sample(&target_at(page(blkno)).unwrap(), 8)).unwrap()));
        let mut fetches = LatestFetches::new(2);
        let followed = (0..4).filter(|&blkno| fetches.of(page(blkno), 0, one).is_some()).count();
        assert!(followed <= 2 && fetches.halvings > 8, "{followed} {}", fetches.halvings);
    }
}
