//! Versions 1 and 2: nothing but the order, and what is left of it after a loss.
//!
//! While the order is proven, the front of the queue has the next answer. After a loss the *debt* is unknown: how many
//! answers are still to come for requests that were lost (positive), or how many of the requests at the front had
//! theirs unseen (negative). [`Alignments`] holds every debt that the evidence allows. Each answer removes those under
//! which it would belong to a request of another kind, or to none; when a single debt is left, the order is proven
//! again. A client's habits prove nothing and are not used.

use std::collections::VecDeque;

use record::{Kind, Pairing as How};

use super::lost::{Lost, Payment};
use super::{AnswersLost, Pairing, Slot};
use crate::pagestream::answer::{Answer, Outcome};
use crate::pagestream::emit::Emitter;
use crate::pagestream::layout;

/// The most requests that a client has in flight: the upper end of `neon.readahead_buffer_size`. A connection joined in
/// the middle owes at most so many answers.
const MAX_IN_FLIGHT: i64 = 1024;

/// More possible debts than this are as good as none known.
const MAX_DEBTS: usize = 4096;

/// Every debt that the evidence allows, and the kinds of the requests that they are counted from.
#[derive(Debug)]
pub(super) struct Alignments {
    /// Ascending, never empty.
    debts: Vec<i64>,
    /// Kinds of the requests seen since; `None` for messages that name nothing.
    kinds: VecDeque<Option<Kind>>,
}

impl Alignments {
    /// A connection joined in the middle may owe any number of answers up to what a client keeps in flight. And before its
    /// framing was found, answers may have passed by to requests that turn up only now.
    pub(super) fn joined() -> Self {
        Self { debts: (-MAX_IN_FLIGHT..=MAX_IN_FLIGHT).collect(), kinds: VecDeque::new() }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let debts = self.debts.capacity().saturating_mul(size_of::<i64>());
        debts.saturating_add(self.kinds.capacity().saturating_mul(size_of::<Option<Kind>>()))
    }

    pub(super) fn push(&mut self, kind: Option<Kind>) {
        self.kinds.push_back(kind);
        if self.kinds.len() > super::MAX_PENDING {
            self.give_up();
        }
    }

    /// The evidence contradicts itself, or leaves too much open: begins again as if the connection were joined here.
    fn give_up(&mut self) {
        *self = Self::joined();
    }

    /// So many requests more were lost: what was seen becomes debt, too, since its place is no longer known.
    pub(super) fn requests_lost(&mut self, fewest: u32, most: u32) {
        let seen = i64::try_from(self.kinds.len()).unwrap_or(i64::MAX);
        let range = (seen.saturating_add(fewest.into()), seen.saturating_add(most.into()));
        self.kinds.clear();
        self.widen(range.0, range.1);
    }

    /// Between `fewest` and `most` answers were lost.
    fn answers_lost(&mut self, fewest: i64, most: i64) {
        self.widen(most.saturating_neg(), fewest.saturating_neg());
        let seen = i64::try_from(self.kinds.len()).unwrap_or(i64::MAX);
        self.debts.retain(|debt| debt.saturating_add(seen) >= 0);
        if self.debts.is_empty() {
            self.give_up();
        }
    }

    /// Adds every number from `low` to `high` to every debt.
    fn widen(&mut self, low: i64, high: i64) {
        let (Some(&first), Some(&last)) = (self.debts.first(), self.debts.last()) else { return };
        let (low_end, high_end) = (first.saturating_add(low), last.saturating_add(high));
        if usize::try_from(high_end.saturating_sub(low_end)).map_or(true, |width| width > MAX_DEBTS) {
            return self.give_up();
        }
        let is_reached = |sum: &i64| {
            let least = sum.saturating_sub(high);
            let at = self.debts.partition_point(|&debt| debt < least);
            self.debts.get(at).is_some_and(|&debt| debt <= sum.saturating_sub(low))
        };
        self.debts = (low_end..=high_end).filter(is_reached).collect();
    }

    /// An answer: removes the debts that it contradicts. Gives what is owed in all once only one debt is left.
    fn answer(&mut self, answer: &Answer) -> Option<u32> {
        let kinds = &self.kinds;
        self.debts.retain(|&debt| {
            debt > 0
                || usize::try_from(debt.saturating_neg())
                    .ok()
                    .and_then(|at| kinds.get(at))
                    .is_some_and(|&kind| answer.fits(kind))
        });
        for debt in &mut self.debts {
            *debt = debt.saturating_sub(1);
        }
        // A request that has had its answer under every alignment tells nothing more.
        while self.debts.last().is_some_and(|&largest| largest < 0) {
            self.kinds.pop_front();
            for debt in &mut self.debts {
                *debt = debt.saturating_add(1);
            }
        }
        if self.debts.is_empty() {
            self.give_up();
        }
        self.proven()
    }

    /// What is owed in all, where only one debt is possible.
    fn proven(&self) -> Option<u32> {
        let [debt] = self.debts.as_slice() else { return None };
        u32::try_from(debt.saturating_add(i64::try_from(self.kinds.len()).ok()?)).ok()
    }
}

impl Pairing {
    pub(super) fn place_ordered(&mut self, answer: &Answer, unsettled: bool, out: &mut Emitter<'_>) -> bool {
        if self.alignments.is_none() {
            match self.slots.front().copied() {
                None if unsettled => return false,
                Some(Slot::Lost(lost)) if lost.open => return false,
                Some(Slot::Lost(_)) => {
                    if self.pay_front(answer, out) {
                        return true;
                    }
                }
                Some(slot @ (Slot::Asked(_) | Slot::Nameless(_))) if self.is_answered_by(slot, answer) => {
                    self.close_front(slot, answer, out);
                    return true;
                }
                // An answer too many, or of another kind than what was asked: something was missed that left no trace.
                None | Some(_) => self.forget_order(out),
            }
        }
        if unsettled {
            return false;
        }
        let owed = self.alignments.as_mut().and_then(|alignments| alignments.answer(answer));
        self.resume(owed);
        true
    }

    fn is_answered_by(&self, slot: Slot, answer: &Answer) -> bool {
        answer.fits(slot.kind())
    }

    fn close_front(&mut self, slot: Slot, answer: &Answer, out: &mut Emitter<'_>) {
        self.slots.pop_front();
        self.pending = self.pending.saturating_sub(1);
        if let Slot::Asked(asked) = slot {
            match answer.head.outcome {
                Outcome::Unread => out.suspect(&asked),
                _ => out.answered(&asked, answer, How::Fifo),
            }
        }
    }

    /// Takes the answer for one to the hole at the front; false where that is not sure.
    fn pay_front(&mut self, answer: &Answer, out: &mut Emitter<'_>) -> bool {
        let Some(Slot::Lost(lost)) = self.slots.front_mut() else { return false };
        let kind = match answer.head.outcome {
            Outcome::Ok(kind) => Some(kind),
            Outcome::Error | Outcome::Test | Outcome::Unread => None,
        };
        let payment = lost.pay(self.version, kind);
        if payment == Payment::Refused {
            self.forget_order(out);
            return false;
        }
        if lost.is_paid() {
            self.slots.pop_front();
        }
        if payment == Payment::Unclear {
            self.lose_order(out);
        }
        true
    }

    /// One alignment is left: from here on the order is proven again, behind what is still owed.
    fn resume(&mut self, owed: Option<u32>) {
        let Some(owed) = owed else { return };
        self.alignments = None;
        if owed > 0 {
            self.slots.push_front(Slot::Lost(Lost::exactly(owed, 0, None)));
        }
    }

    /// Nothing is known about the order any more: as if the connection were joined here.
    pub(super) fn forget_order(&mut self, out: &mut Emitter<'_>) {
        self.lose_order(out);
        self.alignments = Some(Alignments::joined());
    }

    /// The order is not proven any more: all that is pending comes out as suspect, and the possible debts are what it
    /// may owe.
    fn lose_order(&mut self, out: &mut Emitter<'_>) {
        let mut alignments = Alignments { debts: vec![0], kinds: VecDeque::new() };
        for slot in std::mem::take(&mut self.slots) {
            match slot {
                Slot::Asked(asked) => out.suspect(&asked),
                Slot::Told(_) | Slot::Nameless(_) => {}
                Slot::Lost(Lost { fewest, most, .. }) => {
                    alignments.requests_lost(fewest, most);
                    continue;
                }
            }
            alignments.push(slot.kind());
        }
        self.pending = 0;
        self.alignments = Some(alignments);
    }

    pub(super) fn answers_lost_ordered(&mut self, loss: AnswersLost, out: &mut Emitter<'_>) {
        let front = self.slots.front().and_then(Slot::kind);
        if loss.one_page && self.alignments.is_none() && front == Some(Kind::GetPage) {
            out.stats.lost_responses = out.stats.lost_responses.saturating_add(1);
            return self.close_unseen(out);
        }
        let (fewest, most) = loss.count();
        if most == 0 {
            return;
        }
        out.stats.lost_responses = out.stats.lost_responses.saturating_add(fewest.unsigned_abs());
        if fewest > 0 && self.alignments.is_none() && self.slots.len() == 1 && self.pending == 1 {
            return self.close_unseen(out);
        }
        if self.alignments.is_none() {
            self.lose_order(out);
        }
        if let Some(alignments) = &mut self.alignments {
            alignments.answers_lost(fewest, most);
        }
        let owed = self.alignments.as_ref().and_then(Alignments::proven);
        self.resume(owed);
    }

    /// The front request's answer was lost, and its place is known.
    fn close_unseen(&mut self, out: &mut Emitter<'_>) {
        if let Some(Slot::Asked(asked)) = self.slots.pop_front() {
            out.unanswered(&asked);
        }
        self.pending = self.pending.saturating_sub(1);
    }
}

impl AnswersLost {
    /// The fewest and the most answers that the bytes can be, or be the end of. Only answers cross the stream in this
    /// direction, each at least as long as the shortest one.
    fn count(self) -> (i64, i64) {
        let shortest = super::COPY_HEADER_BYTES.saturating_add(SHORTEST_ANSWER_BYTES).max(1);
        let narrow = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        match self.are_whole {
            true => (1, narrow(self.bytes.checked_div(shortest).unwrap_or(0)).max(1)),
            false => (0, narrow(self.bytes.div_ceil(shortest))),
        }
    }
}

/// The shortest answer's body: an Exists answer, or an error with an empty text.
const SHORTEST_ANSWER_BYTES: u64 = {
    let exists = match layout::answer_body_bytes(record::Protocol::V2, Kind::Exists) {
        Some(bytes) => bytes,
        None => 1,
    };
    exists as u64
};
