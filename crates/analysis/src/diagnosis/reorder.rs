//! From the order of completion to the order of arrival, in bounded memory.

use record::{Order, Record, Timestamp};

use super::{Diagnosis, EXPECTED_RECORDS, InputFacts, Limits, Report};
use crate::shards::ShardClaim;

/// Records that wait to be put in order: 0.2 s of the busiest tenant that Neon has seen, and some 9 MiB. A request that
/// takes longer than three quarters of so many others may be late: counted, and unproven.
pub const REORDER_RECORDS: usize = 32_768;

/// The part of the waiting records that is handed on at once: merging them costs little beside so many, and most still wait.
const SHARE_HANDED_ON: usize = 4;

/// A record that waits. The time is here as well since it decides nearly always, without a look at the record.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    time: Timestamp,
    place: usize,
}

/// A diagnosis of records that come as they are completed.
#[derive(Debug)]
pub struct Reorder {
    diagnosis: Diagnosis,
    limit: usize,
    /// In order up to where the last merge ended, behind it as they came.
    waiting: Vec<Waiting>,
    /// The records that wait, each in the place that its entry names; what is free is in `free`.
    places: Vec<Record>,
    free: Vec<usize>,
    passed: Option<Order>,
}

impl Reorder {
    /// A diagnosis within these limits, which puts up to `limit` records in order.
    pub fn new(limits: Limits, limit: usize) -> Self {
        Self {
            diagnosis: Diagnosis::new(limits),
            limit: limit.max(1),
            waiting: Vec::new(),
            places: Vec::new(),
            free: Vec::new(),
            passed: None,
        }
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
        if self.passed.is_some_and(|passed| record.order() < passed) {
            self.diagnosis.observe_late(record);
            return;
        }
        if self.waiting.len() >= self.limit {
            self.hand_on(self.limit.div_ceil(SHARE_HANDED_ON));
        }
        let place = match self.free.pop() {
            Some(place) => {
                self.places.get_mut(place).into_iter().for_each(|slot| slot.clone_from(record));
                place
            }
            None => {
                self.places.push(record.clone());
                self.places.len().saturating_sub(1)
            }
        };
        self.waiting.push(Waiting { time: record.time, place });
    }

    /// What there is to say, when nothing more comes.
    pub fn report(mut self, facts: InputFacts) -> Report {
        self.hand_on(self.waiting.len());
        self.diagnosis.report(facts)
    }

    /// Puts what waits in order and hands on the earliest.
    fn hand_on(&mut self, records: usize) {
        let places = &self.places;
        // The sort finds what is in order already, and merges it with what came since, which nearly is.
        self.waiting.sort_by(|one, other| {
            let order_at = |place: usize| places.get(place).map(Record::order);
            one.time.cmp(&other.time).then_with(|| order_at(one.place).cmp(&order_at(other.place)))
        });
        let earliest = self.waiting.get(..records).unwrap_or(&self.waiting).chunks(EXPECTED_RECORDS);
        for chunk in earliest {
            let records = || chunk.iter().filter_map(|waiting| places.get(waiting.place));
            self.diagnosis.expect(records());
            records().for_each(|record| self.diagnosis.observe(record));
            self.passed = records().next_back().map(Record::order).or(self.passed);
        }
        self.free.extend(self.waiting.drain(..records.min(self.waiting.len())).map(|waiting| waiting.place));
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
            assert!(reorder.places.len() <= limit);
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
