//! The end of a recorder's queue at which records come in.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};

use record::{Record, TenantTimeline, Timestamp};
use trace::{ConnectionOwner, Counter, Ledger};

use super::batch::{BATCH_RECORDS, Batch};
use super::writing::Handed;
use super::{Clock, HAND_OVER_AFTER_NS};

/// What one capturing thread gives to a recorder.
pub struct Feed {
    clock: Clock,
    number: usize,
    filling: Box<Batch>,
    /// One that was taken while the queue had no room for the other.
    spare: Option<Box<Batch>>,
    /// Batches that may still be made.
    not_made: usize,
    handed: SyncSender<Handed>,
    home: SyncSender<Box<Batch>>,
    emptied: Receiver<Box<Batch>>,
    queue_dropped: u64,
    /// The latest time of a packet. The traces' time never goes back.
    now: Timestamp,
}

impl Feed {
    /// The feed of that number, which makes `most_batches` at most.
    pub(super) fn new(number: usize, clock: Clock, most_batches: usize, handed: SyncSender<Handed>) -> Self {
        // Each batch that there can be fits it: the way back never waits.
        let (home, emptied) = sync_channel(most_batches);
        Self {
            clock,
            number,
            filling: Batch::new(number, home.clone()),
            spare: None,
            not_made: most_batches.saturating_sub(1),
            handed,
            home,
            emptied,
            queue_dropped: 0,
            now: Timestamp(0),
        }
    }

    /// Takes a record that was completed at `now`.
    #[inline]
    pub fn record(&mut self, record: &Record, now: Timestamp) {
        self.now = self.now.max(now);
        if self.filling.len() >= BATCH_RECORDS && !self.hand_over() {
            self.queue_dropped = self.queue_dropped.saturating_add(1);
            self.filling.lose(record.owner, Counter::QueueDropped);
            return;
        }
        self.filling.push(record, self.now);
        if self.is_due() {
            self.hand_over();
        }
    }

    /// Counts a request that goes into no trace.
    #[inline]
    pub fn lose(&mut self, owner: Option<TenantTimeline>, reason: Counter) {
        if !self.filling.lose(owner, reason) {
            self.hand_over();
            self.filling.lose(owner, reason);
        }
    }

    /// Says whose an earlier connection was. Where there is no room for it, its requests stay without owner.
    pub fn attribute(&mut self, connection: ConnectionOwner) {
        if !self.filling.attribute(connection) {
            self.hand_over();
            self.filling.attribute(connection);
        }
    }

    /// Tells what this feed's capture has lost since its beginning.
    pub fn capture_losses(&mut self, since_the_beginning: &Ledger) {
        let mut losses = *since_the_beginning;
        losses.add(Counter::DroppedRecords, self.queue_dropped);
        self.filling.capture_losses = Some(losses);
    }

    /// It is `now`, and no packet is at hand: what has waited long enough is handed over.
    pub fn idle(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        if self.is_due() {
            self.hand_over();
        }
    }

    /// How many records found no room.
    pub fn queue_dropped(&self) -> u64 {
        self.queue_dropped
    }

    /// Hands over the rest. Waits for room in the queue.
    pub fn finish(self) {
        let Self { filling, handed, now, .. } = self;
        let _ = handed.send(Handed::Batch(filling.at(now)));
    }

    /// Whether the batch has waited long enough. The second record of a batch is the first that can find it due.
    #[inline]
    fn is_due(&self) -> bool {
        self.filling.first_at().is_some_and(|first| self.now.0.saturating_sub(first.0) >= HAND_OVER_AFTER_NS)
    }

    /// Hands the batch over and takes an empty one, or leaves all as it is where there is none, or the queue is full.
    pub(crate) fn hand_over(&mut self) -> bool {
        let Some(next) = self.empty_batch() else { return false };
        let filled = std::mem::replace(&mut self.filling, next).at(self.now);
        let handed = match self.clock {
            Clock::Wall => self.handed.try_send(Handed::Batch(filled)),
            Clock::Packets => {
                self.handed.send(Handed::Batch(filled)).map_err(|error| TrySendError::Disconnected(error.0))
            }
        };
        match handed {
            Ok(()) => true,
            Err(TrySendError::Full(Handed::Batch(filled)) | TrySendError::Disconnected(Handed::Batch(filled))) => {
                // Other feeds have filled the queue, or the thread is gone; what is lost then, whoever drops it counts.
                self.spare = Some(std::mem::replace(&mut self.filling, filled));
                false
            }
            Err(_) => false,
        }
    }

    /// A batch to fill, made where it may be, else one that has been written.
    fn empty_batch(&mut self) -> Option<Box<Batch>> {
        if let Some(spare) = self.spare.take() {
            return Some(spare);
        }
        match (self.emptied.try_recv(), self.clock) {
            (Ok(batch), _) => Some(batch),
            (Err(TryRecvError::Empty), _) if self.not_made > 0 => {
                self.not_made = self.not_made.saturating_sub(1);
                Some(Batch::new(self.number, self.home.clone()))
            }
            (Err(TryRecvError::Empty), Clock::Packets) => self.emptied.recv().ok(),
            _ => None,
        }
    }
}
