//! What a segment does when it reaches the other end, and what the application there makes of it.

use super::conversation::{Conversation, Event};
use super::segment::{Header, Side, Span, flag};

/// From the arrival of a byte until the application has it.
const READ_NS: u64 = 2_000;

/// From hearing the other side to answering it, outside the pagestream.
const SAY_NS: u64 = 80_000;

/// From reading a request to beginning its batch.
const BATCH_NS: u64 = 3_000;

impl Conversation {
    /// A segment has arrived.
    pub(super) fn arrive(&mut self, header: &Header) {
        let to = header.from.peer();
        let now = self.now;
        let end = self.ends.of_mut(to);
        if header.has(flag::RST) {
            end.gone = true;
            self.service_is_over(to);
            return;
        }
        if end.gone {
            if header.span.end != header.span.start {
                self.reset(to);
            }
            return;
        }
        let newer = header.has(flag::SYN) || (header.ts_value.wrapping_sub(end.ts_recent) as i32) >= 0;
        if newer && end.receiver.takes_timestamp(header.span.start) {
            end.ts_recent = header.ts_value;
        }
        if header.has(flag::SYN) {
            return self.open(to);
        }
        end.sender.acknowledge(header, now);
        if header.payload_len() > 0 && end.left && header.span.end > end.receiver.nxt() {
            // A closed socket has nobody to give new data to; old data is acknowledged as ever.
            self.reset(to);
            return;
        }
        let urgent = if header.span.end == header.span.start {
            // Below what is expected: a probe, which must be answered.
            (header.span.start.wrapping_sub(end.receiver.nxt()) as i64) < 0
        } else {
            end.receiver.accept(header.span, header.has(flag::FIN), now)
        };
        self.deliver(to);
        let sent = self.pump(to);
        if urgent && !sent && !self.ends.of(to).gone {
            self.acknowledge(to);
        }
        self.arm(to);
    }

    fn open(&mut self, to: Side) {
        match to {
            Side::Server => self.send(Side::Server, Span { start: 0, end: 0 }, flag::SYN | flag::ACK),
            Side::Client => {
                self.acknowledge(Side::Client);
                self.continue_script();
            }
        }
    }

    /// Tells the other end that there is no connection here.
    pub(super) fn reset(&mut self, from: Side) {
        let end = self.ends.of_mut(from);
        end.gone = true;
        let nxt = end.sender.nxt();
        self.send(from, Span { start: nxt, end: nxt }, flag::RST);
        self.service_is_over(from);
    }

    fn service_is_over(&mut self, side: Side) {
        if side == Side::Server {
            self.service.abandon();
        }
    }

    /// The application takes what is there.
    pub(super) fn deliver(&mut self, to: Side) {
        let stalled = to == Side::Client && self.compute.as_ref().is_some_and(|compute| compute.is_stalled());
        if stalled {
            return;
        }
        let mss = self.payload_max();
        let receiver = &mut self.ends.of_mut(to).receiver;
        let opened = receiver.take(mss);
        let (readable, finished) = (receiver.readable(), receiver.finished());
        if opened {
            self.acknowledge(to);
        }
        if self.awaited.is_some_and(|(side, offset)| side == to && readable >= offset) {
            self.awaited = None;
            self.continue_script();
        }
        match to {
            Side::Client => self.client_reads(readable, finished),
            Side::Server => self.server_reads(readable, finished),
        }
    }

    fn client_reads(&mut self, readable: u64, finished: bool) {
        let now = self.now;
        if let Some(compute) = &mut self.compute {
            let rows = compute.receive(readable, now + READ_NS);
            let received = !rows.is_empty();
            self.asked.extend(rows);
            if received {
                self.step_compute();
            }
        }
        if finished {
            let end = &mut self.ends.client;
            end.sender.close();
            end.left = true;
        }
    }

    fn server_reads(&mut self, readable: u64, finished: bool) {
        self.service.read(readable, self.now + READ_NS);
        if self.service.has_work() && !self.service.busy {
            self.service.busy = true;
            self.after(READ_NS + BATCH_NS, Event::Batch);
        }
        if finished {
            self.server_sees_fin();
        }
    }

    /// The next step follows, or the script is over.
    pub(super) fn continue_script(&mut self) {
        if self.script.is_empty() {
            self.script_is_over();
        } else {
            let delay_ns = SAY_NS / 2 + self.rng.below(SAY_NS);
            self.after(delay_ns, Event::Say);
        }
    }

    /// Says the next step.
    pub(super) fn say(&mut self) {
        let Some(step) = self.script.pop_front() else { return };
        let end = self.ends.of_mut(step.side);
        if end.gone {
            return;
        }
        end.sender.write(&step.bytes);
        self.awaited = Some((step.side.peer(), end.sender.written()));
        self.pump(step.side);
    }
}
