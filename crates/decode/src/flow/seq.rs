//! Sequence numbers (RFC 9293, section 3.4).

/// A TCP sequence number. It wraps, so it has no order of its own: all comparisons go through [`SeqNum::ahead_of`], and
/// past the door of a connection only 64-bit stream offsets are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeqNum(pub(crate) u32);

impl SeqNum {
    /// How far this lies ahead of `base` on the shorter way round; negative where it lies behind.
    pub(crate) fn ahead_of(self, base: Self) -> i32 {
        self.0.wrapping_sub(base.0).cast_signed()
    }

    /// The number `count` bytes further on.
    pub(crate) fn plus(self, count: u64) -> Self {
        // Sequence numbers are the low 32 bits of the stream's byte count.
        Self(self.0.wrapping_add(count as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_holds_across_the_wrap() {
        let before = SeqNum(u32::MAX - 1);
        assert_eq!(before.plus(3), SeqNum(1));
        assert_eq!(SeqNum(1).ahead_of(before), 3);
        assert_eq!(before.ahead_of(SeqNum(1)), -3);
        assert_eq!(before.ahead_of(before), 0);
        assert_eq!(before.plus(1 << 32), before);
    }
}
