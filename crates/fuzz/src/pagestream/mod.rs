//! A session of which everything is known, watched through a capture that is not perfect.
//!
//! Input: a byte of settings (bits 0 and 1 the version, 2 TCP timestamps, 3 to 7 how many of the first packets are missed), then
//! steps. The low three bits of a step's first byte say what it is, the others how much:
//!
//! | step | follows |
//! |---|---|
//! | 0: the client asks | a byte for each request |
//! | 1, 3: the client, the server sends | what happens to the packet ([`tap::Fate`]) |
//! | 2: the server answers | a byte for each answer |
//! | 4: one side acknowledges | what happens to the packet |
//! | 5: time passes | |
//! | 6: one side sends again what was lost | what happens to the packet |
//! | 7: one side ends, or data is sent twice | what happens to the packet |

mod session;
mod tap;
mod view;

use decode::Config;
use record::{Pairing, Protocol, Record, Status};

use crate::input::Input;
use crate::possible;
use crate::run::{self, Outcome};
use session::{Asked, BACKEND_PID, OWNER, Session};
use tap::{Fate, START, Tap};
use view::View;

/// A session of so many steps has met every bound that it can meet.
const MAX_STEPS: usize = 160;

/// Answers carry pages; more of them take time and show nothing new.
const MAX_REQUESTS: usize = 64;

/// From a microsecond to longer than any time-out.
const WAITS_NS: [u64; 8] =
    [1_000, 100_000, 1_000_000, 15_000_000, 30_000_000, 1_000_000_000, 6_000_000_000, 160_000_000_000];

/// Requests are given up after this time; an answer that comes later makes a second record.
const GIVE_UP_NS: u64 = 150_000_000_000;

/// Runs the target.
pub fn check(data: &[u8]) {
    let _ = untold(data);
}

/// Runs the target, and says how many records' times are not the truth's and could not be: what told of the truth is not in the
/// capture, see [`crate::evidence`].
pub fn untold(data: &[u8]) -> usize {
    let mut input = Input(data);
    let settings = input.byte();
    let version = [Protocol::V3, Protocol::V2, Protocol::V1, Protocol::V2][usize::from(settings & 3)];
    let missed = usize::from(settings >> 3);
    let (session, tap) = play(version, settings & 4 != 0, &mut input);
    let packets = tap.captured(&session, missed);
    let outcome = run::decode(&packets, &Config { page_hash: true, ..Config::default() });
    let (truth, told) = (tap.truth(), tap.told(missed));
    let mut untold = 0;
    for record in &outcome.records {
        possible::check(record, (START, tap.end()));
        untold += usize::from(check_true(record, &session, [&truth, &told], tap.is_clean()) == Truth::Untold);
    }
    check_once(&outcome, &session, &tap);
    if missed == 0 {
        check_complete(&outcome, &session, &tap);
    }
    untold
}

fn play(version: Protocol, has_stamps: bool, input: &mut Input<'_>) -> (Session, Tap) {
    let (mut session, mut tap) = (Session::new(version), Tap::new(has_stamps));
    let everything = usize::MAX;
    session.start_up();
    tap.send(true, &session, everything, Fate::default());
    session.greet();
    tap.send(false, &session, everything, Fate::default());
    session.command();
    tap.send(true, &session, everything, Fate::default());
    session.grant();
    tap.send(false, &session, everything, Fate::default());
    for _ in 0..MAX_STEPS {
        if input.is_empty() {
            break;
        }
        step(&mut session, &mut tap, input);
    }
    (session, tap)
}

fn step(session: &mut Session, tap: &mut Tap, input: &mut Input<'_>) {
    let choice = input.byte();
    let amount = usize::from(choice >> 3);
    let is_client = amount & 1 == 0;
    // The highest amount is everything that there is.
    let bytes = |unit: usize| if amount == 0x1f { usize::MAX } else { amount * unit + 1 };
    match choice & 7 {
        0 => {
            for _ in 0..=amount % 8 {
                if session.asked.len() < MAX_REQUESTS {
                    session.ask(input.byte());
                }
            }
        }
        1 => tap.send(true, session, bytes(9), Fate::of(input.byte())),
        2 => {
            for _ in 0..=amount % 8 {
                // Only what has come can be answered.
                let is_heard = |asked: &Asked| asked.end <= tap.heard_by_server();
                if session.asked.get(session.answered).is_some_and(is_heard) {
                    session.answer(input.byte());
                }
            }
        }
        3 => tap.send(false, session, bytes(700), Fate::of(input.byte())),
        4 => tap.acknowledge(is_client, Fate::of(input.byte())),
        5 => tap.wait(WAITS_NS[amount & 7]),
        6 => tap.resend(is_client, Fate::of(input.byte())),
        _ => match amount >> 1 {
            0 => tap.finish(is_client, Fate::of(input.byte())),
            1 => tap.reset(is_client),
            _ => tap.repeat(),
        },
    }
}

/// What a record is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Truth {
    /// What passed.
    Known,
    /// What passed, but for segments of which nothing tells any more.
    Untold,
}

/// Some request is the record's, in every field: by the truth, or by what the capture tells of it.
fn check_true(record: &Record, session: &Session, [truth, told]: [&View<'_>; 2], is_clean: bool) -> Truth {
    let alike: Vec<usize> = (0..session.asked.len()).filter(|&at| is_same(record, &session.asked[at])).collect();
    assert!(!alike.is_empty(), "nobody asked for this: {record:?}");
    // A client that gives one id to requests alike in everything, most of them in a hole, leaves nothing to tell them apart by.
    if session.version == Protocol::V3 && alike.len() > 1 && !is_clean {
        return Truth::Known;
    }
    let faults_by = |view: &View<'_>| -> Vec<String> {
        alike.iter().map(|&at| faults(record, (at, &session.asked[at]), session.version, view).join(", ")).collect()
    };
    let faults = faults_by(truth);
    if faults.iter().any(String::is_empty) {
        return Truth::Known;
    }
    let is_excused = !told.is_whole() && faults_by(told).iter().any(String::is_empty);
    assert!(is_excused, "wrong {faults:?}: {record:?}\nrequests {alike:?}");
    Truth::Untold
}

fn is_same(record: &Record, asked: &Asked) -> bool {
    record.target == asked.target
        && record.request_lsn == asked.request_lsn
        && record.not_modified_since == asked.not_modified_since
        && record.reqid == asked.reqid
}

/// What is wrong with a record of this request.
fn faults(record: &Record, (at, asked): (usize, &Asked), version: Protocol, view: &View<'_>) -> Vec<&'static str> {
    let asked_at = view.deliverable_at(true, asked.end);
    let answer = asked.answer.as_ref();
    let page = answer.and_then(|answer| answer.page);
    let first_at = answer.and_then(|answer| view.passed_at(false, answer.start));
    let last_at = answer.and_then(|answer| view.passed_at(false, answer.end - 1));
    let latency = first_at.zip(asked_at).and_then(|(first, asked)| first.since(asked));
    let transfer = first_at.zip(last_at).and_then(|(first, last)| last.since(first));
    let is_given = |given: Option<u64>, truth: Option<u64>| given.is_none() || given == truth;
    let statuses = match answer {
        Some(answer) if first_at.is_some() => {
            [Status::Unanswered, if answer.is_ok { Status::Ok } else { Status::Error }]
        }
        _ => [Status::Unanswered; 2],
    };
    let checks = [
        (record.owner.is_none_or(|owner| owner == OWNER), "owner"),
        (record.protocol == version, "protocol"),
        (record.backend_pid.is_none_or(|pid| pid == BACKEND_PID), "backend_pid"),
        (record.epoch.is_none(), "epoch"),
        (is_given(record.seq, Some(at as u64)), "seq"),
        (record.status == Status::Unknown || statuses.contains(&record.status), "status"),
        (record.page_lsn.is_none() || record.page_lsn == page.map(|page| page.lsn), "page_lsn"),
        (record.page_zero.is_none() || record.page_zero == page.map(|page| page.is_zero), "page_zero"),
        (is_given(record.page_hash, page.map(|page| page.hash)), "page_hash"),
        (is_given(record.latency_ns, latency), "latency_ns"),
        (record.latency_ns.is_none() || Some(record.time) == asked_at, "time of a latency"),
        (is_given(record.transfer_ns, transfer), "transfer_ns"),
        (record.depth.is_none_or(|depth| depth as usize <= at + 1), "depth"),
    ];
    checks.into_iter().filter(|(holds, _)| !holds).map(|(_, name)| name).collect()
}

/// No request has two records, unless its answer came after it was given up.
fn check_once(outcome: &Outcome, session: &Session, tap: &Tap) {
    if tap.end().since(START).is_none_or(|passed| passed >= GIVE_UP_NS) {
        return;
    }
    for record in &outcome.records {
        let records = outcome.records.iter().filter(|other| {
            (other.target, other.request_lsn, other.not_modified_since, other.reqid)
                == (record.target, record.request_lsn, record.not_modified_since, record.reqid)
        });
        let requests = session.asked.iter().filter(|asked| is_same(record, asked));
        assert!(records.count() <= requests.count(), "more records than requests: {record:?}");
    }
}

/// What is missing is missing for a reason; of a clean capture nothing is.
fn check_complete(outcome: &Outcome, session: &Session, tap: &Tap) {
    let truth = tap.truth();
    let passed = session.asked.iter().filter(|asked| truth.deliverable_at(true, asked.end).is_some()).count();
    let stats = &outcome.stats;
    assert!(stats.lost_requests <= session.asked.len() as u64, "more lost than there were: {stats:?}");
    let reasons = stats.gap_bytes + stats.lost_requests + stats.malformed + stats.truncated_packets;
    let is_whole = outcome.records.len() >= passed;
    assert!(
        is_whole || reasons > 0 || tap.has_drops(),
        "missing without a reason: {} of {passed}",
        outcome.records.len()
    );
    if !tap.is_clean() {
        return;
    }
    let is_quick = tap.end().since(START).is_some_and(|passed| passed < GIVE_UP_NS);
    if !is_quick {
        return;
    }
    assert_eq!(outcome.records.len(), passed, "a clean capture");
    for record in &outcome.records {
        let proven = if session.version == Protocol::V3 { Pairing::Exact } else { Pairing::Fifo };
        let at = record.seq.expect("an ordinal where the start was seen") as usize;
        let answer = session.asked[at].answer.as_ref();
        let is_answered = answer.is_some_and(|answer| truth.deliverable_at(false, answer.end).is_some());
        assert!(record.owner == Some(OWNER) && record.backend_pid == Some(BACKEND_PID), "{record:?}");
        if is_answered {
            assert!(record.pairing == proven && record.latency_ns.is_some(), "{record:?}");
        }
        assert_eq!(record.depth.is_some(), record.status != Status::Unanswered, "{record:?}");
    }
}
