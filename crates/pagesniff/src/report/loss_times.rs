//! When a capture lost something, from the ledgers of its trace's blocks.

use analysis::loss::LossTimes;
use record::Timestamp;
use trace::{Counter, Ledger};

/// A loss is counted up to so long after it came about: a hole among packets is given up after 5 s at most (the decoder's
/// bound), a trace is told once a second, and records wait up to a second for their block.
const UNCERTAINTY_NS: u64 = 10_000_000_000;

/// Goes over the blocks of one writer's files in order.
#[derive(Debug, Default)]
pub(super) struct LossScan {
    times: LossTimes,
    /// The latest record of the blocks so far.
    reached: Timestamp,
    /// Since when something has been lost that later records have not passed yet.
    open_since: Option<Timestamp>,
}

impl LossScan {
    /// Takes the next block: the time of its latest record, if it has any, and what was lost since the block before.
    pub(super) fn block(&mut self, last_time: Option<Timestamp>, lost: &Ledger, is_damaged: bool) {
        let reached = last_time.map_or(self.reached, |last| last.max(self.reached));
        // What was lost before this block was written, later than its records maybe: the next block's are behind it.
        if let (Some(since), Some(_)) = (self.open_since, last_time) {
            self.add(since, reached);
            self.open_since = None;
        }
        if is_damaged || may_hide_a_restart(lost) {
            self.open_since = Some(self.open_since.map_or(self.reached, |since| since.min(self.reached)));
        }
        self.reached = reached;
    }

    fn add(&mut self, from: Timestamp, until: Timestamp) {
        self.times.add(Timestamp(from.0.saturating_sub(UNCERTAINTY_NS)), until.plus(UNCERTAINTY_NS));
    }

    /// The times, when no more blocks come.
    pub(super) fn finish(mut self) -> LossTimes {
        if let Some(since) = self.open_since {
            self.add(since, Timestamp(u64::MAX));
        }
        self.times
    }
}

/// Whether what was lost can have been a base backup. Bytes that the snap length cut off are no packets lost; where it cuts
/// any, missing bytes do not tell.
fn may_hide_a_restart(lost: &Ledger) -> bool {
    let packets = [Counter::KernelDropped, Counter::InterfaceDropped, Counter::EvictedConnections];
    let bytes_tell = lost.value(Counter::TruncatedPackets) == 0;
    packets.iter().any(|&counter| lost.value(counter) > 0) || (bytes_tell && lost.value(Counter::GapBytes) > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn lost(counter: Counter) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.add(counter, 1);
        ledger
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp(seconds * SECOND)
    }

    #[test]
    fn a_loss_lies_between_the_block_before_and_the_block_behind_the_one_that_counts_it() {
        let mut scan = LossScan::default();
        scan.block(Some(at(100)), &Ledger::default(), false);
        scan.block(Some(at(200)), &lost(Counter::KernelDropped), false);
        scan.block(None, &Ledger::default(), false);
        scan.block(Some(at(300)), &Ledger::default(), false);
        scan.block(Some(at(400)), &Ledger::default(), false);
        let times = scan.finish();
        for (from, until, expected) in
            [(0, 89, false), (89, 90, true), (250, 260, true), (310, 310, true), (311, 500, false)]
        {
            assert_eq!(times.may_hide(at(from), at(until)), expected, "{from} {until}");
        }
    }

    #[test]
    fn a_loss_at_the_end_has_no_end_and_one_at_the_begin_no_begin() {
        let mut scan = LossScan::default();
        scan.block(Some(at(100)), &lost(Counter::GapBytes), false);
        let times = scan.finish();
        assert!(times.may_hide(at(0), at(1)) && times.may_hide(at(1000), at(1001)));
    }

    #[test]
    fn only_what_can_hide_a_restart_counts() {
        let after = |lost: &Ledger, is_damaged| {
            let mut scan = LossScan::default();
            scan.block(Some(at(1)), lost, is_damaged);
            !scan.finish().is_empty()
        };
        for counter in [Counter::Rotated, Counter::QueueDropped, Counter::LostRequests, Counter::TruncatedPackets] {
            assert!(!after(&lost(counter), false), "{counter:?}");
        }
        for counter in [Counter::InterfaceDropped, Counter::EvictedConnections, Counter::GapBytes] {
            assert!(after(&lost(counter), false), "{counter:?}");
        }
        let mut cut = lost(Counter::GapBytes);
        cut.add(Counter::TruncatedPackets, 1);
        assert!(!after(&cut, false) && after(&cut, true));
    }
}
