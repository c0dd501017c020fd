//! Caches: whose they are, since when they hold anything, and whether the compute was there all the time.

use std::collections::VecDeque;
use std::net::IpAddr;

use record::{Record, TenantTimeline, Timestamp};

/// Which cache, by its place among all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct CacheId(pub(super) u32);

/// Times of presence that are remembered of a compute. One that opens connections all the time has one; the earliest make
/// room, and what lies before them is not shown to be the same process.
const MAX_PRESENCES: usize = 8;

/// One cache.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    /// Whose pages; a cache of an unknown owner is none, since several could share an address.
    pub(crate) owner: Option<TenantTimeline>,
    /// The compute's address.
    pub(crate) client: IpAddr,
    /// It asks for the latest version, as a primary does.
    pub(crate) is_primary: bool,
    /// The latest start of the compute that was seen.
    pub(crate) epoch: Option<Timestamp>,
    /// How many starts were seen.
    pub(super) epoch_ordinal: u16,
    presences: VecDeque<(Timestamp, Timestamp)>,
}

/// From here on starts are no longer told apart by their number.
pub(super) const LAST_EPOCH_ORDINAL: u16 = u16::MAX;

impl Cache {
    pub(super) fn new(record: &Record, is_primary: bool) -> Self {
        Self {
            owner: record.owner,
            client: record.client.ip(),
            is_primary,
            epoch: None,
            epoch_ordinal: 0,
            presences: VecDeque::new(),
        }
    }

    /// Takes a record of a connection that was there since `first`.
    pub(super) fn observe(&mut self, record: &Record, first: Timestamp) {
        // The latest start seen by any sniffer counts: a base backup is fetched from one page service only.
        if record.epoch > self.epoch {
            self.epoch = record.epoch;
            self.epoch_ordinal = self.epoch_ordinal.saturating_add(1);
        }
        self.extend_presence(first, record.time);
    }

    /// A connection of this compute lasted from `first` until now at least: the process did, too.
    fn extend_presence(&mut self, first: Timestamp, now: Timestamp) {
        let (mut from, mut until) = (first, now);
        while let Some(&(earlier_from, earlier_until)) = self.presences.back() {
            if earlier_until < from {
                break;
            }
            from = from.min(earlier_from);
            until = until.max(earlier_until);
            self.presences.pop_back();
        }
        self.presences.push_back((from, until));
        if self.presences.len() > MAX_PRESENCES {
            self.presences.pop_front();
        }
    }

    /// Whether connections that overlap show one process from `from` until `until`.
    pub(super) fn was_present(&self, from: Timestamp, until: Timestamp) -> bool {
        self.presences.iter().any(|&(since, last)| since <= from && until <= last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::samples;

    fn observed(spans: &[(u64, u64)]) -> Cache {
        let mut cache = Cache::new(&samples::getpage(), true);
        for &(first, now) in spans {
            cache.extend_presence(Timestamp(first), Timestamp(now));
        }
        cache
    }

    #[test]
    fn connections_that_overlap_show_one_process() {
        let present =
            |spans: &[(u64, u64)], from, until| observed(spans).was_present(Timestamp(from), Timestamp(until));
        assert!(present(&[(10, 10), (10, 20)], 10, 20));
        assert!(present(&[(10, 20), (20, 30)], 12, 30), "seen at the same moment");
        assert!(!present(&[(10, 20), (21, 30)], 12, 30), "a restart may lie between");
        assert!(present(&[(10, 20), (21, 30), (10, 31)], 12, 30), "the first one was there all the time");
        assert!(!present(&[(10, 20)], 9, 20) && !present(&[(10, 20)], 10, 21));
    }

    #[test]
    fn presences_are_bounded() {
        let spans: Vec<_> = (0..100).map(|n| (n * 10, n * 10 + 5)).collect();
        let cache = observed(&spans);
        assert_eq!(cache.presences.len(), MAX_PRESENCES);
        assert!(!cache.was_present(Timestamp(0), Timestamp(5)));
    }

    #[test]
    fn the_latest_start_seen_by_any_sniffer_counts() {
        let mut cache = Cache::new(&samples::getpage(), true);
        let mut ordinal_at = |epoch: Option<u64>| {
            let record = Record { epoch: epoch.map(Timestamp), ..samples::getpage() };
            cache.observe(&record, record.time);
            cache.epoch_ordinal
        };
        assert_eq!([None, Some(5), None, Some(4), Some(5), Some(6)].map(&mut ordinal_at), [0, 1, 1, 1, 1, 2]);
    }
}
