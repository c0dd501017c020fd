//! What is counted of the requests of one row in one second.

use record::{Kind, Record, Status};

use super::latencies::Latencies;
use super::snapshot::Figures;
use crate::diagnosis::RefetchCounts;
use crate::refetch::{Class, ClassCounts};

/// Bytes of a page.
const PAGE_BYTES: u64 = 8192;

/// A record, and what the comparison with earlier ones says of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) record: &'a Record,
    /// The class of a GetPage; `None` for other kinds, and for pages that are not followed.
    pub(super) class: Option<Class>,
    pub(super) by_primary: bool,
}

/// Counts requests.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) requests: u64,
    getpage: u64,
    pages: u64,
    errors: u64,
    unanswered: u64,
    suspect: u64,
    classes: ClassCounts,
    depth_known: u64,
    depth_sum: u64,
    depth_max: u32,
    latencies: Latencies,
}

impl Tally {
    pub(super) fn observe(&mut self, seen: &Seen<'_>) {
        let Seen { record, class, by_primary } = *seen;
        let is_getpage = record.target.kind() == Kind::GetPage;
        self.requests += 1;
        self.getpage += u64::from(is_getpage);
        self.pages += u64::from(is_getpage && record.status == Status::Ok);
        self.errors += u64::from(record.status == Status::Error);
        self.unanswered += u64::from(record.status == Status::Unanswered);
        self.suspect += u64::from(record.status == Status::Unknown);
        if let Some(class) = class {
            self.classes.add(class, by_primary);
        }
        if let Some(depth) = record.depth {
            self.depth_known += 1;
            self.depth_sum = self.depth_sum.saturating_add(depth.into());
            self.depth_max = self.depth_max.max(depth);
        }
        if let Some(latency_ns) = record.latency_ns {
            self.latencies.observe(latency_ns);
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.requests, other.requests),
            (&mut self.getpage, other.getpage),
            (&mut self.pages, other.pages),
            (&mut self.errors, other.errors),
            (&mut self.unanswered, other.unanswered),
            (&mut self.suspect, other.suspect),
            (&mut self.depth_known, other.depth_known),
            (&mut self.depth_sum, other.depth_sum),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.classes.merge(&other.classes);
        self.depth_max = self.depth_max.max(other.depth_max);
        self.latencies.merge(&other.latencies);
    }

    /// Forgets everything, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.latencies.clear();
        *self = Self { latencies: std::mem::take(&mut self.latencies), ..Self::default() };
    }

    /// The same as figures of so much time.
    pub(super) fn figures(&self, window_ns: u64) -> Figures {
        let per_s = |count: u64| if window_ns == 0 { 0.0 } else { count as f64 * 1e9 / window_ns as f64 };
        let known = self.depth_known > 0;
        Figures {
            requests: self.requests,
            requests_per_s: per_s(self.requests),
            getpage: self.getpage,
            page_bytes_per_s: per_s(self.pages.saturating_mul(PAGE_BYTES)),
            errors: self.errors,
            unanswered: self.unanswered,
            suspect: self.suspect,
            not_followed: self.getpage.saturating_sub(self.classes.sum()),
            classes: RefetchCounts::of(&self.classes),
            latency_ns: self.latencies.figures(),
            depth_mean: known.then(|| self.depth_sum as f64 / self.depth_known as f64),
            depth_max: known.then_some(self.depth_max),
        }
    }
}
