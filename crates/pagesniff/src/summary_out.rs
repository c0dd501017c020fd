//! The file of `--summary`.

use std::io::{self, Write};

use analysis::render::report_json;
use analysis::summary::Report;

use crate::flags::SummaryTarget;
use crate::pending_file::PendingFile;
use crate::run::{Ended, output_outcome};

/// Where the summary goes, opened before the run so that a wrong path does not cost it.
pub(crate) enum SummaryOut {
    Stdout,
    File(PendingFile),
}

impl SummaryOut {
    /// Opens the target.
    pub(crate) fn open(target: &SummaryTarget) -> anyhow::Result<Self> {
        match target {
            SummaryTarget::Stdout => Ok(Self::Stdout),
            SummaryTarget::File(path) => PendingFile::open("--summary", path).map(Self::File),
        }
    }

    /// Writes the report.
    pub(crate) fn write(self, report: &Report) -> anyhow::Result<Ended> {
        let json = report_json(report)?;
        match self {
            Self::Stdout => output_outcome(io::stdout().lock().write_all(json.as_bytes())),
            Self::File(file) => file.write(&json).map(|()| Ended::Done),
        }
    }
}
