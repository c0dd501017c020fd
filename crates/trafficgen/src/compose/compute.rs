//! The compute's side of a simulated session: when it asks, what it waits for, what it remembers for the truth.

use std::collections::VecDeque;

use record::Kind;

use super::options::SessionOptions;
use crate::model::{Asker, Workload};
use crate::truth::{Asked, Outcome};

/// A compute flushes its prefetches every 8 (`neon.flush_output_after`).
const FLUSH_REQUESTS: u64 = 8;

/// A request whose answer is not there yet.
#[derive(Debug)]
pub(super) struct Outstanding {
    /// The row as it is so far.
    pub(super) asked: Asked,
    /// The server's stream offset behind the answer, and the answer, once it was written.
    pub(super) answer: Option<(u64, Outcome)>,
}

/// Why a compute asks nothing for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pause {
    /// Nothing to ask.
    Idle,
    /// It does not read what comes.
    Stalled,
}

/// The compute's state.
#[derive(Debug)]
pub(super) struct Compute {
    pub(super) asker: Asker,
    depth: u64,
    budget: u64,
    issued: u64,
    received: u64,
    next_kind: Option<Kind>,
    /// In order; the front one is the next to be answered.
    pub(super) outstanding: VecDeque<Outstanding>,
    idle_after: Option<u64>,
    stall_after: Option<u64>,
    pub(super) pause: Option<Pause>,
    /// A flush, or the end, is already on its way.
    pub(super) busy: bool,
    ending: bool,
}

/// What the compute does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    /// It waits for an answer.
    Wait,
    /// It flushes requests.
    Flush,
    /// It pauses.
    Pause(Pause),
    /// All was asked, and so many are not answered.
    Done,
}

impl Compute {
    /// A backend that makes `budget` requests.
    pub(super) fn new(workload: &Workload, session: &SessionOptions, asker: Asker, budget: u64) -> Self {
        Self {
            asker,
            depth: u64::from(workload.depth),
            budget,
            issued: 0,
            received: 0,
            next_kind: None,
            outstanding: VecDeque::new(),
            idle_after: session.idle_after,
            stall_after: session.stall_after,
            pause: None,
            busy: false,
            ending: false,
        }
    }

    /// Whether it reads nothing at the moment.
    pub(super) fn is_stalled(&self) -> bool {
        self.pause == Some(Pause::Stalled)
    }

    /// The end of the session has begun.
    pub(super) const fn begin_end(&mut self) {
        self.ending = true;
    }

    /// Whether the end of the session has begun.
    pub(super) const fn is_ending(&self) -> bool {
        self.ending
    }

    /// Decides what is next.
    pub(super) fn decide(&mut self) -> Move {
        let in_flight = self.outstanding.len() as u64;
        if self.stall_after.is_some_and(|after| self.received >= after) {
            self.stall_after = None;
            return Move::Pause(Pause::Stalled);
        }
        if self.idle_after.is_some_and(|after| self.issued >= after) {
            if in_flight > 0 {
                return Move::Wait;
            }
            self.idle_after = None;
            return Move::Pause(Pause::Idle);
        }
        if self.issued == self.budget {
            return Move::Done;
        }
        let alone = self.next_kind() != Kind::GetPage
            || self.outstanding.back().is_some_and(|last| last.asked.request.target.kind() != Kind::GetPage);
        let room = self.depth.saturating_sub(in_flight);
        let wanted = FLUSH_REQUESTS.min(self.depth).min(self.budget - self.issued);
        if if alone { in_flight == 0 } else { room >= wanted } { Move::Flush } else { Move::Wait }
    }

    /// The kinds that leave in the next flush: up to 8 GetPage, or one of another kind.
    pub(super) fn next_group(&mut self) -> Vec<Kind> {
        let room = FLUSH_REQUESTS
            .min(self.depth.saturating_sub(self.outstanding.len() as u64))
            .min(self.budget - self.issued)
            .min(self.idle_after.map_or(u64::MAX, |after| after - self.issued));
        let mut group = Vec::new();
        while (group.len() as u64) < room {
            let kind = self.next_kind();
            if kind != Kind::GetPage && !group.is_empty() {
                break;
            }
            self.next_kind = None;
            self.issued += 1;
            group.push(kind);
            if kind != Kind::GetPage {
                break;
            }
        }
        group
    }

    fn next_kind(&mut self) -> Kind {
        *self.next_kind.get_or_insert_with(|| self.asker.next_kind())
    }

    /// Takes the answers that lie before an offset of the server's stream.
    pub(super) fn receive(&mut self, readable: u64, now: u64) -> Vec<Asked> {
        let mut rows = Vec::new();
        while let Some(front) = self.outstanding.front() {
            match front.answer {
                Some((end, outcome)) if end <= readable => {
                    rows.push(Asked { answered: Some((now, outcome)), ..front.asked });
                    self.outstanding.pop_front();
                    self.received += 1;
                }
                _ => break,
            }
        }
        rows
    }
}
