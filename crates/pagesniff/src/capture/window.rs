//! The part of a file that is in memory: bytes are read behind its end and taken from its start.

use std::io::{self, Read};
use std::ops::Range;

use super::compression;
use super::storage::ReadFailure;

/// Why the window could not be filled.
#[derive(Debug)]
pub(super) enum WindowError {
    /// The file is damaged as a compressed stream: cut (true) or with content that decompression does not allow.
    Compression { cut: bool, what: String },
    /// The file itself failed.
    Storage(ReadFailure),
}

/// A file's bytes, the next ones of them in memory.
///
/// Invariant: `start <= end <= storage.len()`, and `storage[start..end]` are the bytes from `offset` on.
pub(super) struct Window {
    reader: Box<dyn Read + Send>,
    storage: Vec<u8>,
    start: usize,
    end: usize,
    offset: u64,
    ended: bool,
}

impl Window {
    /// A window of at first `capacity_bytes` over `reader`.
    pub(super) fn new(reader: Box<dyn Read + Send>, capacity_bytes: usize) -> Self {
        Self { reader, storage: vec![0; capacity_bytes], start: 0, end: 0, offset: 0, ended: false }
    }

    /// How many bytes of the (decompressed) file have been taken.
    #[inline]
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The bytes that are in memory and not yet taken.
    #[inline]
    pub(super) fn ahead(&self) -> &[u8] {
        self.storage.get(self.start..self.end).unwrap_or_default()
    }

    /// Bytes that were taken by [`Window::take`] since the last call of [`Window::need`].
    #[inline]
    pub(super) fn slice(&self, range: Range<usize>) -> &[u8] {
        self.storage.get(range).unwrap_or_default()
    }

    /// Makes sure that `needed` bytes are ahead; false where the file ends before.
    ///
    /// # Errors
    ///
    /// See [`WindowError`]. What is ahead stays usable.
    #[inline]
    pub(super) fn need(&mut self, needed: usize) -> Result<bool, WindowError> {
        if self.end.saturating_sub(self.start) >= needed { Ok(true) } else { self.fill(needed) }
    }

    /// Takes the next `count` bytes, or those that are ahead if they are fewer, and says where they lie.
    #[inline]
    pub(super) fn take(&mut self, count: usize) -> Range<usize> {
        let from = self.start;
        self.start = from.saturating_add(count).min(self.end);
        self.offset = self.offset.saturating_add(self.start.saturating_sub(from) as u64);
        from..self.start
    }

    /// Takes `header` bytes and the `count` behind them, all of which [are ahead](Window::need), and says where the latter lie.
    #[inline]
    pub(super) fn take_behind(&mut self, header: usize, count: usize) -> Range<usize> {
        let from = self.start.saturating_add(header).min(self.end);
        let taken = self.take(header.saturating_add(count));
        from..taken.end
    }

    /// Passes over `count` bytes without holding them; false where the file ends before.
    ///
    /// # Errors
    ///
    /// See [`WindowError`].
    pub(super) fn skip(&mut self, count: u64) -> Result<bool, WindowError> {
        let mut left = count;
        while left > 0 {
            if !self.need(1)? {
                return Ok(false);
            }
            let taken = self.take(usize::try_from(left).unwrap_or(usize::MAX)).len();
            left = left.saturating_sub(taken as u64);
        }
        Ok(true)
    }

    /// Reads until `needed` bytes are ahead. Never waits for more than that, so that packets from a pipe come as they arrive.
    #[cold]
    fn fill(&mut self, needed: usize) -> Result<bool, WindowError> {
        self.storage.copy_within(self.start..self.end, 0);
        self.end = self.end.saturating_sub(self.start);
        self.start = 0;
        while self.end < needed {
            if self.ended {
                return Ok(false);
            }
            if self.end == self.storage.len() {
                // It grows by what really came, not by what a length field claims.
                let grown = self.end.saturating_mul(2).max(64).min(needed);
                self.storage.resize(grown, 0);
            }
            let free = self.storage.get_mut(self.end..).unwrap_or_default();
            match self.reader.read(free) {
                Ok(0) => self.ended = true,
                Ok(count) => self.end = self.end.saturating_add(count).min(self.storage.len()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ended = true;
                    return Err(compression::classify(error));
                }
            }
        }
        Ok(true)
    }
}
