//! Version 3: the order verified, and found again, by what each answer echoes.

use record::{Pairing as How, Protocol, Timestamp};

use super::lost::Payment;
use super::{Pairing, Slot};
use crate::pagestream::answer::{Answer, Outcome};
use crate::pagestream::emit::{Asked, Emitter};

/// Where an answer belongs.
enum Place {
    /// To the request in this slot.
    At(usize),
    /// To one of several alike; which one is lost.
    OneOfSeveral,
    /// To none that was seen.
    Nowhere,
}

impl Pairing {
    pub(super) fn place_echoed(
        &mut self,
        answer: &Answer,
        seen_at: Timestamp,
        unsettled: bool,
        out: &mut Emitter<'_>,
    ) -> bool {
        if answer.head.echo.is_none() {
            return self.place_unread(answer, unsettled, out);
        }
        match self.find(answer) {
            Place::At(at) if unsettled && (is_vague(answer) || self.ids_repeat) && self.may_skip(at) => return false,
            Place::At(at) => self.close(at, answer, out),
            Place::OneOfSeveral => self.mark_doubtful(answer, out),
            Place::Nowhere if unsettled => return false,
            Place::Nowhere => self.close_lost(answer, seen_at, out),
        }
        true
    }

    /// An answer that echoes nothing: a Test's, or one whose beginning fell into a gap. Only unbroken order places it.
    fn place_unread(&mut self, answer: &Answer, unsettled: bool, out: &mut Emitter<'_>) -> bool {
        match self.slots.front() {
            None if unsettled => return false,
            Some(Slot::Lost(hole)) if self.ids_repeat && !self.answers_lost && hole.has_more() => {
                self.pay_unread(answer);
                out.stats.lost_responses = out.stats.lost_responses.saturating_add(1);
            }
            Some(Slot::Nameless(_) | Slot::Told(_)) if !self.answers_lost => {
                self.slots.pop_front();
                self.pending = self.pending.saturating_sub(1);
            }
            Some(&Slot::Asked(asked)) if !self.answers_lost && answer.fits(Some(asked.request.target.kind())) => {
                self.slots.pop_front();
                self.pending = self.pending.saturating_sub(1);
                match answer.head.outcome {
                    Outcome::Unread => out.suspect(&asked),
                    Outcome::Ok(_) | Outcome::Error | Outcome::Test => out.answered(&asked, answer, How::Fifo),
                }
            }
            _ => {
                self.answers_lost = true;
                self.forget_depths();
                out.stats.lost_responses = out.stats.lost_responses.saturating_add(1);
            }
        }
        true
    }

    /// The first request that the echo names, unless a loss leaves several to choose from.
    fn find(&self, answer: &Answer) -> Place {
        let Some(echo) = answer.head.echo else { return Place::Nowhere };
        let mut places = self.slots.iter().enumerate().filter(|(_, slot)| slot.is_named_by(&echo)).map(|(at, _)| at);
        match places.next() {
            None => Place::Nowhere,
            Some(at) if self.is_before_its_turn(at) => Place::Nowhere,
            Some(_) if self.answers_lost && places.next().is_some() => Place::OneOfSeveral,
            Some(at) if is_vague(answer) && self.may_have_twin(at) => Place::OneOfSeveral,
            Some(at) if self.ids_repeat && self.may_be_overtaken(at) => Place::OneOfSeveral,
            Some(at) => Place::At(at),
        }
    }

    /// Whether the next answer is surely not to the request in this slot, but to one alike in a hole: no answers were lost, and
    /// requests before this one have not had theirs. Where ids do not repeat nothing is alike.
    fn is_before_its_turn(&self, at: usize) -> bool {
        let Some(Slot::Lost(hole)) = self.slots.front() else { return false };
        let mut before = self.slots.iter().take(at);
        self.ids_repeat && !self.answers_lost && (hole.has_more() || before.any(|slot| !matches!(slot, Slot::Lost(_))))
    }

    /// Whether the answer may belong behind this slot although the slot's request is the first that it names.
    fn may_skip(&self, at: usize) -> bool {
        self.answers_lost || at > 0
    }

    /// Whether a request in a hole may be alike to this slot's in its id and LSNs, and be the one that is answered: a client
    /// may give one id to several requests.
    fn may_have_twin(&self, at: usize) -> bool {
        let is_behind_a_hole = self.slots.iter().take(at).any(|slot| matches!(slot, Slot::Lost(_)));
        is_behind_a_hole || at > 0 && self.has_hole_behind(at) || self.may_be_overtaken(at)
    }

    /// Whether this slot's request may have had its answer, lost, and one in a hole behind be the one that is answered.
    fn may_be_overtaken(&self, at: usize) -> bool {
        self.answers_lost && self.has_hole_behind(at)
    }

    fn has_hole_behind(&self, at: usize) -> bool {
        self.slots.iter().skip(at).any(|slot| matches!(slot, Slot::Lost(_)))
    }

    /// Pairs the answer; in a strict order all requests before this one have had theirs, unseen.
    fn close(&mut self, at: usize, answer: &Answer, out: &mut Emitter<'_>) {
        if at > 0 {
            self.forget_depths();
        }
        if let Some(hole) = self.hole_in_doubt(at) {
            return self.close_in_doubt((hole, at), answer, out);
        }
        let behind_a_hole = self.pass_over(at, out);
        let closed = self.slots.pop_front();
        self.pending = self.pending.saturating_sub(1);
        (self.answers_lost, self.resumes_at) = (false, None);
        let Some(Slot::Asked(mut asked)) = closed else { return };
        // A client that repeats ids may have sent the same request within the hole: the fields are right either way,
        // which of the two this answer ends is not known.
        asked.arrival_known &= !(behind_a_hole && self.ids_repeat);
        out.answered(&asked, answer, How::Exact);
    }

    /// So many requests have had their answers, unseen. Says whether a hole lay among them.
    fn pass_over(&mut self, slots: usize, out: &mut Emitter<'_>) -> bool {
        let mut has_hole = false;
        for slot in self.slots.drain(..slots.min(self.slots.len())) {
            self.pending = self.pending.saturating_sub(usize::from(!matches!(slot, Slot::Lost(_))));
            has_hole |= matches!(slot, Slot::Lost(_));
            if let Slot::Asked(asked) = slot {
                out.stats.lost_responses = out.stats.lost_responses.saturating_add(1);
                out.unanswered(&asked);
            }
        }
        has_hole
    }

    /// The place of a hole that may hold the request that is answered, alike to this slot's, while requests between the two
    /// may have their answers still to come. Two answers in a row that fit the slots are no such accident.
    fn hole_in_doubt(&self, at: usize) -> Option<usize> {
        let hole = self.slots.iter().take(at).position(|slot| matches!(slot, Slot::Lost(_)))?;
        let has_between = self.slots.iter().take(at).skip(hole).any(|slot| !matches!(slot, Slot::Lost(_)));
        let is_in_doubt = self.ids_repeat && self.answers_lost && has_between && self.resumes_at != Some(at);
        is_in_doubt.then_some(hole)
    }

    /// Pairs the answer with this slot's request, or with one alike in the hole: what is recorded is the same. The requests
    /// between the two have had their answers in the one case only, so they keep their places.
    fn close_in_doubt(&mut self, (hole, at): (usize, usize), answer: &Answer, out: &mut Emitter<'_>) {
        let closed = self.slots.remove(at);
        self.pending = self.pending.saturating_sub(1);
        for slot in self.slots.iter_mut().take(at).skip(hole) {
            slot.tell(out);
        }
        self.pass_over(hole, out);
        self.resumes_at = Some(at.saturating_sub(hole));
        if let Some(Slot::Asked(asked)) = closed {
            out.answered(&Asked { arrival_known: false, ..asked }, answer, How::Exact);
        }
    }

    /// Several pending requests are alike and answers were lost: none of them can be told to be this answer's. They keep their
    /// places, for the answers that are still to come to the others.
    fn mark_doubtful(&mut self, answer: &Answer, out: &mut Emitter<'_>) {
        let Some(echo) = answer.head.echo else { return };
        (self.answers_lost, self.resumes_at) = (true, None);
        for slot in self.slots.iter_mut().filter(|slot| slot.is_named_by(&echo)) {
            slot.tell(out);
        }
        self.forget_depths();
    }

    /// Whether a lost request that is seen by its answer has been counted. Which hole it lay in makes no difference to the sum.
    fn count_answered(&mut self) -> bool {
        self.slots.iter_mut().any(|slot| match slot {
            Slot::Lost(lost) => lost.count_answered(),
            Slot::Asked(_) | Slot::Told(_) | Slot::Nameless(_) => false,
        })
    }

    /// The request was lost: the answer says all the same what was asked for.
    fn close_lost(&mut self, answer: &Answer, seen_at: Timestamp, out: &mut Emitter<'_>) {
        let was_counted = self.count_answered();
        // Unless answers were lost, too, this is the next one of the requests in the hole.
        let arrived = if self.answers_lost { None } else { self.pay_hole(answer) };
        if !was_counted {
            out.stats.lost_requests = out.stats.lost_requests.saturating_add(1);
        }
        out.answer_alone(answer, seen_at, arrived);
    }

    /// Takes an answer that echoes nothing off the hole at the front, whose turn it is.
    fn pay_unread(&mut self, answer: &Answer) {
        let Some(Slot::Lost(hole)) = self.slots.front_mut() else { return };
        let kind = match answer.head.outcome {
            Outcome::Ok(kind) => Some(kind),
            Outcome::Error | Outcome::Test | Outcome::Unread => None,
        };
        self.answers_lost |= hole.pay(Protocol::V3, kind) != Payment::Paid;
    }

    /// Takes the answer off the hole at the front. Gives when its request came, where that is known.
    fn pay_hole(&mut self, answer: &Answer) -> Option<Timestamp> {
        while matches!(self.slots.front(), Some(Slot::Lost(lost)) if lost.is_paid()) {
            self.slots.pop_front();
        }
        let is_last = !matches!(self.slots.get(1), Some(Slot::Lost(_)));
        let Some(Slot::Lost(lost)) = self.slots.front_mut() else { return None };
        let target = answer.head.echo.and_then(|echo| echo.target);
        let is_its_own = is_last || lost.has_more();
        let payment = lost.pay(Protocol::V3, target.map(|target| target.kind()));
        if payment != Payment::Paid || !is_its_own {
            // From here on nothing tells which answer belongs to which of the holes up to the next request.
            for slot in &mut self.slots {
                let Slot::Lost(lost) = slot else { break };
                lost.at = None;
            }
        }
        let Some(Slot::Lost(lost)) = self.slots.front() else { return None };
        let arrived = lost.at;
        if lost.is_paid() {
            self.slots.pop_front();
        }
        arrived
    }
}

/// Whether the answer echoes the request's id and LSNs only, as errors do, and not what was asked for.
fn is_vague(answer: &Answer) -> bool {
    answer.head.echo.is_some_and(|echo| echo.target.is_none())
}
