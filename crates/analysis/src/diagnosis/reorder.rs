//! From the order of completion to the order of arrival, in bounded memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use record::{Endpoint, Record, Timestamp};

use super::{Diagnosis, InputFacts, Limits, Report};
use crate::shards::ShardClaim;

/// Records that wait to be put in order: 0.2 s of the busiest tenant that Neon has seen, and some 8 MiB. A request that
/// takes longer than so many others is late: counted, and unproven.
pub const REORDER_RECORDS: usize = 32_768;

type Order = (Timestamp, Endpoint, Endpoint, Option<u64>);

/// A diagnosis of records that come as they are completed.
#[derive(Debug)]
pub struct Reorder {
    diagnosis: Diagnosis,
    limit: usize,
    waiting: BinaryHeap<Reverse<(Order, u32)>>,
    /// The records that wait, each in the place that its entry names; what is free is in `free`.
    places: Vec<Record>,
    free: Vec<u32>,
    passed: Option<Order>,
}

impl Reorder {
    /// A diagnosis within these limits, which puts up to `limit` records in order.
    pub fn new(limits: Limits, limit: usize) -> Self {
        Self {
            diagnosis: Diagnosis::new(limits),
            limit: limit.clamp(1, u32::MAX as usize),
            waiting: BinaryHeap::new(),
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
        let order = (record.time, record.client, record.server, record.seq);
        if self.passed.is_some_and(|passed| order < passed) {
            self.diagnosis.observe_late(record);
            return;
        }
        if self.waiting.len() >= self.limit {
            self.release();
        }
        let place = match self.free.pop() {
            Some(place) => {
                self.places.get_mut(place as usize).into_iter().for_each(|slot| slot.clone_from(record));
                place
            }
            None => {
                self.places.push(record.clone());
                u32::try_from(self.places.len().saturating_sub(1)).unwrap_or(u32::MAX)
            }
        };
        self.waiting.push(Reverse((order, place)));
    }

    /// What there is to say, when nothing more comes.
    pub fn report(mut self, facts: InputFacts) -> Report {
        while !self.waiting.is_empty() {
            self.release();
        }
        self.diagnosis.report(facts)
    }

    /// Hands on the earliest.
    fn release(&mut self) {
        let Some(Reverse((order, place))) = self.waiting.pop() else { return };
        if let Some(record) = self.places.get(place as usize) {
            self.diagnosis.observe(record);
        }
        self.passed = Some(order);
        self.free.push(place);
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
}
