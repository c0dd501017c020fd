//! Where a report goes: text to standard output, JSON to a file or to standard output instead, charts to a page.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::anyhow;

use super::flags::RawReportOutput;
use crate::run::{Ended, output_outcome};

/// The page of charts, opened before the work as well.
pub(super) struct Page {
    path: PathBuf,
    file: File,
}

impl Page {
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let file =
            File::create(path).map_err(|error| anyhow!("--html {}: cannot be created: {error}", path.display()))?;
        Ok(Self { path: path.to_owned(), file })
    }

    pub(super) fn write(mut self, html: &str) -> anyhow::Result<()> {
        self.file
            .write_all(html.as_bytes())
            .map_err(|error| anyhow!("--html {}: writing failed: {error}", self.path.display()))
    }
}

/// The outputs, opened before the work so that a wrong path does not cost it.
pub(super) enum Output {
    Text,
    JsonOnly,
    TextAndJson { path: PathBuf, file: File },
}

impl Output {
    pub(super) fn open(raw: &RawReportOutput) -> anyhow::Result<Self> {
        match &raw.json {
            None => Ok(Self::Text),
            Some(path) if path.as_os_str() == "-" => Ok(Self::JsonOnly),
            Some(path) => {
                let file = File::create(path)
                    .map_err(|error| anyhow!("--json {}: cannot be created: {error}", path.display()))?;
                Ok(Self::TextAndJson { path: path.clone(), file })
            }
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
            Self::TextAndJson { path, mut file } => {
                file.write_all(json()?.as_bytes())
                    .map_err(|error| anyhow!("--json {}: writing failed: {error}", path.display()))?;
                to_stdout(text())
            }
        }
    }
}
