//! Waiting behind a connection's earlier requests, told from service.
//!
//! The page service answers a connection's requests one by one. A request's service can begin when it has arrived and the
//! answer before it has ended: what lies before that is waiting, the rest of its latency is service. Waiting is measured
//! only where the request before it is known for certain.

use std::collections::VecDeque;

use record::{Kind, Record, Timestamp};
use serde::Serialize;

use super::distribution::{Distribution, Durations};
use crate::summary::Word;

/// Requests of one connection that may be waited for: as many as may be in flight there.
const MAX_LINE: usize = 4096;

/// Requests that held up others longest, listed one by one.
const WORST: usize = 10;

/// A request that others of its connection may wait for.
#[derive(Debug, Clone, Copy)]
struct Served {
    time: Timestamp,
    ended: Timestamp,
    service_ns: u64,
    kind: Kind,
    relation: Option<usize>,
    held: u64,
    held_ns: u64,
}

/// One connection's line.
#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    previous: Option<Previous>,
    /// Those served so far whose answers may still have to be waited for, each with a longer service than all behind it:
    /// so the first one that has not ended is the one that held up most.
    served: VecDeque<Served>,
}

#[derive(Debug, Clone, Copy)]
struct Previous {
    seq: Option<u64>,
    ended: Option<Timestamp>,
}

/// Waiting and service of all connections.
#[derive(Debug, Default)]
pub(super) struct Queueing {
    kinds: [KindTimes; Kind::ALL.len()],
    worst: Vec<Served>,
}

#[derive(Debug, Default)]
struct KindTimes {
    wait: Distribution,
    service: Distribution,
    held: u64,
    held_ns: u64,
}

/// Waiting and service of one kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct KindQueueing {
    /// Behind earlier requests of the same connection.
    pub wait: Durations,
    /// From then to the answer's first byte.
    pub service: Durations,
    /// Requests that waited for one of this kind longest.
    pub held_requests: u64,
    /// How long they waited, together.
    pub held_ns: u64,
}

/// A request that held up others of its connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Blocker {
    /// When it arrived, unix ns.
    pub time_ns: u64,
    /// What it was.
    pub kind: &'static str,
    /// Of which relation, where the kind has one.
    pub rel: Option<String>,
    /// Its own service.
    pub service_ns: u64,
    /// Requests that waited for it longest.
    pub held_requests: u64,
    /// How long they waited, together.
    pub held_ns: u64,
}

impl Queueing {
    /// Takes the next request of a connection.
    pub(super) fn observe(&mut self, line: &mut Line, record: &Record, relation: Option<usize>) {
        let previous = line.previous.replace(Previous { seq: record.seq, ended: ended(record) });
        let Some(latency_ns) = record.latency_ns else { return };
        let Some(wait_ns) = wait_ns(previous, record).filter(|&wait_ns| wait_ns <= latency_ns) else { return };
        let service_ns = latency_ns - wait_ns;
        let kind = record.target.kind();
        if let Some(times) = self.kinds.get_mut(kind as usize) {
            times.wait.observe(wait_ns);
            times.service.observe(service_ns);
        }
        while line.served.front().is_some_and(|served| served.ended <= record.time) || line.served.len() >= MAX_LINE {
            line.served.pop_front().into_iter().for_each(|served| self.settle(served));
        }
        if let Some(blocker) = line.served.front_mut().filter(|_| wait_ns > 0) {
            blocker.held += 1;
            blocker.held_ns = blocker.held_ns.saturating_add(wait_ns);
            if let Some(times) = self.kinds.get_mut(blocker.kind as usize) {
                times.held += 1;
                times.held_ns = times.held_ns.saturating_add(wait_ns);
            }
        }
        let Some(ended) = ended(record) else { return };
        while line.served.back().is_some_and(|served| served.service_ns <= service_ns) {
            line.served.pop_back().into_iter().for_each(|shorter| self.settle(shorter));
        }
        line.served.push_back(Served { time: record.time, ended, service_ns, kind, relation, held: 0, held_ns: 0 });
    }

    /// Nobody waits for it any more.
    fn settle(&mut self, served: Served) {
        let least = self.worst.last().map_or(0, |worst| worst.held_ns);
        if served.held == 0 || (self.worst.len() >= WORST && served.held_ns <= least) {
            return;
        }
        let place = self.worst.partition_point(|worst| worst.held_ns >= served.held_ns);
        self.worst.insert(place, served);
        self.worst.truncate(WORST);
    }

    /// The connection's line is at its end.
    pub(super) fn close(&mut self, line: &mut Line) {
        while let Some(served) = line.served.pop_front() {
            self.settle(served);
        }
    }

    pub(super) fn of(&self, kind: Kind) -> KindQueueing {
        self.kinds.get(kind.ordinal()).map_or_else(KindQueueing::default, |times| KindQueueing {
            wait: times.wait.durations(),
            service: times.service.durations(),
            held_requests: times.held,
            held_ns: times.held_ns,
        })
    }

    /// How long requests of a kind waited, and were served, all together.
    pub(super) fn sums_ns(&self, kind: Kind) -> (u64, u64) {
        self.kinds.get(kind.ordinal()).map_or((0, 0), |times| (times.wait.sum(), times.service.sum()))
    }

    /// The requests that held up others longest; `open` are the lines that have not come to their end.
    pub(super) fn worst<'a>(
        &self,
        open: impl Iterator<Item = &'a Line>,
        rel_of: impl Fn(usize) -> Option<String>,
    ) -> Vec<Blocker> {
        let mut all = Self { kinds: Default::default(), worst: self.worst.clone() };
        open.flat_map(|line| &line.served).for_each(|served| all.settle(*served));
        let blockers = all.worst.into_iter().map(|served| Blocker {
            time_ns: served.time.0,
            kind: served.kind.as_str(),
            rel: served.relation.and_then(&rel_of),
            service_ns: served.service_ns,
            held_requests: served.held,
            held_ns: served.held_ns,
        });
        blockers.collect()
    }
}

/// When the answer's last byte came.
fn ended(record: &Record) -> Option<Timestamp> {
    let began = record.time.plus(record.latency_ns?);
    record.transfer_ns.map(|transfer_ns| began.plus(transfer_ns))
}

/// How long the request waited behind the one before it, where that is known.
fn wait_ns(previous: Option<Previous>, record: &Record) -> Option<u64> {
    if record.depth == Some(1) || record.seq == Some(0) {
        return Some(0);
    }
    let previous = previous?;
    let is_next = match (previous.seq, record.seq) {
        (Some(before), Some(seq)) => before.checked_add(1) == Some(seq),
        // A connection joined in the middle: a known depth says that nothing in between was missed.
        _ => record.depth.is_some(),
    };
    previous.ended.filter(|_| is_next).map(|ended| ended.since(record.time).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::samples;

    fn record(seq: u64, time: u64, latency: u64) -> Record {
        Record {
            time: Timestamp(time),
            latency_ns: Some(latency),
            transfer_ns: Some(10),
            seq: Some(seq),
            depth: None,
            ..samples::getpage()
        }
    }

    fn observed(records: &[Record]) -> (Queueing, Line) {
        let (mut queueing, mut line) = (Queueing::default(), Line::default());
        records.iter().for_each(|record| queueing.observe(&mut line, record, Some(3)));
        (queueing, line)
    }

    #[test]
    fn service_begins_when_the_answer_before_has_ended() {
        let (queueing, _) = observed(&[record(0, 1000, 100), record(1, 1050, 100), record(2, 1300, 50)]);
        // The first ends at 1110: the second waits for 60 of its 100; the third does not wait.
        let getpage = queueing.of(Kind::GetPage);
        assert_eq!((getpage.wait.count, getpage.wait.max_ns, getpage.wait.min_ns), (3, Some(60), Some(0)));
        assert_eq!((getpage.service.max_ns, getpage.service.min_ns), (Some(100), Some(40)));
        assert_eq!(queueing.sums_ns(Kind::GetPage), (60, 190));
    }

    #[test]
    fn waiting_is_not_measured_where_the_one_before_is_not_certain() {
        let unknown_end = Record { transfer_ns: None, ..record(1, 1050, 100) };
        let no_latency = Record { latency_ns: None, ..record(1, 1050, 100) };
        for between in [vec![], vec![unknown_end], vec![no_latency]] {
            let measured = between.iter().filter(|record| record.latency_ns.is_some()).count() as u64;
            let records = [vec![record(0, 1000, 100)], between, vec![record(2, 1060, 200)]].concat();
            assert_eq!(observed(&records).0.of(Kind::GetPage).wait.count, 1 + measured);
        }
        let joined = |depth| Record { seq: None, depth, ..record(9, 1060, 200) };
        for (depth, expected) in [(None, None), (Some(2), Some(50)), (Some(1), Some(0))] {
            let first = Record { seq: None, depth: Some(1), ..record(8, 1000, 100) };
            let (queueing, _) = observed(&[first, joined(depth)]);
            assert_eq!(queueing.of(Kind::GetPage).wait.count, 1 + u64::from(expected.is_some()), "{depth:?}");
        }
    }

    #[test]
    fn who_is_waited_for_longest_has_held_up_the_others() {
        let slow = Record { target: record::Target::DbSize { dbnode: 5 }, ..record(0, 1000, 200_000) };
        let behind = (1..=5).map(|seq| record(seq, 1000 + seq, 200_000 + 20 * seq));
        let records: Vec<Record> = std::iter::once(slow).chain(behind).collect();
        let (queueing, line) = observed(&records);
        let dbsize = queueing.of(Kind::DbSize);
        assert_eq!(dbsize.held_requests, 5);
        assert!(dbsize.held_ns > 5 * 199_000, "{}", dbsize.held_ns);
        let worst = queueing.worst([&line].into_iter(), |_| Some("rel".to_owned()));
        assert_eq!((worst[0].kind, worst[0].held_requests, worst[0].service_ns), ("dbsize", 5, 200_000));
        assert_eq!(worst.len(), 1, "the others held up nobody longest");
    }

    #[test]
    fn the_worst_are_few_and_the_worst() {
        let (mut queueing, mut line) = (Queueing::default(), Line::default());
        for pair in 0..100u64 {
            let time = pair * 1_000_000;
            queueing.observe(&mut line, &record(2 * pair, time, 1000 + pair), None);
            queueing.observe(&mut line, &record(2 * pair + 1, time, 2000 + pair), None);
        }
        queueing.close(&mut line);
        let worst = queueing.worst([].into_iter(), |_| None);
        let held: Vec<u64> = worst.iter().map(|blocker| blocker.held_ns).collect();
        assert_eq!(held, (1100..1110).rev().collect::<Vec<u64>>());
    }
}
