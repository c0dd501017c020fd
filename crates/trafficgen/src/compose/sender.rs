//! The sending half of a simulated TCP endpoint: what is unacknowledged, what may go next, what must go again.
//!
//! Loss recovery is what Linux does in outline: SACK-driven fast retransmission (RFC 6675) and a retransmission timer
//! (RFC 6298). There is no congestion window: the receiver's window is the only bound.

use std::collections::VecDeque;

use super::segment::{Header, Span};

/// Linux's smallest retransmission time-out.
const RETRANSMIT_NS: u64 = 200_000_000;

/// Doublings of the time-out are held at this one: 200 ms << 5 is 6.4 s.
const MOST_BACKOFF: u32 = 5;

/// Segments received above a hole after which it counts as lost (RFC 6675: DupThresh).
const DUP_THRESHOLD: usize = 3;

/// A segment that is not acknowledged yet.
#[derive(Debug, Clone, Copy)]
struct Flight {
    span: Span,
    fin: bool,
    sacked: bool,
    /// It was sent again in this recovery; if that was lost too, the timer takes over.
    resent: bool,
}

/// What is to be sent next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Bytes, sent for the first time or again.
    Data(Span),
    /// The FIN.
    Fin(Span),
    /// A probe of a closed window: no payload, one offset below what is acknowledged.
    Probe,
}

/// The sending half.
#[derive(Debug)]
pub(super) struct Sender {
    mss: u64,
    /// Bytes from `una` on.
    buffer: VecDeque<u8>,
    /// SND.UNA.
    una: u64,
    /// SND.NXT.
    nxt: u64,
    written: u64,
    closing: bool,
    flights: VecDeque<Flight>,
    /// The offset behind the last one that the receiver's window allows.
    window_end: u64,
    duplicate_acks: usize,
    timer_at: Option<u64>,
    backoff: u32,
    resend_first: bool,
    probe_due: bool,
}

impl Sender {
    /// An established connection, nothing sent.
    pub(super) fn new(mss: u64, peer_window_bytes: u64) -> Self {
        Self {
            mss,
            buffer: VecDeque::new(),
            una: 0,
            nxt: 0,
            written: 0,
            closing: false,
            flights: VecDeque::new(),
            window_end: peer_window_bytes,
            duplicate_acks: 0,
            timer_at: None,
            backoff: 0,
            resend_first: false,
            probe_due: false,
        }
    }

    /// SND.NXT.
    pub(super) const fn nxt(&self) -> u64 {
        self.nxt
    }

    /// SND.UNA.
    pub(super) const fn una(&self) -> u64 {
        self.una
    }

    /// The offset behind all that was written.
    pub(super) const fn written(&self) -> u64 {
        self.written
    }

    /// When the timer fires.
    pub(super) const fn deadline(&self) -> Option<u64> {
        self.timer_at
    }

    /// Takes bytes to be sent.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.buffer.extend(bytes);
        self.written += bytes.len() as u64;
    }

    /// Sends a FIN behind what was written.
    pub(super) const fn close(&mut self) {
        self.closing = true;
    }

    /// What goes next, if anything may go; it counts as sent.
    pub(super) fn next(&mut self, now: u64) -> Option<Next> {
        if std::mem::take(&mut self.probe_due) {
            return Some(Next::Probe);
        }
        let next = self.next_lost().or_else(|| self.next_new());
        if next.is_some() {
            self.timer_at.get_or_insert(now + (RETRANSMIT_NS << self.backoff));
        } else if self.flights.is_empty() && self.nxt < self.written {
            // The window is closed: ask from time to time whether it is open again.
            self.timer_at.get_or_insert(now + (RETRANSMIT_NS << self.backoff));
        }
        next
    }

    fn next_lost(&mut self) -> Option<Next> {
        let mut above = self.flights.iter().filter(|flight| flight.sacked).count();
        let mut first = true;
        for flight in &mut self.flights {
            if flight.sacked {
                above -= 1;
                continue;
            }
            let by_acks = first && (self.resend_first || self.duplicate_acks >= DUP_THRESHOLD);
            first = false;
            if (by_acks || above >= DUP_THRESHOLD) && !flight.resent {
                flight.resent = true;
                self.resend_first = false;
                return Some(if flight.fin { Next::Fin(flight.span) } else { Next::Data(flight.span) });
            }
        }
        None
    }

    fn next_new(&mut self) -> Option<Next> {
        let end = self.written.min(self.nxt + self.mss).min(self.window_end);
        let span = if end > self.nxt {
            Span { start: self.nxt, end }
        } else if self.closing && self.nxt == self.written {
            Span { start: self.nxt, end: self.nxt + 1 }
        } else {
            return None;
        };
        let fin = span.end > self.written;
        self.nxt = span.end;
        self.flights.push_back(Flight { span, fin, sacked: false, resent: false });
        Some(if fin { Next::Fin(span) } else { Next::Data(span) })
    }

    /// Appends the bytes of a span that is not acknowledged yet.
    pub(super) fn copy(&self, span: Span, payload: &mut Vec<u8>) {
        let from = span.start.saturating_sub(self.una) as usize;
        let to = (span.end.saturating_sub(self.una) as usize).min(self.buffer.len());
        let (front, back) = self.buffer.as_slices();
        let cut = |slice: &[u8], offset: usize| {
            let (low, high) = (from.saturating_sub(offset), to.saturating_sub(offset).min(slice.len()));
            slice.get(low..high).unwrap_or_default().to_vec()
        };
        if to <= front.len() {
            payload.extend_from_slice(front.get(from..to).unwrap_or_default());
        } else {
            payload.extend(cut(front, 0));
            payload.extend(cut(back, front.len()));
        }
    }

    /// Takes an acknowledgement.
    pub(super) fn acknowledge(&mut self, header: &Header, now: u64) {
        for block in header.sacks.iter().flatten() {
            for flight in &mut self.flights {
                flight.sacked |= block.start <= flight.span.start && flight.span.end <= block.end;
            }
        }
        let window_end = header.ack + header.window_bytes;
        let opened = window_end > self.window_end;
        self.window_end = self.window_end.max(window_end);
        if header.ack > self.una {
            self.advance(header.ack, now);
        } else if header.payload_len() == 0 && !opened && !self.flights.is_empty() {
            self.duplicate_acks += 1;
        }
    }

    fn advance(&mut self, ack: u64, now: u64) {
        let acknowledged_bytes = (ack.min(self.written) - self.una) as usize;
        self.buffer.drain(..acknowledged_bytes.min(self.buffer.len()));
        self.una = ack.min(self.written);
        self.duplicate_acks = 0;
        self.backoff = 0;
        while self.flights.front().is_some_and(|flight| flight.span.end <= ack) {
            self.flights.pop_front();
        }
        let holes = self.flights.iter().any(|flight| flight.sacked);
        self.resend_first = holes && self.flights.front().is_some_and(|flight| !flight.sacked && !flight.resent);
        self.timer_at = (!self.flights.is_empty()).then_some(now + RETRANSMIT_NS);
    }

    /// The timer has fired: the first segment goes again, or a closed window is probed.
    pub(super) fn time_out(&mut self) {
        self.timer_at = None;
        self.backoff = (self.backoff + 1).min(MOST_BACKOFF);
        if self.flights.is_empty() {
            self.probe_due = self.nxt < self.written;
            return;
        }
        for flight in &mut self.flights {
            flight.resent = false;
        }
        self.resend_first = true;
    }
}
