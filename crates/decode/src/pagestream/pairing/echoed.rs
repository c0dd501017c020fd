//! Version 3: the order verified, and found again, by what each answer echoes.

use record::{Pairing as How, Protocol, Timestamp};

use super::lost::Payment;
use super::{Pairing, Slot};
use crate::pagestream::answer::{Answer, Outcome};
use crate::pagestream::emit::Emitter;

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
            Place::At(at) if unsettled && is_vague(answer) && self.may_skip(at) => return false,
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
            Some(Slot::Nameless(_)) if !self.answers_lost => {
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
        let mut places = self.slots.iter().enumerate().filter_map(|(at, slot)| match slot {
            Slot::Asked(asked) if echo.is_of(&asked.request) => Some(at),
            _ => None,
        });
        match places.next() {
            None => Place::Nowhere,
            Some(_) if self.answers_lost && places.next().is_some() => Place::OneOfSeveral,
            Some(at) if is_vague(answer) && self.may_have_twin(at) => Place::OneOfSeveral,
            Some(at) => Place::At(at),
        }
    }

    /// Whether the answer may belong behind this slot although the slot's request is the first that it names.
    fn may_skip(&self, at: usize) -> bool {
        self.answers_lost || at > 0
    }

    /// Whether a request in a hole may be alike to this slot's in its id and LSNs, and be the one that is answered: a client
    /// may give one id to several requests.
    fn may_have_twin(&self, at: usize) -> bool {
        let is_hole = |slot: &Slot| matches!(slot, Slot::Lost(_));
        self.slots.iter().take(at).any(is_hole) || self.may_skip(at) && self.slots.iter().skip(at).any(is_hole)
    }

    /// Pairs the answer; in a strict order all requests before this one have had theirs, unseen.
    fn close(&mut self, at: usize, answer: &Answer, out: &mut Emitter<'_>) {
        let mut behind_a_hole = false;
        if at > 0 {
            self.forget_depths();
        }
        for _ in 0..at {
            match self.slots.pop_front() {
                Some(Slot::Asked(asked)) => {
                    self.pending = self.pending.saturating_sub(1);
                    out.stats.lost_responses = out.stats.lost_responses.saturating_add(1);
                    out.unanswered(&asked);
                }
                Some(Slot::Nameless(_)) => self.pending = self.pending.saturating_sub(1),
                Some(Slot::Lost(_)) => behind_a_hole = true,
                None => {}
            }
        }
        let Some(Slot::Asked(mut asked)) = self.slots.pop_front() else { return };
        self.pending = self.pending.saturating_sub(1);
        self.answers_lost = false;
        // A client that repeats ids may have sent the same request within the hole: the fields are right either way,
        // which of the two this answer ends is not known.
        asked.arrival_known &= !(behind_a_hole && self.ids_repeat);
        out.answered(&asked, answer, How::Exact);
    }

    /// Several pending requests are alike and answers were lost: none of them can be told to be this answer's.
    fn mark_doubtful(&mut self, answer: &Answer, out: &mut Emitter<'_>) {
        let Some(echo) = answer.head.echo else { return };
        // Everything up to the last one that it could be has lost its place; what comes behind is still in order.
        let last = self.slots.iter().rposition(|slot| matches!(slot, Slot::Asked(a) if echo.is_of(&a.request)));
        for _ in 0..=last.unwrap_or(0) {
            match self.slots.pop_front() {
                Some(Slot::Asked(asked)) => {
                    self.pending = self.pending.saturating_sub(1);
                    out.suspect(&asked);
                }
                Some(Slot::Nameless(_)) => self.pending = self.pending.saturating_sub(1),
                Some(Slot::Lost(_)) | None => {}
            }
        }
    }

    /// Whether a lost request that is seen by its answer has been counted. Which hole it lay in makes no difference to the sum.
    fn count_answered(&mut self) -> bool {
        self.slots.iter_mut().any(|slot| match slot {
            Slot::Lost(lost) => lost.count_answered(),
            Slot::Asked(_) | Slot::Nameless(_) => false,
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
