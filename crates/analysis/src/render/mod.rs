//! Records as JSON Lines, CSV or a table; reports as JSON or text.
//!
//! Everything is appended to a caller's buffer: no IO here. Field names and their order are fixed; new fields are
//! added at the end.

mod cells;
mod comparison_text;
mod csv;
mod diagnosis_text;
mod digits;
mod html;
mod jsonl;
mod report_text;
#[cfg(test)]
pub(crate) mod samples;
mod table;
mod text_table;
mod units;
mod wrap;

use std::fmt;
use std::str::FromStr;

use record::Record;

use crate::diagnosis;
use crate::summary::Report;
pub use cells::{Cells, FIELD_NAMES, Name, TextCaches, write_fields};
pub use comparison_text::comparison_text;
pub use diagnosis_text::{diagnosis_findings_text, diagnosis_text};
pub use html::{INLINE_PARTS, diagnosis_html};
pub use report_text::report_text;
pub use units::{bytes_text, count_text, duration_text};

/// How records are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns of what a person looks for.
    Table,
    /// One JSON object a line, every field on every line, null where it is not known.
    Jsonl,
    /// The same fields with a header line, empty where one is not known.
    Csv,
}

impl Format {
    /// Every format, in the order in which they are offered.
    pub const ALL: &'static [Self] = &[Self::Table, Self::Jsonl, Self::Csv];

    /// Its name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseFormatError;

impl fmt::Display for ParseFormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected one of table, jsonl, csv")
    }
}

impl std::error::Error for ParseFormatError {}

impl FromStr for Format {
    type Err = ParseFormatError;

    fn from_str(text: &str) -> Result<Self, ParseFormatError> {
        Self::ALL.iter().copied().find(|format| format.as_str() == text).ok_or(ParseFormatError)
    }
}

/// Writes records in one format. The same records give the same bytes.
#[derive(Debug)]
pub struct Renderer {
    format: Format,
    caches: TextCaches,
}

impl Renderer {
    /// A renderer of that format.
    pub fn new(format: Format) -> Self {
        Self { format, caches: TextCaches::default() }
    }

    /// What stands before the first record: a header line, or nothing.
    pub fn header(&self, out: &mut Vec<u8>) {
        match self.format {
            Format::Table => table::header(out),
            Format::Jsonl => {}
            Format::Csv => csv::header(out),
        }
    }

    /// One record, as one line.
    pub fn record(&mut self, record: &Record, out: &mut Vec<u8>) {
        match self.format {
            Format::Table => table::record(record, out),
            Format::Jsonl => jsonl::record(record, &mut self.caches, out),
            Format::Csv => csv::record(record, &mut self.caches, out),
        }
    }
}

/// The report as the JSON document that `--summary` writes, with a line feed at its end.
pub fn report_json(report: &Report) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(report).map(|json| json + "\n")
}

/// The diagnosis as the JSON document that `pagesniff report --json` writes, with a line feed at its end.
pub fn diagnosis_json(report: &diagnosis::Report) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(report).map(|json| json + "\n")
}

/// The comparison as the JSON document that `pagesniff compare --json` writes, with a line feed at its end.
pub fn comparison_json(comparison: &diagnosis::Comparison) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(comparison).map(|json| json + "\n")
}
