//! GetPage records on their way to standard output as a page trace of Neon's.

use std::io::{self, Write};

use analysis::export::page_trace;
use record::Record;

/// Large enough that writing costs nothing beside reading the traces.
const PIECE_BYTES: usize = 128 << 10;

/// Writes events, remembers the first error, and takes nothing more after it.
pub(crate) struct PageTraceOut {
    out: Box<dyn Write>,
    buffer: Vec<u8>,
    left_out: u64,
    error: Option<io::Error>,
}

impl PageTraceOut {
    pub(crate) fn new(out: Box<dyn Write>) -> Self {
        Self { out, buffer: Vec::with_capacity(PIECE_BYTES), left_out: 0, error: None }
    }

    /// Takes one record; what a page trace cannot hold is left out and counted.
    pub(crate) fn record(&mut self, record: &Record) {
        match page_trace(record) {
            Some(event) => self.buffer.extend_from_slice(&event),
            None => self.left_out = self.left_out.saturating_add(1),
        }
        if self.buffer.len() >= PIECE_BYTES {
            self.flush();
        }
    }

    /// Writes whatever there is.
    pub(crate) fn flush(&mut self) {
        if self.error.is_none() {
            self.error = self.out.write_all(&self.buffer).and_then(|()| self.out.flush()).err();
        }
        self.buffer.clear();
    }

    /// How many records a page trace could not hold.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    pub(crate) fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    pub(crate) fn into_error(self) -> Option<io::Error> {
        self.error
    }
}
