//! The summary of a run: what came by, for whom, how often the same pages, how slow, and how much of it to trust.
//!
//! | word | meaning |
//! |---|---|
//! | unique keys | different GetPage keys that were asked for |
//! | repeated keys | those of them asked for more than once |
//! | page bytes | 8,192 for each GetPage that was answered with a page |
//! | followed | a key whose requests are counted; all are until [`Limits::keys`] is reached |

mod counts;
mod keys;
mod latency;
mod report;
mod tenant;

use std::collections::{HashMap, HashSet};

use record::{Pairing, Record, TenantTimeline};

pub use counts::{AttributionCounts, Counts, Word};
pub use latency::LatencyQuantiles;
pub use report::{CaptureFacts, Connections, Ledger, Loss, Report, TenantReport, Traces};
use tenant::TenantTally;

/// What bounds a summary's memory.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How many tenant and timeline pairs get a row of their own; later ones share one row.
    pub tenants: usize,
    /// How many keys are followed, of all tenants together. Beyond it the tenant with the most is halved, and its
    /// unique and repeated keys become estimates.
    pub keys: usize,
}

impl Limits {
    /// 16 KiB of latencies each make 16 MiB; some ten times as many tenants as are active on a pageserver at a time.
    pub const DEFAULT_TENANTS: usize = 1024;

    /// What a hash table of 2^21 places (18 MiB) holds before it grows: 14 GiB of different pages.
    pub const DEFAULT_KEYS: usize = 7 << 18;
}

impl Default for Limits {
    fn default() -> Self {
        Self { tenants: Self::DEFAULT_TENANTS, keys: Self::DEFAULT_KEYS }
    }
}

/// Observes records and ends in a [`Report`].
#[derive(Debug)]
pub struct Summary {
    limits: Limits,
    by_pairing: Counts<Pairing>,
    by_attribution: AttributionCounts,
    rows: Vec<Row>,
    row_of: HashMap<Option<TenantTimeline>, usize>,
    /// Records come in runs of the same tenant; the last one's row saves the look-up.
    last_row: Option<usize>,
    others: TenantTally,
    total: TenantTally,
    followed_keys: usize,
}

/// The tally of one tenant and timeline.
#[derive(Debug)]
struct Row {
    owner: Option<TenantTimeline>,
    tally: TenantTally,
}

impl Summary {
    /// A summary that has seen nothing.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            by_pairing: Counts::default(),
            by_attribution: AttributionCounts::default(),
            rows: Vec::new(),
            row_of: HashMap::new(),
            last_row: None,
            others: TenantTally::new(),
            total: TenantTally::new(),
            followed_keys: 0,
        }
    }

    /// Takes one record.
    pub fn observe(&mut self, record: &Record) {
        self.by_pairing.add(record.pairing);
        self.by_attribution.add(record.attribution);
        self.total.observe(record);
        let row = self.row(record.owner);
        let tally = match row.and_then(|row| self.rows.get_mut(row)) {
            Some(row) => &mut row.tally,
            None => &mut self.others,
        };
        tally.observe(record);
        if tally.observe_key(record) {
            self.followed_keys += 1;
            if self.followed_keys > self.limits.keys {
                self.halve_largest();
            }
        }
    }

    /// How many records were taken.
    pub fn records(&self) -> u64 {
        self.total.requests()
    }

    /// How many records have a latency.
    pub fn timed(&self) -> u64 {
        self.total.timed()
    }

    /// How the answers were found.
    pub fn by_pairing(&self) -> &Counts<Pairing> {
        &self.by_pairing
    }

    /// How the tenants were known.
    pub fn by_attribution(&self) -> &AttributionCounts {
        &self.by_attribution
    }

    /// How many tenants have a row of their own.
    pub fn tenants(&self) -> usize {
        let tenants = self.rows.iter().filter_map(|row| row.owner.map(|owner| owner.tenant));
        tenants.collect::<HashSet<_>>().len()
    }

    /// The row of that owner, made where there is room for one more.
    fn row(&mut self, owner: Option<TenantTimeline>) -> Option<usize> {
        if let Some(last) = self.last_row.filter(|&last| self.rows.get(last).is_some_and(|row| row.owner == owner)) {
            return Some(last);
        }
        let row = match self.row_of.get(&owner) {
            Some(&row) => row,
            None if self.rows.len() < self.limits.tenants => {
                self.rows.push(Row { owner, tally: TenantTally::new() });
                self.row_of.insert(owner, self.rows.len() - 1);
                self.rows.len() - 1
            }
            None => return None,
        };
        self.last_row = Some(row);
        Some(row)
    }

    /// Makes room: the tenant with the most keys follows half of them from now on.
    fn halve_largest(&mut self) {
        let tallies = self.rows.iter_mut().map(|row| &mut row.tally).chain([&mut self.others]);
        if let Some(largest) = tallies.max_by_key(|tally| tally.followed_keys()) {
            let before = largest.followed_keys();
            largest.halve_keys();
            self.followed_keys -= before - largest.followed_keys();
        }
    }

    /// What there is to say, together with what the capture itself has to say.
    pub fn report(&self, capture: CaptureFacts) -> Report {
        let mut tenants: Vec<TenantReport> = self.rows.iter().map(|row| row.tally.report(row.owner)).collect();
        tenants.sort_by(|a, b| b.requests.cmp(&a.requests).then_with(|| a.name().cmp(&b.name())));
        let others = (self.others.requests() > 0).then(|| self.others.report(None));
        let mut total = self.total.report(None);
        // Keys of different tenants are different pages, so the sums are exact where the parts are.
        let parts = || tenants.iter().chain(&others);
        total.unique_keys = parts().map(|part| part.unique_keys).sum();
        total.repeated_keys = parts().map(|part| part.repeated_keys).sum();
        total.followed_one_in = parts().map(|part| part.followed_one_in).max().unwrap_or(1);
        let (mut tenants, mut others) = (tenants, others);
        if capture.clocks_disagree {
            let rows = tenants.iter_mut().chain(&mut others).chain([&mut total]);
            rows.for_each(|row| row.latency_ns = LatencyQuantiles::default());
        }
        Report::new(
            capture,
            report::Observed {
                by_pairing: self.by_pairing.clone(),
                by_attribution: self.by_attribution.clone(),
                tenants,
                others,
                total,
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use record::{Kind, Status, TenantId};

    use super::*;
    use crate::render::samples;

    fn summary_of(records: &[Record], limits: Limits) -> Report {
        let mut summary = Summary::new(limits);
        records.iter().for_each(|record| summary.observe(record));
        summary.report(CaptureFacts::default())
    }

    fn for_block(tenant: u8, blkno: u32) -> Record {
        let mut record = samples::getpage();
        if let Some(owner) = &mut record.owner {
            owner.tenant = TenantId([tenant; 16]);
        }
        if let record::Target::GetPage { blkno: block, .. } = &mut record.target {
            *block = blkno;
        }
        record
    }

    #[test]
    fn the_same_block_of_two_tenants_is_two_keys() {
        let records = [for_block(1, 7), for_block(2, 7), for_block(2, 7), for_block(2, 8)];
        let report = summary_of(&records, Limits::default());
        let of = |row: &TenantReport| (row.requests, row.unique_keys, row.repeated_keys);
        assert_eq!(report.tenants.iter().map(of).collect::<Vec<_>>(), [(3, 2, 1), (1, 1, 0)]);
        assert_eq!(of(&report.total), (4, 3, 1));
        assert_eq!(report.total.repeated_share(), Some(1.0 / 3.0));
        assert_eq!(report.tenants[0].page_bytes, 3 * 8192);
    }

    #[test]
    fn tenants_beyond_the_bound_share_a_row_and_stay_in_the_total() {
        let records: Vec<Record> = (0..10).map(|tenant| for_block(tenant, 1)).collect();
        let report = summary_of(&records, Limits { tenants: 4, ..Limits::default() });
        assert_eq!(report.tenants.len(), 4);
        assert_eq!(report.others.as_ref().map(|others| others.requests), Some(6));
        assert_eq!((report.total.requests, report.by_kind.of(Kind::GetPage)), (10, 10));
    }

    #[test]
    fn keys_beyond_the_bound_thin_out_the_largest_tenant_only() {
        let small = (0..50).map(|blkno| for_block(1, blkno));
        let large = (0..5000).map(|blkno| for_block(2, blkno));
        let records: Vec<Record> = small.chain(large).collect();
        let mut summary = Summary::new(Limits { keys: 1000, ..Limits::default() });
        for record in &records {
            summary.observe(record);
            assert!(summary.followed_keys <= 1000);
        }
        let report = summary.report(CaptureFacts::default());
        let [large, small] = &report.tenants[..] else { panic!("{:?}", report.tenants) };
        assert_eq!((small.unique_keys, small.followed_one_in), (50, 1));
        assert!(large.followed_one_in > 1);
        assert!((4000..6000).contains(&large.unique_keys), "{}", large.unique_keys);
        let followed = summary.rows.iter().map(|row| row.tally.followed_keys()).sum::<usize>();
        assert_eq!(summary.followed_keys, followed);
    }

    #[test]
    fn clocks_that_disagree_leave_no_latency() {
        let mut summary = Summary::new(Limits { tenants: 1, ..Limits::default() });
        (1..4).for_each(|tenant| summary.observe(&for_block(tenant, 1)));
        assert_eq!(summary.timed(), 3);
        let report = summary.report(CaptureFacts { clocks_disagree: true, ..CaptureFacts::default() });
        for row in report.tenants.iter().chain(&report.others).chain([&report.total]) {
            assert_eq!(row.latency_ns, LatencyQuantiles::default());
        }
        assert_eq!(summary.report(CaptureFacts::default()).total.latency_ns.measured, 3);
    }

    #[test]
    fn a_page_that_did_not_come_is_no_page_bytes() {
        let mut failed = for_block(1, 1);
        failed.status = Status::Error;
        let report = summary_of(&[failed, samples::unanswered()], Limits::default());
        assert_eq!(report.total.page_bytes, 0);
        assert_eq!(report.by_status.of(Status::Error), 1);
        assert_eq!(report.by_attribution.none, 1);
    }
}
