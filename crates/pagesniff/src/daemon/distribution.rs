//! Where the records of one capturing thread go: to the flight recorder, and to the traces that were asked for.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use record::{Record, TenantTimeline, Timestamp};
use trace::{Counter, Ledger};

use crate::filter::{Filter, Verdict};
use crate::recorder::Feed;

/// So many tenants' timelines are counted, twice what a pageserver holds of connections. Somebody may invent tenants.
const MOST_COUNTED: usize = 8192;

/// A trace whose time is over waits so long for packets that were captured before; the kernel's buffer holds no older ones.
const LONGEST_AFTERMATH: Duration = Duration::from_secs(5);

/// On a silent wire nothing older than this can still be in the kernel's buffer.
const SILENT_AFTERMATH: Duration = Duration::from_millis(200);

/// One way for records out of the thread.
pub(super) struct Outlet {
    filter: Filter,
    pub(super) feed: Feed,
    /// What the capture had lost before.
    lost_before: Ledger,
}

impl Outlet {
    /// A way for what the filter keeps.
    pub(super) fn new(filter: Filter, feed: Feed) -> Self {
        Self { filter, feed, lost_before: Ledger::default() }
    }

    /// Tells it what the capture has lost since its beginning.
    pub(super) fn capture_losses(&mut self, lost: &Ledger) {
        self.feed.capture_losses(&lost.since(&self.lost_before));
    }

    fn take(&mut self, record: &Record, now: Timestamp) {
        let reason = match self.filter.verdict(record) {
            Verdict::Keep => return self.feed.record(record, now),
            Verdict::Filtered => Counter::Filtered,
            Verdict::SampledOut => Counter::SampledOut,
            Verdict::Unattributed => Counter::Unattributed,
        };
        self.feed.lose(record.owner, reason);
    }
}

/// A trace that was asked for, at one capturing thread.
pub(super) struct ActiveTrace {
    pub(super) id: String,
    pub(super) outlet: Outlet,
    /// It ends with the packets of this moment.
    pub(super) until: Timestamp,
    /// The same by a clock that nobody sets.
    pub(super) until_instant: Instant,
    /// Set where it is not wanted any more, also before it has begun.
    pub(super) is_cancelled: Arc<AtomicBool>,
}

impl ActiveTrace {
    fn is_over(&self, now: Timestamp, is_idle: bool) -> bool {
        let aftermath = Instant::now().saturating_duration_since(self.until_instant);
        now >= self.until
            || (is_idle && aftermath >= SILENT_AFTERMATH)
            || aftermath >= LONGEST_AFTERMATH
            || self.is_cancelled.load(Ordering::Relaxed)
    }
}

/// Takes what the decoder makes. Allocates nothing per record.
pub(super) struct Distribution {
    ring: Option<Outlet>,
    traces: Vec<ActiveTrace>,
    now: Timestamp,
    pub(super) requests: u64,
    pub(super) unattributed: u64,
    counted: HashMap<TenantTimeline, u64, foldhash::fast::RandomState>,
}

impl Distribution {
    /// Into the flight recorder, where there is one.
    pub(super) fn new(ring: Option<Outlet>) -> Self {
        Self { ring, traces: Vec::new(), now: Timestamp(0), requests: 0, unattributed: 0, counted: HashMap::default() }
    }

    /// What is decoded next was completed at `now`.
    #[inline]
    pub(super) fn at(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// The time of the latest packet.
    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// Begins a trace. What the capture has lost before is not its loss.
    pub(super) fn begin(&mut self, mut trace: ActiveTrace, lost: Ledger) {
        trace.outlet.lost_before = lost;
        self.traces.push(trace);
    }

    /// Ends the trace of that name, if it runs.
    pub(super) fn end(&mut self, id: &str) -> Option<ActiveTrace> {
        let index = self.traces.iter().position(|trace| trace.id == id)?;
        Some(self.traces.swap_remove(index))
    }

    /// The traces whose time is over; they have ended.
    pub(super) fn over(&mut self, is_idle: bool) -> Vec<ActiveTrace> {
        let now = self.now;
        self.traces.extract_if(.., |trace| trace.is_over(now, is_idle)).collect()
    }

    /// Tells every way out what the capture has lost since its beginning.
    pub(super) fn capture_losses(&mut self, lost: &Ledger) {
        self.outlets().for_each(|outlet| outlet.capture_losses(lost));
    }

    /// No packet is at hand: what has waited long enough is handed over.
    pub(super) fn idle(&mut self) {
        let now = self.now;
        self.outlets().for_each(|outlet| outlet.feed.idle(now));
    }

    /// Hands over what the flight recorder has not been given yet.
    pub(super) fn hand_over(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.feed.hand_over();
        }
    }

    /// How many requests the flight recorder had no room for.
    pub(super) fn queue_dropped(&self) -> u64 {
        self.ring.as_ref().map_or(0, |ring| ring.feed.queue_dropped())
    }

    /// How many requests each tenant's timeline has had.
    pub(super) fn tenants(&self) -> Vec<(TenantTimeline, u64)> {
        self.counted.iter().map(|(&owner, &requests)| (owner, requests)).collect()
    }

    /// Ends everything: the flight recorder's way in, and the traces.
    pub(super) fn finish(self) -> (Option<Feed>, Vec<ActiveTrace>) {
        (self.ring.map(|ring| ring.feed), self.traces)
    }

    fn outlets(&mut self) -> impl Iterator<Item = &mut Outlet> {
        self.ring.iter_mut().chain(self.traces.iter_mut().map(|trace| &mut trace.outlet))
    }

    fn count(&mut self, owner: Option<TenantTimeline>) {
        self.requests = self.requests.saturating_add(1);
        let Some(owner) = owner else {
            self.unattributed = self.unattributed.saturating_add(1);
            return;
        };
        if let Some(count) = self.counted.get_mut(&owner) {
            *count = count.saturating_add(1);
        } else if self.counted.len() < MOST_COUNTED {
            self.counted.insert(owner, 1);
        }
    }
}

impl decode::Sink for Distribution {
    fn record(&mut self, record: &Record) {
        self.count(record.owner);
        let now = self.now;
        self.outlets().for_each(|outlet| outlet.take(record, now));
    }
}
