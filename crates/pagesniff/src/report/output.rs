//! Where a report goes: text to standard output, JSON to a file or to standard output instead, charts to a page.

use std::io::{self, Write};

use super::flags::RawReportOutput;
use crate::pending_file::PendingFile;
use crate::run::{Ended, output_outcome};

/// The outputs, opened before the work so that a wrong path does not cost it.
pub(super) enum Output {
    Text,
    JsonOnly,
    TextAndJson(PendingFile),
}

impl Output {
    pub(super) fn open(raw: &RawReportOutput) -> anyhow::Result<Self> {
        match &raw.json {
            None => Ok(Self::Text),
            Some(path) if path.as_os_str() == "-" => Ok(Self::JsonOnly),
            Some(path) => Ok(Self::TextAndJson(PendingFile::open("--json", path)?)),
        }
    }

    /// Writes what is wanted.
    pub(super) fn write(
        self,
        text: impl FnOnce() -> String,
        json: impl FnOnce() -> anyhow::Result<String>,
    ) -> anyhow::Result<Ended> {
        let to_stdout = |content: String| output_outcome(io::stdout().lock().write_all(content.as_bytes()));
        match self {
            Self::Text => to_stdout(text()),
            Self::JsonOnly => to_stdout(json()?),
            Self::TextAndJson(file) => {
                file.write(&json()?)?;
                to_stdout(text())
            }
        }
    }
}
