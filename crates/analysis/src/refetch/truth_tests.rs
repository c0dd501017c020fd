//! Sessions of a simulated compute and a page service that lags behind it, held against what really happened; whole and
//! with anything missing.

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use record::{Lsn, Pairing, Record, RelTag, Status, Target, Timestamp};

use super::*;
use crate::render::samples;

const BACKENDS: usize = 3;
const BLOCKS: usize = 3;

/// What happens next, each with numbers that are taken as they are needed.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A page changes; without a new `page_lsn` in other forks than the main one.
    Write {
        block: usize,
    },
    /// A backend asks for a page.
    Ask {
        block: usize,
        backend: usize,
        slack: u64,
        latency: u64,
        replica: bool,
        dishonest: bool,
    },
    /// The page service takes in more of the log.
    CatchUp,
    /// The compute starts anew.
    Restart,
    Wait {
        ns: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let ask = (0..BLOCKS, 0..BACKENDS, 0u64..6, 1u64..40, prop::bool::weighted(0.3), prop::bool::weighted(0.1));
    prop_oneof![
        2 => (0..BLOCKS).prop_map(|block| Step::Write { block }),
        10 => ask.prop_map(|(block, backend, slack, latency, replica, dishonest)| {
            Step::Ask { block, backend, slack, latency, replica, dishonest }
        }),
        2 => Just(Step::CatchUp),
        1 => Just(Step::Restart),
        3 => (1u64..60).prop_map(|ns| Step::Wait { ns }),
    ]
}

/// A record, and what really came back.
#[derive(Debug, Clone)]
struct Asked {
    record: Record,
    /// The LSN of the page's last change in what came back, whatever its `page_lsn` says.
    version: u64,
    /// Whether its promise was kept.
    kept: bool,
    ordinal: usize,
}

/// The changes of a page: their LSNs.
#[derive(Debug, Clone, Default)]
struct PageLog {
    changes: Vec<u64>,
}

impl PageLog {
    fn version_at(&self, lsn: u64) -> u64 {
        self.changes.iter().copied().filter(|&change| change <= lsn).max().unwrap_or(1)
    }
}

#[derive(Debug, Default)]
struct World {
    now: u64,
    /// The compute's end of the log.
    lsn: u64,
    /// How far the page service has read it.
    reached: u64,
    pages: [PageLog; BLOCKS],
    epoch: Option<Timestamp>,
    seq: [u64; BACKENDS],
    answered_until: [u64; BACKENDS],
    asked: Vec<Asked>,
}

fn forknum_of(block: usize) -> u8 {
    if block == BLOCKS - 1 { 2 } else { 0 }
}

impl World {
    fn of(steps: &[Step]) -> Self {
        let mut world = Self { lsn: 100, reached: 100, now: 1000, ..Self::default() };
        steps.iter().for_each(|&step| world.step(step));
        world.asked.sort_by_key(|asked| (asked.record.time, asked.record.client, asked.record.seq));
        for (ordinal, asked) in world.asked.iter_mut().enumerate() {
            asked.ordinal = ordinal;
        }
        world
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Write { block } => {
                self.lsn += 10;
                self.pages[block].changes.push(self.lsn);
            }
            Step::CatchUp => self.reached = self.lsn,
            Step::Wait { ns } => self.now += ns,
            Step::Restart => {
                self.now += 100;
                self.epoch = Some(Timestamp(self.now));
                self.now += 1;
            }
            Step::Ask { block, backend, slack, latency, replica, dishonest } => {
                let changed = self.pages[block].version_at(self.lsn);
                let honest = (self.lsn - slack * 5).clamp(changed, self.lsn);
                let nms = if dishonest { changed.saturating_sub(25) } else { honest };
                let request_lsn = if replica { self.lsn } else { u64::MAX };
                self.ask((block, backend), (request_lsn, nms), latency);
            }
        }
    }

    fn ask(&mut self, (block, backend): (usize, usize), (request_lsn, nms): (u64, u64), latency: u64) {
        // The page service waits for the log as far as it must, and answers for where it then is.
        self.reached = self.reached.max(if request_lsn == u64::MAX { nms } else { request_lsn });
        let version = self.pages[block].version_at(request_lsn.min(self.reached));
        let kept = self.pages[block].version_at(self.lsn) <= nms;
        let time = self.now;
        let began = (time + latency).max(self.answered_until[backend] + 1);
        self.answered_until[backend] = began;
        let forknum = forknum_of(block);
        // Changes of other forks need not show in `page_lsn`.
        let page_lsn = if forknum == 0 { version } else { 3 };
        let record = Record {
            time: Timestamp(time),
            latency_ns: Some(began - time),
            target: Target::GetPage {
                rel: RelTag { spcnode: 1663, dbnode: 5, relnode: 7, forknum },
                blkno: block as u32,
            },
            request_lsn: Lsn(request_lsn),
            not_modified_since: Lsn(nms),
            page_lsn: Some(Lsn(page_lsn)),
            page_zero: Some(false),
            page_hash: None,
            client: ([10, 0, 0, 7], backend as u16).into(),
            backend_pid: Some(backend as u32),
            seq: Some(self.seq[backend]),
            epoch: self.epoch,
            ..samples::getpage()
        };
        self.seq[backend] += 1;
        self.now += 1;
        self.asked.push(Asked { record, version, kept, ordinal: 0 });
    }

    /// Whether the compute had been given, before it asked, just what this request brought.
    fn had(&self, asked: &Asked) -> bool {
        self.asked.iter().any(|earlier| {
            let (one, two) = (&earlier.record, &asked.record);
            let landed = one.time.0 + one.latency_ns.unwrap() <= two.time.0;
            let same_cache = (one.request_lsn == Lsn::MAX) == (two.request_lsn == Lsn::MAX);
            one.target == two.target
                && one.epoch == two.epoch
                && same_cache
                && landed
                && earlier.version == asked.version
        })
    }
}

/// What a capture leaves of a record.
#[derive(Debug, Clone, Copy)]
enum Damage {
    None,
    Missing,
    NoLatency,
    NoPage,
    NoAnswer,
    NoRequest,
    NoSeq,
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        6 => Just(Damage::None),
        2 => Just(Damage::Missing),
        1 => Just(Damage::NoLatency),
        1 => Just(Damage::NoPage),
        1 => Just(Damage::NoAnswer),
        1 => Just(Damage::NoRequest),
        1 => Just(Damage::NoSeq),
    ]
}

fn damaged(record: &Record, damage: Damage) -> Option<Record> {
    let record = record.clone();
    Some(match damage {
        Damage::None => record,
        Damage::Missing => return None,
        Damage::NoLatency => Record { latency_ns: None, ..record },
        Damage::NoPage => Record { page_lsn: None, page_zero: None, ..record },
        Damage::NoAnswer => Record {
            latency_ns: None,
            status: Status::Unanswered,
            pairing: Pairing::RequestOnly,
            page_lsn: None,
            page_zero: None,
            ..record
        },
        Damage::NoRequest => Record {
            time: record.time.plus(record.latency_ns.unwrap_or(0)),
            latency_ns: None,
            pairing: Pairing::ResponseOnly,
            seq: None,
            ..record
        },
        Damage::NoSeq => Record { seq: None, ..record },
    })
}

fn classified(records: &[Record]) -> Vec<Class> {
    let mut order: Vec<usize> = (0..records.len()).collect();
    order.sort_by_key(|&at| records[at].order());
    let mut refetch = Refetch::new(Limits::CAPTURE);
    let mut classes = vec![Class::Unproven; records.len()];
    for at in order {
        classes[at] = refetch.observe(&records[at]).class.unwrap();
    }
    classes
}

fn is_in_doubt(class: Class) -> bool {
    matches!(class, Class::Raced | Class::Contradiction)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn what_is_called_redundant_was_there_and_unchanged_whatever_is_missing(
        steps in prop::collection::vec(step(), 1..60), damages in prop::collection::vec(damage(), 60),
    ) {
        // Who breaks promises can prove nothing; that is told apart by the next test.
        let steps: Vec<Step> = steps.into_iter().map(|step| match step {
            Step::Ask { block, backend, slack, latency, replica, .. } => {
                Step::Ask { block, backend, slack, latency, replica, dishonest: false }
            }
            other => other,
        }).collect();
        let world = World::of(&steps);
        let whole: Vec<Record> = world.asked.iter().map(|asked| asked.record.clone()).collect();
        let kept: Vec<(&Asked, Record)> = world.asked.iter().zip(&damages)
            .filter_map(|(asked, &damage)| Some((asked, damaged(&asked.record, damage)?))).collect();
        let partial: Vec<Record> = kept.iter().map(|(_, record)| record.clone()).collect();
        let (of_whole, of_partial) = (classified(&whole), classified(&partial));
        let mut surplus = HashMap::<(Target, bool), i64>::new();
        for (asked, class) in world.asked.iter().zip(&of_whole) {
            prop_assert!(!class.is_redundant() || world.had(asked), "{class:?} {asked:?}");
            prop_assert!(*class != Class::Contradiction, "{asked:?}");
            if world.had(asked) {
                *surplus.entry((asked.record.target, asked.record.request_lsn == Lsn::MAX)).or_default() += 1;
            }
        }
        for ((asked, _), class) in kept.iter().zip(&of_partial) {
            prop_assert!(!class.is_redundant() || world.had(asked), "{class:?} {asked:?}");
            prop_assert!(*class != Class::Contradiction, "{asked:?}");
            if class.is_redundant() {
                *surplus.entry((asked.record.target, asked.record.request_lsn == Lsn::MAX)).or_default() -= 1;
            }
        }
        prop_assert!(surplus.values().all(|&left| left >= 0), "{surplus:?}");
    }

    #[test]
    fn a_contradiction_is_a_broken_promise_whatever_is_missing(
        steps in prop::collection::vec(step(), 1..60), damages in prop::collection::vec(damage(), 60),
    ) {
        let world = World::of(&steps);
        let kept: Vec<(&Asked, Record)> = world.asked.iter().zip(&damages)
            .filter_map(|(asked, &damage)| Some((asked, damaged(&asked.record, damage)?))).collect();
        let partial: Vec<Record> = kept.iter().map(|(_, record)| record.clone()).collect();
        for ((asked, _), class) in kept.iter().zip(classified(&partial)) {
            prop_assert!(class != Class::Contradiction || !asked.kept, "{asked:?}");
        }
    }

    #[test]
    fn a_request_missing_changes_no_claim_of_another_page(
        steps in prop::collection::vec(step(), 1..40), missing in 0usize..40,
    ) {
        let world = World::of(&steps);
        let whole: Vec<Record> = world.asked.iter().map(|asked| asked.record.clone()).collect();
        let of_whole = classified(&whole);
        if missing < whole.len() {
            let mut partial = whole.clone();
            let gone = partial.remove(missing);
            let mut of_partial = classified(&partial);
            of_partial.insert(missing, Class::Unproven);
            for asked in world.asked.iter().filter(|asked| asked.record.target != gone.target) {
                let (before, after) = (of_whole[asked.ordinal], of_partial[asked.ordinal]);
                // What the missing one had shown of its connection is gone: R3 and contradictions fall back.
                let fell_back = before == Class::RedundantR3 || before == Class::Contradiction;
                prop_assert!(before == after || fell_back, "{before:?} became {after:?}");
                prop_assert!(!after.is_redundant() || before.is_redundant());
                prop_assert!(is_in_doubt(before) || !is_in_doubt(after));
            }
        }
    }
}

#[test]
fn the_simulated_sessions_have_every_class() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = prop::collection::vec(step(), 40..60);
    let mut counts = ClassCounts::default();
    for _ in 0..500 {
        let steps = strategy.new_tree(&mut runner).unwrap().current();
        let world = World::of(&steps);
        let records: Vec<Record> = world.asked.iter().map(|asked| asked.record.clone()).collect();
        classified(&records).into_iter().for_each(|class| counts.add(class, true));
    }
    let seen: Vec<_> = Class::ALL.iter().map(|&class| (class.as_str(), counts.of(class))).collect();
    assert!(seen.iter().all(|&(_, count)| count > 0), "{seen:?}");
}
