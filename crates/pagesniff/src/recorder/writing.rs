//! The recorder's thread: batches in, trace files out.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use record::Timestamp;
use trace::{Change, Counter, Ledger, TraceError, TraceWriter};

use super::batch::Batch;
use super::condition::Condition;
use super::{Clock, OnFault};
use crate::clock::wall_clock;

/// How late a flush or a rotation may be on a silent interface.
const TICK: Duration = Duration::from_millis(100);

/// What the thread is asked for.
pub(super) enum Handed {
    /// To write this.
    Batch(Box<Batch>),
    /// To write what it holds back, and to say when that is done.
    Flush(SyncSender<()>),
    /// To go on under other circumstances.
    Change(Change),
}

/// The thread's end of the queue.
pub(super) struct Queues {
    pub(super) to_write: Receiver<Handed>,
    /// Told how the writing goes.
    pub(super) condition: Arc<Condition>,
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
#[derive(Debug)]
struct Faults {
    error: Option<String>,
    limit: Option<String>,
    on_fault: OnFault,
    /// When writing is tried again.
    again_at: Option<Instant>,
}

impl Faults {
    fn new(on_fault: OnFault) -> Self {
        Self { error: None, limit: None, on_fault, again_at: None }
    }

    /// Remembers what a call came to. A limit does not end a run, a disk that takes nothing more does.
    fn note(&mut self, outcome: Result<(), TraceError>) {
        match outcome {
            Ok(()) => {}
            Err(limit @ (TraceError::Full { .. } | TraceError::TooManyTraces { .. })) => {
                self.limit.get_or_insert_with(|| limit.to_string());
            }
            Err(error) => {
                self.error.get_or_insert_with(|| error.to_string());
                if let OnFault::TryAgainAfter(pause) = self.on_fault {
                    self.again_at = Instant::now().checked_add(pause);
                }
            }
        }
    }

    /// After the pause, what comes is written again.
    fn forget_when_due(&mut self) {
        if self.again_at.is_some_and(|at| Instant::now() >= at) {
            (self.error, self.again_at) = (None, None);
        }
    }
}

/// Writes what comes until nobody sends any more.
pub(super) fn run(mut writer: TraceWriter, (clock, on_fault): (Clock, OnFault), queues: Queues) -> Recorded {
    let mut faults = Faults::new(on_fault);
    let mut now = Timestamp(0);
    let mut capture_losses = CaptureLosses::default();
    loop {
        let received = match clock {
            Clock::Wall => queues.to_write.recv_timeout(TICK),
            Clock::Packets => queues.to_write.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        faults.forget_when_due();
        let mut flushed = None;
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
                flushed = Some(done);
            }
            Ok(Handed::Change(change)) => {
                now = if clock == Clock::Wall { wall_clock() } else { now };
                faults.note(writer.change(change, now));
            }
            Err(RecvTimeoutError::Timeout) => {
                now = wall_clock();
                faults.note(writer.tick(now));
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
        queues.condition.tell((faults.error.as_deref(), faults.limit.as_deref()), writer.write_failed());
        // Whoever waits for this finds out next how it went.
        if let Some(done) = flushed {
            let _ = done.try_send(());
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
            // A piece that is missing, and counted, is better than many small ones.
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
    let Faults { error, limit, .. } = faults;
    Recorded { directory, files: paths.len() as u64, bytes, kept, ledger, error, limit }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::thread;

    use record::{Attribution, Lsn, Pairing, Protocol, Record, RelTag, Status, Target, TenantTimeline};
    use trace::{TraceReader, WriterConfig, trace_files};

    use super::*;
    use crate::recorder::{MOST_BATCHES, RecorderThread};

    const TENANT: &str = "3aabbf1a5d0f4e2a9d3c1b2a49505101";
    const PAUSE: Duration = Duration::from_millis(300);

    fn request(blkno: u32) -> Record {
        let rel = RelTag { spcnode: 1663, dbnode: 5, relnode: 0x400c, forknum: 0 };
        Record {
            time: Timestamp(1),
            latency_ns: None,
            transfer_ns: None,
            depth: None,
            owner: Some(TenantTimeline { tenant: TENANT.parse().unwrap(), timeline: TENANT.parse().unwrap() }),
            attribution: Some(Attribution::Handshake),
            target: Target::GetPage { rel, blkno },
            request_lsn: Lsn::MAX,
            not_modified_since: Lsn(1),
            status: Status::Ok,
            page_lsn: None,
            page_zero: None,
            page_hash: None,
            client: ([10, 0, 0, 7], 51344).into(),
            server: ([10, 0, 0, 1], 6400).into(),
            protocol: Protocol::V3,
            reqid: None,
            backend_pid: None,
            seq: None,
            epoch: None,
            pairing: Pairing::Exact,
        }
    }

    /// A recorder, where the tenant's directory cannot be made, and can then; says how it was then, and what it came to.
    fn recorded_past_a_fault(on_fault: OnFault) -> ((bool, bool), Recorded, (u64, Ledger)) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(TENANT), "in the way").unwrap();
        let writer = TraceWriter::open(WriterConfig::new(dir.path(), "n")).unwrap();
        let thread = RecorderThread::start(writer, Clock::Wall, on_fault).unwrap();
        let mut feed = thread.feed(MOST_BATCHES);
        let mut write = |blocks: std::ops::Range<u32>| {
            blocks.for_each(|blkno| feed.record(&request(blkno), wall_clock()));
            assert!(feed.hand_over() && thread.flush());
            thread.has_failed()
        };
        let was_bad = write(0..10);
        write(10..30);
        fs::remove_file(dir.path().join(TENANT)).unwrap();
        thread::sleep(2 * PAUSE);
        let is_bad = write(30..35);
        feed.finish();
        assert_eq!(thread.faulted().times, 1);
        let recorded = thread.finish();
        let (mut records, mut ledger) = (0, Ledger::default());
        for file in trace_files(&[dir.path()]).unwrap() {
            let mut reader = TraceReader::open(&file).unwrap();
            records += reader.records().inspect(|record| assert!(record.is_ok())).count() as u64;
            ledger.merge(reader.ledger());
        }
        ((was_bad, is_bad), recorded, (records, ledger))
    }

    #[test]
    fn what_a_disk_does_not_take_is_counted_and_after_a_pause_it_is_tried_again() {
        let (states, recorded, (records, told)) = recorded_past_a_fault(OnFault::TryAgainAfter(PAUSE));
        assert_eq!((states, recorded.error.as_deref(), recorded.kept), ((true, false), None, 5));
        assert_eq!(recorded.ledger.value(Counter::WriteFailed), 30);
        assert_eq!((records, told.value(Counter::Seen)), (5, 35), "{told:?}");
        assert_eq!(told.value(Counter::WriteFailed), 30);
    }

    #[test]
    fn a_trace_that_was_asked_for_ends_with_its_disk() {
        let (states, recorded, (records, _)) = recorded_past_a_fault(OnFault::End);
        assert_eq!((states, recorded.kept, records), ((true, true), 0, 0));
        assert!(recorded.error.is_some() && recorded.ledger.value(Counter::WriteFailed) == 35);
    }
}
