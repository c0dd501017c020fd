//! Records for a subscriber, as they come: from the capturing threads through one bounded channel, which nobody waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use record::{Record, Timestamp};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// So many go over at once; beyond, a send for each record would cost more than the record.
const BATCH_RECORDS: usize = 256;

/// So many batches wait for a subscriber: 16,384 records, some 3 MB, a tenth of a second of the busiest tenant.
const MOST_BATCHES: usize = 64;

/// A batch that is not full goes when its first record is so old.
const HAND_OVER_AFTER_NS: u64 = 100_000_000;

/// So many at once; each costs a copy of what it wants.
const MOST_SUBSCRIBERS: usize = 64;

/// What a subscriber did not get, and would have.
#[derive(Debug, Default)]
struct Missing {
    too_slow: AtomicU64,
    sampled_out: AtomicU64,
}

/// The subscriber's end.
#[derive(Debug)]
pub struct Subscription {
    records: Receiver<Vec<Record>>,
    missing: Arc<Missing>,
    is_cancelled: Arc<AtomicBool>,
    _place: Place,
}

impl Subscription {
    /// The next records; none once its time is over.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<Record>>> {
        self.records.poll_recv(cx)
    }

    /// Takes what has come. False once its time is over.
    pub(super) fn take_ready(&mut self, mut take: impl FnMut(&[Record])) -> bool {
        loop {
            match self.records.try_recv() {
                Ok(records) => take(&records),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// How many requests did not come since their reader was too slow.
    pub fn too_slow(&self) -> u64 {
        self.missing.too_slow.load(Ordering::Relaxed)
    }

    /// How many requests did not come since the daemon kept a sample of the keys only.
    pub fn sampled_out(&self) -> u64 {
        self.missing.sampled_out.load(Ordering::Relaxed)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }
}

/// The capturing thread's end.
#[derive(Debug)]
pub(super) struct Subscriber {
    to: Sender<Vec<Record>>,
    filling: Vec<Record>,
    first_at: Timestamp,
    missing: Arc<Missing>,
}

impl Subscriber {
    /// Takes a record that was completed at `now`.
    pub(super) fn record(&mut self, record: &Record, now: Timestamp) {
        if self.filling.is_empty() {
            self.first_at = now;
        }
        self.filling.push(record.clone());
        if self.filling.len() >= BATCH_RECORDS {
            self.hand_over();
        } else {
            self.idle(now);
        }
    }

    /// Counts a request whose key is not in the daemon's sample.
    pub(super) fn sampled_out(&self) {
        self.missing.sampled_out.fetch_add(1, Ordering::Relaxed);
    }

    /// It is `now`: what has waited long enough is handed over.
    pub(super) fn idle(&mut self, now: Timestamp) {
        if !self.filling.is_empty() && now.0.saturating_sub(self.first_at.0) >= HAND_OVER_AFTER_NS {
            self.hand_over();
        }
    }

    /// Hands over the rest.
    pub(super) fn finish(mut self) {
        if !self.filling.is_empty() {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let filled = std::mem::replace(&mut self.filling, Vec::with_capacity(BATCH_RECORDS));
        let count = filled.len() as u64;
        // Of one that has left, nobody asks any more what it did not get.
        if self.to.try_send(filled).is_err() {
            self.missing.too_slow.fetch_add(count, Ordering::Relaxed);
        }
    }
}

/// How many subscribers there are.
#[derive(Debug, Default)]
pub(super) struct Places(Arc<AtomicUsize>);

/// A subscriber's place, which it gives back.
#[derive(Debug)]
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Places {
    /// A subscription that so many capturing threads give to, their ends, and how they are told that it is not wanted any more.
    ///
    /// # Errors
    ///
    /// There are too many already.
    pub(super) fn subscribe(&self, threads: usize) -> Result<(Subscription, Vec<Subscriber>, Arc<AtomicBool>), String> {
        let place = Place(Arc::clone(&self.0));
        if self.0.fetch_add(1, Ordering::Relaxed) >= MOST_SUBSCRIBERS {
            return Err(format!("{MOST_SUBSCRIBERS} subscribers are served already: try again later"));
        }
        let (to, records) = channel(MOST_BATCHES);
        let (missing, is_cancelled) = (Arc::new(Missing::default()), Arc::new(AtomicBool::new(false)));
        let subscriber = || Subscriber {
            to: to.clone(),
            filling: Vec::with_capacity(BATCH_RECORDS),
            first_at: Timestamp(0),
            missing: Arc::clone(&missing),
        };
        let subscribers = (0..threads).map(|_| subscriber()).collect();
        let cancel = Arc::clone(&is_cancelled);
        Ok((Subscription { records, missing, is_cancelled, _place: place }, subscribers, cancel))
    }
}
