//! What crosses from one thread to the other at a time.

use std::collections::HashMap;
use std::sync::mpsc::SyncSender;

use record::{Record, TenantTimeline, Timestamp};
use trace::{ConnectionOwner, Counter, Ledger};

/// 240 KB: large enough that handing one over costs nothing beside its records, small enough to stay in the cache.
pub(super) const BATCH_RECORDS: usize = 1024;

/// So many owners and reasons are told apart between two records: tenants on a node, not attackers' inventions.
const MOST_LOSSES: usize = 1024;

/// Whose request, and why it is in no trace.
type Loss = (Option<TenantTimeline>, Counter);

/// Records, each with the time at which it was completed, and what was lost beside them.
#[derive(Debug)]
pub(super) struct Batch {
    records: Vec<(Timestamp, Record)>,
    losses: HashMap<Loss, u64, foldhash::fast::RandomState>,
    /// Whose earlier connections were.
    attributions: Vec<ConnectionOwner>,
    /// What the whole capture has lost so far, where that was told.
    pub(super) capture_losses: Option<Ledger>,
    /// When it was handed over.
    pub(super) handed_over_at: Timestamp,
    /// Which feed it belongs to.
    pub(super) feed: usize,
    /// Where it returns to when it is written.
    home: SyncSender<Box<Batch>>,
}

impl Batch {
    /// An empty one of that feed, which takes it back through `home`.
    pub(super) fn new(feed: usize, home: SyncSender<Box<Self>>) -> Box<Self> {
        Box::new(Self {
            records: Vec::with_capacity(BATCH_RECORDS),
            losses: HashMap::default(),
            attributions: Vec::new(),
            capture_losses: None,
            handed_over_at: Timestamp(0),
            feed,
            home,
        })
    }

    /// Empties it and gives it back to its feed, where that is still there.
    pub(super) fn return_home(mut self: Box<Self>) {
        self.clear();
        let home = self.home.clone();
        let _ = home.try_send(self);
    }

    /// How many records it holds.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// When its first record came.
    #[inline]
    pub(super) fn first_at(&self) -> Option<Timestamp> {
        self.records.first().map(|&(time, _)| time)
    }

    /// Takes a record.
    #[inline]
    pub(super) fn push(&mut self, record: &Record, now: Timestamp) {
        self.records.push((now, record.clone()));
    }

    /// Counts a loss, or says that it has no room for one of another kind.
    pub(super) fn lose(&mut self, owner: Option<TenantTimeline>, reason: Counter) -> bool {
        if let Some(count) = self.losses.get_mut(&(owner, reason)) {
            *count = count.saturating_add(1);
            return true;
        }
        let has_room = self.losses.len() < MOST_LOSSES;
        if has_room {
            self.losses.insert((owner, reason), 1);
        }
        has_room
    }

    /// Takes an attribution, or says that it has no room for it.
    pub(super) fn attribute(&mut self, connection: ConnectionOwner) -> bool {
        let has_room = self.attributions.len() < BATCH_RECORDS;
        if has_room {
            self.attributions.push(connection);
        }
        has_room
    }

    /// Whose earlier connections were.
    pub(super) fn attributions(&self) -> &[ConnectionOwner] {
        &self.attributions
    }

    /// The same, handed over then.
    pub(super) fn at(mut self: Box<Self>, now: Timestamp) -> Box<Self> {
        self.handed_over_at = now;
        self
    }

    /// The records in their order.
    pub(super) fn records(&self) -> &[(Timestamp, Record)] {
        &self.records
    }

    /// What was lost beside them.
    pub(super) fn losses(&self) -> impl Iterator<Item = (Loss, u64)> + '_ {
        self.losses.iter().map(|(&loss, &count)| (loss, count))
    }

    /// Empties it, to be filled again.
    fn clear(&mut self) {
        self.records.clear();
        self.losses.clear();
        self.attributions.clear();
        self.capture_losses = None;
    }
}
