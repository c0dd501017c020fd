//! What is expected of the next record, so that only the difference is written. Writer and reader run the same state
//! forward; it begins anew with each block.
//!
//! | column | expected |
//! |---|---|
//! | `connection` | the same as before: 0; else its position plus 1 |
//! | `shape` | the connection's last: 0; else its position plus 1 |
//! | `number` | 0; alternatively one more than this target's last |
//! | `time` | after the connection's last answer (mode 0), its last request's time (1: the same, 2: later, 3: earlier) |
//! | `end` (of the answer) | that of the last record: records come out in this order |
//! | `depth` | requests of the connection whose answers had not ended, and this one |
//! | `request_lsn` | the last one; alternatively this record's `not_modified_since` |
//! | `not_modified_since` | the last one; alternatively that of the last record of this page |
//! | `page_lsn` | `not_modified_since`; alternatively that of the last record of this page |
//! | `page_hash` | that of the last record of this page |
//! | `reqid`, `seq` | one more than the connection's last |
//!
//! "The last record of this page" is what the slot of a small hash table holds: another page may have taken the slot.
//! That costs a few bits and never correctness, as the reader sees the same slot.
//!
//! All arithmetic wraps: whatever the values are, adding the difference restores them.

use super::dictionary::{Connection, TargetHead};

/// The time is the connection's last answer's end (without latency: the last such record's time) plus the value.
pub(crate) const TIME_AFTER_ANSWER: u64 = 0;
/// The time is that of the connection's last request; there is no value.
pub(crate) const TIME_SAME: u64 = 1;
/// The time is that of the connection's last request plus the value.
pub(crate) const TIME_LATER: u64 = 2;
/// The time is that of the connection's last request minus the value.
pub(crate) const TIME_EARLIER: u64 = 3;

/// The table of pages has as many slots as the block has records, rounded up to a power of two, but never fewer. The
/// bound keeps it in the processor's second-level cache.
const MIN_PAGE_SLOTS: usize = 64;
const MAX_PAGE_SLOTS: usize = 1 << 14;

/// No answer is open.
const NONE: u32 = u32::MAX;

/// One connection, as far as the block has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    /// Time of its last request.
    pub(crate) time: u64,
    /// End of its last answer; of a request without one, its time.
    pub(crate) end: u64,
    /// The next request id.
    pub(crate) reqid: u64,
    /// The next ordinal.
    pub(crate) seq: u64,
    /// Its last record's shape, by position.
    shape: u32,
    /// The first of its answers that may not have ended, in [`Predictor::answers`].
    oldest: u32,
    /// Its last answer there.
    newest: u32,
    /// How many they are.
    in_flight: u32,
}

impl Peer {
    /// The shape column's value for a position. The reader goes over this column beforehand, as it tells how long the
    /// others are.
    #[inline]
    pub(crate) fn shape_symbol(&mut self, position: u32) -> u64 {
        if position == self.shape {
            return 0;
        }
        self.shape = position;
        u64::from(position).wrapping_add(1)
    }
}

/// An answer's end, and the next answer of the same connection.
#[derive(Debug, Clone, Copy)]
struct Answer {
    end: u64,
    next: u32,
}

/// A page's last values; 0 where there were none.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Page {
    pub(crate) not_modified_since: u64,
    pub(crate) page_lsn: u64,
    pub(crate) page_hash: u64,
}

/// The state of prediction within a block.
#[derive(Debug, Default)]
pub(crate) struct Predictor {
    peers: Vec<Peer>,
    /// Of each target, one more than its last block.
    numbers: Vec<u32>,
    answers: Vec<Answer>,
    pages: Vec<Page>,
    page_shift: u32,
    last_connection: u32,
    /// End of the last answer.
    pub(crate) end: u64,
    /// Time of the last record without latency.
    pub(crate) unanswered_time: u64,
    /// The last `request_lsn` that was not MAX.
    pub(crate) request_lsn: u64,
    /// The last `not_modified_since`.
    pub(crate) not_modified_since: u64,
}

impl Predictor {
    /// Begins a block of `records` records whose earliest time is `base`, in the block's unit.
    pub(crate) fn begin(&mut self, connections: &[Connection], targets: &[TargetHead], (records, base): (usize, u64)) {
        self.peers.clear();
        self.peers.extend(connections.iter().map(|connection| Peer {
            time: base,
            end: base,
            // The upper half of a request id is the backend's process id.
            reqid: u64::from(connection.backend_pid.unwrap_or(0)) << 32 | 1,
            seq: 0,
            shape: 0,
            oldest: NONE,
            newest: NONE,
            in_flight: 0,
        }));
        self.numbers.clear();
        self.numbers.resize(targets.len(), 0);
        self.answers.clear();
        let slots = records.clamp(MIN_PAGE_SLOTS, MAX_PAGE_SLOTS).next_power_of_two();
        self.pages.clear();
        self.pages.resize(slots, Page::default());
        self.page_shift = u64::BITS.wrapping_sub(slots.trailing_zeros());
        self.last_connection = NONE;
        self.end = base;
        self.unanswered_time = base;
        self.request_lsn = 0;
        self.not_modified_since = 0;
    }

    /// The connection column's value for a position.
    #[inline]
    pub(crate) fn connection_symbol(&mut self, position: u32) -> u64 {
        if position == self.last_connection {
            return 0;
        }
        self.last_connection = position;
        u64::from(position).wrapping_add(1)
    }

    /// The connection at a position. The reader has checked positions before.
    #[inline]
    pub(crate) fn peer(&self, position: u32) -> Peer {
        const ABSENT: Peer =
            Peer { time: 0, end: 0, reqid: 0, seq: 0, shape: 0, oldest: NONE, newest: NONE, in_flight: 0 };
        self.peers.get(position as usize).copied().unwrap_or(ABSENT)
    }

    /// Puts the connection back with what it has come to.
    #[inline]
    pub(crate) fn put_peer(&mut self, position: u32, peer: Peer) {
        if let Some(place) = self.peers.get_mut(position as usize) {
            *place = peer;
        }
    }

    /// The block that a scan of this target would ask for next.
    #[inline]
    pub(crate) fn number(&self, target: u32) -> u32 {
        self.numbers.get(target as usize).copied().unwrap_or(0)
    }

    /// This target's last block was this one.
    #[inline]
    pub(crate) fn put_number(&mut self, target: u32, number: u32) {
        if let Some(place) = self.numbers.get_mut(target as usize) {
            *place = number.wrapping_add(1);
        }
    }

    /// The slot of a page.
    #[inline]
    pub(crate) fn page_slot(&self, target: u32, number: u32) -> usize {
        let key = u64::from(target) << 32 | u64::from(number);
        key.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_shr(self.page_shift) as usize
    }

    /// What the slot holds.
    #[inline]
    pub(crate) fn page(&self, slot: usize) -> Page {
        self.pages.get(slot).copied().unwrap_or_default()
    }

    /// Puts a page's values into the slot.
    #[inline]
    pub(crate) fn put_page(&mut self, slot: usize, page: Page) {
        if let Some(place) = self.pages.get_mut(slot) {
            *place = page;
        }
    }

    /// The depth at which a request of this connection at this time should be: the answers that had not ended, and
    /// itself. Answers that had ended are forgotten.
    #[inline]
    pub(crate) fn depth(&self, peer: &mut Peer, time: u64) -> u32 {
        while peer.in_flight > 0 {
            match self.answers.get(peer.oldest as usize) {
                Some(answer) if answer.end <= time => {
                    peer.oldest = answer.next;
                    peer.in_flight = peer.in_flight.wrapping_sub(1);
                }
                _ => break,
            }
        }
        peer.in_flight.wrapping_add(1)
    }

    /// An answer of this connection ended then.
    #[inline]
    pub(crate) fn answered(&mut self, peer: &mut Peer, end: u64) {
        let at = self.answers.len() as u32;
        self.answers.push(Answer { end, next: NONE });
        if peer.in_flight == 0 {
            peer.oldest = at;
        } else if let Some(newest) = self.answers.get_mut(peer.newest as usize) {
            newest.next = at;
        }
        peer.newest = at;
        peer.in_flight = peer.in_flight.wrapping_add(1);
    }
}

/// How far a 32-bit value is from what was expected, as a signed difference.
#[inline]
pub(crate) fn difference_u32(value: u32, expected: u32) -> u64 {
    i64::from(value.wrapping_sub(expected) as i32) as u64
}
