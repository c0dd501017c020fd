//! What the records of a capture mean, found while it runs, on a thread of its own: neither packets nor traces wait for it.
//!
//! A replay waits for it, so that the findings are the same every time. Live, records for which it has no time are left
//! out, and it is told when: what it cannot prove without them it then does not claim.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use analysis::diagnosis::{InputFacts, Limits, REORDER_RECORDS, Reorder, Report};
use analysis::shards::ShardClaim;
use record::{Record, Timestamp};

/// As many records as the recorder takes at a time.
const BATCH_RECORDS: usize = 1024;

/// The diagnosis takes half a million records a second; this bridges a burst of 0.1 s at four times that rate.
const MOST_BATCHES: usize = 64;

/// The same in records.
pub const MOST_RECORDS: usize = MOST_BATCHES * BATCH_RECORDS;

enum Message {
    /// Records, as they were completed.
    Records(Vec<Record>),
    /// Something was lost between these moments.
    Lost(Timestamp, Timestamp),
}

/// The capture's end of the queue.
pub struct Findings {
    /// Whether a full queue is waited for.
    is_patient: bool,
    filling: Vec<Record>,
    queue: SyncSender<Message>,
    emptied: Receiver<Vec<Record>>,
    /// Since when records were left out that the diagnosis has not been told of.
    left_out_since: Option<Timestamp>,
    losses: trace::Ledger,
    losses_told_at: Timestamp,
    now: Timestamp,
    thread: JoinHandle<Reorder>,
}

impl Findings {
    /// Starts the thread, which also holds the requests against what was said of shards.
    ///
    /// # Errors
    ///
    /// The system has no thread to give.
    pub fn start(is_patient: bool, claims: &[ShardClaim]) -> io::Result<Self> {
        let (queue, messages) = sync_channel(MOST_BATCHES);
        let (done, emptied) = sync_channel(MOST_BATCHES);
        let mut reorder = Reorder::new(Limits::CAPTURE, REORDER_RECORDS);
        claims.iter().for_each(|&claim| reorder.claim_shard(claim));
        let thread =
            std::thread::Builder::new().name("findings".into()).spawn(move || diagnose(reorder, &messages, &done))?;
        Ok(Self {
            is_patient,
            filling: Vec::with_capacity(BATCH_RECORDS),
            queue,
            emptied,
            left_out_since: None,
            losses: trace::Ledger::default(),
            losses_told_at: Timestamp(0),
            now: Timestamp(0),
            thread,
        })
    }

    /// Takes a record that was completed at `now`.
    #[inline]
    pub fn observe(&mut self, record: &Record, now: Timestamp) {
        self.now = now;
        self.filling.push(record.clone());
        if self.filling.len() >= BATCH_RECORDS {
            self.hand_over();
        }
    }

    /// It is `now`, and the capture has lost so much since its beginning.
    pub fn capture_losses(&mut self, losses: &trace::Ledger, now: Timestamp) {
        if *losses != self.losses {
            // Where in between it was lost is not known.
            self.hand_over();
            self.send(Message::Lost(self.losses_told_at, now));
            self.losses = *losses;
        }
        self.losses_told_at = now;
    }

    /// Ends the thread, and tells what was found; `None` where it ended by a fault.
    pub fn finish(mut self, facts: InputFacts) -> Option<Report> {
        self.is_patient = true;
        self.hand_over();
        let Self { queue, emptied, thread, .. } = self;
        drop((queue, emptied));
        Some(thread.join().ok()?.report(facts))
    }

    /// Hands the records over, in their order with what was lost.
    fn hand_over(&mut self) {
        if let Some(since) = self.left_out_since.take()
            && !self.send(Message::Lost(since, self.now))
        {
            self.left_out_since = Some(since);
        }
        if self.filling.is_empty() {
            return;
        }
        let next = self.emptied.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH_RECORDS));
        let records = std::mem::replace(&mut self.filling, next);
        self.send(Message::Records(records));
    }

    /// Sends one message, or remembers since when some are missing.
    fn send(&mut self, message: Message) -> bool {
        if self.is_patient {
            return self.queue.send(message).is_ok();
        }
        let Err(TrySendError::Full(refused) | TrySendError::Disconnected(refused)) = self.queue.try_send(message)
        else {
            return true;
        };
        let since = match &refused {
            // Records come as they were completed: the earliest may have been asked for long before.
            Message::Records(records) => records.iter().map(|record| record.time).min(),
            Message::Lost(from, _) => Some(*from),
        };
        self.left_out_since = self.left_out_since.into_iter().chain(since).min();
        false
    }
}

/// The thread: takes what comes until nobody sends any more.
fn diagnose(mut reorder: Reorder, messages: &Receiver<Message>, done: &SyncSender<Vec<Record>>) -> Reorder {
    for message in messages {
        match message {
            Message::Records(mut records) => {
                records.iter().for_each(|record| reorder.observe(record));
                records.clear();
                // At the end of the run there is nobody to take it back.
                let _ = done.try_send(records);
            }
            Message::Lost(from, until) => reorder.lost(from, until),
        }
    }
    reorder
}
