//! Where the records of one capturing thread go: to the flight recorder, and to the traces that were asked for.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use decode::OpenConnection;
use record::{Record, TenantTimeline, Timestamp};
use trace::{Counter, Ledger};

use super::sampling::Sampling;
use super::subscription::Subscriber;
use crate::filter::{Filter, Verdict};
use crate::recorder::Feed;

/// So many tenants' timelines are counted, twice what a pageserver holds of connections. Somebody may invent tenants.
const MOST_COUNTED: usize = 8192;

/// A trace whose time is over waits so long for packets that were captured before; the kernel's buffer holds no older ones.
const LONGEST_AFTERMATH: Duration = Duration::from_secs(5);

/// On a silent wire nothing older than this can still be in the kernel's buffer.
const SILENT_AFTERMATH: Duration = Duration::from_millis(200);

/// Where a way out leads to.
pub(super) enum Way {
    /// Trace files.
    Files(Feed),
    /// Somebody who reads them as they come.
    Subscriber(Subscriber),
}

impl Way {
    fn record(&mut self, record: &Record, now: Timestamp) {
        match self {
            Self::Files(feed) => feed.record(record, now),
            Self::Subscriber(subscriber) => subscriber.record(record, now),
        }
    }

    fn lose(&mut self, owner: Option<TenantTimeline>, reason: Counter) {
        match self {
            Self::Files(feed) => feed.lose(owner, reason),
            // What its filters leave out is nothing to it.
            Self::Subscriber(subscriber) if reason == Counter::SampledOut => subscriber.sampled_out(),
            Self::Subscriber(_) => {}
        }
    }

    fn idle(&mut self, now: Timestamp) {
        match self {
            Self::Files(feed) => feed.idle(now),
            Self::Subscriber(subscriber) => subscriber.idle(now),
        }
    }

    /// Hands over what waits. False where there is no room for it.
    fn hand_over(&mut self) -> bool {
        match self {
            Self::Files(feed) => feed.hand_over(),
            // Its records are its own; they say nothing of a rate.
            Self::Subscriber(_) => true,
        }
    }

    /// The way into files, where it leads there; a subscriber is given the rest, which needs no waiting.
    pub(super) fn into_feed(self) -> Option<Feed> {
        match self {
            Self::Files(feed) => Some(feed),
            Self::Subscriber(subscriber) => {
                subscriber.finish();
                None
            }
        }
    }
}

/// One way for records out of the thread.
pub(super) struct Outlet {
    filter: Filter,
    pub(super) way: Way,
    /// One key in how many is wanted; fewer are kept while load is shed.
    wanted_one_in: u64,
    /// What the capture had lost before.
    lost_before: Ledger,
}

impl Outlet {
    /// A way for what the filter keeps.
    pub(super) fn new(filter: Filter, way: Way) -> Self {
        let wanted_one_in = filter.sample_one_in();
        Self { filter, way, wanted_one_in, lost_before: Ledger::default() }
    }

    /// Tells it what the capture has lost since its beginning.
    pub(super) fn capture_losses(&mut self, lost: &Ledger) {
        if let Way::Files(feed) = &mut self.way {
            feed.capture_losses(&lost.since(&self.lost_before));
        }
    }

    /// Keeps so many times fewer keys than are wanted. False where what was kept before is not handed over yet.
    pub(super) fn shed(&mut self, factor: u64) -> bool {
        self.filter.set_sample(self.wanted_one_in.saturating_mul(factor));
        self.way.hand_over()
    }

    fn take(&mut self, record: &Record, now: Timestamp) {
        let reason = match self.filter.verdict(record) {
            Verdict::Keep => return self.way.record(record, now),
            Verdict::Filtered => Counter::Filtered,
            Verdict::SampledOut => Counter::SampledOut,
            Verdict::Unattributed => Counter::Unattributed,
        };
        self.way.lose(record.owner, reason);
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

    /// Whether everything is wanted, as the flight recorder does.
    pub(super) fn wants_everything(&self) -> bool {
        self.ring.is_some()
    }

    /// Whether nobody wants records at present.
    pub(super) fn wants_nothing(&self) -> bool {
        self.ring.is_none() && self.traces.is_empty()
    }

    /// Whether connections that come may be wanted by nobody, while others are wanted.
    pub(super) fn wants_some(&self) -> bool {
        !self.wants_everything() && !self.wants_nothing()
    }

    /// Whether somebody may want records of a connection. Of one whose tenant is not known it is counted what there was.
    pub(super) fn may_want(&self, open: &OpenConnection) -> bool {
        let mut filters = self.traces.iter().map(|trace| &trace.outlet.filter);
        self.ring.is_some() || filters.any(|filter| open.owner.is_none_or(|owner| filter.may_want(owner, open.client)))
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
        self.outlets().for_each(|outlet| outlet.way.idle(now));
    }

    /// Keeps other keys from now on. False where what was kept before is not handed over yet.
    pub(super) fn sample(&mut self, sampling: Sampling) -> bool {
        if let Some(ring) = &mut self.ring {
            ring.wanted_one_in = sampling.ring_one_in;
        }
        // Every one of them is told, whatever the one before says.
        self.outlets().filter_map(|outlet| (!outlet.shed(sampling.factor)).then_some(())).count() == 0
    }

    /// Hands over what the flight recorder has not been given yet.
    pub(super) fn hand_over(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.way.hand_over();
        }
    }

    /// How many requests the flight recorder had no room for.
    pub(super) fn queue_dropped(&self) -> u64 {
        match &self.ring {
            Some(Outlet { way: Way::Files(feed), .. }) => feed.queue_dropped(),
            _ => 0,
        }
    }

    /// How many requests each tenant's timeline has had.
    pub(super) fn tenants(&self) -> Vec<(TenantTimeline, u64)> {
        self.counted.iter().map(|(&owner, &requests)| (owner, requests)).collect()
    }

    /// Ends everything: the flight recorder's way in, and the traces.
    pub(super) fn finish(self) -> (Option<Feed>, Vec<ActiveTrace>) {
        (self.ring.and_then(|ring| ring.way.into_feed()), self.traces)
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
