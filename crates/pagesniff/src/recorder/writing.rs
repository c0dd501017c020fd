//! The recorder's thread: batches in, trace files out.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use record::Timestamp;
use trace::{Counter, Ledger, TraceError, TraceWriter};

use super::Clock;
use super::batch::Batch;

/// How late a flush or a rotation may be on a silent interface.
const TICK: Duration = Duration::from_millis(100);

/// What the thread is asked for.
pub(super) enum Handed {
    /// To write this.
    Batch(Box<Batch>),
    /// To write what it holds back, and to say when that is done.
    Flush(SyncSender<()>),
}

/// The thread's end of the queue.
pub(super) struct Queues {
    pub(super) to_write: Receiver<Handed>,
    /// Set when a trace could not be written.
    pub(super) failed: Arc<AtomicBool>,
}

/// What the recorder's work came to.
#[derive(Debug, Default)]
pub struct Recorded {
    /// The directory of the traces.
    pub directory: PathBuf,
    /// The trace files of this instance.
    pub files: u64,
    /// Their length together.
    pub bytes: u64,
    /// Records of this run that are in them.
    pub kept: u64,
    /// What became of the others.
    pub ledger: Ledger,
    /// Why nothing more could be written.
    pub error: Option<String>,
    /// Which limit left records out, in plain words without full stop.
    pub limit: Option<String>,
}

impl Recorded {
    /// The thread ended by a fault in the program.
    pub(super) fn broken() -> Self {
        let error = "writing the traces ended by a fault in pagesniff; what was written before is whole".to_owned();
        Self { error: Some(error), ..Self::default() }
    }
}

/// Errors so far: the first of each kind.
#[derive(Debug, Default)]
struct Faults {
    error: Option<String>,
    limit: Option<String>,
}

impl Faults {
    /// Remembers what a call came to. A limit does not end a run, a disk that takes nothing more does.
    fn note(&mut self, outcome: Result<(), TraceError>) {
        match outcome {
            Ok(()) => {}
            Err(limit @ (TraceError::Full { .. } | TraceError::TooManyTraces { .. })) => {
                self.limit.get_or_insert_with(|| limit.to_string());
            }
            Err(error) => {
                self.error.get_or_insert_with(|| error.to_string());
            }
        }
    }
}

/// Writes what comes until nobody sends any more.
pub(super) fn run(mut writer: TraceWriter, clock: Clock, queues: Queues) -> Recorded {
    let mut faults = Faults::default();
    let mut now = Timestamp(0);
    let mut capture_losses = CaptureLosses::default();
    loop {
        let received = match clock {
            Clock::Wall => queues.to_write.recv_timeout(TICK),
            Clock::Packets => queues.to_write.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(Handed::Batch(batch)) => {
                now = if clock == Clock::Wall { wall_clock() } else { batch.handed_over_at };
                let losses = batch.capture_losses.map(|losses| capture_losses.sum_with(batch.feed, losses));
                write(&mut writer, &batch, (clock == Clock::Wall).then_some(now), (losses, &mut faults));
                batch.return_home();
            }
            Ok(Handed::Flush(done)) => {
                now = if clock == Clock::Wall { wall_clock() } else { now };
                faults.note(writer.flush(now));
                let _ = done.try_send(());
            }
            Err(RecvTimeoutError::Timeout) => {
                now = wall_clock();
                faults.note(writer.tick(now));
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if faults.error.is_some() {
            queues.failed.store(true, Ordering::Relaxed);
        }
    }
    close(writer, now, faults)
}

/// What each feed's capture has lost.
#[derive(Debug, Default)]
struct CaptureLosses {
    of_feeds: Vec<Ledger>,
}

impl CaptureLosses {
    /// What all have lost, now that one has lost so much.
    fn sum_with(&mut self, feed: usize, losses: Ledger) -> Ledger {
        if self.of_feeds.len() <= feed {
            self.of_feeds.resize(feed.saturating_add(1), Ledger::default());
        }
        if let Some(known) = self.of_feeds.get_mut(feed) {
            *known = losses;
        }
        let mut sum = Ledger::default();
        self.of_feeds.iter().for_each(|losses| sum.merge(losses));
        sum
    }
}

/// Appends a batch, by the wall clock or by each record's own time.
fn write(
    writer: &mut TraceWriter,
    batch: &Batch,
    wall: Option<Timestamp>,
    (capture_losses, faults): (Option<Ledger>, &mut Faults),
) {
    for (completed_at, record) in batch.records() {
        if faults.error.is_some() {
            writer.lose(record.owner, Counter::WriteFailed, 1);
            continue;
        }
        faults.note(writer.append(record, wall.unwrap_or(*completed_at)));
        if faults.error.is_some() {
            // A trace that ends is better than one with pieces missing.
            writer.give_up();
        }
    }
    // Behind the records: a trace that begins with one of them was there while this was lost.
    if let Some(losses) = &capture_losses {
        writer.capture_losses(losses);
    }
    for &connection in batch.attributions() {
        faults.note(writer.attribute(connection, wall.unwrap_or(batch.handed_over_at)));
    }
    for ((owner, reason), requests) in batch.losses() {
        writer.lose(owner, reason, requests);
    }
    faults.note(writer.tick(wall.unwrap_or(batch.handed_over_at)));
}

/// Writes the rest and adds up.
fn close(mut writer: TraceWriter, now: Timestamp, mut faults: Faults) -> Recorded {
    faults.note(writer.flush(now));
    let directory = writer.directory().to_owned();
    let kept = writer.kept_records();
    let paths: Vec<PathBuf> = writer.files().map(|(path, _)| path.to_owned()).collect();
    let (ledger, closed) = writer.close(now);
    faults.note(closed);
    // The last ledgers were written while closing: the lengths are those on the disk.
    let bytes = paths.iter().filter_map(|path| Some(std::fs::metadata(path).ok()?.len())).sum();
    let Faults { error, limit } = faults;
    Recorded { directory, files: paths.len() as u64, bytes, kept, ledger, error, limit }
}

/// What time it is.
fn wall_clock() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX))
}
