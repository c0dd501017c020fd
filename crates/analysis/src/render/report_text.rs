//! The report as text, for whoever sits before the terminal when a run ends: the figures by tenant, then how much of
//! the picture is there, then what must be known to read it.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use record::{Kind, Status};

use super::units::{bytes_text, count_text, duration_text};
use super::wrap::wrapped;
use crate::summary::{Report, TenantReport, Word};

/// More rows than this do not help at a terminal; `--summary` has them all.
const MOST_ROWS: usize = 20;

/// The report. Sentences are broken to fit that many `columns`, or stay a line each where it is `None`.
pub fn report_text(report: &Report, columns: Option<usize>) -> String {
    let mut above = String::new();
    heading(report, &mut above);
    let mut text = wrapped(&above, columns);
    if report.records > 0 {
        table(report, &mut text);
    }
    let mut below = String::new();
    completeness(report, &mut below);
    left_out(report, &mut below);
    traces(report, &mut below);
    for note in &report.notes {
        line(&mut below, format_args!("Note: {note}."));
    }
    text + &wrapped(&below, columns)
}

/// Appends a line. Writing to a String does not fail.
fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(content);
    text.push('\n');
}

/// `1 packet`, `2 packets`.
fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", count_text(count), if count == 1 { one } else { many })
}

fn heading(report: &Report, text: &mut String) {
    let packets = counted(report.packets, "packet", "packets");
    let wire = bytes_text(report.wire_bytes);
    let connections = counted(report.connections.pagestream, "pagestream connection", "pagestream connections");
    let seen = counted(report.ledger.seen, "request", "requests");
    line(text, format_args!("{packets} ({wire} on the wire), {connections}, {seen}."));
}

/// One row of the table: a tenant, its timeline, and the figures of the columns that have something to say.
type Figure = fn(&TenantReport) -> String;

/// The columns of figures, with whether there is anything in them.
fn columns(total: &TenantReport) -> Vec<(String, Figure)> {
    let mut columns: Vec<(String, Figure)> = vec![("requests".into(), |row| count_text(row.requests))];
    let kinds: [(Kind, Figure); 5] = [
        (Kind::GetPage, |row| count_text(row.by_kind.of(Kind::GetPage))),
        (Kind::Exists, |row| count_text(row.by_kind.of(Kind::Exists))),
        (Kind::Nblocks, |row| count_text(row.by_kind.of(Kind::Nblocks))),
        (Kind::DbSize, |row| count_text(row.by_kind.of(Kind::DbSize))),
        (Kind::Slru, |row| count_text(row.by_kind.of(Kind::Slru))),
    ];
    let statuses: [(Status, Figure); 3] = [
        (Status::Error, |row| count_text(row.by_status.of(Status::Error))),
        (Status::Unanswered, |row| count_text(row.by_status.of(Status::Unanswered))),
        (Status::Unknown, |row| count_text(row.by_status.of(Status::Unknown))),
    ];
    let kinds = kinds.into_iter().filter(|(kind, _)| total.by_kind.of(*kind) > 0);
    columns.extend(kinds.map(|(kind, figure)| (kind.as_str().into(), figure)));
    let statuses = statuses.into_iter().filter(|(status, _)| total.by_status.of(*status) > 0);
    columns.extend(statuses.map(|(status, figure)| (Word::as_str(status).into(), figure)));
    if total.unique_keys > 0 {
        columns.push(("unique keys".into(), unique_keys));
        columns.push(("asked again".into(), |row| row.repeated_share().map_or("-".into(), percent)));
    }
    columns.push(("p50".into(), |row| row.latency_ns.p50.map_or("-".into(), duration_text)));
    columns.push(("p99".into(), |row| row.latency_ns.p99.map_or("-".into(), duration_text)));
    columns.push(("max".into(), |row| row.latency_ns.max.map_or("-".into(), duration_text)));
    columns.push(("pages".into(), |row| bytes_text(row.page_bytes)));
    columns
}

fn unique_keys(row: &TenantReport) -> String {
    let about = if row.followed_one_in > 1 { "~" } else { "" };
    format!("{about}{}", count_text(row.unique_keys))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn table(report: &Report, text: &mut String) {
    let columns = columns(&report.total);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["tenant / timeline"].into_iter().chain(columns.iter().map(|(name, _)| name.as_str())));
    let mut add = |name: String, row: &TenantReport| {
        table.add_row([name].into_iter().chain(columns.iter().map(|(_, figure)| figure(row))));
    };
    for row in report.tenants.iter().take(MOST_ROWS) {
        match (&row.tenant, &row.timeline) {
            // On two lines, so that both ids can be copied whole and the table stays within a terminal.
            (Some(tenant), Some(timeline)) => add(format!("{tenant}\n/ {timeline}"), row),
            _ => add("(tenant not known)".into(), row),
        }
    }
    if let Some(others) = &report.others {
        add("(further tenants together)".into(), others);
    }
    if report.tenants.len() + usize::from(report.others.is_some()) > 1 {
        add("all".into(), &report.total);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    text.push('\n');
    for row in table.lines() {
        line(text, format_args!("{}", row.trim_end()));
    }
    text.push('\n');
    let hidden = report.tenants.len().saturating_sub(MOST_ROWS) as u64;
    if hidden > 0 {
        let rows = counted(hidden, "more timeline", "more timelines");
        line(text, format_args!("{rows} with fewer requests: --summary FILE lists all."));
    }
    if report.total.followed_one_in > 1 {
        line(
            text,
            format_args!("~ is an estimate, within about 1 %: there are more keys than are followed one by one."),
        );
    }
}

fn completeness(report: &Report, text: &mut String) {
    let unanswered = report.by_status.of(Status::Unanswered);
    if report.complete {
        match (report.ledger.seen, unanswered) {
            (0, _) => line(text, format_args!("No pagestream request was seen; nothing is known to be missing.")),
            (_, 0) => line(text, format_args!("Complete: no packet, request or answer is known to be missing.")),
            (_, _) => {
                let requests = counted(unanswered, "request has no answer", "requests have no answer");
                line(text, format_args!("Complete: no packet is known to be missing, but {requests} in this capture."));
            }
        }
        return;
    }
    let loss = &report.loss;
    let messages = [
        (loss.kernel_dropped, "packet dropped by the kernel", "packets dropped by the kernel"),
        (loss.interface_dropped, "packet dropped by the interface", "packets dropped by the interface"),
        (loss.lost_requests, "request missing", "requests missing"),
        (loss.lost_responses, "answer missing", "answers missing"),
        (loss.malformed, "malformed message", "malformed messages"),
        (loss.evicted_connections, "connection forgotten for memory", "connections forgotten for memory"),
        (loss.dropped_records, "record not kept", "records not kept"),
    ];
    let messages = messages.iter().filter(|reason| reason.0 > 0);
    let mut lost: Vec<String> = messages.map(|&(count, one, many)| counted(count, one, many)).collect();
    let bytes_only = lost.is_empty();
    if loss.gap_bytes > 0 {
        lost.push(format!("{} of the streams missing", bytes_text(loss.gap_bytes)));
    }
    if loss.truncated_packets > 0 {
        lost.push(counted(loss.truncated_packets, "packet cut by the snap length", "packets cut by the snap length"));
    }
    match (lost.is_empty(), bytes_only) {
        (true, _) => line(text, format_args!("NOT COMPLETE: the input ended early.")),
        (false, true) => {
            let messages = match unanswered {
                0 => "but no request or answer is known to be missing".to_owned(),
                _ => {
                    let answers = counted(unanswered, "request has no answer", "requests have no answer");
                    format!("{answers} in this capture, which may be what is missing")
                }
            };
            line(text, format_args!("NOT COMPLETE: {}; {messages}.", lost.join(", ")));
        }
        (false, false) => line(text, format_args!("NOT COMPLETE: {}.", lost.join(", "))),
    }
}

fn left_out(report: &Report, text: &mut String) {
    let ledger = &report.ledger;
    let reasons = [
        (ledger.filtered, "by the filters"),
        (ledger.sampled_out, "by --sample"),
        (ledger.unattributed, "as their tenant is not known (--unattributed keeps them)"),
    ];
    let reasons = reasons.iter().filter(|reason| reason.0 > 0);
    let reasons: Vec<String> = reasons.map(|&(count, why)| format!("{} {why}", count_text(count))).collect();
    if !reasons.is_empty() {
        line(text, format_args!("Requests left out: {}.", reasons.join(", ")));
    }
}

fn traces(report: &Report, text: &mut String) {
    let Some(traces) = &report.traces else { return };
    let (rotated, failed) = (report.ledger.rotated, report.ledger.write_failed);
    let lost = [
        (report.ledger.queue_dropped, "not written as the disk was too slow"),
        (failed, "not written"),
        (rotated, "deleted again to keep the limit"),
    ];
    let lost: Vec<_> = lost.iter().filter(|reason| reason.0 > 0).collect();
    let lost: String =
        lost.iter().map(|(count, why)| format!(", {} {why}", counted(*count, "record", "records"))).collect();
    match traces.files {
        0 => line(text, format_args!("No trace in {}: there was no record to keep{lost}.", traces.directory)),
        files => line(
            text,
            format_args!(
                "Traces: {} in {}, {}, {}{lost}.",
                counted(files, "file", "files"),
                traces.directory,
                bytes_text(traces.bytes),
                counted(report.ledger.kept, "record", "records"),
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use record::Record;

    use super::*;
    use crate::render::{report_json, samples};
    use crate::summary::{CaptureFacts, Connections, Ledger, Limits, Loss, Summary};

    fn report(records: &[Record], capture: CaptureFacts) -> Report {
        let mut summary = Summary::new(Limits::default());
        records.iter().for_each(|record| summary.observe(record));
        summary.report(capture)
    }

    fn clean(seen: u64) -> CaptureFacts {
        CaptureFacts {
            packets: 1247,
            wire_bytes: 2_311_245,
            connections: Connections { pagestream: 2, ..Connections::default() },
            ledger: Ledger { seen, kept: seen, ..Ledger::default() },
            input_whole: true,
            ..CaptureFacts::default()
        }
    }

    #[test]
    fn a_clean_capture_of_one_tenant() {
        let records = vec![samples::getpage(); 12_345];
        insta::assert_snapshot!(report_text(&report(&records, clean(12_345)), None));
    }

    #[test]
    fn a_capture_with_everything_in_it() {
        let loss =
            Loss { kernel_dropped: 3, gap_bytes: 65_536, lost_requests: 12, lost_responses: 1, ..Loss::default() };
        let ledger = Ledger { seen: 27, filtered: 13, unattributed: 7, kept: 7, ..Ledger::default() };
        let notes = vec!["2 connections are TLS: their content cannot be read".to_owned()];
        let capture = CaptureFacts { loss, ledger, notes, ..clean(27) };
        let mut records = samples::all();
        // The record of largest numbers says nothing here.
        records.pop();
        let report = report(&records, capture);
        insta::assert_snapshot!("everything_text", report_text(&report, None));
        insta::assert_snapshot!("everything_json", report_json(&report).unwrap());
    }

    #[test]
    fn a_capture_without_a_request() {
        let notes = vec!["no TCP segment on port 6400".to_owned()];
        let facts = CaptureFacts { notes, connections: Connections::default(), ..clean(0) };
        insta::assert_snapshot!(report_text(&report(&[], facts), None));
    }

    #[test]
    fn page_bytes_cut_off_are_told_from_requests_lost() {
        let loss = Loss { truncated_packets: 270, gap_bytes: 2_197_894, ..Loss::default() };
        let text = report_text(&report(&[samples::getpage()], CaptureFacts { loss, ..clean(1) }), None);
        let expected = "NOT COMPLETE: 2.1 MiB of the streams missing, 270 packets cut by the snap length; \
                        but no request or answer is known to be missing.";
        assert_eq!(text.lines().last(), Some(expected));
    }

    #[test]
    fn nobody_says_that_no_answer_is_missing_beside_requests_without_one() {
        let text = report_text(&report(&[samples::unanswered()], clean(1)), None);
        assert!(text.contains("Complete: no packet is known to be missing, but 1 request has no answer"), "{text}");
        let loss = Loss { gap_bytes: 2_197_894, ..Loss::default() };
        let text = report_text(&report(&[samples::unanswered()], CaptureFacts { loss, ..clean(1) }), None);
        assert!(text.contains("1 request has no answer in this capture, which may be what is missing."), "{text}");
        assert!(!text.contains("no request or answer is known to be missing"), "{text}");
    }

    #[test]
    fn an_input_that_ended_early_is_not_complete() {
        let facts = CaptureFacts { input_whole: false, ..clean(0) };
        assert!(report_text(&report(&[], facts), None).contains("NOT COMPLETE: the input ended early."));
    }

    #[test]
    fn only_the_busiest_of_many_tenants_are_listed() {
        let records: Vec<Record> = (0..30u8)
            .map(|tenant| {
                let mut record = samples::getpage();
                record.owner = record
                    .owner
                    .map(|owner| record::TenantTimeline { tenant: record::TenantId([tenant; 16]), ..owner });
                record
            })
            .collect();
        let text = report_text(&report(&records, clean(30)), None);
        assert!(text.contains("10 more timelines with fewer requests"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with(" /")).count(), MOST_ROWS);
    }
}
