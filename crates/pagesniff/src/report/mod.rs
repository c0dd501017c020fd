//! `pagesniff report` and `pagesniff compare`: traces → records in order → diagnosis → text, JSON and a page.

mod circumstances;
mod flags;
mod input;
mod loss_times;
mod output;
mod progress;

use std::io;
#[cfg(feature = "api")]
use std::path::Path;
use std::path::PathBuf;

use analysis::diagnosis::{Comparison, Diagnosis, Limits, Report};
use analysis::pictures::Pictures;
use analysis::render::{comparison_json, comparison_text, diagnosis_html, diagnosis_json, diagnosis_text};
use anyhow::anyhow;

pub(crate) use circumstances::{EMPTY_FILE, UNPROVEN_LATENCIES};
pub use flags::{RawCacheSizing, RawCompare, RawReport, RawReportOutput};
use input::Input;
pub(crate) use input::forget_times;
use output::Output;
use progress::ReportProgress;

use crate::flags::RawOwnerFilter;
use crate::pending_file::PendingFile;
use crate::run::Ended;
use crate::terminal::columns_of;

/// Diagnoses traces.
///
/// # Errors
///
/// A trace cannot be read, or the report cannot be written.
pub fn report(raw: &RawReport) -> anyhow::Result<Ended> {
    let output = Output::open(&raw.output)?;
    let page = raw.html.as_deref().map(|path| PendingFile::open("--html", path)).transpose()?;
    let wanted = Wanted { cache: &raw.cache, charts: page.is_some(), quiet: raw.output.quiet };
    let (report, pictures) = diagnose(&raw.traces, &raw.filter, &wanted)?;
    if let (Some(page), Some(pictures)) = (page, &pictures) {
        page.write(&diagnosis_html(&report, pictures))?;
    }
    output.write(|| diagnosis_text(&report, columns_of(io::stdout())), || Ok(diagnosis_json(&report)?))
}

/// Diagnoses two traces and tells what is different.
///
/// # Errors
///
/// A trace cannot be read, or the comparison cannot be written.
pub fn compare(raw: &RawCompare) -> anyhow::Result<Ended> {
    let output = Output::open(&raw.output)?;
    let of = |path: &PathBuf| {
        let wanted = Wanted { cache: &RawCacheSizing::default(), charts: false, quiet: raw.output.quiet };
        diagnose(std::slice::from_ref(path), &raw.filter, &wanted).map(|(report, _)| report)
    };
    let comparison = Comparison::new(of(&raw.before)?, of(&raw.after)?);
    output.write(|| comparison_text(&comparison, columns_of(io::stdout())), || Ok(comparison_json(&comparison)?))
}

/// The diagnosis of traces as a page.
#[cfg(feature = "api")]
pub(crate) fn page_of(directory: &Path) -> anyhow::Result<String> {
    let wanted = Wanted { cache: &RawCacheSizing::default(), charts: true, quiet: true };
    let (report, pictures) = diagnose(&[directory.to_owned()], &RawOwnerFilter::default(), &wanted)?;
    pictures.map(|pictures| diagnosis_html(&report, &pictures)).ok_or_else(|| anyhow!("there are no pictures"))
}

/// The diagnosis of traces as JSON.
#[cfg(feature = "api")]
pub(crate) fn json_of(directory: &Path) -> anyhow::Result<String> {
    let wanted = Wanted { cache: &RawCacheSizing::default(), charts: false, quiet: true };
    let (report, _) = diagnose(&[directory.to_owned()], &RawOwnerFilter::default(), &wanted)?;
    Ok(diagnosis_json(&report)?)
}

/// What a diagnosis is to hold beside the report's figures, and whether its progress is told.
struct Wanted<'a> {
    cache: &'a RawCacheSizing,
    charts: bool,
    quiet: bool,
}

/// The diagnosis of all these inputs together, and what charts need where they are wanted.
fn diagnose(
    paths: &[PathBuf],
    filter: &RawOwnerFilter,
    wanted: &Wanted<'_>,
) -> anyhow::Result<(Report, Option<Pictures>)> {
    let input = Input::open(paths, filter)?;
    let mut limits = Limits::REPORT;
    limits.reuse.chunk_blocks = wanted.cache.chunk_blocks;
    // What charts need costs time, and is collected only for a page.
    let mut diagnosis = if wanted.charts { Diagnosis::with_pictures(limits) } else { Diagnosis::new(limits) };
    diagnosis.count_curves_apart().map_err(|error| anyhow!("cannot start a thread: {error}"))?;
    let mut progress = ReportProgress::new(!wanted.quiet, input.records());
    let mut facts = input.feed(&mut diagnosis, &mut progress)?;
    facts.cache_now_bytes = wanted.cache.cache_now.map(|size| size.0);
    progress.clear();
    Ok((diagnosis.report(facts), diagnosis.pictures()))
}
