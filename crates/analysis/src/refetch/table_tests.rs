//! The table of classes, row by row and inequality by inequality: at equality, one below, one above, and with what is not
//! known.

use record::{Lsn, MAIN_FORKNUM, Pairing, Record, RelTag, Status, Target, Timestamp};

use super::*;
use crate::render::samples;

const MAX: u64 = u64::MAX;
const SECOND_NS: u64 = 1_000_000_000;

/// A fetch of block 1 at a time, answered 10 ns later with a page of LSN 50, by one of two backends.
fn fetch(time: u64, request_lsn: u64, nms: u64) -> Record {
    Record {
        time: Timestamp(time),
        latency_ns: Some(10),
        request_lsn: Lsn(request_lsn),
        not_modified_since: Lsn(nms),
        page_lsn: Some(Lsn(50)),
        page_zero: Some(false),
        page_hash: None,
        seq: Some(time),
        epoch: None,
        ..samples::getpage()
    }
}

fn by_other(record: Record) -> Record {
    Record { client: ([10, 0, 0, 7], 2).into(), backend_pid: Some(2), ..record }
}

fn of_block(blkno: u32, record: Record) -> Record {
    let Target::GetPage { rel, .. } = record.target else { panic!("{record:?}") };
    Record { target: Target::GetPage { rel, blkno }, ..record }
}

fn of_fork(forknum: u8, record: Record) -> Record {
    let Target::GetPage { rel, blkno } = record.target else { panic!("{record:?}") };
    Record { target: Target::GetPage { rel: RelTag { forknum, ..rel }, blkno }, ..record }
}

fn changed(record: Record) -> Record {
    Record { page_lsn: Some(Lsn(60)), ..record }
}

fn unanswered(record: Record) -> Record {
    let Record { target, client, seq, time, request_lsn, not_modified_since, owner, .. } = record;
    let nothing = samples::unanswered();
    let server = record.server;
    Record { target, client, server, seq, time, request_lsn, not_modified_since, owner, ..nothing }
}

fn classes_with(losses: &[(u64, u64)], records: &[Record]) -> Vec<Class> {
    let mut refetch = Refetch::new(Limits::CAPTURE);
    losses.iter().for_each(|&(from, until)| refetch.lost(Timestamp(from), Timestamp(until)));
    let class = |record| refetch.observe(record).class.unwrap();
    let classes: Vec<Class> = records.iter().map(class).collect();
    assert_eq!(refetch.counts().sum(), records.len() as u64);
    classes
}

/// The class of the last of these records.
fn class(records: &[Record]) -> Class {
    *classes_with(&[], records).last().unwrap()
}

#[test]
fn the_first_fetch_of_a_page_by_a_cache_in_an_epoch() {
    let one = fetch(100, MAX, 40);
    assert_eq!(class(std::slice::from_ref(&one)), Class::First);
    let again = fetch(200, MAX, 40);
    let other_owner = |change: fn(&mut record::TenantTimeline)| {
        let mut record = again.clone();
        record.owner.iter_mut().for_each(change);
        record
    };
    for other in [
        of_block(2, again.clone()),
        of_fork(1, again.clone()),
        Record { client: ([10, 0, 0, 8], 1).into(), ..again.clone() },
        Record { request_lsn: Lsn(90), ..again.clone() },
        other_owner(|owner| owner.tenant.0[0] ^= 1),
        other_owner(|owner| owner.timeline.0[0] ^= 1),
        Record { epoch: Some(Timestamp(150)), ..again.clone() },
    ] {
        assert_eq!(class(&[one.clone(), other.clone()]), Class::First, "{other:?}");
    }
    assert_eq!(class(&[one.clone(), again.clone()]), Class::RedundantR1);
    let other_server = Record { server: ([10, 0, 0, 2], 6400).into(), ..again };
    assert_eq!(class(&[one, other_server]), Class::RedundantR1, "a cache may ask several page services");
}

#[test]
fn an_epoch_goes_on_where_a_record_does_not_know_of_its_start() {
    let at = |time, epoch: Option<u64>| Record { epoch: epoch.map(Timestamp), ..fetch(time, MAX, 40) };
    let classes = classes_with(&[], &[at(100, None), at(200, Some(150)), at(300, None), at(400, Some(150))]);
    assert_eq!(classes, [Class::First, Class::First, Class::RedundantR1, Class::RedundantR1]);
}

#[test]
fn an_error_was_no_fetch_and_an_unseen_answer_may_have_been_one() {
    let error = Record { status: Status::Error, page_lsn: None, page_zero: None, ..fetch(100, MAX, 40) };
    let suspect = Record { status: Status::Unknown, pairing: Pairing::Suspect, ..unanswered(fetch(100, MAX, 40)) };
    let two = fetch(200, MAX, 40);
    assert_eq!(classes_with(&[], &[error.clone(), two.clone()]), [Class::First, Class::First]);
    for unseen in [unanswered(fetch(100, MAX, 40)), suspect] {
        let records = [unseen.clone(), two.clone(), fetch(300, MAX, 40)];
        assert_eq!(classes_with(&[], &records), [Class::First, Class::Unproven, Class::RedundantR1]);
    }
    let after_fetch = [fetch(50, MAX, 40), unanswered(fetch(100, MAX, 40)), two.clone()];
    assert_eq!(class(&after_fetch), Class::RedundantR1, "compared with the latest one that was seen");
    assert_eq!(class(&[fetch(50, MAX, 40), error.clone(), two]), Class::RedundantR1);
    assert_eq!(class(&[fetch(50, MAX, 40), error]), Class::Unproven);
    assert_eq!(class(&[fetch(50, MAX, 40), unanswered(fetch(100, MAX, 40))]), Class::Unproven);
    let lost_by_restart = Record { epoch: Some(Timestamp(150)), ..fetch(200, MAX, 40) };
    assert_eq!(class(&[unanswered(fetch(100, MAX, 40)), lost_by_restart]), Class::First);
}

#[test]
fn in_flight_ends_with_the_answers_first_byte() {
    let one = fetch(100, MAX, 40);
    let at = |time| class(&[one.clone(), by_other(fetch(time, MAX, 40))]);
    assert_eq!(
        [100, 109, 110, 111].map(at),
        [Class::InFlight, Class::InFlight, Class::RedundantR1, Class::RedundantR1]
    );
    let unseen = by_other(unanswered(fetch(109, MAX, 40)));
    assert_eq!(class(&[one.clone(), unseen]), Class::InFlight, "whatever became of it");
    let error = Record { status: Status::Error, ..fetch(109, MAX, 40) };
    assert_eq!(class(&[one, error]), Class::InFlight);
}

#[test]
fn without_certain_times_nothing_is_known_to_have_landed_until_no_answer_can_be_on_its_way() {
    let untimed = Record { latency_ns: None, ..fetch(100, MAX, 40) };
    let at = |time| class(&[untimed.clone(), by_other(fetch(time, MAX, 40))]);
    let last = 100 + ANSWER_WAIT_NS;
    assert_eq!([101, last - 1, last].map(at), [Class::Unproven, Class::Unproven, Class::RedundantR1]);
    // The second's arrival may be a late copy's.
    let second_at = |time| {
        let untimed = Record { latency_ns: None, ..fetch(time, MAX, 40) };
        class(&[fetch(100, MAX, 40), by_other(untimed)])
    };
    let first = 110 + ANSWER_WAIT_NS;
    assert_eq!([105, 110, first - 1, first].map(second_at)[..3], [Class::Unproven; 3]);
    assert_eq!(second_at(first), Class::RedundantR1);
    let response_only = Record { pairing: Pairing::ResponseOnly, ..by_other(fetch(105, MAX, 40)) };
    assert_eq!(
        class(&[fetch(100, MAX, 40), response_only]),
        Class::Unproven,
        "it was asked for earlier, who knows when"
    );
}

#[test]
fn r1_the_promise_covers_all_that_the_first_can_have_got() {
    for (request_lsn, later_lsn) in [(MAX, MAX), (45, 45), (45, 46)] {
        let at = |nms| class(&[fetch(100, request_lsn, 40), fetch(200, later_lsn, nms)]);
        assert_eq!([39, 40].map(at), [Class::RedundantR1; 2]);
        assert_ne!(at(41), Class::RedundantR1);
    }
    let older = class(&[fetch(100, 45, 40), fetch(200, 44, 40)]);
    assert_eq!(older, Class::SameContent, "asked at an earlier version");
}

#[test]
fn r2_the_promise_reaches_back_to_the_version_that_the_first_got() {
    let at = |nms| class(&[fetch(100, 45, 40), fetch(200, 46, nms)]);
    assert_eq!(
        [40, 41, 45, 46].map(at),
        [Class::RedundantR1, Class::RedundantR2, Class::RedundantR2, Class::SameContent]
    );
    assert_eq!(class(&[fetch(100, 45, 40), fetch(200, 45, 45)]), Class::RedundantR2);
    assert_eq!(class(&[fetch(100, 45, 40), fetch(200, 44, 43)]), Class::SameContent);
    assert_eq!(class(&[fetch(100, MAX, 40), fetch(200, MAX, 41)]), Class::SameContent, "MAX is no version");
}

/// The class of a re-fetch with that promise, on a connection that had this answer before.
fn after_answer(answer: Record, nms: u64) -> Class {
    class(&[of_block(9, answer), fetch(100, MAX, 40), by_other(fetch(200, MAX, nms))])
}

#[test]
fn r3_the_promise_reaches_back_to_where_the_service_had_been_before_the_first() {
    let by_promise = |nms| after_answer(Record { page_lsn: Some(Lsn(5)), ..fetch(80, MAX, 45) }, nms);
    assert_eq!(
        [40, 44, 45, 46].map(by_promise),
        [Class::RedundantR1, Class::RedundantR3, Class::RedundantR3, Class::SameContent]
    );
    let by_page = |nms| after_answer(Record { page_lsn: Some(Lsn(48)), ..fetch(80, MAX, 5) }, nms);
    assert_eq!([48, 49].map(by_page), [Class::RedundantR3, Class::SameContent]);
    let begun = |latency_ns| after_answer(Record { latency_ns, ..fetch(80, MAX, 45) }, 45);
    assert_eq!(
        [Some(19), Some(20), Some(21), None].map(begun),
        [Class::RedundantR3, Class::SameContent, Class::SameContent, Class::SameContent]
    );
}

#[test]
fn r3_rests_on_the_firsts_own_connection_and_on_answers_that_came() {
    let no_page = Record { page_lsn: None, ..fetch(80, MAX, 45) };
    let nblocks = Record { target: Target::Nblocks { rel: samples::getpage().target.rel().unwrap() }, ..no_page };
    let mut refetch = Refetch::new(Limits::CAPTURE);
    assert_eq!(refetch.observe(&nblocks).class, None);
    refetch.observe(&fetch(100, MAX, 40));
    assert_eq!(refetch.observe(&by_other(fetch(200, MAX, 45))).class, Some(Class::RedundantR3), "of any kind");
    for before in [
        by_other(fetch(80, MAX, 45)),
        Record { status: Status::Error, ..fetch(80, MAX, 45) },
        unanswered(fetch(80, MAX, 45)),
        Record { pairing: Pairing::Suspect, status: Status::Unknown, ..fetch(80, MAX, 45) },
    ] {
        assert_eq!(after_answer(before.clone(), 45), Class::SameContent, "{before:?}");
    }
    let different =
        class(&[of_block(9, fetch(80, MAX, 45)), fetch(100, MAX, 40), by_other(changed(fetch(200, MAX, 45)))]);
    assert_eq!(different, Class::Changed, "R3 needs the content");
    let untimed_first = [of_block(9, fetch(80, MAX, 45)), Record { latency_ns: None, ..fetch(100, MAX, 40) }];
    let later = by_other(fetch(101 + ANSWER_WAIT_NS, MAX, 45));
    assert_eq!(class(&[untimed_first.as_slice(), &[later]].concat()), Class::SameContent);
}

#[test]
fn a_broken_promise_is_a_contradiction_where_the_connection_knew_better() {
    // 2 comes back with LSN 60, and promised that nothing changed after 40.
    let with = |known_nms, nms| {
        let knowing = by_other(of_block(9, fetch(150, MAX, known_nms)));
        class(&[fetch(100, MAX, 40), knowing, by_other(changed(fetch(200, MAX, nms)))])
    };
    assert_eq!([59, 60, 61].map(|known| with(known, 40)), [Class::Raced, Class::Contradiction, Class::Contradiction]);
    assert_eq!(with(60, 41), Class::Changed, "no promise covers the first");
    let page_at = |page_lsn| {
        let knowing = by_other(of_block(9, fetch(150, MAX, 60)));
        let two = Record { page_lsn: Some(Lsn(page_lsn)), ..fetch(200, MAX, 40) };
        class(&[fetch(100, MAX, 40), knowing, by_other(two)])
    };
    assert_eq!([39, 40, 41].map(page_at), [Class::Raced, Class::Raced, Class::Contradiction]);
}

#[test]
fn a_contradiction_needs_an_earlier_request_of_its_own_connection() {
    let two = by_other(changed(fetch(200, MAX, 40)));
    let knowing = of_block(9, fetch(150, MAX, 60));
    assert_eq!(class(&[fetch(100, MAX, 40), knowing.clone(), two.clone()]), Class::Raced, "another connection's");
    let later = by_other(of_block(9, fetch(201, MAX, 60)));
    assert_eq!(classes_with(&[], &[fetch(100, MAX, 40), two.clone(), later])[1], Class::Raced, "a later one");
    let sent = by_other(unanswered(knowing.clone()));
    assert_eq!(class(&[fetch(100, MAX, 40), sent, two.clone()]), Class::Contradiction, "that it was sent is enough");
    let unseen_request = Record { pairing: Pairing::ResponseOnly, time: Timestamp(200 * SECOND_NS), ..two.clone() };
    assert_eq!(class(&[fetch(100, MAX, 40), by_other(knowing), unseen_request]), Class::Unproven);
    let concrete = |request_lsn, nms| changed(fetch(200, request_lsn, nms));
    assert_eq!(
        class(&[fetch(100, 45, 40), concrete(70, 45)]),
        Class::Raced,
        "a standby's race, R2 but for the content"
    );
    assert_eq!(class(&[fetch(100, 45, 40), concrete(70, 46)]), Class::Changed);
}

#[test]
fn content_that_differs_in_the_hash_alone_has_changed() {
    let hashed = |time, nms, hash| Record { page_hash: Some(hash), ..fetch(time, MAX, nms) };
    assert_eq!(class(&[hashed(100, 40, 1), hashed(200, 41, 2)]), Class::Changed);
    assert_eq!(class(&[hashed(100, 40, 1), hashed(200, 40, 2)]), Class::Raced);
    assert_eq!(class(&[hashed(100, 40, 1), hashed(200, 41, 1)]), Class::SameContent);
}

#[test]
fn the_same_content_is_said_of_other_forks_only_with_a_hash_or_zeros() {
    for forknum in [MAIN_FORKNUM, 1, 2, 3] {
        let pair = |change: fn(Record) -> Record| {
            class(&[fetch(100, MAX, 40), fetch(200, MAX, 41)].map(|record| change(of_fork(forknum, record))))
        };
        let expected = if forknum == MAIN_FORKNUM { Class::SameContent } else { Class::Unproven };
        assert_eq!(pair(|record| record), expected);
        assert_eq!(pair(|record| Record { page_hash: Some(7), ..record }), Class::SameContent);
        let zeros = |record| Record { page_zero: Some(true), page_lsn: Some(Lsn(0)), ..record };
        assert_eq!(pair(zeros), Class::SameContent);
        assert_eq!(pair(|record| Record { page_zero: None, page_lsn: Some(Lsn(0)), ..record }), expected);
    }
}

#[test]
fn what_came_back_must_be_known_of_both() {
    let no_lsn = |record| Record { page_lsn: None, page_zero: None, ..record };
    for nms in [40, 41] {
        let (one, two) = (fetch(100, MAX, 40), fetch(200, MAX, nms));
        assert_eq!(class(&[no_lsn(one.clone()), two.clone()]), Class::Unproven);
        assert_eq!(class(&[one, no_lsn(two)]), Class::Unproven);
    }
    let zero = Record { page_zero: Some(true), ..no_lsn(fetch(200, MAX, 41)) };
    assert_eq!(class(&[fetch(100, MAX, 40), zero]), Class::Changed, "zeros are not what was not zero");
}

#[test]
fn an_unknown_owner_is_no_cache() {
    let unknown = |time| Record { owner: None, attribution: None, ..fetch(time, MAX, 40) };
    assert_eq!(classes_with(&[], &[unknown(100), unknown(200)]), [Class::Unproven; 2]);
}

#[test]
fn a_loss_that_may_hide_a_restart_takes_the_proof_unless_connections_show_the_process() {
    let (one, two) = (fetch(100, MAX, 40), fetch(200, MAX, 40));
    let with = |losses: &[(u64, u64)], records: &[Record]| *classes_with(losses, records).last().unwrap();
    let pair = [one.clone(), by_other(two.clone())];
    for (loss, expected) in [
        ((0, 99), Class::RedundantR1),
        ((0, 100), Class::Unproven),
        ((150, 150), Class::Unproven),
        ((200, 300), Class::Unproven),
        ((201, 300), Class::RedundantR1),
    ] {
        assert_eq!(with(&[loss], &pair), expected, "{loss:?}");
    }
    let loss = [(150, 150)];
    assert_eq!(with(&loss, &[one.clone(), two.clone()]), Class::RedundantR1, "the same connection");
    let other_was_there = [by_other(of_block(9, fetch(99, MAX, 1))), one.clone(), by_other(two.clone())];
    assert_eq!(with(&loss, &other_was_there), Class::RedundantR1);
    let both_overlap = [one.clone(), by_other(of_block(9, fetch(140, MAX, 1))), of_block(9, fetch(160, MAX, 1))];
    assert_eq!(with(&loss, &[both_overlap.as_slice(), &[by_other(two.clone())]].concat()), Class::RedundantR1);
    let in_flight = by_other(fetch(105, MAX, 40));
    assert_eq!(with(&[(102, 102)], &[one, in_flight]), Class::InFlight);
}
