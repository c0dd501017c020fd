//! The file of `--summary`.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use analysis::render::report_json;
use analysis::summary::Report;
use anyhow::anyhow;

use crate::flags::SummaryTarget;
use crate::run::{Ended, output_outcome};

/// Where the summary goes, opened before the run so that a wrong path does not cost it.
pub(crate) enum SummaryOut {
    Stdout,
    File { path: PathBuf, file: File },
}

impl SummaryOut {
    /// Opens the target.
    pub(crate) fn open(target: &SummaryTarget) -> anyhow::Result<Self> {
        match target {
            SummaryTarget::Stdout => Ok(Self::Stdout),
            SummaryTarget::File(path) => {
                let file = File::create(path)
                    .map_err(|error| anyhow!("--summary {}: cannot be created: {error}", path.display()))?;
                Ok(Self::File { path: path.clone(), file })
            }
        }
    }

    /// Writes the report.
    pub(crate) fn write(self, report: &Report) -> anyhow::Result<Ended> {
        let json = report_json(report)?;
        match self {
            Self::Stdout => output_outcome(io::stdout().lock().write_all(json.as_bytes())),
            Self::File { path, mut file } => {
                file.write_all(json.as_bytes())
                    .map_err(|error| anyhow!("--summary {}: writing failed: {error}", path.display()))?;
                Ok(Ended::Done)
            }
        }
    }
}
