//! From the pipeline to the trace files, on a thread of its own: capture never waits for the disk.
//!
//! ```text
//! Feed (a capturing thread) → Batch → bounded queue → writing::run (recorder's thread) → trace::TraceWriter
//!                             ↑_____________ emptied batches return _____________|
//! ```
//!
//! The contract:
//!
//! - Batches are made as long as a feed has fewer than [`MOST_BATCHES`], and used again from then on: nothing is allocated for a
//!   record, nothing is locked for it, and no system call is made for it.
//! - Live, a record that finds no room is counted as `queue_dropped`, in the summary and in its owner's trace. A replay
//!   waits instead: it can, and its traces must be the same every time.
//! - Live, the traces go by the wall clock; in a replay by the packets' time alone.

mod batch;
mod condition;
mod feed;
mod writing;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use trace::{Change, TraceWriter};

use condition::Condition;
pub use feed::Feed;
use writing::Handed;
pub use writing::Recorded;

/// At 155,000 requests a second, which is the most that Neon has seen of one tenant, the queue bridges 0.4 s during which
/// the disk takes nothing; full, it holds 15 MB.
pub const MOST_BATCHES: usize = 64;

/// The same in records.
pub const MOST_RECORDS: usize = MOST_BATCHES * batch::BATCH_RECORDS;

/// A replay waits for the disk anyway: a few batches keep both threads busy.
const MOST_REPLAY_BATCHES: usize = 8;

/// A batch that is not full is handed over when its first record is so old: a tenth of the default wait for a flush, and
/// rare enough to cost nothing.
const HAND_OVER_AFTER_NS: u64 = 100_000_000;

/// Room in a queue comes with every batch that is written, some hundreds a second, or not soon.
const PATIENCE: Duration = Duration::from_millis(100);

/// Whose time the traces go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The machine's; capture does not wait.
    Wall,
    /// The packets'; capture waits for room in the queue.
    Packets,
}

/// What becomes of a recorder whose disk takes nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFault {
    /// It is over: a trace that ends is better than one with pieces missing.
    End,
    /// It goes on after this pause. What came meanwhile is missing, and counted as `write_failed`.
    TryAgainAfter(Duration),
}

/// How a recorder's writing has gone so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faulted {
    /// How often its disk has begun to take nothing.
    pub times: u64,
    /// Requests that could not be written.
    pub write_failed: u64,
    /// The last error, where there was one.
    pub error: Option<String>,
    /// Which limit left requests out, where one did.
    pub limit: Option<String>,
}

/// A recorder with the single feed of a one-off capture.
pub struct Recorder {
    /// Where records come in.
    pub feed: Feed,
    /// The thread that writes them.
    pub thread: RecorderThread,
}

impl Recorder {
    /// Starts the recorder's thread.
    ///
    /// # Errors
    ///
    /// The system has no thread to give.
    pub fn start(writer: TraceWriter, clock: Clock) -> io::Result<Self> {
        let thread = RecorderThread::start(writer, clock, OnFault::End)?;
        let most = match clock {
            Clock::Wall => MOST_BATCHES,
            Clock::Packets => MOST_REPLAY_BATCHES,
        };
        Ok(Self { feed: thread.feed(most), thread })
    }

    /// Hands over the rest, waits until all is written, and tells what it came to.
    pub fn finish(self) -> Recorded {
        let Self { feed, thread } = self;
        feed.finish();
        thread.finish()
    }
}

/// A recorder's thread, from outside.
pub struct RecorderThread {
    clock: Clock,
    handed: SyncSender<Handed>,
    feeds: AtomicUsize,
    condition: Arc<Condition>,
    thread: JoinHandle<Recorded>,
}

impl RecorderThread {
    /// Starts it. Records come through feeds.
    ///
    /// # Errors
    ///
    /// The system has no thread to give.
    pub fn start(writer: TraceWriter, clock: Clock, on_fault: OnFault) -> io::Result<Self> {
        let (handed, to_write) = sync_channel(MOST_BATCHES);
        let condition = Arc::new(Condition::default());
        let queues = writing::Queues { to_write, condition: Arc::clone(&condition) };
        let write = move || writing::run(writer, (clock, on_fault), queues);
        let thread = std::thread::Builder::new().name("recorder".into()).spawn(write)?;
        Ok(Self { clock, handed, feeds: AtomicUsize::new(0), condition, thread })
    }

    /// Another way in, for one thread, with `most_batches` at most.
    pub fn feed(&self, most_batches: usize) -> Feed {
        let number = self.feeds.fetch_add(1, Ordering::Relaxed);
        Feed::new(number, self.clock, most_batches, self.handed.clone())
    }

    /// Waits until everything that was handed over so far is in files. False where the thread is gone.
    pub fn flush(&self) -> bool {
        let (done, is_done) = sync_channel(1);
        self.handed.send(Handed::Flush(done)).is_ok() && is_done.recv().is_ok()
    }

    /// Lets it go on under other circumstances, behind what was handed over so far. False where its queue has no room for that
    /// in the next tenth of a second: its disk is slow, and nothing changes.
    pub fn change(&self, change: Change) -> bool {
        let asked = Instant::now();
        loop {
            match self.handed.try_send(Handed::Change(change)) {
                Err(TrySendError::Full(_)) if asked.elapsed() < PATIENCE => std::thread::sleep(PATIENCE / 10),
                Err(TrySendError::Full(_)) => return false,
                // A thread that is gone writes nothing that could be wrong.
                Ok(()) | Err(TrySendError::Disconnected(_)) => return true,
            }
        }
    }

    /// Whether the disk takes nothing: for good, or until it is tried again.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.condition.has_failed()
    }

    /// How the writing has gone so far.
    pub fn faulted(&self) -> Faulted {
        self.condition.faulted()
    }

    /// Waits until all feeds are finished and all is written, and tells what it came to.
    pub fn finish(self) -> Recorded {
        let Self { handed, thread, .. } = self;
        // The thread ends when the queue is empty and nobody can send any more.
        drop(handed);
        thread.join().unwrap_or_else(|_| Recorded::broken())
    }
}
