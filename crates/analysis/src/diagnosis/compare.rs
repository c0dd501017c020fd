//! Two diagnoses side by side: did the larger cache help?

use serde::Serialize;
use serde_json::json;

use super::findings::{Finding, Severity};
use super::report::Report;
use crate::render::{count_text, duration_text};
use record::Kind;

/// What a figure is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A number of requests or pages.
    Count,
    /// Requests a second.
    PerSecond,
    /// A share of all, 0 to 1.
    Share,
    /// Nanoseconds.
    Ns,
}

/// One figure, before and after.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// Which, as the report names it.
    pub figure: String,
    /// What it is measured in.
    pub unit: Unit,
    /// In the first report; null where it has none.
    pub before: Option<f64>,
    /// In the second.
    pub after: Option<f64>,
    /// The second less the first; null where one has none.
    pub difference: Option<f64>,
    /// The second by the first; null where the first is 0 or one has none.
    pub ratio: Option<f64>,
}

impl Change {
    fn new(figure: &str, unit: Unit, (before, after): (Option<f64>, Option<f64>)) -> Self {
        let both = before.zip(after);
        Self {
            figure: figure.to_owned(),
            unit,
            before,
            after,
            difference: both.map(|(before, after)| after - before),
            ratio: both.filter(|(before, _)| *before != 0.0).map(|(before, after)| after / before),
        }
    }
}

/// Two reports and what is different.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// What there is to say first.
    pub findings: Vec<Finding>,
    /// Figure by figure.
    pub changes: Vec<Change>,
    /// The first report.
    pub before: Report,
    /// The second.
    pub after: Report,
}

impl Comparison {
    /// Puts two reports side by side.
    pub fn new(before: Report, after: Report) -> Self {
        let changes = changes(&before, &after);
        let findings = findings(&before, &after, &changes);
        Self { findings, changes, before, after }
    }

    /// The change of one figure.
    pub fn change(&self, figure: &str) -> Option<&Change> {
        self.changes.iter().find(|change| change.figure == figure)
    }
}

type Figure = fn(&Report) -> Option<f64>;

/// The figures that are compared. Rates and shares tell more than counts: two captures are rarely of the same length.
const FIGURES: [(&str, Unit, Figure); 25] = [
    ("requests", Unit::Count, |report| Some(report.totals.requests as f64)),
    ("getpage", Unit::Count, |report| Some(report.totals.getpage as f64)),
    ("getpage_per_second", Unit::PerSecond, |report| per_second(report, report.totals.getpage)),
    ("unique_keys", Unit::Count, |report| Some(report.totals.unique_keys as f64)),
    ("errors", Unit::Count, |report| report.totals.errors.map(|count| count as f64)),
    ("unanswered", Unit::Count, |report| report.totals.unanswered.map(|count| count as f64)),
    ("first", Unit::Count, |report| count(report, |counts| counts.first)),
    ("in_flight", Unit::Count, |report| count(report, |counts| counts.in_flight)),
    ("redundant", Unit::Count, |report| count(report, |counts| counts.redundant)),
    ("redundant_per_second", Unit::PerSecond, |report| per_second(report, report.refetch?.counts.redundant)),
    ("redundant_ratio", Unit::Share, |report| report.refetch?.counts.redundant_ratio),
    ("same_content", Unit::Count, |report| count(report, |counts| counts.same_content)),
    ("changed", Unit::Count, |report| count(report, |counts| counts.changed)),
    ("raced", Unit::Count, |report| count(report, |counts| counts.raced)),
    ("contradictions", Unit::Count, |report| count(report, |counts| counts.contradictions)),
    ("unproven", Unit::Count, |report| count(report, |counts| counts.unproven)),
    ("avoidable", Unit::Count, |report| count(report, |counts| counts.avoidable)),
    ("duplicate_prefetches", Unit::Count, |report| report.duplicate_prefetches.map(|found| found.requests as f64)),
    ("getpage_p50_ns", Unit::Ns, |report| Some(report.latency?.of(Kind::GetPage).p50_ns? as f64)),
    ("getpage_p90_ns", Unit::Ns, |report| Some(report.latency?.of(Kind::GetPage).p90_ns? as f64)),
    ("getpage_p99_ns", Unit::Ns, |report| Some(report.latency?.of(Kind::GetPage).p99_ns? as f64)),
    ("getpage_p999_ns", Unit::Ns, |report| Some(report.latency?.of(Kind::GetPage).p999_ns? as f64)),
    ("getpage_max_ns", Unit::Ns, |report| Some(report.latency?.of(Kind::GetPage).max_ns? as f64)),
    ("getpage_wait_p99_ns", Unit::Ns, |report| Some(report.queueing?.of(Kind::GetPage).wait.p99_ns? as f64)),
    ("getpage_service_p99_ns", Unit::Ns, |report| Some(report.queueing?.of(Kind::GetPage).service.p99_ns? as f64)),
];

fn count(report: &Report, of: fn(&super::RefetchCounts) -> u64) -> Option<f64> {
    report.refetch.map(|refetch| of(&refetch.counts) as f64)
}

/// `None` in a window of no length.
fn per_second(report: &Report, count: u64) -> Option<f64> {
    let duration_ns = report.window.duration_ns.filter(|&ns| ns > 0)?;
    Some(count as f64 / (duration_ns as f64 / 1e9))
}

fn changes(before: &Report, after: &Report) -> Vec<Change> {
    FIGURES.iter().map(|(figure, unit, of)| Change::new(figure, *unit, (of(before), of(after)))).collect()
}

/// `from 41.3 % to 12.0 %`.
fn from_to(change: &Change) -> Option<String> {
    let text = |value: f64| match change.unit {
        Unit::Share => format!("{:.1} %", value * 100.0),
        Unit::Ns => duration_text(value as u64),
        Unit::PerSecond => format!("{value:.1}"),
        Unit::Count => count_text(value as u64),
    };
    Some(format!("from {} to {}", text(change.before?), text(change.after?)))
}

fn findings(before: &Report, after: &Report, changes: &[Change]) -> Vec<Finding> {
    let of = |figure: &str| changes.iter().find(|change| change.figure == figure);
    let mut findings = Vec::new();
    let mut say = |id, figure, what: &str| {
        let Some((change, numbers)) = of(figure).and_then(|change| Some((change, from_to(change)?))) else { return };
        let went = match change.difference {
            Some(difference) if difference > 0.0 => "rose",
            Some(difference) if difference < 0.0 => "fell",
            _ => "stayed",
        };
        let text = format!("{what} {went} {numbers}.");
        findings.push(Finding { id, severity: Severity::Info, text, evidence: json!(change) });
    };
    say(
        "redundant_ratio",
        "redundant_ratio",
        "The share of GetPage that fetched a page unchanged since the compute last fetched it",
    );
    say("redundant_rate", "redundant_per_second", "Redundant GetPage a second");
    say("getpage_rate", "getpage_per_second", "GetPage a second");
    say("latency", "getpage_p99_ns", "The 99th percentile of GetPage's latency");
    for (which, report) in [("first", before), ("second", after)] {
        if !report.completeness.complete {
            let text = format!("The {which} input is not complete: its counts of what is proven are lower bounds.");
            let evidence = json!({ "input": which, "loss": report.completeness.loss });
            findings.push(Finding { id: "incomplete", severity: Severity::Info, text, evidence });
        }
    }
    findings
}
