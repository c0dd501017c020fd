//! What there is to say first, in plain sentences with their numbers and how sure they are.

use record::Kind;
use serde::Serialize;
use serde_json::{Value, json};

use super::report::{ClientRow, Refetches, RelationRow, Report};
use crate::render::{count_text, duration_text};

/// A share of requests below this is no finding by itself.
pub(super) const NOTABLE_SHARE: f64 = 0.01;

/// Nor are so few: the catalogue pages that a few backends read as they start already come to some.
pub(super) const NOTABLE_REQUESTS: u64 = 10;

/// One among many computes is told of by itself where so much of what they all have is its own. What is spread more evenly
/// is told of all together: nobody acts on fifty sentences.
pub(super) const STANDING_OUT_SHARE: f64 = 0.1;

/// Redundant fetches of this share and more are a warning: every tenth page that came was there already.
pub(super) const WARNING_SHARE: f64 = 0.1;

/// A request that held up others for so long together is a finding.
const NOTABLE_HELD_NS: u64 = 100_000_000;

/// Computes that are named one by one.
pub(super) const CLIENTS_NAMED: usize = 5;

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Something is broken.
    Critical,
    /// It costs, and can be mended.
    Warning,
    /// Good to know.
    Info,
}

impl Severity {
    /// Its name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

/// One thing that there is to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about; the same in every report.
    pub id: &'static str,
    /// How grave it is.
    pub severity: Severity,
    /// A sentence or two.
    pub text: String,
    /// The numbers that it rests on.
    pub evidence: Value,
}

/// The findings of a report, the gravest first. `getpage_sums_ns` are how long its GetPage waited and were served.
pub(super) fn of(report: &Report, getpage_sums_ns: (u64, u64)) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(refetch) = &report.refetch {
        contradictions(report, refetch, &mut findings);
        super::redundant_findings::redundant(report, refetch, &mut findings);
        avoidable(report, refetch, &mut findings);
        in_flight(report, refetch, &mut findings);
        unproven(report, refetch, &mut findings);
    } else {
        asked_again(report, &mut findings);
    }
    super::cache_findings::cache_sizes(report, &mut findings);
    super::shard_findings::shards(report, &mut findings);
    duplicate_prefetches(report, &mut findings);
    latency(report, getpage_sums_ns, &mut findings);
    blockers(report, &mut findings);
    failures(report, &mut findings);
    confidence(report, &mut findings);
    findings.sort_by_key(|finding| finding.severity);
    findings
}

/// `41.3 %` of a whole; `0.0 %` of nothing only.
pub(super) fn percent(part: u64, whole: u64) -> String {
    let percent = share(part, whole) * 100.0;
    if part > 0 && percent < 0.1 { "under 0.1 %".to_owned() } else { format!("{percent:.1} %") }
}

/// Whether so many of all are worth a sentence.
pub(super) fn is_notable(part: u64, whole: u64) -> bool {
    part >= NOTABLE_REQUESTS && share(part, whole) >= NOTABLE_SHARE
}

pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Whether what is said is a lower bound.
pub(super) fn is_partial(report: &Report) -> bool {
    !report.completeness.complete
}

fn contradictions(report: &Report, refetch: &Refetches, findings: &mut Vec<Finding>) {
    let count = refetch.counts.contradictions;
    if count == 0 {
        return;
    }
    let (what, verb) = if count == 1 { ("a page", "was") } else { ("pages", "were") };
    let text = format!(
        "{} GetPage {verb} answered with {what} changed after the LSN since which the compute had promised no change, though \
         the same connection had shown before that it knew of so late an LSN: a promise about not_modified_since was \
         broken, and stale pages may have been read.",
        count_text(count)
    );
    let evidence =
        json!({ "contradictions": count, "clients": clients_with(report, |row| row.asked.refetch.contradictions) });
    findings.push(Finding { id: "contradiction", severity: Severity::Critical, text, evidence });
}

/// The computes with some of what is counted.
fn clients_with(report: &Report, count: fn(&ClientRow) -> u64) -> Vec<Value> {
    let rows = report.clients.iter().filter(|row| count(row) > 0).take(CLIENTS_NAMED);
    rows.map(|row| json!({ "tenant": row.tenant, "timeline": row.timeline, "client": row.client, "count": count(row) }))
        .collect()
}

fn avoidable(report: &Report, refetch: &Refetches, findings: &mut Vec<Finding>) {
    let (count, getpage) = (refetch.counts.avoidable, report.totals.getpage);
    if !is_notable(count, getpage) {
        return;
    }
    let text = format!(
        "A large enough cache would have spared {} of {} GetPage ({}): the pages that had been fetched before, also those \
         that a primary had changed in the meantime.",
        count_text(count),
        count_text(getpage),
        percent(count, getpage)
    );
    let evidence = json!({
        "avoidable": count, "getpage": getpage, "redundant": refetch.counts.redundant,
        "same_content": refetch.counts.same_content, "changed": refetch.counts.changed,
    });
    findings.push(Finding { id: "avoidable", severity: Severity::Info, text, evidence });
}

fn in_flight(report: &Report, refetch: &Refetches, findings: &mut Vec<Finding>) {
    let (count, getpage) = (refetch.counts.in_flight, report.totals.getpage);
    if !is_notable(count, getpage) {
        return;
    }
    let text = format!(
        "{} of {} GetPage ({}) asked for a page that was on its way to the same compute already.",
        count_text(count),
        count_text(getpage),
        percent(count, getpage)
    );
    let evidence = json!({ "in_flight": count, "getpage": getpage });
    findings.push(Finding { id: "in_flight", severity: Severity::Info, text, evidence });
}

fn unproven(report: &Report, refetch: &Refetches, findings: &mut Vec<Finding>) {
    let (count, getpage) = (refetch.counts.unproven, report.totals.getpage);
    if !is_notable(count, getpage) {
        return;
    }
    let not_compared = &report.completeness.not_compared;
    let text = format!(
        "Of {} of {} GetPage ({}) nothing is claimed: an answer was not seen or was an error, a time is not certain, or \
         what the capture lost could explain them.",
        count_text(count),
        count_text(getpage),
        percent(count, getpage)
    );
    let evidence = json!({ "unproven": count, "getpage": getpage, "not_compared": not_compared });
    findings.push(Finding { id: "unproven", severity: Severity::Info, text, evidence });
}

/// All that can be said where the input does not tell who asked.
fn asked_again(report: &Report, findings: &mut Vec<Finding>) {
    let (getpage, unique) = (report.totals.getpage, report.totals.unique_keys);
    if getpage == 0 {
        return;
    }
    let again = getpage.saturating_sub(unique);
    let text = format!(
        "{} of {} GetPage ({}) asked for a page that was asked for before. A page trace does not tell by whom, nor what \
         came back: whether they were needless is not known.",
        count_text(again),
        count_text(getpage),
        percent(again, getpage)
    );
    let evidence = json!({ "getpage": getpage, "unique_keys": unique, "asked_again": again });
    findings.push(Finding { id: "asked_again", severity: Severity::Info, text, evidence });
}

fn duplicate_prefetches(report: &Report, findings: &mut Vec<Finding>) {
    let Some(duplicates) = report.duplicate_prefetches else { return };
    let getpage = report.totals.getpage;
    if !is_notable(duplicates.requests, getpage) {
        return;
    }
    let most = report.relations.iter().max_by_key(|row| row.duplicate_prefetches);
    let most = most.and_then(|row: &RelationRow| Some((row.rel.clone()?, row.duplicate_prefetches)));
    let apart = duplicates.requests_apart.p50.unwrap_or(0);
    let mut text = format!(
        "{} of {} GetPage ({}) asked for a page that the same connection had just asked for, typically {} requests before",
        count_text(duplicates.requests),
        count_text(getpage),
        percent(duplicates.requests, getpage),
        count_text(apart),
    );
    match &most {
        Some((rel, count)) => text += &format!("; {} of them in relation {rel}.", count_text(*count)),
        None => text.push('.'),
    }
    // A scan that fetches every page twice does it at one distance; a small table that is asked at random at any.
    let is_even = duplicates.requests_apart.p90.is_some_and(|p90| p90 <= apart.saturating_add(apart / 4));
    if is_even {
        text += " The distance is nearly always the same: a scan fetches its pages twice.";
    }
    let severity = if is_even { Severity::Warning } else { Severity::Info };
    let evidence = json!({
        "requests": duplicates.requests, "getpage": getpage, "requests_apart": duplicates.requests_apart,
        "rel": most.as_ref().map(|(rel, _)| rel), "one_distance": is_even,
    });
    findings.push(Finding { id: "duplicate_prefetch", severity, text, evidence });
}

fn latency(report: &Report, (wait_ns, service_ns): (u64, u64), findings: &mut Vec<Finding>) {
    let Some(getpage) = report.latency.map(|latency| latency.of(Kind::GetPage)) else { return };
    let (Some(p50), Some(p99), Some(max)) = (getpage.p50_ns, getpage.p99_ns, getpage.max_ns) else { return };
    let mut text = format!(
        "GetPage took {} in the middle, {} at the 99th percentile, {} at most",
        duration_text(p50),
        duration_text(p99),
        duration_text(max)
    );
    let all_ns = wait_ns.saturating_add(service_ns);
    if all_ns > 0 {
        text += &format!(
            "; {} of that time was waiting behind earlier requests of the same connection",
            percent(wait_ns, all_ns)
        );
    }
    text.push('.');
    let evidence = json!({ "latency": getpage, "wait_ns": wait_ns, "service_ns": service_ns });
    findings.push(Finding { id: "latency", severity: Severity::Info, text, evidence });
}

fn blockers(report: &Report, findings: &mut Vec<Finding>) {
    let Some(worst) = report.blockers.first().filter(|worst| worst.held_ns >= NOTABLE_HELD_NS) else { return };
    let of = worst.rel.as_ref().map_or(String::new(), |rel| format!(" of {rel}"));
    let text = format!(
        "One {}{of} took {} and held up {} requests behind it on its connection, for {} together.",
        worst.kind,
        duration_text(worst.service_ns),
        count_text(worst.held_requests),
        duration_text(worst.held_ns)
    );
    let evidence = json!({ "worst": report.blockers });
    findings.push(Finding { id: "head_of_line", severity: Severity::Warning, text, evidence });
}

fn failures(report: &Report, findings: &mut Vec<Finding>) {
    let requests = report.totals.requests;
    let mut say = |id, count: Option<u64>, what: &str| {
        let Some(count) = count.filter(|&count| count > 0) else { return };
        let text = format!(
            "{} of {} requests ({}) {what}.",
            count_text(count),
            count_text(requests),
            percent(count, requests)
        );
        let severity = if share(count, requests) >= NOTABLE_SHARE { Severity::Warning } else { Severity::Info };
        findings.push(Finding { id, severity, text, evidence: json!({ "count": count, "requests": requests }) });
    };
    say("errors", report.totals.errors, "were answered with an error");
    say("unanswered", report.totals.unanswered, "have no answer in the capture");
}

/// What weakens the other findings.
fn confidence(report: &Report, findings: &mut Vec<Finding>) {
    let mut say = |id, severity, text: String, evidence| findings.push(Finding { id, severity, text, evidence });
    let completeness = &report.completeness;
    let loss = &completeness.loss;
    if !loss.is_none() {
        let text = "The capture is not complete: what is proven stays proven, and there may be more of it.".to_owned();
        say("incomplete", Severity::Info, text, json!(loss));
    }
    if completeness.sampled_one_in > 1 {
        let text = format!(
            "Only one key in {} was captured: counts are of the sample.",
            count_text(completeness.sampled_one_in)
        );
        say("sampled", Severity::Info, text, json!({ "sampled_one_in": completeness.sampled_one_in }));
    }
    if completeness.followed_one_in > 1 {
        let text = format!(
            "There are more pages than can be followed: since then only one in {} is compared, the others count as unproven.",
            count_text(completeness.followed_one_in)
        );
        let ratio = report.refetch.and_then(|refetch| refetch.followed_redundant_ratio);
        let evidence = json!({ "followed_one_in": completeness.followed_one_in, "followed_redundant_ratio": ratio });
        say("followed", Severity::Info, text, evidence);
    }
    if let Some((text, evidence)) = unseen_starts(report) {
        say("restarts_invisible", Severity::Info, text, evidence);
    }
    if completeness.not_compared.unattributed > 0 && report.refetch.is_some() {
        let count = completeness.not_compared.unattributed;
        let text = format!("The tenant of {} GetPage is not known: they are compared with nothing.", count_text(count));
        say("unattributed", Severity::Info, text, json!({ "getpage": count }));
    }
}

/// Computes whose start was not seen, of those that fetched pages.
fn unseen_starts(report: &Report) -> Option<(String, Value)> {
    report.refetch?;
    let computes = || report.clients.iter().filter(|row| row.tenant.is_some() && row.asked.getpage > 0);
    let (unseen, all) = (computes().filter(|row| row.epoch_ns.is_none()).count(), computes().count());
    let whose = match (unseen, all) {
        (0, _) => return None,
        (1, 1) => "The compute's start was not seen: restarts of it".to_owned(),
        (unseen, all) if unseen == all => "No compute's start was seen: restarts".to_owned(),
        (1, all) => format!("The start of one of {} computes was not seen: restarts of it", count_text(all as u64)),
        (unseen, all) => {
            let (unseen, all) = (count_text(unseen as u64), count_text(all as u64));
            format!("The starts of {unseen} of {all} computes were not seen: restarts of them")
        }
    };
    Some((format!("{whose} may be invisible here."), json!({ "computes": unseen })))
}
