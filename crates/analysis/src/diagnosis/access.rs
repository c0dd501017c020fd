//! How pages follow one another: sequential, strided or random, and the same page twice within a scan.

use super::distribution::{Distribution, Figures};
use serde::Serialize;

/// Relations of one connection whose last block is remembered: an index, its table, and their visibility maps.
const SCANS: usize = 4;

/// The same page asked for again by the same connection within so many of its requests is a duplicate prefetch: computes
/// have so many prefetches under way, unless told otherwise (`neon.readahead_buffer_size`).
pub const DUPLICATE_WITHIN: u32 = 128;

/// One connection's place in one relation.
#[derive(Debug, Clone, Copy, Default)]
struct Scan {
    /// The relation's place, `None` before the first.
    relation: Option<usize>,
    blkno: u32,
    /// From the block before the last to the last.
    step: i64,
    /// Blocks of the run that the last one is in.
    run: u64,
    used_at: u64,
}

/// One connection's places.
#[derive(Debug, Clone, Default)]
pub(super) struct Scans {
    scans: [Scan; SCANS],
    clock: u64,
}

/// How a page follows the one before it, of the same relation on the same connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follows {
    /// There is none before it.
    Nothing,
    /// The next block.
    Sequential,
    /// As far from it as that was from its own predecessor.
    Strided,
    /// Anything else.
    Random,
}

impl Scans {
    /// Takes the next page; gives the length of the run that it ended, if any.
    pub(super) fn observe(&mut self, relation: usize, blkno: u32) -> (Follows, Option<u64>) {
        self.clock = self.clock.wrapping_add(1);
        let clock = self.clock;
        let known = self.scans.iter().position(|scan| scan.relation == Some(relation));
        let oldest = || (0..SCANS).min_by_key(|&at| self.scans.get(at).map_or(0, |scan| scan.used_at));
        let Some(scan) = known.or_else(oldest).and_then(|at| self.scans.get_mut(at)) else {
            return (Follows::Nothing, None);
        };
        if known.is_none() {
            let ended = scan.relation.map(|_| scan.run);
            *scan = Scan { relation: Some(relation), blkno, step: 0, run: 1, used_at: clock };
            return (Follows::Nothing, ended);
        }
        let step = i64::from(blkno).wrapping_sub(i64::from(scan.blkno));
        let is_strided = step == scan.step && step != 0;
        (scan.blkno, scan.step, scan.used_at) = (blkno, step, clock);
        if step == 1 {
            scan.run = scan.run.saturating_add(1);
            return (Follows::Sequential, None);
        }
        let ended = std::mem::replace(&mut scan.run, 1);
        (if is_strided { Follows::Strided } else { Follows::Random }, Some(ended))
    }

    /// The lengths of the runs that have not ended.
    pub(super) fn open_runs(&self) -> impl Iterator<Item = u64> + '_ {
        self.scans.iter().filter(|scan| scan.relation.is_some()).map(|scan| scan.run)
    }
}

/// How many pages followed how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct AccessCounts {
    /// The block behind the one before it.
    pub sequential: u64,
    /// As far from the one before it as that was from its own predecessor.
    pub strided: u64,
    /// Anything else.
    pub random: u64,
}

impl AccessCounts {
    pub(super) fn add(&mut self, follows: Follows) {
        match follows {
            Follows::Nothing => {}
            Follows::Sequential => self.sequential += 1,
            Follows::Strided => self.strided += 1,
            Follows::Random => self.random += 1,
        }
    }
}

/// How pages follow one another, of each connection and relation by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct AccessReport {
    /// How many followed how.
    #[serde(flatten)]
    pub counts: AccessCounts,
    /// Lengths of the runs of two blocks and more.
    pub run_blocks: Figures,
}

/// The same page twice within a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct DuplicateReport {
    /// GetPage for a page that the same connection had asked for at most [`DUPLICATE_WITHIN`] requests before.
    pub requests: u64,
    /// How many requests before.
    pub requests_apart: Figures,
}

/// Runs and duplicates of all connections.
#[derive(Debug, Default)]
pub(super) struct AccessTally {
    pub(super) counts: AccessCounts,
    runs: Distribution,
    apart: Distribution,
}

impl AccessTally {
    pub(super) fn run_ended(&mut self, blocks: Option<u64>) {
        if let Some(blocks) = blocks.filter(|&blocks| blocks > 1) {
            self.runs.observe(blocks);
        }
    }

    /// Takes how many requests ago the connection had asked for the same page. True for a duplicate.
    pub(super) fn asked_ago(&mut self, requests: Option<u32>) -> bool {
        let within = requests.filter(|&requests| requests <= DUPLICATE_WITHIN);
        if let Some(requests) = within {
            self.apart.observe(u64::from(requests));
        }
        within.is_some()
    }

    /// What there is to say, with the runs that are still open.
    pub(super) fn report<'a>(&self, open: impl Iterator<Item = &'a Scans>) -> (AccessReport, DuplicateReport) {
        let mut runs = self.runs.clone();
        open.flat_map(Scans::open_runs).filter(|&blocks| blocks > 1).for_each(|blocks| runs.observe(blocks));
        let access = AccessReport { counts: self.counts, run_blocks: runs.figures() };
        (access, DuplicateReport { requests: self.apart.count(), requests_apart: self.apart.figures() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_told_by_how_they_follow_the_one_before() {
        let mut scans = Scans::default();
        let mut follows = |relation, blkno| scans.observe(relation, blkno);
        assert_eq!(follows(1, 5), (Follows::Nothing, None));
        assert_eq!(follows(1, 6), (Follows::Sequential, None));
        assert_eq!(follows(2, 40), (Follows::Nothing, None), "another relation is another scan");
        assert_eq!(follows(1, 7), (Follows::Sequential, None));
        assert_eq!(follows(1, 10), (Follows::Random, Some(3)));
        assert_eq!(follows(1, 13), (Follows::Strided, Some(1)));
        assert_eq!(follows(1, 13), (Follows::Random, Some(1)));
        assert_eq!(follows(1, 13), (Follows::Random, Some(1)), "the same block is no stride");
        assert_eq!(follows(1, 12), (Follows::Random, Some(1)));
        assert_eq!(follows(1, 11), (Follows::Strided, Some(1)), "backwards");
        for relation in 3..=5 {
            follows(relation, 0);
        }
        assert_eq!(follows(2, 41), (Follows::Nothing, Some(1)), "the one used least recently was forgotten");
    }

    #[test]
    fn runs_count_when_they_end_and_at_the_end() {
        let (mut tally, mut scans) = (AccessTally::default(), Scans::default());
        for blkno in [1, 2, 3, 9, 20, 21] {
            let (follows, ended) = scans.observe(0, blkno);
            tally.counts.add(follows);
            tally.run_ended(ended);
        }
        let (access, _) = tally.report([&scans].into_iter());
        assert_eq!((access.run_blocks.count, access.run_blocks.max, access.run_blocks.min), (2, Some(3), Some(2)));
        assert_eq!(access.counts, AccessCounts { sequential: 3, strided: 0, random: 2 });
    }

    #[test]
    fn a_duplicate_lies_within_what_can_be_under_way() {
        let mut tally = AccessTally::default();
        assert_eq!([Some(1), Some(128), Some(129), None].map(|ago| tally.asked_ago(ago)), [true, true, false, false]);
        assert_eq!(tally.report([].into_iter()).1.requests, 2);
    }
}
