//! Following a trace while it is written.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use record::Record;

use super::TraceReader;
use super::files::{is_gone, trace_files};
use crate::error::TraceError;

/// Hands out what has come to a trace (a file, or a directory with its rotation) since it was asked last. Holds no file
/// open in between, so that rotation frees its space.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    read_up_to: HashMap<PathBuf, u64>,
}

impl Follower {
    /// Follows from the beginning of what is there.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self { path: path.as_ref().to_owned(), read_up_to: HashMap::new() }
    }

    /// Hands every record of the blocks that have come to `take`, and returns how many they were.
    ///
    /// # Errors
    ///
    /// The path is gone, or a file in it cannot be read or is no trace. What was handed out stays so.
    pub fn poll(&mut self, mut take: impl FnMut(Record)) -> Result<u64, TraceError> {
        let files = trace_files(&[&self.path])?;
        let mut count = 0u64;
        for file in &files {
            let from = self.read_up_to.get(file).copied().unwrap_or(0);
            if std::fs::metadata(file).is_ok_and(|metadata| metadata.len() <= from) {
                continue;
            }
            let mut reader = match TraceReader::open(file) {
                Err(error) if is_gone(&error) => continue,
                opened => opened?,
            };
            reader.offset = reader.offset.max(from);
            for record in reader.records() {
                take(record?);
                count = count.saturating_add(1);
            }
            self.read_up_to.insert(file.clone(), reader.offset);
        }
        // What rotation deleted need not be remembered.
        self.read_up_to.retain(|file, _| files.contains(file));
        Ok(count)
    }
}
