//! Live figures, as the daemon sends them.

use std::io::{BufRead, BufReader};

use analysis::live::Snapshot;
use ureq::BodyReader;

use super::daemon::{Daemon, Failed};

/// The longest event: four views of fifty rows take 150 KB.
const MOST_EVENT_BYTES: u64 = 16 << 20;

/// Whose figures, and of what. What is not given is not asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    /// The tenant, or a shard of it.
    pub(crate) tenant: Option<String>,
    /// One timeline of it.
    pub(crate) timeline: Option<String>,
    /// One relation.
    pub(crate) rel: Option<String>,
    /// By what rows are put together, in the API's words.
    pub(crate) by: String,
    /// So many rows of each.
    pub(crate) rows: usize,
}

impl Asked {
    /// Ids and relations have no sign that an address would have to have in another form.
    fn path(&self) -> String {
        let mut path = format!("/v1/live?by={}&rows={}", self.by, self.rows);
        for (name, value) in [("tenant", &self.tenant), ("timeline", &self.timeline), ("rel", &self.rel)] {
            if let Some(value) = value {
                path.push_str(&format!("&{name}={value}"));
            }
        }
        path
    }
}

/// The events of one answer.
pub(crate) struct Events {
    lines: BufReader<std::io::Take<BodyReader<'static>>>,
}

impl Events {
    /// Asks for them.
    ///
    /// # Errors
    ///
    /// Why there are none.
    pub(crate) fn of(daemon: &Daemon, asked: &Asked) -> Result<Self, Failed> {
        let body = daemon.stream(&asked.path())?.into_body().into_reader();
        Ok(Self { lines: BufReader::new(std::io::Read::take(body, MOST_EVENT_BYTES)) })
    }

    /// The next; none where the daemon has ended it.
    ///
    /// # Errors
    ///
    /// It was cut off, or is none of pagesniff's.
    pub(crate) fn next(&mut self) -> Result<Option<Snapshot>, Failed> {
        loop {
            self.lines.get_mut().set_limit(MOST_EVENT_BYTES);
            let mut line = String::new();
            let read = self.lines.read_line(&mut line);
            let lost = |error: std::io::Error| Failed::Lost(format!("the daemon does not answer any more: {error}"));
            if read.map_err(lost)? == 0 {
                return Ok(None);
            }
            let Some(text) = line.strip_prefix("data: ") else { continue };
            let broken = |error| Failed::Broken(format!("the daemon is of another version: {error}"));
            return serde_json::from_str(text).map(Some).map_err(broken);
        }
    }
}
