//! From the order of completion to the order of arrival, in bounded memory.

use record::{Record, Timestamp};

use super::{Diagnosis, EXPECTED_RECORDS, InputFacts, Limits, Report};
use crate::in_order::InOrder;
use crate::shards::ShardClaim;

/// Records that wait to be put in order: 0.2 s of the busiest tenant that Neon has seen, and some 9 MiB. A request that
/// takes longer than three quarters of so many others may be late: counted, and unproven.
pub const REORDER_RECORDS: usize = 32_768;

/// The part of the waiting records that is handed on at once: merging them costs little beside so many, and most still wait.
const SHARE_HANDED_ON: usize = 4;

/// A diagnosis of records that come as they are completed.
#[derive(Debug)]
pub struct Reorder {
    diagnosis: Diagnosis,
    limit: usize,
    waiting: InOrder,
}

impl Reorder {
    /// A diagnosis within these limits, which puts up to `limit` records in order.
    pub fn new(limits: Limits, limit: usize) -> Self {
        Self { diagnosis: Diagnosis::new(limits), limit: limit.max(1), waiting: InOrder::new(limit) }
    }

    /// Holds what follows against what somebody said of a tenant's shards.
    pub fn claim_shard(&mut self, claim: ShardClaim) {
        self.diagnosis.claim_shard(claim);
    }

    /// The capture lost something between these two moments.
    pub fn lost(&mut self, from: Timestamp, until: Timestamp) {
        self.diagnosis.lost(from, until);
    }

    /// Takes the next completed record.
    pub fn observe(&mut self, record: &Record) {
        if self.waiting.is_late(record) {
            self.diagnosis.observe_late(record);
            return;
        }
        if self.waiting.is_full() {
            self.hand_on(self.limit.div_ceil(SHARE_HANDED_ON));
        }
        self.waiting.push(record);
    }

    /// What there is to say, when nothing more comes.
    pub fn report(mut self, facts: InputFacts) -> Report {
        self.hand_on(self.waiting.len());
        self.diagnosis.report(facts)
    }

    fn hand_on(&mut self, records: usize) {
        let Self { diagnosis, waiting, .. } = self;
        waiting.hand_on(records, EXPECTED_RECORDS, |earliest| {
            diagnosis.expect(earliest.records());
            earliest.records().for_each(|record| diagnosis.observe(record));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::samples;

    fn at(time: u64) -> Record {
        Record { time: Timestamp(time), seq: Some(time), ..samples::getpage() }
    }

    #[test]
    fn what_fits_the_buffer_is_put_in_order_and_the_rest_is_late() {
        let times = [30, 10, 20, 40, 15, 5, 50, 60];
        let report = |limit| {
            let mut reorder = Reorder::new(Limits::CAPTURE, limit);
            times.iter().for_each(|&time| reorder.observe(&at(time)));
            assert!(reorder.waiting.places() <= limit);
            reorder.report(InputFacts::default())
        };
        let whole = report(8);
        assert_eq!((whole.completeness.late_records, whole.totals.requests), (0, 8));
        let short = report(3);
        assert_eq!((short.completeness.late_records, short.totals.requests), (1, 8));
        assert!(!short.completeness.complete && whole.completeness.complete);
        let refetch = short.refetch.unwrap().counts;
        assert_eq!((refetch.first, refetch.unproven), (1, 1));
    }

    #[test]
    fn records_that_come_late_by_less_than_what_waits_give_the_diagnosis_of_all_in_order() {
        // Forty at a time arrive backwards, every third with the time of the one before it.
        let record = |place: u64| Record { seq: Some(place), ..at(100 + place - u64::from(place % 3 == 2)) };
        let completed = (0..25).flat_map(|block| (0..40).rev().map(move |place| block * 40 + place));
        let report = |places: &mut dyn Iterator<Item = u64>, limit| {
            let mut reorder = Reorder::new(Limits::CAPTURE, limit);
            places.for_each(|place| reorder.observe(&record(place)));
            reorder.report(InputFacts::default())
        };
        let reordered = report(&mut completed.clone(), 64);
        assert_eq!((reordered.completeness.late_records, reordered.totals.requests), (0, 1000));
        let in_order = report(&mut (0..1000), 1);
        assert_eq!(serde_json::to_value(reordered).unwrap(), serde_json::to_value(in_order).unwrap());
        assert!(report(&mut completed.clone(), 16).completeness.late_records > 0);
    }
}
