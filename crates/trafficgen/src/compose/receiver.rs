//! The receiving half of a simulated TCP endpoint: what is there in order, what lies above a hole, when to acknowledge.

use super::segment::{SACK_BLOCKS, Span, WINDOW_SCALE};

/// Linux's delayed acknowledgement.
const DELAYED_ACK_NS: u64 = 40_000_000;

/// Segments after which an acknowledgement does not wait (RFC 9293, section 3.8.6.3).
const SEGMENTS_UNACKED: u32 = 2;

/// The receiving half.
#[derive(Debug)]
pub(super) struct Receiver {
    /// RCV.NXT; the FIN counts.
    nxt: u64,
    /// Last.ACK.sent (RFC 7323, section 4.3).
    last_ack_sent: u64,
    /// Ranges above a hole, the last one received first, as SACK reports them.
    above: Vec<Span>,
    /// Where the other end's bytes end, once its FIN was seen.
    fin_at: Option<u64>,
    /// Bytes that the application has taken.
    taken: u64,
    capacity_bytes: u64,
    unacked_segments: u32,
    ack_at: Option<u64>,
    /// The range of the last duplicate, for the next SACK (RFC 2883).
    duplicate: Option<Span>,
    /// The window last offered.
    offered_bytes: u64,
}

impl Receiver {
    /// Nothing received.
    pub(super) const fn new(capacity_bytes: u64) -> Self {
        Self {
            nxt: 0,
            last_ack_sent: 0,
            above: Vec::new(),
            fin_at: None,
            taken: 0,
            capacity_bytes,
            unacked_segments: 0,
            ack_at: None,
            duplicate: None,
            offered_bytes: capacity_bytes,
        }
    }

    /// RCV.NXT.
    pub(super) const fn nxt(&self) -> u64 {
        self.nxt
    }

    /// Whether a segment that begins at an offset tells the time that is echoed: the earliest one that is not
    /// acknowledged does, one above a hole does not (RFC 7323, section 4.3).
    pub(super) const fn takes_timestamp(&self, start: u64) -> bool {
        (start.wrapping_sub(self.last_ack_sent) as i64) <= 0
    }

    /// Bytes that are there in order, without the FIN.
    pub(super) fn readable(&self) -> u64 {
        self.fin_at.map_or(self.nxt, |end| self.nxt.min(end))
    }

    /// Whether the other end's FIN was reached.
    pub(super) fn finished(&self) -> bool {
        self.fin_at.is_some_and(|end| self.nxt > end)
    }

    /// When a delayed acknowledgement is due.
    pub(super) const fn deadline(&self) -> Option<u64> {
        self.ack_at
    }

    /// Takes what a segment carries. Returns whether it must be acknowledged at once.
    pub(super) fn accept(&mut self, span: Span, fin: bool, now: u64) -> bool {
        if fin {
            self.fin_at = Some(span.end - 1);
        }
        if span.end <= self.nxt {
            self.duplicate = Some(span);
            return true;
        }
        if span.start > self.nxt {
            self.keep_above(span);
            return true;
        }
        let hole_was_there = !self.above.is_empty();
        self.nxt = span.end;
        while let Some(at) = self.above.iter().position(|range| range.start <= self.nxt) {
            self.nxt = self.nxt.max(self.above.swap_remove(at).end);
        }
        self.unacked_segments += 1;
        self.ack_at.get_or_insert(now + DELAYED_ACK_NS);
        hole_was_there || fin || self.unacked_segments >= SEGMENTS_UNACKED
    }

    fn keep_above(&mut self, mut span: Span) {
        self.above.retain(|range| {
            let touches = range.start <= span.end && span.start <= range.end;
            if touches {
                span = Span { start: span.start.min(range.start), end: span.end.max(range.end) };
            }
            !touches
        });
        self.above.insert(0, span);
    }

    /// The application takes everything that is there. Returns whether the window has opened so far that the sender
    /// should hear of it (RFC 9293, section 3.8.6.2.2).
    pub(super) fn take(&mut self, mss: u64) -> bool {
        self.taken = self.readable();
        let window = self.window_bytes();
        self.offered_bytes < 2 * mss && window >= 2 * mss
    }

    /// RCV.WND, as the scaled field of a segment can say it.
    pub(super) fn window_bytes(&self) -> u64 {
        let free = self.capacity_bytes.saturating_sub(self.readable().saturating_sub(self.taken));
        free.min(0xFFFF << WINDOW_SCALE) >> WINDOW_SCALE << WINDOW_SCALE
    }

    /// The blocks of the next segment's SACK option; what the segment says counts as acknowledged.
    pub(super) fn acknowledge(&mut self, window_bytes: u64) -> [Option<Span>; SACK_BLOCKS] {
        self.unacked_segments = 0;
        self.last_ack_sent = self.nxt;
        self.ack_at = None;
        self.offered_bytes = window_bytes;
        let mut blocks = [None; SACK_BLOCKS];
        let ranges = self.duplicate.take().into_iter().chain(self.above.iter().copied());
        for (block, range) in blocks.iter_mut().zip(ranges) {
            *block = Some(range);
        }
        blocks
    }
}
