//! Records on their way to standard output: rendered into memory, written in large pieces.

use std::io::{self, Write};

use analysis::render::{Format, Renderer};
use record::Record;

/// Large enough that writing costs nothing beside rendering, small enough to stay in the processor's cache.
const PIECE_BYTES: usize = 128 << 10;

/// When records are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// In pieces as large as is good for throughput.
    Pieces,
    /// Each at once: somebody may be waiting for it.
    EachRecord,
}

/// Writes records, remembers the first error, and takes nothing more after it.
pub struct RecordWriter {
    out: Box<dyn Write>,
    renderer: Renderer,
    pace: Pace,
    buffer: Vec<u8>,
    /// Records in `buffer`.
    buffered: u64,
    /// Records whose bytes were never taken by `out`.
    failed: u64,
    error: Option<io::Error>,
}

impl RecordWriter {
    /// A writer in that format, with the format's header as the first thing to write.
    pub fn new(format: Format, pace: Pace, out: Box<dyn Write>) -> Self {
        let renderer = Renderer::new(format);
        let mut buffer = Vec::with_capacity(PIECE_BYTES * 2);
        renderer.header(&mut buffer);
        Self { out, renderer, pace, buffer, buffered: 0, failed: 0, error: None }
    }

    /// Takes one record; written when there are enough of them.
    pub fn record(&mut self, record: &Record) {
        if self.error.is_some() {
            self.failed += 1;
            return;
        }
        self.renderer.record(record, &mut self.buffer);
        self.buffered += 1;
        if self.pace == Pace::EachRecord || self.buffer.len() >= PIECE_BYTES {
            self.flush();
        }
    }

    /// Writes whatever there is.
    pub fn flush(&mut self) {
        if self.buffer.is_empty() || self.error.is_some() {
            return;
        }
        let written = self.out.write_all(&self.buffer).and_then(|()| self.out.flush());
        if let Err(error) = written {
            self.error = Some(error);
            // How much of the piece was taken is not known: all of it counts as lost.
            self.failed += self.buffered;
        }
        self.buffer.clear();
        self.buffered = 0;
    }

    /// How many records were lost to a failed write.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// What went wrong, if anything.
    pub fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// The same, at the end.
    pub fn into_error(self) -> Option<io::Error> {
        self.error
    }
}
