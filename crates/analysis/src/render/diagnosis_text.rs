//! A diagnosis as text: findings first, then how much of the picture is there, then tables.

use record::Kind;

use super::text_table::{TextTable, line};
use super::units::{bytes_text, count_text, duration_text, time_text};
use super::wrap::wrapped;
use crate::diagnosis::{Durations, Figures, Finding, RefetchCounts, Report, SpanReport};

/// More rows than this do not help at a terminal; `--json` has them all.
const MOST_ROWS: usize = 15;

/// The diagnosis. Sentences are broken to fit that many `columns`, or stay a line each where it is `None`.
pub fn diagnosis_text(report: &Report, columns: Option<usize>) -> String {
    let mut text = diagnosis_findings_text(&report.findings, columns);
    text.push('\n');
    text.push_str(&wrapped(&completeness_text(report), columns));
    tables(report).into_iter().for_each(|table| table.append_to(&mut text));
    let mut last = String::new();
    access(report, &mut last);
    text + &wrapped(&last, columns)
}

/// From when to when, how much, and what is missing: a sentence a line.
pub(super) fn completeness_text(report: &Report) -> String {
    let mut text = String::new();
    window(report, &mut text);
    completeness(report, &mut text);
    text
}

/// All tables, in the order in which they are told; some have no rows.
pub(super) fn tables(report: &Report) -> Vec<TextTable> {
    let all = [over_time, latency, queueing, blockers, relations, keys, cache_sizing, clients, backends];
    all.into_iter().filter_map(|table| table(report)).collect()
}

/// The findings alone, as they stand at a capture's end; `columns` as for [`diagnosis_text`].
pub fn diagnosis_findings_text(findings: &[Finding], columns: Option<usize>) -> String {
    let mut text = String::new();
    if findings.is_empty() {
        line(&mut text, format_args!("There is nothing to say: no request was seen."));
    }
    for finding in findings {
        let mark = match finding.severity {
            crate::diagnosis::Severity::Critical => "CRITICAL: ",
            crate::diagnosis::Severity::Warning => "! ",
            crate::diagnosis::Severity::Info => "- ",
        };
        line(&mut text, format_args!("{mark}{}", finding.text));
    }
    wrapped(&text, columns)
}

fn window(report: &Report, text: &mut String) {
    let (Some(first), Some(last)) = (report.window.first_time_ns, report.window.last_time_ns) else { return };
    let length = duration_text(report.window.duration_ns.unwrap_or(0));
    let totals = &report.totals;
    line(text, format_args!("{} to {} ({length}).", time_text(first), time_text(last)));
    let about = if report.completeness.followed_one_in > 1 { "about " } else { "" };
    line(
        text,
        format_args!(
            "{} requests, {} of them GetPage for {about}{} different pages.",
            count_text(totals.requests),
            count_text(totals.getpage),
            count_text(totals.unique_keys)
        ),
    );
}

fn completeness(report: &Report, text: &mut String) {
    let completeness = &report.completeness;
    let loss = &completeness.loss;
    let ledger = &completeness.ledger;
    let reasons = [
        (loss.kernel_dropped, "packets dropped by the kernel"),
        (loss.interface_dropped, "packets dropped by the interface"),
        (loss.truncated_packets, "packets cut by the snap length"),
        (loss.gap_bytes, "bytes of the streams missing"),
        (loss.lost_requests, "requests missing"),
        (loss.lost_responses, "answers missing"),
        (loss.malformed, "malformed messages"),
        (loss.evicted_connections, "connections forgotten for memory"),
        (ledger.queue_dropped, "records dropped before they were written"),
        (ledger.write_failed, "records that could not be written"),
        (ledger.rotated, "records deleted to keep a limit"),
        (completeness.damaged_bytes, "bytes of the files that belong to no whole block"),
        (completeness.late_records, "records too late to be put in order"),
        (completeness.not_compared.keys, "GetPage of pages that are not followed"),
        (completeness.not_compared.caches, "GetPage of computes beyond the bound"),
        (completeness.not_compared.relations, "GetPage of relations beyond the bound"),
    ];
    let mut said: Vec<String> = reasons
        .iter()
        .filter(|reason| reason.0 > 0)
        .map(|&(count, what)| format!("{} {what}", count_text(count)))
        .collect();
    if completeness.sampled_one_in > 1 {
        said.push(format!("one key in {} captured", count_text(completeness.sampled_one_in)));
    }
    match (completeness.complete, said.is_empty()) {
        (true, _) => line(text, format_args!("Complete: nothing is known to be missing.")),
        (false, true) if report.refetch.is_none() => {
            line(text, format_args!("How complete this is, the input does not tell."))
        }
        (false, true) => line(text, format_args!("NOT COMPLETE: the input ended early.")),
        (false, false) => line(text, format_args!("NOT COMPLETE: {}.", said.join(", "))),
    }
    if completeness.duplicate_records > 0 {
        let copies = count_text(completeness.duplicate_records);
        line(text, format_args!("Note: {copies} records stand in several of the files; each counts once."));
    }
    for note in &completeness.notes {
        line(text, format_args!("Note: {note}."));
    }
}

/// A class as a column: its name and its count.
type ClassColumn = (&'static str, fn(&RefetchCounts) -> u64);

/// The classes, in the order in which they are told.
const CLASSES: [ClassColumn; 9] = [
    ("first", |counts| counts.first),
    ("redundant", |counts| counts.redundant),
    ("in flight", |counts| counts.in_flight),
    ("same content", |counts| counts.same_content),
    ("changed", |counts| counts.changed),
    ("raced", |counts| counts.raced),
    ("contradictions", |counts| counts.contradictions),
    ("unproven", |counts| counts.unproven),
    ("avoidable", |counts| counts.avoidable),
];

/// The classes that occur.
fn classes_of(report: &Report) -> Vec<ClassColumn> {
    let Some(refetch) = &report.refetch else { return Vec::new() };
    CLASSES.into_iter().filter(|(_, of)| of(&refetch.counts) > 0).collect()
}

fn class_cells(counts: &RefetchCounts, classes: &[ClassColumn]) -> Vec<String> {
    classes.iter().map(|(_, of)| count_text(of(counts))).collect()
}

fn over_time(report: &Report) -> Option<TextTable> {
    let spans = &report.over_time.spans;
    let classes = classes_of(report);
    let each = spans.len().div_ceil(MOST_ROWS);
    let mut table = TextTable::new("GetPage by class over time", &["from"]);
    table.numbers(["requests"]);
    table.numbers(classes.iter().map(|(name, _)| *name));
    let says_who = report.refetch.is_some();
    if says_who {
        table.numbers(["errors", "unanswered"]);
    }
    for group in spans.chunks(each.max(1)) {
        let sum = |of: &dyn Fn(&SpanReport) -> u64| count_text(group.iter().map(of).sum());
        let mut cells = vec![group.first().map_or(String::new(), |span| time_text(span.time_ns))];
        cells.push(sum(&|span| span.requests));
        cells.extend(classes.iter().map(|(_, of)| sum(&|span| span.refetch.as_ref().map_or(0, of))));
        if says_who {
            cells.push(sum(&|span| span.errors.unwrap_or(0)));
            cells.push(sum(&|span| span.unanswered.unwrap_or(0)));
        }
        table.row(cells);
    }
    table.total(std::iter::once("all".to_owned()).chain(all_cells(report, &classes)));
    Some(table)
}

fn all_cells(report: &Report, classes: &[ClassColumn]) -> Vec<String> {
    let mut cells = vec![count_text(report.totals.requests)];
    cells.extend(report.refetch.iter().flat_map(|refetch| class_cells(&refetch.counts, classes)));
    cells.extend([report.totals.errors, report.totals.unanswered].into_iter().flatten().map(count_text));
    cells
}

const DURATION_COLUMNS: [&str; 7] = ["measured", "p50", "p90", "p99", "p99.9", "max", "mean"];

fn duration_cells(durations: &Durations) -> Vec<String> {
    let Durations { count, p50_ns, p90_ns, p99_ns, p999_ns, max_ns, mean_ns, .. } = *durations;
    let times = [p50_ns, p90_ns, p99_ns, p999_ns, max_ns, mean_ns];
    let times = times.into_iter().map(|time| time.map_or("-".to_owned(), duration_text));
    std::iter::once(count_text(count)).chain(times).collect()
}

fn latency(report: &Report) -> Option<TextTable> {
    let latency = report.latency.as_ref()?;
    let mut table = TextTable::new("Latency: from the request's last byte to the answer's first", &["kind"]);
    table.numbers(DURATION_COLUMNS);
    for &kind in Kind::ALL.iter().filter(|&&kind| latency.of(kind).count > 0) {
        table.row(std::iter::once(kind.to_string()).chain(duration_cells(&latency.of(kind))));
    }
    Some(table)
}

fn queueing(report: &Report) -> Option<TextTable> {
    let queueing = report.queueing.as_ref()?;
    let mut table = TextTable::new(
        "Of it, waiting behind earlier requests of the connection, and service; and what others waited for",
        &["kind", "part"],
    );
    table.numbers(DURATION_COLUMNS);
    table.numbers(["held up", "for"]);
    for &kind in Kind::ALL.iter().filter(|&&kind| queueing.of(kind).wait.count > 0) {
        let of = queueing.of(kind);
        let held = [count_text(of.held_requests), duration_text(of.held_ns)];
        table.row([kind.to_string(), "wait".to_owned()].into_iter().chain(duration_cells(&of.wait)));
        let service = [String::new(), "service".to_owned()].into_iter().chain(duration_cells(&of.service));
        table.row(service.chain(held));
    }
    Some(table)
}

fn blockers(report: &Report) -> Option<TextTable> {
    let mut table = TextTable::new("Requests that held up others longest", &["at", "kind", "relation"]);
    table.numbers(["service", "held up", "for"]);
    for blocker in &report.blockers {
        table.row([
            time_text(blocker.time_ns),
            blocker.kind.to_owned(),
            blocker.rel.clone().unwrap_or_else(|| "-".to_owned()),
            duration_text(blocker.service_ns),
            count_text(blocker.held_requests),
            duration_text(blocker.held_ns),
        ]);
    }
    Some(table)
}

/// Whether rows must say whose they are.
fn has_several_tenants(report: &Report) -> bool {
    let first = report.relations.first().map(|row| (&row.tenant, &row.timeline));
    report.relations.iter().any(|row| Some((&row.tenant, &row.timeline)) != first && row.rel.is_some())
}

fn whose(tenant: &Option<String>, timeline: &Option<String>) -> String {
    match (tenant, timeline) {
        (Some(tenant), Some(timeline)) => format!("{tenant}/{timeline}"),
        _ => "-".to_owned(),
    }
}

fn relations(report: &Report) -> Option<TextTable> {
    let classes = classes_of(report);
    let mut table = TextTable::new("By relation and fork", &["relation"]);
    table.numbers(["requests", "pages"]);
    table.numbers(classes.iter().map(|(name, _)| *name));
    let says_who = report.refetch.is_some();
    if says_who {
        table.numbers(["twice in a scan", "sequential", "strided", "random", "p50", "p99", "max"]);
    }
    let owners = has_several_tenants(report);
    for row in report.relations.iter().take(MOST_ROWS) {
        let name = row.rel.clone().unwrap_or_else(|| "(further relations)".to_owned());
        let name = if owners { format!("{name} of {}", whose(&row.tenant, &row.timeline)) } else { name };
        let mut cells = vec![name, count_text(row.requests), row.unique_keys.map_or("-".to_owned(), count_text)];
        cells.extend(row.refetch.iter().flat_map(|counts| class_cells(counts, &classes)));
        if says_who {
            let access = [row.duplicate_prefetches, row.access.sequential, row.access.strided, row.access.random];
            cells.extend(access.map(count_text));
            let times = [row.latency.p50_ns, row.latency.p99_ns, row.latency.max_ns];
            cells.extend(times.map(|time| time.map_or("-".to_owned(), duration_text)));
        }
        table.row(cells);
    }
    table.more(report.relations.len().saturating_sub(MOST_ROWS));
    Some(table)
}

fn keys(report: &Report) -> Option<TextTable> {
    let mut table = TextTable::new("Hottest pages", &["key", "relation", "block", "client"]);
    table.numbers(["GetPage", "redundant"]);
    for row in report.keys.iter().take(MOST_ROWS) {
        table.row([
            row.key.clone(),
            row.rel.clone(),
            row.blkno.to_string(),
            row.client.clone().unwrap_or_else(|| "-".to_owned()),
            count_text(row.requests),
            row.redundant.map_or("-".to_owned(), count_text),
        ]);
    }
    table.more(report.keys.len().saturating_sub(MOST_ROWS));
    Some(table)
}

fn cache_sizing(report: &Report) -> Option<TextTable> {
    let mut table = TextTable::new("Cache for a share of these fetches", &["client", "tenant/timeline"]);
    table.numbers(["spared", "added cache"]);
    let says_now = report.completeness.cache_now_bytes.is_some();
    if says_now {
        table.numbers(["one cache, at least", "at most"]);
    }
    for row in report.cache_sizing.iter().take(MOST_ROWS) {
        let (client, owner) = match &row.cache {
            Some(cache) => (cache.client.clone(), format!("{}/{}", cache.tenant, cache.timeline)),
            None => ("-".to_owned(), "-".to_owned()),
        };
        let mut cells =
            vec![client, owner, format!("{:.0} %", row.target_hit_ratio * 100.0), bytes_text(row.added_bytes)];
        if says_now {
            cells.extend([row.size_low_bytes, row.size_high_bytes].map(|size| size.map_or("-".to_owned(), bytes_text)));
        }
        table.row(cells);
    }
    table.more(report.cache_sizing.len().saturating_sub(MOST_ROWS));
    Some(table)
}

fn clients(report: &Report) -> Option<TextTable> {
    let classes = classes_of(report);
    let mut table = TextTable::new("By compute", &["client", "asks for", "tenant/timeline"]);
    table.numbers(["requests"]);
    table.numbers(classes.iter().map(|(name, _)| *name));
    table.numbers(["errors", "unanswered", "p50", "p99", "max"]);
    for row in report.clients.iter().take(MOST_ROWS) {
        let asks_for = match row.primary {
            Some(true) => "latest",
            Some(false) => "an LSN",
            None => "-",
        };
        let client = row.client.clone().unwrap_or_else(|| "(further computes)".to_owned());
        let mut cells =
            vec![client, asks_for.to_owned(), whose(&row.tenant, &row.timeline), count_text(row.asked.requests)];
        cells.extend(class_cells(&row.asked.refetch, &classes));
        cells.extend([count_text(row.asked.errors), count_text(row.asked.unanswered)]);
        let times = [row.latency.p50_ns, row.latency.p99_ns, row.latency.max_ns];
        cells.extend(times.map(|time| time.map_or("-".to_owned(), duration_text)));
        table.row(cells);
    }
    table.more(report.clients.len().saturating_sub(MOST_ROWS));
    Some(table)
}

fn backends(report: &Report) -> Option<TextTable> {
    let classes = classes_of(report);
    let mut table = TextTable::new("By backend", &["client", "backend"]);
    table.numbers(["requests"]);
    table.numbers(classes.iter().map(|(name, _)| *name));
    table.numbers(["errors", "unanswered", "max latency"]);
    for row in report.backends.iter().take(MOST_ROWS) {
        let pid = row.backend_pid.map_or("-".to_owned(), |pid| pid.to_string());
        let client = row.client.clone().unwrap_or_else(|| "(further backends)".to_owned());
        let mut cells = vec![client, pid, count_text(row.asked.requests)];
        cells.extend(class_cells(&row.asked.refetch, &classes));
        cells.extend([count_text(row.asked.errors), count_text(row.asked.unanswered)]);
        cells.push(row.max_latency_ns.map_or("-".to_owned(), duration_text));
        table.row(cells);
    }
    table.more(report.backends.len().saturating_sub(MOST_ROWS));
    Some(table)
}

pub(super) fn access(report: &Report, text: &mut String) {
    let Some(access) = &report.access else { return };
    let counts = &access.counts;
    if counts.sequential + counts.strided + counts.random == 0 {
        return;
    }
    line(
        text,
        format_args!(
            "\nAccess: {} sequential, {} strided, {} random; runs of {}.",
            count_text(counts.sequential),
            count_text(counts.strided),
            count_text(counts.random),
            figures_text(&access.run_blocks, "blocks")
        ),
    );
    line(text, format_args!("In flight on a connection: {}.", figures_text(&report.depth, "requests")));
    if let Some(duplicates) = report.duplicate_prefetches.filter(|duplicates| duplicates.requests > 0) {
        let apart = figures_text(&duplicates.requests_apart, "requests");
        let count = count_text(duplicates.requests);
        line(text, format_args!("The same page twice within a scan: {count} times; apart by {apart}."));
    }
    let pages = report.totals.getpage.saturating_mul(8192);
    line(text, format_args!("All GetPage together: {}.", bytes_text(pages)));
}

/// `8 blocks in the middle, 64 at p99, 128 at most`.
fn figures_text(figures: &Figures, what: &str) -> String {
    match (figures.p50, figures.p99, figures.max) {
        (Some(p50), Some(p99), Some(max)) => {
            format!("{} {what} in the middle, {} at p99, {} at most", count_text(p50), count_text(p99), count_text(max))
        }
        _ => format!("no {what}"),
    }
}
