//! From the pipeline to the trace files, on a thread of its own: capture never waits for the disk.
//!
//! ```text
//! Recorder (capture's thread) → Batch → bounded queue → writing::run (recorder's thread) → trace::TraceWriter
//!                               ↑_____________ emptied batches return _____________|
//! ```
//!
//! The contract:
//!
//! - Batches are made as long as fewer than [`MOST_BATCHES`] exist, and used again from then on: nothing is allocated for a
//!   record, nothing is locked for it, and no system call is made for it.
//! - Live, a record that finds no room is counted as `queue_dropped`, in the summary and in its owner's trace. A replay
//!   waits instead: it can, and its traces must be the same every time.
//! - Live, the traces go by the wall clock; in a replay by the packets' time alone.

mod batch;
mod writing;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::JoinHandle;

use record::{Record, TenantTimeline, Timestamp};
use trace::{ConnectionOwner, Counter, Ledger, TraceWriter};

use batch::{BATCH_RECORDS, Batch};
pub use writing::Recorded;

/// At 155,000 requests a second, which is the most that Neon has seen of one tenant, the queue bridges 0.4 s during which
/// the disk takes nothing; full, it holds 15 MB.
pub const MOST_BATCHES: usize = 64;

/// The same in records.
pub const MOST_RECORDS: usize = MOST_BATCHES * BATCH_RECORDS;

/// A replay waits for the disk anyway: a few batches keep both threads busy.
const MOST_REPLAY_BATCHES: usize = 8;

/// A batch that is not full is handed over when its first record is so old: a tenth of the default wait for a flush, and
/// rare enough to cost nothing.
const HAND_OVER_AFTER_NS: u64 = 100_000_000;

/// Whose time the traces go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The machine's; capture does not wait.
    Wall,
    /// The packets'; capture waits for room in the queue.
    Packets,
}

/// The capture's end of the queue.
pub struct Recorder {
    clock: Clock,
    filling: Batch,
    /// Batches that may still be made.
    not_made: usize,
    full: SyncSender<Batch>,
    emptied: Receiver<Batch>,
    failed: Arc<AtomicBool>,
    thread: JoinHandle<Recorded>,
    queue_dropped: u64,
    /// The latest time of a packet. The traces' time never goes back.
    now: Timestamp,
}

impl Recorder {
    /// Starts the recorder's thread.
    ///
    /// # Errors
    ///
    /// The system has no thread to give.
    pub fn start(writer: TraceWriter, clock: Clock) -> io::Result<Self> {
        let most = match clock {
            Clock::Wall => MOST_BATCHES,
            Clock::Packets => MOST_REPLAY_BATCHES,
        };
        // Each batch that there can be fits both queues: a send never waits, and fails only where the thread is gone.
        let (full, to_write) = sync_channel(most);
        let (written, emptied) = sync_channel(most);
        let failed = Arc::new(AtomicBool::new(false));
        let queues = writing::Queues { to_write, written, failed: Arc::clone(&failed) };
        let thread =
            std::thread::Builder::new().name("recorder".into()).spawn(move || writing::run(writer, clock, queues))?;
        Ok(Self {
            clock,
            filling: Batch::new(),
            not_made: most.saturating_sub(1),
            full,
            emptied,
            failed,
            thread,
            queue_dropped: 0,
            now: Timestamp(0),
        })
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

    /// Tells what the whole capture has lost since its beginning.
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

    /// Whether a trace could not be written, and there is no sense in going on.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// How many records found no room.
    pub fn queue_dropped(&self) -> u64 {
        self.queue_dropped
    }

    /// Hands over the rest, waits until all is written, and tells what it came to.
    pub fn finish(self) -> Recorded {
        let Self { filling, full, emptied, thread, now, .. } = self;
        // The thread ends when the queue is empty and nobody can send any more.
        let _ = full.send(filling.at(now));
        drop((full, emptied));
        thread.join().unwrap_or_else(|_| Recorded::broken())
    }

    /// Whether the batch has waited long enough. The second record of a batch is the first that can find it due.
    #[inline]
    fn is_due(&self) -> bool {
        self.filling.first_at().is_some_and(|first| self.now.0.saturating_sub(first.0) >= HAND_OVER_AFTER_NS)
    }

    /// Hands the batch over and takes an empty one, or leaves all as it is where there is none.
    fn hand_over(&mut self) -> bool {
        let Some(next) = self.empty_batch() else { return false };
        let filled = std::mem::replace(&mut self.filling, next).at(self.now);
        match self.full.try_send(filled) {
            Ok(()) => true,
            Err(TrySendError::Full(filled) | TrySendError::Disconnected(filled)) => {
                // Only a thread that is gone gets here; its records are lost, and counted by whoever drops them.
                self.filling = filled;
                false
            }
        }
    }

    /// A batch to fill, made where it may be, else one that has been written.
    fn empty_batch(&mut self) -> Option<Batch> {
        match (self.emptied.try_recv(), self.clock) {
            (Ok(batch), _) => Some(batch),
            (Err(TryRecvError::Empty), _) if self.not_made > 0 => {
                self.not_made = self.not_made.saturating_sub(1);
                Some(Batch::new())
            }
            (Err(TryRecvError::Empty), Clock::Packets) => self.emptied.recv().ok(),
            _ => None,
        }
    }
}
