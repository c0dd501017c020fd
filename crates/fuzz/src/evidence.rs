//! What tells of a segment that the capture has missed that it decides over the times of others.
//!
//! A segment that was overtaken passed after others which it should have preceded, so that the receiver could not read those
//! before it came. Where a capture has neither the segment nor what tells of it, its hole looks like one of the capture's own,
//! in the middle of bytes that came in order, and the bytes behind it seem to have been readable when they came.
//!
//! A segment that passed twice came when its first copy did. Where a capture has neither that copy nor what tells of it, the
//! later copy looks like the first one.
//!
//! Such cases are no fault of whoever reads the capture. They are counted apart, here and in `tests/loss`, by these rules.

use record::Timestamp;

/// An overtaken segment.
#[derive(Debug, Clone, Copy)]
pub struct Overtaken {
    /// The sequence number of its first byte.
    pub seq: u32,
    /// When the first of the segments that overtook it passed.
    pub since: Timestamp,
    /// When it passed itself.
    pub until: Timestamp,
}

impl Overtaken {
    /// Whether an acknowledgement of `ack` by the receiver tells that the segment was missing at that time. `sacks`: it says
    /// that more had come behind `ack`.
    pub fn is_told_by(&self, ack: u32, sacks: bool, at: Timestamp) -> bool {
        sacks && ack == self.seq && (self.since..=self.until).contains(&at)
    }
}

/// A segment that passes again.
#[derive(Debug, Clone, Copy)]
pub struct Repeated {
    /// The sequence number of the first byte of its first copy.
    pub seq: u32,
}

impl Repeated {
    /// Whether an acknowledgement of `ack` by the receiver, captured before the later copy, tells that there was another.
    pub fn is_told_by(&self, ack: u32) -> bool {
        self.seq.wrapping_sub(ack).cast_signed() < 0
    }
}
