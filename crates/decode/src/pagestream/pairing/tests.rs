use super::*;
use crate::pagestream::answer::{AnswerHead, Echo, Outcome};
use crate::pagestream::emit::Identity;
use crate::pagestream::page::PageFacts;
use crate::stats::Stats;
use record::{Lsn, Pairing as How, Record, RelTag, Status, Target};

const REL: RelTag = RelTag { spcnode: 1663, dbnode: 1, relnode: 2, forknum: 0 };

/// A pairing with its records, and a clock of microseconds.
struct Table {
    pairing: Pairing,
    stats: Stats,
    records: Vec<Record>,
    now_us: u64,
}

fn page(blkno: u32) -> Target {
    Target::GetPage { rel: REL, blkno }
}

const NBLOCKS: Target = Target::Nblocks { rel: REL };

impl Table {
    fn new(pairing: Pairing) -> Self {
        Self { pairing, stats: Stats::default(), records: Vec::new(), now_us: 0 }
    }

    fn v2() -> Self {
        Self::new(Pairing::from_start(Protocol::V2, Some(0)))
    }

    fn v3() -> Self {
        Self::new(Pairing::from_start(Protocol::V3, Some(0)))
    }

    fn with(&mut self, act: impl FnOnce(&mut Pairing, &mut Emitter<'_>)) {
        let end = "10.0.0.1:1".parse().unwrap();
        let identity = Identity {
            client: end,
            server: end,
            owner: None,
            attribution: None,
            backend_pid: None,
            clocks_disagree: false,
        };
        let version = self.pairing.version();
        let mut out = Emitter { identity: &identity, version, stats: &mut self.stats, sink: &mut self.records };
        act(&mut self.pairing, &mut out);
    }

    fn tick(&mut self) -> Timestamp {
        self.now_us += 10;
        Timestamp(self.now_us * 1000)
    }

    fn ask(&mut self, target: Target) -> &mut Self {
        let reqid = (self.pairing.version() == Protocol::V3).then_some(1);
        let request = Request { reqid, request_lsn: Lsn::MAX, not_modified_since: Lsn(5), target };
        let arrival = Arrival { at: self.tick(), known: true, countable: true, epoch: None };
        self.with(|pairing, out| pairing.request(ClientMessage::Request(request), arrival, out));
        self
    }

    fn answer(&mut self, target: Target) -> &mut Self {
        let echo = (self.pairing.version() == Protocol::V3).then_some(Echo {
            reqid: 1,
            request_lsn: Lsn::MAX,
            not_modified_since: Lsn(5),
            target: Some(target),
        });
        self.answer_echoing(target, echo)
    }

    /// An answer of which the snap length left the tag.
    fn answer_cut(&mut self, target: Target) -> &mut Self {
        self.answer_echoing(target, None)
    }

    fn answer_echoing(&mut self, target: Target, echo: Option<Echo>) -> &mut Self {
        let at = self.tick();
        let head = AnswerHead { outcome: Outcome::Ok(target.kind()), echo, body_bytes: 0 };
        let answer = Answer { head, first_at: Some(at), last_at: Some(at), page: PageFacts::default() };
        self.with(|pairing, out| pairing.answer(&answer, at, false, out));
        self
    }

    fn lose_requests(&mut self, bytes: u64) -> &mut Self {
        self.with(|pairing, out| {
            pairing.requests_lost_begin(None, out);
            pairing.requests_lost_end(bytes, false, out);
        });
        self
    }

    fn lose_answers(&mut self, bytes: u64) -> &mut Self {
        let loss = AnswersLost { bytes, are_whole: true, one_page: false };
        self.with(|pairing, out| pairing.answers_lost(loss, false, out));
        self
    }

    fn end(&mut self) -> &mut Self {
        self.with(|pairing, out| pairing.end(out));
        self
    }

    /// Block (`-` for other kinds), pairing and latency in µs of each record.
    fn told(&self) -> Vec<String> {
        let line = |record: &Record| {
            let block = record.target.blkno().map_or("-".into(), |block| block.to_string());
            let latency = record.latency_ns.map_or("?".into(), |ns| (ns / 1000).to_string());
            format!("{block} {} {latency}", record.pairing)
        };
        self.records.iter().map(line).collect()
    }
}

/// Bytes of a version 2 GetPage request on the wire.
const GETPAGE_V2: u64 = 39;
/// Bytes of a version 2 page answer on the wire.
const PAGE_V2: u64 = 8198;

#[test]
fn unbroken_order_is_fifo() {
    let mut table = Table::v2();
    table.ask(page(1)).ask(NBLOCKS).answer(page(1)).answer(NBLOCKS);
    assert_eq!(table.told(), ["1 fifo 20", "- fifo 20"]);
    assert_eq!(table.records[1].depth, Some(2));
    assert_eq!(table.records[1].seq, Some(1));
}

#[test]
fn one_lost_request_of_known_length_leaves_the_order_proven() {
    let mut table = Table::v2();
    table.ask(page(1)).lose_requests(GETPAGE_V2).ask(page(3));
    table.answer(page(1)).answer(page(2)).answer(page(3));
    table.ask(page(4)).answer(page(4));
    // The lost request may have asked for block 3, too.
    assert_eq!(table.told(), ["1 fifo 20", "3 fifo ?", "4 fifo 10"]);
    assert_eq!(table.stats.lost_requests, 1);
}

#[test]
fn the_kinds_of_the_answers_say_how_many_requests_were_lost() {
    let mut table = Table::v2();
    // 78 bytes are two GetPage or three DbSize requests.
    table.ask(page(1)).lose_requests(78).ask(page(4));
    table.answer(page(1)).answer(page(2)).answer(page(3)).answer(page(4)).end();
    assert_eq!(table.told(), ["1 fifo 20", "4 fifo ?"]);
}

#[test]
fn an_answer_that_fits_no_lost_request_makes_what_follows_suspect() {
    let mut table = Table::v2();
    table.ask(page(1)).lose_requests(78).ask(page(4));
    table.answer(page(1)).answer(page(2)).answer(NBLOCKS).answer(page(4)).end();
    assert_eq!(table.told(), ["1 fifo 20", "4 suspect ?"]);
    assert_eq!(table.records[1].status, Status::Unknown);
}

#[test]
fn an_answer_of_a_kind_that_only_one_request_has_proves_the_order_again() {
    let mut table = Table::v2();
    table.ask(page(1)).ask(page(2)).ask(page(3)).lose_answers(2 * PAGE_V2);
    assert_eq!(table.told(), ["1 suspect ?", "2 suspect ?", "3 suspect ?"]);
    // Two debts are possible: one of the three is still owed, or two are.
    table.answer(page(3)).ask(NBLOCKS).answer(NBLOCKS);
    table.ask(page(5)).answer(page(5));
    assert_eq!(table.told()[3..], ["- suspect ?", "5 fifo 10"]);
}

#[test]
fn a_drained_queue_proves_the_order_again() {
    let mut table = Table::v2();
    // One or two answers were lost; when one more comes, there can only have been one.
    table.ask(page(1)).ask(page(2)).lose_answers(PAGE_V2).answer(page(2));
    table.ask(page(3)).answer(page(3));
    assert_eq!(table.told(), ["1 suspect ?", "2 suspect ?", "3 fifo 10"]);
}

#[test]
fn the_only_pending_request_is_the_one_whose_answer_was_lost() {
    let mut table = Table::v2();
    table.ask(page(1)).lose_answers(PAGE_V2).ask(page(2)).answer(page(2));
    assert_eq!(table.told(), ["1 request_only ?", "2 fifo 10"]);
}

#[test]
fn a_joined_connection_owes_an_unknown_number_of_answers() {
    let mut table = Table::new(Pairing::joined(Protocol::V2));
    for block in 0..2000 {
        table.ask(page(block)).answer(page(block));
    }
    assert!(table.records.iter().all(|record| record.pairing == How::Suspect && record.latency_ns.is_none()));
    assert!(table.pairing.heap_bytes() < 64 * 1024);
}

#[test]
fn an_answer_of_another_kind_than_asked_ends_the_proof() {
    let mut table = Table::v2();
    table.ask(page(1)).answer(NBLOCKS).ask(page(2)).answer(page(2));
    assert_eq!(table.told(), ["1 suspect ?", "2 suspect ?"]);
}

#[test]
fn a_request_given_up_keeps_its_place_in_version_2() {
    let mut table = Table::v2();
    table.ask(page(1));
    table.now_us += 151_000_000;
    let now = table.tick();
    table.with(|pairing, out| pairing.expire(now, out));
    table.ask(page(2)).answer(page(1)).answer(page(2));
    assert_eq!(table.told(), ["1 request_only ?", "2 fifo ?"]);
}

#[test]
fn an_echo_verifies_and_finds_the_order_again() {
    let mut table = Table::v3();
    table.ask(page(1)).ask(page(2)).ask(page(3)).answer(page(1));
    table.lose_answers(8239).answer(page(3));
    assert_eq!(table.told(), ["1 exact 30", "2 request_only ?", "3 exact 20"]);
    assert_eq!(table.stats.lost_responses, 1);
}

#[test]
fn an_answer_to_a_lost_request_says_what_it_was() {
    let mut table = Table::v3();
    table.lose_requests(47).ask(page(2)).answer(page(1)).answer(page(2));
    assert_eq!(table.told(), ["1 response_only ?", "2 exact 20"]);
    assert_eq!(table.stats.lost_requests, 1);
}

#[test]
fn of_two_requests_alike_none_is_told_after_a_loss() {
    let mut table = Table::v3();
    table.ask(page(1)).ask(page(1)).ask(page(2)).lose_answers(8239).answer(page(1)).answer(page(2));
    assert_eq!(table.told(), ["1 suspect ?", "1 suspect ?", "2 exact 20"]);
}

#[test]
fn requests_between_two_alike_keep_their_places_after_a_loss() {
    let mut table = Table::v3();
    table.ask(page(1)).ask(page(2)).ask(page(1)).ask(page(3)).lose_answers(8);
    table.answer(page(1)).answer(page(2)).answer(page(1)).answer(page(3)).end();
    assert_eq!(table.told(), ["1 suspect ?", "1 suspect ?", "2 exact 40", "3 exact 40"]);
}

#[test]
fn an_answer_to_a_lost_request_is_not_taken_for_one_to_a_request_alike_behind_it() {
    let mut table = Table::v3();
    table.ask(page(1)).lose_requests(47).ask(page(3)).ask(page(2));
    table.answer(page(1)).answer(page(2)).answer(page(3)).answer(page(2)).end();
    assert_eq!(table.told(), ["1 exact 30", "2 response_only ?", "3 exact 40", "2 exact 40"]);
}

#[test]
fn an_answer_that_was_cut_belongs_to_the_hole_whose_turn_it_is() {
    let mut table = Table::v3();
    table.lose_requests(2 * 47).ask(page(3)).ask(page(1)).ask(page(2));
    table.answer_cut(page(1)).answer(page(2)).answer(page(3)).answer(page(1)).answer(page(2)).end();
    assert_eq!(table.told(), ["2 response_only ?", "3 exact 50", "1 exact 50", "2 exact 50"]);
    assert_eq!(table.stats.lost_responses, 1);
}

/// The first request's answer is lost, and a hole behind it holds one.
fn lost_both_ways() -> Table {
    let mut table = Table::v3();
    table.ask(page(1)).lose_requests(47).ask(page(2)).ask(page(4)).ask(page(5)).ask(page(6)).lose_answers(8239);
    table
}

#[test]
fn where_answers_were_lost_a_request_in_a_hole_may_be_the_one_alike_that_is_answered() {
    let mut table = lost_both_ways();
    table.answer(page(4)).answer(page(2)).answer(page(4)).answer(page(5)).answer(page(6)).end();
    let told = table.told();
    assert_eq!(told[..3], ["2 suspect ?", "1 request_only ?", "4 exact ?"]);
    assert_eq!(told[3..], ["4 response_only ?", "5 exact 50", "6 exact 50"]);
}

#[test]
fn two_answers_in_a_row_leave_no_doubt_that_those_before_them_were_lost() {
    let mut table = lost_both_ways();
    table.answer(page(4)).answer(page(5)).answer(page(6)).end();
    assert_eq!(table.told(), ["2 suspect ?", "1 request_only ?", "4 exact ?", "5 exact ?", "6 exact 30"]);
}

#[test]
fn a_request_whose_answer_may_be_lost_is_not_given_that_to_one_alike_in_a_hole_behind_it() {
    let mut table = Table::v3();
    table.ask(page(1)).ask(page(2)).lose_requests(47).ask(page(3)).lose_answers(8239);
    table.answer(page(2)).answer(page(3)).end();
    assert_eq!(table.told(), ["2 suspect ?", "1 request_only ?", "3 exact ?"]);
}

#[test]
fn two_requests_alike_are_told_by_unbroken_order() {
    let mut table = Table::v3();
    table.ask(page(1)).ask(page(1)).answer(page(1)).answer(page(1));
    assert_eq!(table.told(), ["1 exact 20", "1 exact 20"]);
}

#[test]
fn depth_is_not_given_while_requests_are_missing() {
    let mut table = Table::v3();
    table.lose_requests(47).ask(page(2)).answer(page(1)).answer(page(2)).ask(page(3)).answer(page(3));
    let depths: Vec<_> = table.records.iter().map(|record| record.depth).collect();
    assert_eq!(depths, [None, None, Some(1)]);
}

#[test]
fn the_end_leaves_what_is_pending_unanswered() {
    let mut table = Table::v3();
    table.ask(page(1)).ask(page(2)).answer(page(1)).end();
    assert_eq!(table.told(), ["1 exact 20", "2 request_only ?"]);
    assert_eq!(table.records[1].status, Status::Unanswered);
}

#[test]
fn a_request_given_up_keeps_its_place_in_version_3() {
    let mut table = Table::v3();
    table.ask(page(1)).now_us += GIVE_UP_NS / 1000;
    let now = table.tick();
    table.with(|pairing, out| pairing.expire(now, out));
    let cut = Some(Cut { at: now, bytes: 47 });
    table.with(|pairing, out| {
        pairing.requests_lost_begin(cut, out);
        pairing.requests_lost_end(47, true, out);
    });
    // The late answer is not taken for that to the request which the snap length cut off.
    table.answer(page(1)).answer(page(2));
    assert_eq!(table.told(), ["1 request_only ?", "1 response_only ?", "2 response_only 20"]);
}

#[test]
fn requests_that_nobody_answers_take_no_more_room_than_those_that_wait() {
    for mut table in [Table::v2(), Table::v3()] {
        for blkno in 0..3 * MAX_PENDING as u32 {
            table.ask(page(blkno));
        }
        assert_eq!(table.records.len(), 2 * MAX_PENDING);
        assert_eq!(table.pairing.slots.len(), MAX_PENDING + 1);
    }
}

#[test]
fn a_lost_request_counts_once_although_its_answer_comes_before_the_holes_end() {
    for are_answers_lost in [false, true] {
        let mut table = Table::v3();
        table.with(|pairing, out| pairing.requests_lost_begin(None, out));
        if are_answers_lost {
            table.lose_answers(100);
        }
        table.answer(page(1));
        table.with(|pairing, out| pairing.requests_lost_end(47 + 47, false, out));
        table.answer(page(2));
        assert_eq!(table.told(), ["1 response_only ?", "2 response_only ?"]);
        assert_eq!(table.stats.lost_requests, 2);
    }
}
