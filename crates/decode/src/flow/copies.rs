//! Telling a copy that the capture made from a retransmission.
//!
//! A mirror of both ports, or `-i any`, delivers one packet twice, headers and all, within moments. A retransmission is
//! a new packet: its IP identification or its TCP timestamp has moved on.

use crate::wire::Segment;

/// Segments of one direction that are remembered. Copies come right behind their original or a few packets later.
const REMEMBERED: usize = 8;

/// Fingerprints of the latest segments of one direction.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct RecentSegments {
    prints: [u64; REMEMBERED],
    next: u8,
}

impl RecentSegments {
    /// Whether the same packet was among the latest ones; remembers it if not.
    pub(crate) fn is_copy(&mut self, segment: &Segment<'_>) -> bool {
        let print = fingerprint(segment);
        if self.prints.contains(&print) {
            return true;
        }
        if let Some(slot) = self.prints.get_mut(usize::from(self.next)) {
            *slot = print;
        }
        self.next = if usize::from(self.next) < REMEMBERED.saturating_sub(1) { self.next.saturating_add(1) } else { 0 };
        false
    }
}

/// A hash of everything in the headers that two packets of one connection do not share by chance. Never 0, which marks an
/// empty place.
fn fingerprint(segment: &Segment<'_>) -> u64 {
    /// 2^64 divided by the golden ratio, odd: spreads each step over all bits.
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    let stamps = segment.timestamps.map_or(0, |stamps| u64::from(stamps.value) << 32 | u64::from(stamps.echo));
    let numbers = u64::from(segment.seq) << 32 | u64::from(segment.ack);
    let rest = u64::from(segment.payload_len) << 32
        | u64::from(segment.ip_id) << 16
        | u64::from(segment.window.rotate_left(3)) ^ u64::from(segment.flags.0) << 8;
    let step = |hash: u64, word: u64| (hash ^ word).wrapping_mul(SPREAD).rotate_left(29);
    step(step(step(SPREAD, numbers), stamps), rest) | 1
}
