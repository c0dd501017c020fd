//! The last seconds: who asks for what, how fast, what of it is fetched again, and how it is answered.
//!
//! ```text
//! records, as they are completed → Live::observe → in order of arrival ─→ Refetch (class) ─→ rows by tenant, relation, ...
//! once a second                  → Live::tick    → Live::snapshot → JSON, a terminal
//! ```
//!
//! The contract:
//!
//! - Figures are of whole ticks, [`WINDOW_TICKS`] of them. A request waits for the tick after its own to be over before it
//!   counts, so that requests are compared in the order in which they arrived; one that takes longer counts where its answer
//!   comes, and is compared with nothing.
//! - The classes are those of [`crate::refetch`], by the same rules: what cannot be proven is not claimed.
//! - Memory is bounded by [`Limits`]: some 12 KiB a row, 80 bytes a page that is followed, 280 a record that waits. Requests
//!   that find no row count together as others; a key that becomes busy gets the row of one that is less so.

mod key;
mod latencies;
mod rows;
mod snapshot;
mod tally;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use record::{Kind, Lsn, Record, Timestamp};

pub use key::{By, KEY_RANGE_BLOCKS};
pub use latencies::LatencyFigures;
pub use snapshot::{CaptureFigures, Figures, Row, RowName, Snapshot, View};

use crate::diagnosis::{EXPECTED_RECORDS, REORDER_RECORDS};
use crate::in_order::{HandedOn, InOrder};
use crate::refetch::{self, Class, Refetch};
use key::RowKey;
use rows::{Rows, Seconds};
use tally::{Seen, Tally};

/// Ticks that figures are of: long enough for a rate to be read, short enough to see a change.
pub const WINDOW_TICKS: usize = 10;

/// Ticks whose rate is remembered: a line of a wide terminal.
pub const HISTORY_TICKS: usize = 240;

/// The part of the waiting records that is handed on where there are too many to wait for a tick.
const SHARE_HANDED_ON: usize = 4;

/// What bounds the memory.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Of the comparison with earlier fetches.
    pub refetch: refetch::Limits,
    /// Rows of each view.
    pub rows: usize,
    /// Records that wait for their order.
    pub waiting: usize,
}

impl Limits {
    /// Rows of a view, 12 KiB each: several screens of them, 12 MiB for the four views.
    pub const ROWS: usize = 256;

    /// For a node that has other work, some 40 MiB in all.
    pub const DEFAULT: Self = Self { refetch: refetch::Limits::CAPTURE, rows: Self::ROWS, waiting: REORDER_RECORDS };
}

/// Of which rows there is to be a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// The views.
    pub by: &'a [By],
    /// Rows of each; the others are added up.
    pub rows: usize,
}

/// Takes records as they are completed, and says how it was in the last seconds.
#[derive(Debug)]
pub struct Live {
    waiting: InOrder,
    share: usize,
    counted: Counted,
    /// When the ticks of the window ended, and what the capture had counted by then.
    ended: VecDeque<Ended>,
    history: VecDeque<f64>,
}

/// The end of a tick.
#[derive(Debug, Clone, Copy)]
struct Ended {
    at: Timestamp,
    length_ns: u64,
    capture: CaptureFigures,
}

/// What is counted of records in order.
#[derive(Debug)]
struct Counted {
    refetch: Refetch,
    /// The number of the second that is being counted.
    number: u64,
    total: Seconds,
    views: [Rows; By::ALL.len()],
}

impl Live {
    /// One that has seen nothing.
    pub fn new(limits: Limits) -> Self {
        Self {
            waiting: InOrder::new(limits.waiting),
            share: limits.waiting.div_ceil(SHARE_HANDED_ON),
            counted: Counted {
                refetch: Refetch::new(limits.refetch),
                number: 0,
                total: Seconds::new(),
                views: By::ALL.map(|_| Rows::new(limits.rows)),
            },
            ended: VecDeque::with_capacity(WINDOW_TICKS + 2),
            history: VecDeque::with_capacity(HISTORY_TICKS + 1),
        }
    }

    /// Takes the next completed record.
    pub fn observe(&mut self, record: &Record) {
        if self.waiting.is_late(record) {
            self.counted.observe_late(record);
            return;
        }
        if self.waiting.is_full() {
            let Self { waiting, counted, share, .. } = self;
            waiting.hand_on(*share, EXPECTED_RECORDS, |earliest| counted.take(&earliest));
        }
        self.waiting.push(record);
    }

    /// The capture lost something between these two moments. Only what counts afterwards heeds it.
    pub fn lost(&mut self, from: Timestamp, until: Timestamp) {
        self.counted.refetch.lost(from, until);
    }

    /// A tick of that length is over. `now` is its end in the clock of the packets, `capture` what was counted by then.
    pub fn tick(&mut self, now: Timestamp, length_ns: u64, capture: CaptureFigures) {
        let Self { waiting, counted, .. } = self;
        let previous = self.ended.back().map(|ended| ended.at);
        // A clock that was set back would let what came before wait until it is reached again.
        let until =
            previous.map_or(Timestamp(0), |previous| if previous > now { Timestamp(u64::MAX) } else { previous });
        waiting.hand_on_before(until, EXPECTED_RECORDS, |earliest| counted.take(&earliest));
        self.end_tick(Ended { at: now, length_ns, capture });
    }

    /// The last tick is over, and nothing comes any more: what waits counts in it.
    pub fn finish(&mut self, now: Timestamp, length_ns: u64, capture: CaptureFigures) {
        let Self { waiting, counted, .. } = self;
        waiting.hand_on(waiting.len(), EXPECTED_RECORDS, |earliest| counted.take(&earliest));
        self.end_tick(Ended { at: now, length_ns, capture });
    }

    fn end_tick(&mut self, ended: Ended) {
        let requests = self.counted.begin_next();
        let rate = if ended.length_ns == 0 { 0.0 } else { requests as f64 * 1e9 / ended.length_ns as f64 };
        self.history.push_back(rate);
        self.history.drain(..self.history.len().saturating_sub(HISTORY_TICKS));
        self.ended.push_back(ended);
        // One more than the window has: its beginning is the end of the one before.
        self.ended.drain(..self.ended.len().saturating_sub(WINDOW_TICKS + 1));
    }

    /// How it was in the window that ended with the last tick.
    pub fn snapshot(&self, wanted: Wanted<'_>) -> Snapshot {
        let window_ns = self.window_ns();
        let Some(last) = self.ended.back() else { return Snapshot { followed_one_in: 1, ..Snapshot::default() } };
        let before = match self.ended.front() {
            Some(first) if self.ended.len() > WINDOW_TICKS => first.capture,
            _ => CaptureFigures::default(),
        };
        let Counted { refetch, number, total, views } = &self.counted;
        let view = |by: &By| {
            let rows = views.get(*by as usize)?;
            Some(view(*by, rows, *number, (wanted.rows, window_ns)))
        };
        Snapshot {
            time_ns: last.at.0,
            window_ns,
            ticks: *number,
            capture: last.capture,
            capture_in_window: last.capture.since(&before),
            followed_one_in: refetch.followed_one_in(),
            total: total.window(*number).figures(window_ns),
            history: self.history.iter().copied().collect(),
            views: wanted.by.iter().filter_map(view).collect(),
            notes: Vec::new(),
        }
    }

    fn window_ns(&self) -> u64 {
        let lengths = self.ended.iter().rev().take(WINDOW_TICKS).map(|ended| ended.length_ns);
        lengths.fold(0, u64::saturating_add)
    }
}

impl Counted {
    fn take(&mut self, earliest: &HandedOn<'_>) {
        self.refetch.fetch(earliest.records());
        earliest.records().for_each(|record| self.observe(record));
    }

    fn observe(&mut self, record: &Record) {
        let before = self.refetch.uncounted();
        let class = self.refetch.observe(record).class;
        // Nothing is said of a page that is not followed, not even that nothing is proven.
        let is_followed = self.refetch.uncounted().beyond_bounds() == before.beyond_bounds();
        self.count(record, class.filter(|_| is_followed));
    }

    /// Its place in the order is past.
    fn observe_late(&mut self, record: &Record) {
        let class = (record.target.kind() == Kind::GetPage).then_some(Class::Unproven);
        self.count(record, class);
    }

    fn count(&mut self, record: &Record, class: Option<Class>) {
        let seen = Seen { record, class, by_primary: record.request_lsn == Lsn::MAX };
        self.total.at(self.number).into_iter().for_each(|tally| tally.observe(&seen));
        for (by, rows) in By::ALL.into_iter().zip(&mut self.views) {
            rows.observe(RowKey::of(by, record), self.number, &seen);
        }
    }

    /// Ends the second, and begins the next; says how many requests it had.
    fn begin_next(&mut self) -> u64 {
        let requests = self.total.at(self.number).map_or(0, |tally| tally.requests);
        self.number = self.number.saturating_add(1);
        self.total.at(self.number).into_iter().for_each(Tally::clear);
        self.views.iter_mut().for_each(|rows| rows.begin(self.number));
        requests
    }
}

/// The busiest rows, and the others together.
fn view(by: By, rows: &Rows, counting: u64, (most, window_ns): (usize, u64)) -> View {
    let mut shown = rows.window(counting);
    // Those of equal weight have an order too: rows do not change places for nothing.
    shown.sort_unstable_by(|(one_key, one), (other_key, other)| {
        other.requests.cmp(&one.requests).then_with(|| one_key.cmp(other_key))
    });
    let mut others = rows.others(counting);
    let more = shown.split_off(most.min(shown.len()));
    more.iter().for_each(|(_, tally)| others.merge(tally));
    let row = |(key, tally): &(RowKey, Tally)| Row { name: key.name(), figures: tally.figures(window_ns) };
    View { by, rows: shown.iter().map(row).collect(), more_rows: more.len() as u64, others: others.figures(window_ns) }
}
