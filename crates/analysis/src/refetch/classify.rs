//! The class of one GetPage: a pure function of what is known.

use record::{Lsn, Pairing, Record, Status, Timestamp};

use super::class::Class;
use super::fetch::{Content, Fetch, Page, answer_began};

/// No answer comes later than this after its request: computes and the decoder give up by then
/// (`pageserver_response_disconnect_timeout`, 150 s).
pub const ANSWER_WAIT_NS: u64 = 150_000_000_000;

/// What must be known beside the two fetches.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Surroundings {
    /// The highest nms that 2's connection had sent before 2.
    pub(super) promised: Option<Lsn>,
    /// What the capture lost between 1 and 2 may have been a base backup, and nothing shows that the same compute was
    /// there all the time.
    pub(super) restart_possible: bool,
}

/// Whether 1's answer had begun when 2 arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flight {
    UnderWay,
    Landed,
    Unknown,
}

/// Classifies `later` (2), whose page was fetched by `earlier` (1).
pub(super) fn classify(earlier: &Fetch, later: &Record, around: &Surroundings) -> Class {
    match flight(earlier, later) {
        Flight::UnderWay => return Class::InFlight,
        Flight::Unknown => return Class::Unproven,
        Flight::Landed => {}
    }
    if !is_fetch(later) || around.restart_possible {
        return Class::Unproven;
    }
    let page = Page::of(later);
    match (promise(earlier, later), earlier.page.compare(&page)) {
        (_, Content::Unknown) => Class::Unproven,
        (Some(rule), Content::Equal) => rule,
        (Some(_), Content::Different) => broken(later, around),
        (None, Content::Equal) if was_reached(earlier, later) => Class::RedundantR3,
        (None, Content::Equal) => {
            let forknum = later.target.rel().map_or(u8::MAX, |rel| rel.forknum);
            if earlier.page.shows_same_bytes(&page, forknum) { Class::SameContent } else { Class::Unproven }
        }
        (None, Content::Different) => Class::Changed,
    }
}

/// Whether a record is a fetch: answered, and proven to be its own answer.
pub(super) fn is_fetch(record: &Record) -> bool {
    record.status == Status::Ok && record.pairing != Pairing::Suspect
}

/// Whether the time at which the request arrived is certain: it was seen, and its answer, where there is one, agrees.
pub(super) fn arrival_is_certain(record: &Record) -> bool {
    let answered = matches!(record.status, Status::Ok | Status::Error);
    record.pairing != Pairing::ResponseOnly && (record.latency_ns.is_some() || !answered)
}

fn flight(earlier: &Fetch, later: &Record) -> Flight {
    let certain = arrival_is_certain(later);
    if earlier.began.is_some_and(|began| certain && later.time < began) {
        return Flight::UnderWay;
    }
    let began_by = earlier.began.unwrap_or(earlier.time.plus(ANSWER_WAIT_NS));
    // A late copy, or an answer whose request was not seen, may have been asked for at any time since then.
    let slack_ns = if certain { 0 } else { ANSWER_WAIT_NS };
    let arrived_from = Timestamp(later.time.0.saturating_sub(slack_ns));
    if began_by <= arrived_from { Flight::Landed } else { Flight::Unknown }
}

/// The rule by which the promise of 2 covers what 1 got, if any.
fn promise(earlier: &Fetch, later: &Record) -> Option<Class> {
    if earlier.request_lsn > later.request_lsn {
        return None;
    }
    if later.not_modified_since <= earlier.not_modified_since {
        return Some(Class::RedundantR1);
    }
    let reaches_back = earlier.request_lsn != Lsn::MAX && later.not_modified_since <= earlier.request_lsn;
    reaches_back.then_some(Class::RedundantR2)
}

/// R3: the version that 1 got is at least W, and the promise of 2 reaches back to W.
fn was_reached(earlier: &Fetch, later: &Record) -> bool {
    let both_latest = earlier.request_lsn == Lsn::MAX && later.request_lsn == Lsn::MAX;
    // Both times must be certain: W is what was answered before 1 arrived.
    let timed = earlier.began.is_some() && answer_began(later).is_some();
    both_latest && timed && earlier.reached.is_some_and(|reached| later.not_modified_since <= reached)
}

/// 2's promise covers 1, and yet the content differs.
fn broken(later: &Record, around: &Surroundings) -> Class {
    if later.pairing == Pairing::ResponseOnly {
        // When it was sent is not known, nor what its connection had sent before.
        return Class::Unproven;
    }
    let knew = |page_lsn: Lsn| around.promised.is_some_and(|promised| promised >= page_lsn);
    match later.page_lsn {
        Some(page_lsn) if page_lsn > later.not_modified_since && knew(page_lsn) => Class::Contradiction,
        _ => Class::Raced,
    }
}
