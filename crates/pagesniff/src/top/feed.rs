//! The capturing thread's end: decoder → attribution → filter → batches of records → the thread that shows them.

use std::sync::mpsc::{SyncSender, TrySendError};

use analysis::live::CaptureFigures;
use analysis::summary::Ledger;
use decode::Identified;
use record::{Pairing, Record, Timestamp};

use crate::attribution::Attributor;
use crate::filter::{Filter, Verdict};

/// As many records as the recorder takes at a time.
const BATCH_RECORDS: usize = 1024;

/// The figures take half a million records a second; this bridges 0.1 s in which the terminal is drawn, at four times that
/// rate.
pub(super) const MOST_MESSAGES: usize = 64;

/// What the thread that shows figures is told.
pub(super) enum Message {
    /// Records, as they were completed.
    Records(Vec<Record>),
    /// Something was lost between these moments.
    Lost(Timestamp, Timestamp),
    /// A tick is over.
    Tick(Box<Tick>),
}

/// The end of a tick.
pub(super) struct Tick {
    /// In the clock of the packets.
    pub(super) now: Timestamp,
    pub(super) length_ns: u64,
    pub(super) capture: CaptureFigures,
    pub(super) notes: Vec<String>,
    /// Nothing follows.
    pub(super) is_last: bool,
}

/// What is counted of records that are kept, for the notes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Kinds {
    pub(super) suspect: u64,
    pub(super) halves: u64,
    pub(super) without_owner: u64,
    pub(super) timed: u64,
}

/// Takes what the decoder makes.
pub(super) struct Feed {
    pub(super) attributor: Attributor,
    filter: Filter,
    pub(super) ledger: Ledger,
    pub(super) kinds: Kinds,
    filling: Vec<Record>,
    queue: SyncSender<Message>,
    /// Whether a full queue is waited for, as for a capture file.
    is_patient: bool,
    /// Nobody takes anything any more.
    is_over: bool,
    /// Since when records were left out that nobody was told of.
    left_out_since: Option<Timestamp>,
    losses: trace::Ledger,
    losses_told_at: Timestamp,
    now: Timestamp,
}

impl Feed {
    pub(super) fn new(attributor: Attributor, filter: Filter, queue: SyncSender<Message>, is_patient: bool) -> Self {
        Self {
            attributor,
            filter,
            ledger: Ledger::default(),
            kinds: Kinds::default(),
            filling: Vec::with_capacity(BATCH_RECORDS),
            queue,
            is_patient,
            is_over: false,
            left_out_since: None,
            losses: trace::Ledger::default(),
            losses_told_at: Timestamp(0),
            now: Timestamp(0),
        }
    }

    /// What is decoded next was completed at `now`.
    #[inline]
    pub(super) fn at(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// The time of the latest packet.
    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// Whether nobody takes anything any more.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(super) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// The capture has lost so much since its beginning.
    pub(super) fn capture_losses(&mut self, losses: &trace::Ledger) {
        if *losses != self.losses {
            // Where in between it was lost is not known.
            self.hand_over();
            self.send(Message::Lost(self.losses_told_at, self.now));
            self.losses = *losses;
        }
        self.losses_told_at = self.now;
    }

    /// Ends a tick. False where there was no room to say so: the next one is then longer.
    pub(super) fn tick(&mut self, tick: Tick) -> bool {
        self.hand_over();
        self.send(Message::Tick(Box::new(tick)))
    }

    /// Everything that follows is waited for: nothing is captured any more.
    pub(super) fn be_patient(&mut self) {
        self.is_patient = true;
    }

    /// Hands the records over, in their order with what was lost.
    pub(super) fn hand_over(&mut self) {
        if let Some(since) = self.left_out_since.take()
            && !self.send(Message::Lost(since, self.now))
        {
            self.left_out_since = Some(since);
        }
        if !self.filling.is_empty() {
            let records = std::mem::replace(&mut self.filling, Vec::with_capacity(BATCH_RECORDS));
            self.send(Message::Records(records));
        }
    }

    /// Sends one message, or counts what is missing.
    fn send(&mut self, message: Message) -> bool {
        if self.is_patient {
            self.is_over |= self.queue.send(message).is_err();
            return !self.is_over;
        }
        let refused = match self.queue.try_send(message) {
            Ok(()) => return true,
            Err(TrySendError::Full(refused)) => refused,
            Err(TrySendError::Disconnected(refused)) => {
                self.is_over = true;
                refused
            }
        };
        let since = match &refused {
            Message::Records(records) => {
                let count = records.len() as u64;
                self.ledger.queue_dropped = self.ledger.queue_dropped.saturating_add(count);
                self.ledger.kept = self.ledger.kept.saturating_sub(count);
                // Records come as they were completed: the earliest may have been asked for long before.
                records.iter().map(|record| record.time).min()
            }
            Message::Lost(from, _) => Some(*from),
            Message::Tick(_) => None,
        };
        self.left_out_since = self.left_out_since.into_iter().chain(since).min();
        false
    }

    /// Takes a record whose owner is settled.
    fn take(&mut self, record: Record) {
        self.ledger.seen += 1;
        let count = match self.filter.verdict(&record) {
            Verdict::Keep => {
                self.ledger.kept += 1;
                self.kinds.count(&record);
                self.filling.push(record);
                if self.filling.len() >= BATCH_RECORDS {
                    self.hand_over();
                }
                return;
            }
            Verdict::Filtered => &mut self.ledger.filtered,
            Verdict::SampledOut => &mut self.ledger.sampled_out,
            Verdict::Unattributed => &mut self.ledger.unattributed,
        };
        *count += 1;
    }
}

impl Kinds {
    fn count(&mut self, record: &Record) {
        let is_half = matches!(record.pairing, Pairing::RequestOnly | Pairing::ResponseOnly);
        self.suspect += u64::from(record.pairing == Pairing::Suspect);
        self.halves += u64::from(is_half);
        self.without_owner += u64::from(record.owner.is_none());
        self.timed += u64::from(record.latency_ns.is_some());
    }
}

impl decode::Sink for Feed {
    fn record(&mut self, record: &Record) {
        match self.attributor.owner_of(record) {
            None => self.take(record.clone()),
            Some((owner, attribution)) => {
                self.take(Record { owner: Some(owner), attribution: Some(attribution), ..record.clone() });
            }
        }
    }

    fn identified(&mut self, connection: &Identified) {
        self.attributor.identified(connection, |_| {});
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use clap::Parser;
    use decode::Sink;
    use record::{Lsn, Protocol, Status, Target};

    use super::*;
    use crate::flags::RawArgs;

    fn request(time: u64) -> Record {
        Record {
            time: Timestamp(time),
            latency_ns: Some(1),
            transfer_ns: None,
            depth: None,
            owner: None,
            attribution: None,
            target: Target::DbSize { dbnode: 5 },
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

    fn feed(queue: SyncSender<Message>) -> Feed {
        let run = RawArgs::parse_from(["pagesniff", "--read", "f"]).run;
        Feed::new(Attributor::default(), Filter::from_raw(&run.filter, true), queue, false)
    }

    #[test]
    fn what_finds_no_room_is_counted_and_told_before_what_follows() {
        let (queue, messages) = sync_channel(1);
        let mut feed = feed(queue);
        let batch = BATCH_RECORDS as u64;
        (0..3 * batch).for_each(|time| {
            feed.at(Timestamp(time));
            feed.record(&request(time));
        });
        let Ledger { seen, kept, queue_dropped, .. } = feed.ledger;
        assert_eq!((seen, kept, queue_dropped), (3 * batch, batch, 2 * batch));
        assert!(matches!(messages.recv(), Ok(Message::Records(records)) if records.len() == BATCH_RECORDS));
        // There is room for one: the loss goes first, and the records behind it do not pass it.
        feed.record(&request(3 * batch));
        feed.hand_over();
        let Ok(Message::Lost(from, until)) = messages.recv() else { panic!("nothing was told") };
        assert_eq!((from, until), (Timestamp(batch), Timestamp(3 * batch - 1)));
        assert_eq!(feed.ledger.queue_dropped, 2 * batch + 1);
        feed.hand_over();
        assert!(matches!(messages.recv(), Ok(Message::Lost(from, _)) if from == Timestamp(3 * batch)));
        assert!(!feed.is_over());
        drop(messages);
        feed.record(&request(1));
        feed.hand_over();
        assert!(feed.is_over());
    }

    #[test]
    fn a_tick_without_room_is_not_told_and_a_capture_file_waits_for_it() {
        let (queue, messages) = sync_channel(1);
        let mut feed = feed(queue);
        let tick = || {
            let capture = CaptureFigures::default();
            Tick { now: Timestamp(0), length_ns: 1, capture, notes: Vec::new(), is_last: false }
        };
        assert!(feed.tick(tick()));
        assert!(!feed.tick(tick()), "the next is longer");
        feed.be_patient();
        let reader = std::thread::spawn(move || messages.iter().count());
        assert!(feed.tick(tick()));
        drop(feed);
        assert_eq!(reader.join().unwrap(), 2);
    }
}
