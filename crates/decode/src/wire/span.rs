//! Packet bytes of which the end may be missing.

use super::Skip;

/// What is left of a packet: the bytes that were captured, and how many there were on the wire.
///
/// Invariant: `captured.len() <= wire_len`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span<'a> {
    captured: &'a [u8],
    wire_len: usize,
}

impl<'a> Span<'a> {
    /// `captured`, of `wire_len` bytes. A capture that claims fewer bytes on the wire than it holds is not believed.
    #[inline]
    pub(super) fn new(captured: &'a [u8], wire_len: usize) -> Self {
        Self { captured, wire_len: wire_len.max(captured.len()) }
    }

    /// All of `bytes`, none missing.
    pub(super) fn whole(bytes: &'a [u8]) -> Self {
        Self::new(bytes, bytes.len())
    }

    /// The bytes that are there.
    #[inline]
    pub(super) fn captured(self) -> &'a [u8] {
        self.captured
    }

    /// How many bytes there were on the wire.
    #[inline]
    pub(super) fn wire_len(self) -> usize {
        self.wire_len
    }

    /// Whether bytes are missing at the end.
    pub(super) fn is_cut(self) -> bool {
        self.captured.len() < self.wire_len
    }

    /// The next `N` bytes and what follows them.
    #[inline]
    pub(super) fn header<const N: usize>(self) -> Result<(&'a [u8; N], Self), Skip> {
        match self.captured.split_first_chunk() {
            Some((header, captured)) => Ok((header, Self { captured, wire_len: self.wire_len.saturating_sub(N) })),
            None => Err(self.shorter_than(N)),
        }
    }

    /// What follows the next `len` bytes.
    #[inline]
    pub(super) fn skip(self, len: usize) -> Result<Self, Skip> {
        match self.captured.get(len..) {
            Some(captured) => Ok(Self { captured, wire_len: self.wire_len.saturating_sub(len) }),
            None => Err(self.shorter_than(len)),
        }
    }

    /// The first `len` bytes, or all where there are fewer.
    #[inline]
    pub(super) fn limit(self, len: usize) -> Self {
        Self { captured: self.captured.get(..len).unwrap_or(self.captured), wire_len: self.wire_len.min(len) }
    }

    /// Why `len` bytes cannot be had: the capture cut them off, or they never were.
    #[cold]
    fn shorter_than(self, len: usize) -> Skip {
        if self.wire_len < len { Skip::Malformed } else { Skip::TruncatedHeader }
    }
}
