//! Where the view's figures come from, second by second.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use analysis::live::{Limits, Live, Snapshot, Wanted};

use super::feed::{Message, Tick};

/// What was learned in a while.
pub(super) enum Heard {
    /// A tick is over; this is how it was.
    Tick(Box<Snapshot>),
    /// The last tick is over.
    End(Box<Snapshot>),
    /// What there is is old; its notes say why.
    Trouble(Box<Snapshot>),
    /// Nothing new.
    Nothing,
    /// There is nobody any more who could tell.
    Gone,
}

/// Whoever tells how it is.
pub(super) trait Hears {
    /// Takes what comes within that time, up to the next tick.
    fn hear(&mut self, wanted: Wanted<'_>, within: Duration) -> Heard;
}

/// Figures that are made here, of records that another thread captures.
pub(super) struct Snapshots {
    messages: Receiver<Message>,
    live: Live,
}

impl Snapshots {
    pub(super) fn new(messages: Receiver<Message>) -> Self {
        Self { messages, live: Live::new(Limits::DEFAULT) }
    }

    fn tick(&mut self, tick: Tick, wanted: Wanted<'_>) -> Heard {
        let Tick { now, length_ns, capture, notes, is_last } = tick;
        match is_last {
            true => self.live.finish(now, length_ns, capture),
            false => self.live.tick(now, length_ns, capture),
        }
        let snapshot = Box::new(Snapshot { notes, ..self.live.snapshot(wanted) });
        if is_last { Heard::End(snapshot) } else { Heard::Tick(snapshot) }
    }
}

impl Hears for Snapshots {
    fn hear(&mut self, wanted: Wanted<'_>, within: Duration) -> Heard {
        let since = Instant::now();
        loop {
            let left = within.saturating_sub(since.elapsed());
            match self.messages.recv_timeout(left) {
                Ok(Message::Records(records)) => records.iter().for_each(|record| self.live.observe(record)),
                Ok(Message::Lost(from, until)) => self.live.lost(from, until),
                Ok(Message::Tick(tick)) => return self.tick(*tick, wanted),
                Err(RecvTimeoutError::Timeout) => return Heard::Nothing,
                Err(RecvTimeoutError::Disconnected) => return Heard::Gone,
            }
            if left.is_zero() {
                return Heard::Nothing;
            }
        }
    }
}
