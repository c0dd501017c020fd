//! The rows of one view: the busiest, in bounded memory.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::WINDOW_TICKS;
use super::key::RowKey;
use super::tally::{Seen, Tally};

/// The second that is being counted, beside those that are shown.
const PLACES: usize = WINDOW_TICKS + 1;

/// Keys without a row that are watched, so that one that becomes busy gets a row.
const MOST_CANDIDATES: usize = 64;

/// Seconds of one row, in a ring.
#[derive(Debug, Clone)]
pub(super) struct Seconds {
    /// In the order of their numbers, modulo their count.
    places: [Tally; PLACES],
}

impl Seconds {
    pub(super) fn new() -> Self {
        Self { places: std::array::from_fn(|_| Tally::default()) }
    }

    /// The one that is being counted.
    pub(super) fn at(&mut self, number: u64) -> Option<&mut Tally> {
        self.places.get_mut(place_of(number))
    }

    /// All but the one that is being counted, together.
    pub(super) fn window(&self, counting: u64) -> Tally {
        let mut sum = Tally::default();
        let shown = self.places.iter().enumerate().filter(|(place, _)| *place != place_of(counting));
        shown.for_each(|(_, tally)| sum.merge(tally));
        sum
    }

    fn requests(&self) -> u64 {
        self.places.iter().map(|tally| tally.requests).sum()
    }

    fn merge(&mut self, other: &Self) {
        self.places.iter_mut().zip(&other.places).for_each(|(tally, more)| tally.merge(more));
    }
}

fn place_of(number: u64) -> usize {
    usize::try_from(number % PLACES as u64).unwrap_or(0)
}

/// Rows, as many as there is room for. Whatever is beyond shares one.
#[derive(Debug)]
pub(super) struct Rows {
    limit: usize,
    rows: HashMap<RowKey, Seconds, RandomState>,
    others: Seconds,
    /// Requests in this second of keys without a row, and how many more there may have been (Misra and Gries).
    candidates: HashMap<RowKey, u64, RandomState>,
}

impl Rows {
    pub(super) fn new(limit: usize) -> Self {
        let rows = HashMap::with_hasher(RandomState::default());
        Self { limit: limit.max(1), rows, others: Seconds::new(), candidates: HashMap::default() }
    }

    /// Counts a request of that key in the second of that number.
    pub(super) fn observe(&mut self, key: RowKey, number: u64, seen: &Seen<'_>) {
        let has_room = self.rows.len() < self.limit;
        let row = match self.rows.get_mut(&key) {
            Some(row) => row,
            None if has_room => self.rows.entry(key).or_insert_with(Seconds::new),
            None => {
                self.watch(key);
                &mut self.others
            }
        };
        row.at(number).into_iter().for_each(|tally| tally.observe(seen));
    }

    /// Counts keys so that whichever has more than one in [`MOST_CANDIDATES`] of the requests is among those counted.
    fn watch(&mut self, key: RowKey) {
        if let Some(count) = self.candidates.get_mut(&key) {
            *count += 1;
        } else if self.candidates.len() < MOST_CANDIDATES {
            self.candidates.insert(key, 1);
        } else {
            self.candidates.retain(|_, count| {
                *count -= 1;
                *count > 0
            });
        }
    }

    /// A second is over, and the one of this number begins: rows without requests go, and so do the least busy ones for
    /// those that had more in a second than they in all.
    pub(super) fn begin(&mut self, number: u64) {
        self.others.at(number).into_iter().for_each(Tally::clear);
        self.rows.retain(|_, seconds| {
            seconds.at(number).into_iter().for_each(Tally::clear);
            seconds.requests() > 0
        });
        if self.candidates.is_empty() {
            return;
        }
        let mut busiest: Vec<(u64, RowKey)> = self.candidates.drain().map(|(key, count)| (count, key)).collect();
        busiest.sort_unstable_by(|one, other| other.cmp(one));
        let mut least: Vec<(u64, RowKey)> = self.rows.iter().map(|(key, seconds)| (seconds.requests(), *key)).collect();
        least.sort_unstable();
        let mut least = least.into_iter();
        for (count, key) in busiest {
            if self.rows.len() >= self.limit {
                let Some((_, leaves)) = least.next().filter(|(requests, _)| *requests < count) else { break };
                if let Some(seconds) = self.rows.remove(&leaves) {
                    self.others.merge(&seconds);
                }
            }
            self.rows.insert(key, Seconds::new());
        }
    }

    /// The rows that have requests in the seconds but `counting`, with these.
    pub(super) fn window(&self, counting: u64) -> Vec<(RowKey, Tally)> {
        let shown = self.rows.iter().map(|(key, seconds)| (*key, seconds.window(counting)));
        shown.filter(|(_, tally)| tally.requests > 0).collect()
    }

    /// The requests that found no row of their own.
    pub(super) fn others(&self, counting: u64) -> Tally {
        self.others.window(counting)
    }
}
