//! The part of a file that is in memory: bytes are read or mapped behind its end and taken from its start.

use std::io::{self, Read};
use std::ops::Range;

use super::compression;
use super::mapped::MappedFile;
use super::prefetch::prefetch;
use super::storage::ReadFailure;

/// How far ahead of the packets the bytes are asked for. The walk from packet to packet is one that the processor cannot
/// foresee, and a mapped byte is first touched by us: each packet would wait for memory.
const AHEAD_BYTES: usize = 4 << 10;

/// What is asked for behind a large packet, most of which is passed over: the next one's headers.
const AHEAD_OF_HEADERS_BYTES: usize = 256;

/// A packet from which on it is large: it reaches far beyond what one that follows it needs.
const LARGE_PACKET_BYTES: usize = 2 << 10;

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
/// Invariant: `start <= end <= bytes().len()`, and `bytes()[start..end]` are the bytes from `offset` on.
pub(super) struct Window {
    storage: Storage,
    start: usize,
    end: usize,
    offset: u64,
    /// Up to where the bytes were asked for in advance.
    asked_until: usize,
}

enum Storage {
    /// Read into a buffer.
    Read { reader: Box<dyn Read + Send>, buffer: Vec<u8>, ended: bool },
    /// Used in place; the stretch ends at `end`.
    Mapped(MappedFile),
}

impl Window {
    /// A window of at first `capacity_bytes` over `reader`.
    pub(super) fn new(reader: Box<dyn Read + Send>, capacity_bytes: usize) -> Self {
        Self::over(Storage::Read { reader, buffer: vec![0; capacity_bytes], ended: false })
    }

    /// A window onto a file in place.
    pub(super) fn mapped(file: MappedFile) -> Self {
        Self::over(Storage::Mapped(file))
    }

    fn over(storage: Storage) -> Self {
        Self { storage, start: 0, end: 0, offset: 0, asked_until: 0 }
    }

    /// All that is in memory.
    #[inline]
    fn bytes(&self) -> &[u8] {
        match &self.storage {
            Storage::Read { buffer, .. } => buffer,
            Storage::Mapped(file) => file.bytes(),
        }
    }

    /// How many bytes of the (decompressed) file have been taken.
    #[inline]
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The bytes that are in memory and not yet taken.
    #[inline]
    pub(super) fn ahead(&self) -> &[u8] {
        self.bytes().get(self.start..self.end).unwrap_or_default()
    }

    /// Bytes that were taken by [`Window::take`] since the last call of [`Window::need`].
    #[inline]
    pub(super) fn slice(&self, range: Range<usize>) -> &[u8] {
        self.bytes().get(range).unwrap_or_default()
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
        if let Storage::Mapped(file) = &self.storage {
            // What was read has been through the caches by then.
            let ahead = if count > LARGE_PACKET_BYTES { AHEAD_OF_HEADERS_BYTES } else { AHEAD_BYTES };
            let until = self.start.saturating_add(ahead).min(self.end);
            prefetch(file.bytes().get(self.asked_until.max(self.start)..until).unwrap_or_default());
            self.asked_until = until.max(self.asked_until);
        }
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

    /// Brings in what lies behind. Never waits for more than `needed`, so that packets from a pipe come as they arrive.
    #[cold]
    fn fill(&mut self, needed: usize) -> Result<bool, WindowError> {
        match &mut self.storage {
            Storage::Read { reader, buffer, ended } => {
                buffer.copy_within(self.start..self.end, 0);
                self.end = self.end.saturating_sub(self.start);
                self.start = 0;
                if !*ended {
                    read(reader, buffer, (&mut self.end, ended), needed)?;
                }
            }
            Storage::Mapped(file) => {
                file.show(self.offset, needed).map_err(WindowError::Storage)?;
                (self.start, self.end, self.asked_until) = (0, file.bytes().len(), 0);
            }
        }
        Ok(self.end.saturating_sub(self.start) >= needed)
    }
}

/// Reads behind `end` until `buffer` holds `needed` bytes or the file has ended.
fn read(
    reader: &mut Box<dyn Read + Send>,
    buffer: &mut Vec<u8>,
    (end, ended): (&mut usize, &mut bool),
    needed: usize,
) -> Result<(), WindowError> {
    while *end < needed && !*ended {
        if *end == buffer.len() {
            // It grows by what really came, not by what a length field claims.
            let grown = end.saturating_mul(2).max(64).min(needed);
            buffer.resize(grown, 0);
        }
        let free = buffer.get_mut(*end..).unwrap_or_default();
        match reader.read(free) {
            Ok(0) => *ended = true,
            Ok(count) => *end = end.saturating_add(count).min(buffer.len()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                *ended = true;
                return Err(compression::classify(error));
            }
        }
    }
    Ok(())
}
