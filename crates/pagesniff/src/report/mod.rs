//! `pagesniff report` and `pagesniff compare`: traces → records in order → diagnosis → text and JSON.

mod circumstances;
mod flags;
mod input;
mod loss_times;
mod output;
mod progress;

use std::path::PathBuf;

use analysis::diagnosis::{Comparison, Diagnosis, Limits, Report};
use analysis::render::{comparison_json, comparison_text, diagnosis_json, diagnosis_text};

pub use flags::{RawCacheSizing, RawCompare, RawReport, RawReportFilter, RawReportOutput};
use input::Input;
use output::Output;
use progress::ReportProgress;

use crate::run::Ended;

/// Diagnoses traces.
///
/// # Errors
///
/// A trace cannot be read, or the report cannot be written.
pub fn report(raw: &RawReport) -> anyhow::Result<Ended> {
    let output = Output::open(&raw.output)?;
    let report = diagnose(&raw.traces, (&raw.filter, &raw.cache), raw.output.quiet)?;
    output.write(|| diagnosis_text(&report), || Ok(diagnosis_json(&report)?))
}

/// Diagnoses two traces and tells what is different.
///
/// # Errors
///
/// A trace cannot be read, or the comparison cannot be written.
pub fn compare(raw: &RawCompare) -> anyhow::Result<Ended> {
    let output = Output::open(&raw.output)?;
    let of = |path: &PathBuf| {
        diagnose(std::slice::from_ref(path), (&raw.filter, &RawCacheSizing::default()), raw.output.quiet)
    };
    let comparison = Comparison::new(of(&raw.before)?, of(&raw.after)?);
    output.write(|| comparison_text(&comparison), || Ok(comparison_json(&comparison)?))
}

/// The diagnosis of all these inputs together.
fn diagnose(
    paths: &[PathBuf],
    (filter, cache): (&RawReportFilter, &RawCacheSizing),
    quiet: bool,
) -> anyhow::Result<Report> {
    let input = Input::open(paths, filter)?;
    let mut limits = Limits::REPORT;
    limits.reuse.chunk_blocks = cache.chunk_blocks;
    let mut diagnosis = Diagnosis::new(limits);
    let mut progress = ReportProgress::new(!quiet, input.records());
    let mut facts = input.feed(&mut diagnosis, &mut progress)?;
    facts.cache_now_bytes = cache.cache_now.map(|size| size.0);
    progress.clear();
    Ok(diagnosis.report(facts))
}
