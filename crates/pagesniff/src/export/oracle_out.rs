//! GetPage records on their way to standard output as libCacheSim's `oracleGeneral`.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};

use analysis::export::OraclePages;
use anyhow::anyhow;
use record::Record;

use super::next_access::{MOST_OBJECTS, link};

/// Writes accesses to a file that has no name, as each of them needs one that comes later, and that file to the output.
pub(super) struct OracleOut {
    pages: OraclePages,
    accesses: BufWriter<File>,
    written: u64,
    left_out: u64,
}

impl OracleOut {
    /// The file is in the directory for such files ($TMPDIR), and goes away with the program however that ends.
    pub(super) fn new() -> anyhow::Result<Self> {
        let accesses = tempfile::tempfile().map_err(|error| cannot_keep(&error))?;
        Ok(Self { pages: OraclePages::default(), accesses: BufWriter::new(accesses), written: 0, left_out: 0 })
    }

    /// Takes one record; what is no access is left out and counted.
    pub(super) fn record(&mut self, record: &Record) -> anyhow::Result<()> {
        match self.pages.access(record)? {
            Some(access) => {
                self.accesses.write_all(&access).map_err(|error| cannot_keep(&error))?;
                self.written = self.written.saturating_add(1);
            }
            None => self.left_out = self.left_out.saturating_add(1),
        }
        Ok(())
    }

    /// Tells each access of the next one, and writes them all. The outer error is that of the file, the inner that of the output.
    pub(super) fn finish(self, out: &mut impl Write) -> anyhow::Result<io::Result<()>> {
        let mut accesses = self.accesses.into_inner().map_err(|error| cannot_keep(&error.into_error()))?;
        link(&mut accesses, self.written, MOST_OBJECTS).map_err(|error| cannot_keep(&error))?;
        accesses.seek(SeekFrom::Start(0)).map_err(|error| cannot_keep(&error))?;
        Ok(io::copy(&mut accesses, out).and_then(|_| out.flush()))
    }

    /// How many records are no access.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}

fn cannot_keep(error: &io::Error) -> anyhow::Error {
    let directory = std::env::temp_dir();
    anyhow!(
        "{}: 24 bytes a request cannot be kept there for a while: {error}; TMPDIR names another directory",
        directory.display()
    )
}
