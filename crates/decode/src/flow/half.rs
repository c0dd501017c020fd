//! One direction of a connection: segments in, contiguous bytes and gaps out.
//!
//! Offsets count the stream's bytes in 64 bits. Everything before `next` (RCV.NXT) has been delivered, as data or as a
//! gap. `held` is sorted and free of overlaps; none of it begins at `next`.

use std::ops::Range;

use record::Timestamp;

use super::seq::SeqNum;

/// Offset of the first byte behind the SYN, or of the first byte seen. Not 0, so that what lies before a connection that
/// was joined in the middle has offsets, too.
pub(crate) const ORIGIN: u64 = 1 << 32;

/// The largest window that TCP allows (RFC 7323, section 2.3). What lies further off is no part of this stream.
const MAX_WINDOW_BYTES: u64 = 1 << 30;

/// How long a hole waits for its bytes after the receiver has acknowledged them. Captures do not keep the two directions
/// in order; queues and CPUs put an acknowledgement in front of its data by up to some milliseconds.
pub(crate) const ACK_GRACE_NS: u64 = 20_000_000;

/// How long a hole waits that nobody has acknowledged: several retransmission time-outs (RFC 6298 begins at 1 s).
pub(crate) const HOLE_TIMEOUT_NS: u64 = 5_000_000_000;

/// What comes before its cause by less may owe that to queues: an adapter hands packets over in batches, by some tens of
/// microseconds late, and each direction may have a queue of its own.
pub(crate) const QUEUE_NOISE_NS: u64 = 100_000;

/// A SYN that comes so long after its acknowledgement may be a retransmission of one that the capture missed: it is sent
/// again after 1 s (RFC 6298, section 2.1), or after 200 ms where somebody has set the least that Linux knows.
const SYN_AGAIN_NS: u64 = 200_000_000;

/// Out-of-order bytes that one direction may hold: the default of Linux' `tcp_rmem` maximum, 6 MiB, is the window that a
/// receiver opens.
const MAX_HELD_BYTES: usize = 6 << 20;

/// Out-of-order segments that one direction may hold: a full window of full-size Ethernet segments.
const MAX_HELD_SEGMENTS: usize = 4096;

/// Bytes of bookkeeping that are charged for each segment held: its entry, in a list that doubles when it grows, and what the
/// allocator adds.
const HELD_OVERHEAD_BYTES: usize = 2 * size_of::<Held>() + 16;

/// A piece of the stream that waits for what lies before it.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) offset: u64,
    /// Its length in the stream; more than `bytes` holds where the snap length cut it.
    pub(crate) len: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) at: Timestamp,
    /// Whether it came in time: before it had been acknowledged, and as [`Span::is_timed`].
    pub(crate) is_timed: bool,
    /// Where the receiver said that it misses bytes before these, after they had arrived.
    hole: Option<u64>,
    /// Bytes before these came later, and unseen, or after their acknowledgement, or were given up before it: when these became
    /// deliverable is unknown.
    pub(crate) stalled: bool,
}

/// Where a segment's payload lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span<'a> {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) bytes: &'a [u8],
    pub(crate) at: Timestamp,
    /// Whether nothing can have come before it that decides over its time, see [`HalfStream::is_anchored`].
    pub(crate) is_timed: bool,
}

/// What became of a segment's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accepted {
    /// It continues the stream; so many of its bytes had been delivered before.
    InOrder { skip: u64, late: bool },
    /// Some of it is held until what lies before it has come.
    Held,
    /// Nothing in it is new.
    Old,
    /// It was waited for, and comes after it was given up.
    GivenUp,
}

/// What can be delivered next.
#[derive(Debug)]
pub(crate) enum Ready {
    Data(Held),
    Gap { len: u64 },
}

/// Buffers of segments that were held, for the next ones: no allocation in the steady state.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    free: Vec<Vec<u8>>,
    free_bytes: usize,
    /// Bytes held over all connections.
    held_bytes: usize,
    pub(crate) conflicts: u64,
}

impl Buffers {
    /// Buffers kept for reuse; more are given back to the allocator.
    const MAX_FREE: usize = 256;

    /// What they may take together: as many full-size Ethernet segments.
    const MAX_FREE_BYTES: usize = 384 << 10;

    /// Bytes that held segments take, and the buffers for the next ones.
    pub(crate) fn used_bytes(&self) -> usize {
        self.held_bytes.saturating_add(self.free_bytes)
    }

    fn copy_of(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut buffer = self.free.pop().unwrap_or_default();
        self.free_bytes = self.free_bytes.saturating_sub(buffer.capacity());
        buffer.clear();
        buffer.extend_from_slice(bytes);
        self.held_bytes = self.held_bytes.saturating_add(bytes.len()).saturating_add(HELD_OVERHEAD_BYTES);
        buffer
    }

    /// Takes a buffer back.
    pub(crate) fn release(&mut self, buffer: Vec<u8>) {
        self.held_bytes = self.held_bytes.saturating_sub(buffer.len()).saturating_sub(HELD_OVERHEAD_BYTES);
        let free_bytes = self.free_bytes.saturating_add(buffer.capacity());
        if self.free.len() < Self::MAX_FREE && free_bytes <= Self::MAX_FREE_BYTES {
            self.free_bytes = free_bytes;
            self.free.push(buffer);
        }
    }
}

/// One direction's reassembly.
#[derive(Debug)]
pub(crate) struct HalfStream {
    /// The sequence number at `next`; `None` until anything is known of this direction.
    next_seq: Option<SeqNum>,
    /// RCV.NXT as an offset.
    next: u64,
    /// The highest offset that the receiver has acknowledged.
    acked: u64,
    /// When it did so.
    acked_at: Timestamp,
    /// The offset that had been acknowledged a grace ago: holes before it will not be filled any more.
    settled: u64,
    /// What will be `settled` at that time.
    settling: Option<(u64, Timestamp)>,
    /// Since when the earliest hole has been there.
    hole_since: Option<Timestamp>,
    held: Vec<Held>,
    held_bytes: usize,
    /// Whether the receiver is known to have all that came before this stream's first byte: from a SYN, or from an
    /// acknowledgement. The first segment seen of a connection joined in the middle may have overtaken others, and may be a
    /// copy of one that came before.
    is_anchored: bool,
    /// Whether the receiver has acknowledged this stream's beginning.
    is_accepted: bool,
    /// When it first did so.
    accepted_at: Option<Timestamp>,
    /// When the SYN came, if it did.
    opened_at: Option<Timestamp>,
    /// Where the receiver last said that it misses bytes.
    reported_hole: Option<u64>,
    /// The latest bytes that were given up.
    given_up: Range<u64>,
    /// Where the sender's FIN ends the stream.
    fin: Option<u64>,
}

impl HalfStream {
    pub(crate) fn new() -> Self {
        Self {
            next_seq: None,
            next: ORIGIN,
            acked: ORIGIN,
            acked_at: Timestamp(0),
            settled: 0,
            settling: None,
            hole_since: None,
            held: Vec::new(),
            held_bytes: 0,
            is_anchored: false,
            is_accepted: false,
            accepted_at: None,
            opened_at: None,
            reported_hole: None,
            given_up: 0..0,
            fin: None,
        }
    }

    /// The stream's first byte has this sequence number: from a SYN, from the acknowledgement of one, or, on a connection
    /// joined in the middle, from the first segment.
    pub(crate) fn begin_at(&mut self, seq: SeqNum) {
        if self.next_seq.is_none() {
            self.next_seq = Some(seq);
        }
    }

    /// The sender says that its stream begins elsewhere. A server behind a load balancer, or with SYN cookies, may answer one
    /// SYN several times and differently; the receiver's acknowledgement decides, and what comes after that is stray.
    pub(crate) fn begin_anew_at(&mut self, seq: SeqNum) {
        if self.is_known() && !self.is_accepted && !self.has_delivered() && self.held.is_empty() {
            self.next_seq = Some(seq);
        }
    }

    /// The SYN has come. Says whether that contradicts the stamps: it had been acknowledged before, and it is no retransmission
    /// of one that the capture missed, since it comes too soon for that, or after its sender must have known of the answer.
    pub(crate) fn opens_out_of_order(&mut self, now: Timestamp) -> bool {
        let is_first = self.opened_at.is_none();
        self.opened_at = Some(self.opened_at.unwrap_or(now));
        let Some(waited_ns) = self.accepted_at.and_then(|at| now.since(at)) else { return false };
        is_first && (self.acked > ORIGIN || (QUEUE_NOISE_NS..SYN_AGAIN_NS).contains(&waited_ns))
    }

    /// When the SYN came; the beginning of time where it did not.
    pub(crate) fn opened_at(&self) -> Timestamp {
        self.opened_at.unwrap_or_default()
    }

    /// Nothing comes before this stream's first byte.
    pub(crate) fn anchor(&mut self) {
        self.is_anchored = true;
    }

    pub(crate) fn is_anchored(&self) -> bool {
        self.is_anchored
    }

    pub(crate) fn is_known(&self) -> bool {
        self.next_seq.is_some()
    }

    /// Whether this is the sequence number where the stream begins (nothing has been delivered yet).
    pub(crate) fn begins_at(&self, seq: SeqNum) -> bool {
        self.next_seq.is_some_and(|next| next.plus(ORIGIN.wrapping_sub(self.next)) == seq)
    }

    /// Whether any of the stream has been delivered.
    pub(crate) fn has_delivered(&self) -> bool {
        self.next > ORIGIN
    }

    /// The sequence number at [`Self::next`].
    pub(crate) fn next_seq(&self) -> Option<SeqNum> {
        self.next_seq
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The stream offset of a sequence number, or `None` where it lies outside any window.
    pub(crate) fn offset_of(&self, seq: SeqNum) -> Option<u64> {
        let ahead = i64::from(seq.ahead_of(self.next_seq?));
        let distance = ahead.unsigned_abs();
        (distance <= MAX_WINDOW_BYTES).then(|| self.next.saturating_add_signed(ahead))
    }

    /// The highest offset that the receiver has acknowledged.
    pub(crate) fn acked(&self) -> u64 {
        self.acked
    }

    /// Bytes that the receiver has and the capture does not, or bytes that wait behind a hole.
    pub(crate) fn has_hole(&self) -> bool {
        self.acked > self.next || !self.held.is_empty()
    }

    /// The receiver has acknowledged everything before `offset`.
    pub(crate) fn acknowledge(&mut self, offset: u64, now: Timestamp) {
        // The acknowledgement of a FIN counts one number that is no byte.
        let offset = offset.min(self.fin.unwrap_or(u64::MAX));
        if offset >= ORIGIN && self.accepted_at.is_none() {
            self.accepted_at = Some(now);
        }
        self.is_anchored |= offset >= ORIGIN;
        self.is_accepted |= offset >= ORIGIN;
        if offset <= self.acked {
            return;
        }
        (self.acked, self.acked_at) = (offset, now);
        self.reported_hole = self.reported_hole.filter(|&hole| hole >= offset);
        if offset > self.next && self.settling.is_none() {
            self.settling = Some((offset, now.plus(ACK_GRACE_NS)));
        }
    }

    /// The receiver says that it has everything before `offset` and more behind, but not what lies there: whatever is held
    /// behind it had not become deliverable by now. That proves the hole to be one on the wire, not one in the capture.
    pub(crate) fn report_hole(&mut self, offset: u64) {
        if self.held.is_empty() || offset < self.acked.max(self.next) {
            return;
        }
        self.reported_hole = Some(offset);
        let behind = self.held.partition_point(|held| held.offset <= offset);
        for held in self.held.iter_mut().skip(behind) {
            held.hole = Some(offset);
        }
    }

    /// The sender's FIN lies at `offset`. The first one counts.
    pub(crate) fn finish_at(&mut self, offset: u64) {
        if offset >= self.next && self.fin.is_none() {
            self.fin = Some(offset);
        }
    }

    /// Whether it is known where the stream ends.
    pub(crate) fn knows_end(&self) -> bool {
        self.fin.is_some()
    }

    /// Whether the sender has closed and everything before that has been delivered.
    pub(crate) fn is_finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.next >= fin)
    }

    /// Takes a segment's payload. What is in order is for the caller to deliver, with [`Self::advance`].
    pub(crate) fn accept(&mut self, span: Span<'_>, buffers: &mut Buffers) -> Accepted {
        let end = span.offset.saturating_add(span.len);
        if end <= self.next {
            let was_given_up = self.given_up.contains(&span.offset) && end <= self.given_up.end;
            return if was_given_up { Accepted::GivenUp } else { Accepted::Old };
        }
        let late = self.acked > span.offset.max(self.next);
        if late {
            self.stall_behind(end);
        }
        let is_clear = self.held.first().is_none_or(|first| end <= first.offset);
        if span.offset <= self.next && is_clear {
            return Accepted::InOrder { skip: self.next.saturating_sub(span.offset), late };
        }
        if self.hold(span, late, buffers) { Accepted::Held } else { Accepted::Old }
    }

    /// The same where nothing is to be delivered yet.
    pub(crate) fn set_aside(&mut self, span: Span<'_>, buffers: &mut Buffers) -> Accepted {
        let late = self.acked > span.offset.max(self.next);
        if late {
            self.stall_behind(span.offset.saturating_add(span.len));
        }
        let is_new = span.offset.saturating_add(span.len) > self.next && self.hold(span, late, buffers);
        if is_new { Accepted::Held } else { Accepted::Old }
    }

    /// What is held behind `end` waited for bytes that came only after their acknowledgement. If these are a copy, the
    /// first one's time is unknown; if the capture put the two directions out of order, the acknowledgement's time is not to
    /// be compared with theirs. Either way nobody knows when what is held became deliverable.
    fn stall_behind(&mut self, end: u64) {
        let behind = self.held.partition_point(|held| held.offset < end);
        self.held.iter_mut().skip(behind).for_each(|held| held.stalled = true);
    }

    /// Whether bytes were given up that the receiver has not acknowledged either: it may still wait for them, and what has come
    /// behind them with it. When that becomes deliverable is unknown.
    pub(crate) fn may_be_stalled(&self) -> bool {
        self.acked < self.given_up.end
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Whether more is held than may be.
    pub(crate) fn is_full(&self) -> bool {
        self.held_bytes > MAX_HELD_BYTES || self.held.len() > MAX_HELD_SEGMENTS
    }

    /// Keeps what is new of a segment; the first copy of a byte wins. False where nothing was new.
    fn hold(&mut self, span: Span<'_>, late: bool, buffers: &mut Buffers) -> bool {
        let end = span.offset.saturating_add(span.len);
        let mut cursor = span.offset.max(self.next);
        let mut place = self.held.partition_point(|held| held.offset.saturating_add(held.len) <= cursor);
        let mut is_new = false;
        while cursor < end {
            let piece_end = match self.held.get(place) {
                Some(held) if held.offset <= cursor => {
                    let held_end = held.offset.saturating_add(held.len).min(end);
                    buffers.conflicts =
                        buffers.conflicts.saturating_add(differing_bytes(held, &span, cursor, held_end));
                    cursor = held_end;
                    place = place.saturating_add(1);
                    continue;
                }
                Some(held) => held.offset.min(end),
                None => end,
            };
            let bytes = slice_of(span.bytes, span.offset, cursor, piece_end);
            let bytes = buffers.copy_of(bytes);
            self.held_bytes = self.held_bytes.saturating_add(bytes.len()).saturating_add(HELD_OVERHEAD_BYTES);
            let len = piece_end.saturating_sub(cursor);
            let hole = self.reported_hole.filter(|&hole| hole < cursor);
            let is_timed = span.is_timed && !late;
            let stalled = self.may_be_stalled();
            let piece = Held { offset: cursor, len, bytes, at: span.at, is_timed, hole, stalled };
            self.held.insert(place, piece);
            place = place.saturating_add(1);
            cursor = piece_end;
            is_new = true;
        }
        if is_new && self.hole_since.is_none() {
            self.hole_since = Some(span.at);
        }
        is_new
    }

    /// So many bytes from `next` on have been delivered.
    pub(crate) fn advance(&mut self, len: u64) {
        self.next = self.next.saturating_add(len);
        self.next_seq = self.next_seq.map(|seq| seq.plus(len));
    }

    /// What can be delivered now: held data that has become contiguous, or a gap that will not be filled any more.
    /// `over`: nothing more will come, so holes are gaps at once.
    pub(crate) fn pop(&mut self, now: Timestamp, over: bool) -> Option<Ready> {
        self.settle(now);
        let first = self.held.first();
        let hole_end = match first {
            Some(first) if first.offset <= self.next => return self.pop_held().map(Ready::Data),
            Some(first) => first.offset,
            None if self.acked > self.next => self.acked.min(self.fin.unwrap_or(u64::MAX)),
            None => {
                self.hole_since = None;
                return None;
            }
        };
        let timed_out = self.hole_since.is_some_and(|since| now.since(since) > Some(HOLE_TIMEOUT_NS));
        let reach = if over || self.is_full() || timed_out { hole_end } else { self.settled.min(hole_end) };
        let len = reach.saturating_sub(self.next);
        if len == 0 {
            return None;
        }
        let gap = self.next..reach;
        let is_missed = self.acked < reach;
        for held in &mut self.held {
            held.stalled |= is_missed || held.hole.is_some_and(|hole| gap.contains(&hole));
        }
        let joins = self.given_up.end == gap.start;
        self.given_up = if joins { self.given_up.start..gap.end } else { gap };
        self.advance(len);
        Some(Ready::Gap { len })
    }

    fn pop_held(&mut self) -> Option<Held> {
        if self.held.is_empty() {
            return None;
        }
        let held = self.held.remove(0);
        self.held_bytes = self.held_bytes.saturating_sub(held.bytes.len()).saturating_sub(HELD_OVERHEAD_BYTES);
        self.advance(held.len);
        // What is held now has been waiting for longer than since now.
        self.hole_since = self.held.first().map(|next| next.at);
        Some(held)
    }

    fn settle(&mut self, now: Timestamp) {
        let Some((offset, _)) = self.settling.filter(|&(_, due)| now >= due) else { return };
        let due = self.acked_at.plus(ACK_GRACE_NS);
        self.settled = if now >= due { self.acked } else { offset };
        self.settling = (self.acked > self.settled).then_some((self.acked, due));
    }

    /// All that the receiver has acknowledged is settled at once: waiting longer would cost more than it could bring.
    pub(crate) fn settle_now(&mut self) {
        (self.settled, self.settling) = (self.acked, None);
    }

    /// Drops what is held.
    pub(crate) fn clear(&mut self, buffers: &mut Buffers) {
        for held in self.held.drain(..) {
            buffers.release(held.bytes);
        }
        self.held = Vec::new();
        self.held_bytes = 0;
    }
}

/// The part of `bytes`, which begin at `base`, from `from` to `to`; what was cut off by the snap length is missing.
fn slice_of(bytes: &[u8], base: u64, from: u64, to: u64) -> &[u8] {
    let clip = |offset: u64| usize::try_from(offset.saturating_sub(base)).unwrap_or(usize::MAX).min(bytes.len());
    bytes.get(clip(from)..clip(to)).unwrap_or_default()
}

/// How many bytes of a later copy differ from the first one.
fn differing_bytes(held: &Held, span: &Span<'_>, from: u64, to: u64) -> u64 {
    let first = slice_of(&held.bytes, held.offset, from, to);
    let later = slice_of(span.bytes, span.offset, from, to);
    first.iter().zip(later).filter(|(a, b)| a != b).count() as u64
}

#[cfg(test)]
mod tests;
