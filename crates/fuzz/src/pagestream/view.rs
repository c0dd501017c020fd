//! When bytes came, by what passed the tap, or by what a capture of it can tell.

use std::ops::Range;

use record::Timestamp;

use super::tap::{Passed, START};

/// What passed.
#[derive(Debug)]
pub struct View<'a> {
    /// All of it.
    pub(super) passed: &'a [Passed],
    /// Where the client's segments lie that are taken to have come in order.
    pub(super) in_order: Vec<Range<usize>>,
    /// Places of the packets that are taken not to have passed.
    pub(super) unseen: Vec<usize>,
}

impl View<'_> {
    /// Whether it is all that passed, as it passed.
    pub fn is_whole(&self) -> bool {
        self.in_order.is_empty() && self.unseen.is_empty()
    }

    fn holding(&self, is_from_client: bool, offset: usize) -> impl Iterator<Item = &Passed> {
        let seen = self.passed.iter().enumerate().filter(|(at, _)| !self.unseen.contains(at)).map(|(_, passed)| passed);
        seen.filter(move |passed| passed.is_from_client == is_from_client && passed.range().contains(&offset))
    }

    /// When the byte at `offset` first passed.
    pub fn passed_at(&self, is_from_client: bool, offset: usize) -> Option<Timestamp> {
        self.holding(is_from_client, offset).map(|passed| passed.time).min()
    }

    /// When everything up to `end` had passed; `None` where some of it never did.
    pub fn deliverable_at(&self, is_from_client: bool, end: usize) -> Option<Timestamp> {
        let mut latest = START;
        let mut offset = 0;
        while offset < end {
            let passed_at = self.passed_at(is_from_client, offset)?;
            if !(is_from_client && self.in_order.iter().any(|piece| piece.contains(&offset))) {
                latest = latest.max(passed_at);
            }
            offset = self.holding(is_from_client, offset).map(|passed| passed.range().end).min()?;
        }
        Some(latest)
    }
}
