//! What is counted for each relation, compute and backend.

use record::{Record, Status};

use super::access::{AccessCounts, Follows};
use super::distribution::Distribution;
use super::report::{AskedCounts, RefetchCounts};
use crate::refetch::{Class, ClassCounts};

/// What every row counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) requests: u64,
    pub(super) errors: u64,
    pub(super) unanswered: u64,
    pub(super) classes: ClassCounts,
}

impl Tally {
    pub(super) fn observe(&mut self, record: &Record, class: Option<Class>, is_primary: bool) {
        self.requests += 1;
        self.errors += u64::from(record.status == Status::Error);
        self.unanswered += u64::from(record.status == Status::Unanswered);
        if let Some(class) = class {
            self.classes.add(class, is_primary);
        }
    }

    pub(super) fn getpage(&self) -> u64 {
        self.classes.sum()
    }

    /// The same in the report's words.
    pub(super) fn asked(&self) -> AskedCounts {
        AskedCounts {
            requests: self.requests,
            getpage: self.getpage(),
            errors: self.errors,
            unanswered: self.unanswered,
            refetch: RefetchCounts::of(&self.classes),
        }
    }
}

/// A relation's fork.
#[derive(Debug, Clone, Default)]
pub(super) struct RelationTally {
    pub(super) tally: Tally,
    pub(super) latency: Distribution,
    pub(super) access: AccessCounts,
    pub(super) duplicates: u64,
}

impl RelationTally {
    pub(super) fn observe(&mut self, record: &Record, class: Option<Class>, is_primary: bool) {
        self.tally.observe(record, class, is_primary);
        record.latency_ns.into_iter().for_each(|latency_ns| self.latency.observe(latency_ns));
    }

    pub(super) fn observe_access(&mut self, follows: Follows, is_duplicate: bool) {
        self.access.add(follows);
        self.duplicates += u64::from(is_duplicate);
    }
}

/// A compute.
#[derive(Debug, Clone, Default)]
pub(super) struct ClientTally {
    pub(super) tally: Tally,
    pub(super) latency: Distribution,
}

impl ClientTally {
    pub(super) fn observe(&mut self, record: &Record, class: Option<Class>, is_primary: bool) {
        self.tally.observe(record, class, is_primary);
        record.latency_ns.into_iter().for_each(|latency_ns| self.latency.observe(latency_ns));
    }
}

/// A backend.
#[derive(Debug, Clone, Default)]
pub(super) struct BackendTally {
    pub(super) tally: Tally,
    pub(super) max_latency_ns: Option<u64>,
}

impl BackendTally {
    pub(super) fn observe(&mut self, record: &Record, class: Option<Class>, is_primary: bool) {
        self.tally.observe(record, class, is_primary);
        self.max_latency_ns = self.max_latency_ns.max(record.latency_ns);
    }
}

/// A bounded list of rows by place; what is beyond the bound shares one.
#[derive(Debug, Default)]
pub(super) struct Rows<T> {
    limit: usize,
    rows: Vec<T>,
    pub(super) others: T,
}

impl<T: Default> Rows<T> {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, rows: Vec::new(), others: T::default() }
    }

    /// The row of a place, or the shared one.
    #[inline]
    pub(super) fn at(&mut self, place: Option<usize>) -> &mut T {
        let Some(place) = place.filter(|&place| place < self.limit) else { return &mut self.others };
        if place >= self.rows.len() {
            self.rows.resize_with(place + 1, T::default);
        }
        match self.rows.get_mut(place) {
            Some(row) => row,
            None => &mut self.others,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.rows.iter().enumerate()
    }
}
