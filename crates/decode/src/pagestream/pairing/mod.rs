//! Which answer belongs to which request.
//!
//! The protocol answers strictly in order, one answer for each request. On an unbroken connection the front of the queue
//! is therefore always right. What a capture misses breaks the order: a lost request leaves an answer too many, a lost
//! answer a request too many.
//!
//! - Version 3 answers echo their request, so the order is *verified* by every answer and found again after a loss
//!   ([`echoed`]).
//! - Versions 1 and 2 have nothing but the order. After a loss [`ordered`] keeps the set of all alignments that the
//!   evidence allows, and says nothing until one is left.

mod echoed;
mod lost;
mod ordered;

use std::collections::VecDeque;

use record::{Kind, Lsn, Protocol, Timestamp};

pub(crate) use self::lost::Cut;
use self::lost::{Lost, count_of_requests};
use self::ordered::Alignments;
use super::answer::{Answer, Echo};
use super::emit::{Asked, Emitter};
use super::request::{ClientMessage, Request};

/// A request unanswered for so long is given up: computes do the same (`pageserver_response_disconnect_timeout`, 150 s).
pub(crate) const GIVE_UP_NS: u64 = 150_000_000_000;

/// Requests of one connection that may wait for answers. Computes stop at 1,024 (`neon.readahead_buffer_size`).
pub(crate) const MAX_PENDING: usize = 4096;

/// Places in the order that one connection may have: a hole behind each request, and one before the first.
const MAX_SLOTS: usize = 2 * MAX_PENDING + 1;

/// Answers of one connection that may wait until a hole among the requests before them is settled.
pub(crate) const MAX_WAITING: usize = 1024;

/// One place in the order of requests.
#[derive(Debug, Clone, Copy)]
enum Slot {
    /// A request that names what it asks for.
    Asked(Asked),
    /// Version 3: one whose record has been made, since which answer is its own was not known.
    Told(Asked),
    /// A message that will be answered and has no record: Test.
    Nameless(Timestamp),
    /// Requests that the capture missed, or whose time has run out.
    Lost(Lost),
}

/// What is known about the arrival of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    /// When its last byte became deliverable.
    pub(crate) at: Timestamp,
    /// Whether that was its first copy.
    pub(crate) known: bool,
    /// Whether all that was answered before it has been seen: else the requests in flight cannot be counted.
    pub(crate) countable: bool,
    /// The latest base backup of this timeline by this client.
    pub(crate) epoch: Option<Timestamp>,
}

/// Bytes among the answers that could not be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnswersLost {
    pub(crate) bytes: u64,
    /// They are whole answers, so at least one. Otherwise they may be part of one, or belong to the start-up.
    pub(crate) are_whole: bool,
    /// They are proven to be one page answer.
    pub(crate) one_page: bool,
}

/// What cannot be placed before the requests before it are known.
#[derive(Debug, Clone, Copy)]
enum Waiting {
    /// An answer, and when it came.
    Answer(Answer, Timestamp),
    Lost(AnswersLost),
}

/// Requests in order, and the answers found for them.
#[derive(Debug)]
pub(crate) struct Pairing {
    version: Protocol,
    slots: VecDeque<Slot>,
    /// How many of the slots are no holes.
    pending: usize,
    /// Version 1 and 2, while the order is not proven.
    alignments: Option<Alignments>,
    /// Version 3: answers were lost since the last one that was found.
    answers_lost: bool,
    /// Version 3, after a loss: the place behind the request to which the last answer seems to belong.
    resumes_at: Option<usize>,
    /// Version 3: this client may give one id to several requests: its ids do not always rise.
    ids_repeat: bool,
    last_reqid: Option<u64>,
    next_seq: Option<u64>,
    /// What waits for a hole among the requests to be settled, in order.
    waiting: VecDeque<Waiting>,
}

impl Pairing {
    /// A connection whose pagestream has just begun. `next_seq` is the ordinal of its first request.
    pub(crate) fn from_start(version: Protocol, next_seq: Option<u64>) -> Self {
        Self {
            version,
            slots: VecDeque::new(),
            pending: 0,
            alignments: None,
            answers_lost: false,
            resumes_at: None,
            ids_repeat: false,
            last_reqid: None,
            next_seq,
            waiting: VecDeque::new(),
        }
    }

    /// A connection joined in the middle: requests from before may be unanswered.
    pub(crate) fn joined(version: Protocol) -> Self {
        Self::behind(Lost::unbounded(), version)
    }

    /// The same where the requests from before were left out on purpose: they are not lost.
    pub(crate) fn followed_late(version: Protocol) -> Self {
        Self::behind(Lost::left_out(), version)
    }

    fn behind(before: Lost, version: Protocol) -> Self {
        let mut pairing = Self::from_start(version, None);
        if version == Protocol::V3 {
            pairing.slots.push_back(Slot::Lost(before));
        } else {
            pairing.alignments = Some(Alignments::joined());
        }
        pairing
    }

    /// Version of the protocol.
    pub(crate) fn version(&self) -> Protocol {
        self.version
    }

    /// The ordinal of the next request, where it is known.
    pub(crate) fn next_seq(&self) -> Option<u64> {
        self.next_seq
    }

    /// Heap bytes held, for the memory bound.
    pub(crate) fn heap_bytes(&self) -> usize {
        let slots = self.slots.capacity().saturating_mul(size_of::<Slot>());
        let waiting = self.waiting.capacity().saturating_mul(size_of::<Waiting>());
        slots.saturating_add(waiting).saturating_add(self.alignments.as_ref().map_or(0, Alignments::heap_bytes))
    }

    /// Whether answers wait for the requests before them.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether more answers wait than may.
    pub(crate) fn is_waiting_full(&self) -> bool {
        self.waiting.len() >= MAX_WAITING
    }

    /// Whether a pending request has everything that this answer echoes.
    pub(crate) fn recognises(&self, answer: &super::answer::AnswerHead) -> bool {
        let Some(echo) = answer.echo.filter(|echo| echo.target.is_some()) else { return false };
        self.slots.iter().any(|slot| slot.is_named_by(&echo))
    }

    /// A request has become deliverable.
    pub(crate) fn request(&mut self, message: ClientMessage, arrival: Arrival, out: &mut Emitter<'_>) {
        let seq = self.next_seq;
        self.next_seq = seq.map(|seq| seq.saturating_add(1));
        let ClientMessage::Request(request) = message else {
            return self.push_nameless(arrival.at, out);
        };
        self.note_reqid(&request);
        let is_unbroken = self.alignments.is_none() && self.slots.len() == self.pending && !self.answers_lost;
        let is_counted = is_unbroken && arrival.countable && self.waiting.is_empty();
        let depth = is_counted.then(|| u32::try_from(self.pending.saturating_add(1)).ok()).flatten();
        // A lost request may have asked for the same, and without ids nothing in the records would tell whose time this is.
        let is_alone = self.version == Protocol::V3 || self.slots.len() == self.pending;
        let is_void = !is_alone && request.request_lsn != Lsn::MAX && self.misses_cut_requests();
        let Arrival { at: arrived, known, epoch, .. } = arrival;
        let arrival_known = known && is_alone;
        let asked = Asked { request, arrived, arrival_known, depth, is_void, seq, epoch };
        if let Some(alignments) = &mut self.alignments {
            // What was asked while the order is unknown is recorded at once; only its kind is kept, as evidence.
            out.suspect(&asked);
            alignments.push(Some(request.target.kind()));
            return;
        }
        self.push(Slot::Asked(asked), out);
    }

    /// Whether requests that the snap length cut off are still unanswered. Where it cuts off some of every flush, many of them
    /// are like those that are left.
    fn misses_cut_requests(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot, Slot::Lost(lost) if lost.at.is_some()))
    }

    /// Answers are missing: what was counted as in flight may have been answered already.
    pub(crate) fn forget_depths(&mut self) {
        for slot in &mut self.slots {
            if let Slot::Asked(asked) = slot {
                asked.depth = None;
            }
        }
    }

    fn push_nameless(&mut self, at: Timestamp, out: &mut Emitter<'_>) {
        match &mut self.alignments {
            Some(alignments) => alignments.push(None),
            None => self.push(Slot::Nameless(at), out),
        }
    }

    fn push(&mut self, slot: Slot, out: &mut Emitter<'_>) {
        if self.pending >= MAX_PENDING {
            self.give_up_front(out);
        }
        self.slots.push_back(slot);
        self.pending = self.pending.saturating_add(1);
    }

    fn note_reqid(&mut self, request: &Request) {
        if request.reqid.is_some() {
            self.ids_repeat |= self.last_reqid >= request.reqid;
            self.last_reqid = request.reqid;
        }
    }

    /// A request has passed by of which bytes are missing; `at` is when it arrived, where that is known.
    pub(crate) fn request_unread(&mut self, at: Option<Timestamp>, out: &mut Emitter<'_>) {
        out.stats.lost_requests = out.stats.lost_requests.saturating_add(1);
        self.next_seq = self.next_seq.map(|seq| seq.saturating_add(1));
        match &mut self.alignments {
            Some(alignments) => alignments.requests_lost(1, 1),
            None => self.push_hole(Lost::exactly(1, 1, at), out),
        }
    }

    fn push_hole(&mut self, lost: Lost, out: &mut Emitter<'_>) {
        if self.slots.len() < MAX_SLOTS {
            return self.slots.push_back(Slot::Lost(lost));
        }
        match self.version {
            Protocol::V1 | Protocol::V2 => self.forget_order(out),
            Protocol::V3 => {
                self.slots.retain(|slot| !matches!(slot, Slot::Lost(_)));
                self.slots.push_front(Slot::Lost(Lost::unbounded()));
                self.slots.push_back(Slot::Lost(lost));
            }
        }
    }

    /// More answers wait than may: what they wait for will not come.
    pub(crate) fn stop_waiting(&mut self, out: &mut Emitter<'_>) {
        match self.version {
            Protocol::V1 | Protocol::V2 => {
                self.waiting.clear();
                self.forget_order(out);
            }
            Protocol::V3 => self.retry(false, out),
        }
    }

    /// The framing of the requests was lost; `cut` where all that is missing so far lay in one packet.
    pub(crate) fn requests_lost_begin(&mut self, cut: Option<Cut>, out: &mut Emitter<'_>) {
        self.next_seq = None;
        if self.alignments.is_some() {
            return;
        }
        match self.slots.back_mut() {
            Some(Slot::Lost(lost)) if lost.open => {
                lost.at = lost.at.filter(|&earlier| cut.is_some_and(|cut| cut.at == earlier));
            }
            _ => self.push_hole(Lost::begun(cut), out),
        }
    }

    /// The hole among the requests turned out not to lie in one packet.
    pub(crate) fn requests_lost_time_unknown(&mut self) {
        if let Some(Slot::Lost(lost)) = self.slots.back_mut().filter(|slot| slot.is_open()) {
            lost.at = None;
        }
    }

    /// The framing of the requests was found again behind `bytes` that could not be read. `in_one_packet`: all of them lie
    /// in the packet whose snap length cut them off.
    pub(crate) fn requests_lost_end(&mut self, bytes: u64, in_one_packet: bool, out: &mut Emitter<'_>) {
        let (fewest, most) = count_of_requests(self.version, bytes);
        if !in_one_packet {
            self.requests_lost_time_unknown();
        }
        let mut uncounted = fewest;
        if let Some(alignments) = &mut self.alignments {
            alignments.requests_lost(fewest, most);
        } else if let Some(Slot::Lost(lost)) = self.slots.back_mut().filter(|slot| slot.is_open()) {
            lost.end(self.version, bytes);
            uncounted = lost.counted;
        }
        out.stats.lost_requests = out.stats.lost_requests.saturating_add(u64::from(uncounted));
    }

    /// An answer has passed by. `unsettled`: requests before it may still turn up.
    pub(crate) fn answer(&mut self, answer: &Answer, now: Timestamp, unsettled: bool, out: &mut Emitter<'_>) {
        self.place_or_wait(Waiting::Answer(*answer, now), unsettled, out);
    }

    fn place_or_wait(&mut self, next: Waiting, unsettled: bool, out: &mut Emitter<'_>) {
        if !self.waiting.is_empty() || !self.place(&next, unsettled, out) {
            self.waiting.push_back(next);
        }
    }

    /// The requests have moved on: looks again at the answers that wait for them.
    pub(crate) fn retry(&mut self, unsettled: bool, out: &mut Emitter<'_>) {
        while let Some(next) = self.waiting.front().copied() {
            if !self.place(&next, unsettled, out) {
                return;
            }
            self.waiting.pop_front();
        }
    }

    /// Finds the place of an answer, or of a loss among the answers; false where it has to wait.
    fn place(&mut self, next: &Waiting, unsettled: bool, out: &mut Emitter<'_>) -> bool {
        match (self.version, next) {
            (Protocol::V1 | Protocol::V2, Waiting::Answer(answer, _)) => self.place_ordered(answer, unsettled, out),
            (Protocol::V1 | Protocol::V2, Waiting::Lost(_)) if unsettled => false,
            (Protocol::V1 | Protocol::V2, Waiting::Lost(loss)) => {
                self.answers_lost_ordered(*loss, out);
                true
            }
            (Protocol::V3, Waiting::Answer(answer, seen_at)) => self.place_echoed(answer, *seen_at, unsettled, out),
            (Protocol::V3, Waiting::Lost(loss)) => {
                self.answers_lost |= loss.bytes > 0;
                self.resumes_at = self.resumes_at.filter(|_| loss.bytes == 0);
                true
            }
        }
    }

    /// The framing of the answers was found again behind bytes that could not be read. `unsettled`: requests before them
    /// may still turn up.
    pub(crate) fn answers_lost(&mut self, loss: AnswersLost, unsettled: bool, out: &mut Emitter<'_>) {
        self.forget_depths();
        self.place_or_wait(Waiting::Lost(loss), unsettled, out);
    }

    /// Gives up what has waited for too long.
    pub(crate) fn expire(&mut self, now: Timestamp, out: &mut Emitter<'_>) {
        while self.is_overdue(now) {
            self.give_up_front(out);
        }
    }

    /// Whether a request has waited for too long.
    pub(crate) fn is_overdue(&self, now: Timestamp) -> bool {
        let arrived = self.slots.iter().find_map(Slot::arrived);
        arrived.and_then(|at| now.since(at)).is_some_and(|waited| waited > GIVE_UP_NS)
    }

    /// The earliest pending request is recorded as unanswered. Its answer, should it still come, must not be taken for another's,
    /// nor for that to one of the requests in a hole, so its place is kept.
    fn give_up_front(&mut self, out: &mut Emitter<'_>) {
        let Some(place) = self.slots.iter().position(|slot| slot.arrived().is_some()) else { return };
        self.resumes_at = None;
        if let Some(Slot::Asked(asked)) = self.slots.get(place) {
            out.unanswered(asked);
        }
        self.pending = self.pending.saturating_sub(1);
        // What was given up before it shares one place with it: they may be many.
        if let Some(Slot::Lost(before)) = place.checked_sub(1).and_then(|at| self.slots.get_mut(at))
            && before.take_in_one()
        {
            self.slots.remove(place);
        } else if let Some(slot) = self.slots.get_mut(place) {
            *slot = Slot::Lost(Lost::exactly(1, 0, None));
        }
    }

    /// The pagestream is over: whatever is pending stays unanswered.
    pub(crate) fn end(&mut self, out: &mut Emitter<'_>) {
        self.retry(false, out);
        // In version 1 and 2 an answer that still waits may be any pending request's.
        let is_doubtful = self.version != Protocol::V3 && !self.waiting.is_empty();
        for slot in std::mem::take(&mut self.slots) {
            match slot {
                Slot::Asked(asked) if is_doubtful => out.suspect(&asked),
                Slot::Asked(asked) => out.unanswered(&asked),
                Slot::Told(_) | Slot::Nameless(_) | Slot::Lost(_) => {}
            }
        }
        self.waiting.clear();
        (self.pending, self.alignments) = (0, None);
    }
}

impl Slot {
    /// When the request arrived; holes have no such time.
    fn arrived(&self) -> Option<Timestamp> {
        match self {
            Self::Asked(asked) | Self::Told(asked) => Some(asked.arrived),
            Self::Nameless(at) => Some(*at),
            Self::Lost(_) => None,
        }
    }

    /// Whether it is a hole whose end is not known yet.
    fn is_open(&self) -> bool {
        matches!(self, Self::Lost(lost) if lost.open)
    }

    fn kind(&self) -> Option<Kind> {
        match self {
            Self::Asked(asked) => Some(asked.request.target.kind()),
            Self::Told(_) | Self::Nameless(_) | Self::Lost(_) => None,
        }
    }

    /// If it is a request, it comes out as suspect, and keeps its place.
    fn tell(&mut self, out: &mut Emitter<'_>) {
        if let Self::Asked(asked) = *self {
            out.suspect(&asked);
            *self = Self::Told(asked);
        }
    }

    /// Whether it is a request that has everything which the answer echoes.
    fn is_named_by(&self, echo: &Echo) -> bool {
        matches!(self, Self::Asked(asked) | Self::Told(asked) if echo.is_of(&asked.request))
    }
}

/// Bytes of CopyData's tag and length in front of each body.
const COPY_HEADER_BYTES: u64 = 5;

#[cfg(test)]
mod tests;
