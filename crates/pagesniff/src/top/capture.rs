//! The capturing thread: packets in, records and ticks out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use analysis::live::{CaptureFigures, HISTORY_TICKS, WINDOW_TICKS};
use decode::Decoder;
use record::Timestamp;

use super::feed::{Feed, Tick};
use crate::capture::{After, CaptureError, Source, SourceStats};
use crate::clock::wall_clock;
use crate::earlier::Earlier;
use crate::facts::{facts, losses};
use crate::notes::{Grounds, notes};

/// A tick's length; one that the thread came late to is longer, and its rates are of its true length.
const TICK: Duration = Duration::from_secs(1);
const TICK_NS: u64 = 1_000_000_000;

/// While a capture file is played, it is looked so often whether somebody wants it to end.
const LOOK: Duration = Duration::from_millis(50);

/// By which clock ticks end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// The machine's: an interface.
    Machine,
    /// The packets': a capture file, as fast as it can be read.
    Packets,
    /// The packets', and they are handed on in their own pace.
    Played,
}

/// Reads packets until there are no more, or nobody wants any.
pub(super) struct Capturing {
    pub(super) decoder: Decoder,
    pub(super) feed: Feed,
    /// What was known of connections before.
    pub(super) earlier: Earlier,
    pub(super) ports: Vec<u16>,
    pub(super) has_hints: bool,
    pub(super) stop: Arc<AtomicBool>,
}

/// The decoder and what follows it, and when the next tick ends.
struct Ticking {
    capturing: Capturing,
    clock: Clock,
    since: Instant,
    since_packet: Option<Timestamp>,
    /// Since when a capture file is played, and its time then.
    played_since: Option<(Instant, Timestamp)>,
    /// Connections that were open when nothing more came.
    open_at_end: Option<u64>,
    /// The source's, as they were last asked for.
    source: (SourceStats, Vec<String>),
}

impl Capturing {
    /// Reads all of it.
    ///
    /// # Errors
    ///
    /// Where the source cannot be read any further. What came before was handed on.
    pub(super) fn run(mut self, source: &mut impl Source, clock: Clock) -> Result<(), CaptureError> {
        self.earlier.connections.drain(..).for_each(|connection| self.decoder.remember(connection));
        let since = Instant::now();
        let stats = (source.statistics(), source.notes());
        let mut ticking = Ticking {
            capturing: self,
            clock,
            since,
            since_packet: None,
            played_since: None,
            open_at_end: None,
            source: stats,
        };
        let outcome = loop {
            let after = source.burst(|packet| {
                ticking.before(packet.time);
                let Capturing { decoder, feed, .. } = &mut ticking.capturing;
                feed.at(packet.time);
                decoder.packet(packet, feed);
            });
            match after {
                Ok(After::Packets) => {}
                Ok(After::Idle { now }) => {
                    let Capturing { decoder, feed, .. } = &mut ticking.capturing;
                    feed.at(now);
                    decoder.idle(now, feed);
                }
                Ok(After::End) => break Ok(()),
                Err(error) => break Err(error),
            }
            if clock == Clock::Machine && ticking.since.elapsed() >= TICK {
                ticking.source = (source.statistics(), source.notes());
                ticking.machine_tick(false);
            }
            if ticking.is_to_end() {
                break Ok(());
            }
        };
        ticking.source = (source.statistics(), source.notes());
        ticking.finish();
        outcome
    }
}

impl Ticking {
    /// Files end when somebody wants it; an interface does so by itself.
    fn is_to_end(&self) -> bool {
        let Capturing { feed, stop, .. } = &self.capturing;
        feed.is_over() || (self.clock != Clock::Machine && stop.load(Ordering::Relaxed))
    }

    /// The next packet of a capture file was captured at `next`: ends the ticks before it, and waits for its time where it
    /// is played.
    fn before(&mut self, next: Timestamp) {
        if self.clock == Clock::Machine {
            return;
        }
        let began = *self.since_packet.get_or_insert(next);
        // A pause longer than all that is shown need not be gone through second by second, nor be waited for.
        let most = if self.clock == Clock::Played { WINDOW_TICKS } else { HISTORY_TICKS };
        let most_ns = TICK_NS.saturating_mul(most as u64);
        if next.0.saturating_sub(began.0) > most_ns {
            (self.since_packet, self.played_since) = (Some(Timestamp(next.0.saturating_sub(most_ns))), None);
        }
        while let Some(end) = self.since_packet.map(|began| began.plus(TICK_NS)).filter(|end| *end <= next) {
            if self.waited_for(end) {
                return;
            }
            self.capturing.feed.at(end);
            self.end_tick(TICK_NS, false);
            self.since_packet = Some(end);
        }
        self.waited_for(next);
    }

    /// Waits for that moment of a capture that is played; whether somebody wants it to end.
    fn waited_for(&mut self, moment: Timestamp) -> bool {
        if self.clock != Clock::Played {
            return self.is_to_end();
        }
        let (since, began) = *self.played_since.get_or_insert_with(|| (Instant::now(), moment));
        let due = Duration::from_nanos(moment.0.saturating_sub(began.0));
        loop {
            let left = due.saturating_sub(since.elapsed());
            if left.is_zero() || self.is_to_end() {
                return self.is_to_end();
            }
            std::thread::sleep(left.min(LOOK));
        }
    }

    fn machine_tick(&mut self, is_last: bool) {
        let length_ns = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if self.end_tick(length_ns, is_last) {
            self.since = Instant::now();
        }
    }

    /// Tells that a tick of that length has ended. False where there was no room to.
    fn end_tick(&mut self, length_ns: u64, is_last: bool) -> bool {
        let Capturing { decoder, feed, .. } = &mut self.capturing;
        feed.capture_losses(&losses(decoder.stats(), &self.source.0));
        feed.hand_over();
        let (capture, notes) = (self.figures(), self.notes());
        // Before the first packet there is no other clock.
        let now = if self.clock == Clock::Machine && capture.packets == 0 { wall_clock() } else { self.now() };
        self.capturing.feed.tick(Tick { now, length_ns, capture, notes, is_last })
    }

    fn now(&self) -> Timestamp {
        self.capturing.feed.now()
    }

    fn figures(&self) -> CaptureFigures {
        let Capturing { decoder, feed, .. } = &self.capturing;
        let facts = facts(decoder.stats(), &self.source.0, feed.ledger, true);
        CaptureFigures {
            packets: facts.packets,
            wire_bytes: facts.wire_bytes,
            connections: facts.connections.pagestream,
            open_connections: self.open_at_end.unwrap_or_else(|| decoder.connections().count() as u64),
            loss: facts.loss,
            ledger: facts.ledger,
        }
    }

    fn notes(&self) -> Vec<String> {
        let Capturing { decoder, feed, earlier, ports, has_hints, .. } = &self.capturing;
        let grounds = Grounds {
            stats: *decoder.stats(),
            ledger: feed.ledger,
            ports,
            sample_one_in: feed.filter().sample_one_in(),
            suspect: feed.kinds.suspect,
            halves: feed.kinds.halves,
            without_owner: feed.kinds.without_owner,
            timed: feed.kinds.timed,
            has_hints: *has_hints,
        };
        let of_source = self.source.1.iter().cloned();
        let unknown = feed.ledger.unattributed.saturating_add(feed.kinds.without_owner);
        let of_earlier = earlier.notes(decoder.stats(), unknown);
        of_source.chain(notes(&grounds)).chain(feed.attributor.notes()).chain(of_earlier).collect()
    }

    /// Nothing comes any more: what is still open ends, and the last tick is over.
    fn finish(&mut self) {
        let Capturing { decoder, feed, .. } = &mut self.capturing;
        feed.be_patient();
        self.open_at_end = Some(decoder.connections().count() as u64);
        decoder.finish(feed);
        match (self.clock, self.since_packet) {
            (Clock::Machine, _) => self.machine_tick(true),
            (_, began) => {
                let now = self.now();
                let length_ns = began.map_or(0, |began| now.0.saturating_sub(began.0));
                self.end_tick(length_ns, true);
            }
        }
    }
}
