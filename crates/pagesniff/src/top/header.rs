//! The lines above the table: figures of all requests, what passes by and what was lost.

use analysis::live::{By, Figures, Snapshot};
use analysis::render::{count_text, duration_text};
use ratatui::style::{Modifier, Style};
use ratatui::symbols::bar::NINE_LEVELS;
use ratatui::text::{Line, Span};

use super::app::App;
use super::columns::{again, rate_text, share_text, size_text};
use super::lines::{GAP, counted, fitted, shortened_end};

pub(super) fn header_lines(app: &App, width: u16) -> Vec<Line<'static>> {
    let Snapshot { total, .. } = &app.snapshot;
    let losses = losses_text(&app.snapshot);
    let loss_style = if losses.is_some() { app.alarming() } else { Style::new() };
    let loss_line = losses.unwrap_or_else(|| "nothing lost".to_owned());
    vec![
        title_line(app, width),
        rate_line(app, width),
        Line::raw(fitted(latency_parts(total), width)),
        Line::raw(fitted(class_parts(&app.snapshot), width)),
        Line::raw(fitted(capture_parts(&app.snapshot), width)),
        Line::styled(shortened_end(&loss_line, width), loss_style),
        view_line(app, width),
    ]
}

/// What is captured, at which time, and how the view stands.
fn title_line(app: &App, width: u16) -> Line<'static> {
    let state = match (app.is_over, app.is_paused) {
        (_, true) => "PAUSED",
        (true, _) => "ENDED",
        _ => "",
    };
    let time = time_text(app.snapshot.time_ns);
    let right = [state, time.as_str()].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(GAP);
    let room = usize::from(width).saturating_sub(right.chars().count() + GAP.len());
    let left = shortened_end(&format!("pagesniff top{GAP}{}", app.title), u16::try_from(room).unwrap_or(width));
    let space = room.saturating_sub(left.chars().count()) + GAP.len();
    Line::styled(format!("{left}{}{right}", " ".repeat(space)), Style::new().add_modifier(Modifier::BOLD))
}

/// The time of day in UTC; empty before the first tick.
fn time_text(time_ns: u64) -> String {
    if time_ns == 0 {
        return String::new();
    }
    let of_day = time_ns / 1_000_000_000 % 86_400;
    format!("{:02}:{:02}:{:02}Z", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

/// The rate, and how it was in the last minutes.
fn rate_line(app: &App, width: u16) -> Line<'static> {
    let Snapshot { total, history, window_ns, .. } = &app.snapshot;
    let most = history.iter().copied().fold(0.0, f64::max);
    let text = format!("{} requests/s in {}", rate_text(total.requests_per_s), window_text(*window_ns));
    let scale = format!("most {}", rate_text(most));
    let room = usize::from(width).saturating_sub(text.chars().count() + scale.chars().count() + 2 * GAP.len());
    if room < 5 {
        return Line::raw(fitted([text, scale], width));
    }
    let line = sparkline(history.get(history.len().saturating_sub(room)..).unwrap_or_default(), most);
    let line = format!("{line:>room$}");
    Line::from(vec![
        Span::raw(text),
        Span::raw(GAP),
        Span::styled(line, app.accent()),
        Span::raw(format!("{GAP}{scale}")),
    ])
}

/// Whole seconds, where there are some.
fn window_text(window_ns: u64) -> String {
    match window_ns.saturating_add(500_000_000) / 1_000_000_000 {
        0 => duration_text(window_ns),
        seconds => format!("{seconds} s"),
    }
}

/// A bar for each second; the least one where there were few, none where there was nothing.
fn sparkline(history: &[f64], most: f64) -> String {
    let levels = [
        NINE_LEVELS.empty,
        NINE_LEVELS.one_eighth,
        NINE_LEVELS.one_quarter,
        NINE_LEVELS.three_eighths,
        NINE_LEVELS.half,
        NINE_LEVELS.five_eighths,
        NINE_LEVELS.three_quarters,
        NINE_LEVELS.seven_eighths,
        NINE_LEVELS.full,
    ];
    let level =
        |rate: f64| if rate <= 0.0 || most <= 0.0 { 0 } else { ((rate / most * 8.0).ceil() as usize).clamp(1, 8) };
    history.iter().filter_map(|&rate| levels.get(level(rate)).copied()).collect()
}

fn latency_parts(total: &Figures) -> Vec<String> {
    let latency = total.latency_ns;
    let known = |name: &str, ns: Option<u64>| ns.map_or(String::new(), |ns| format!("{name} {}", duration_text(ns)));
    let depth = total.depth_mean.map_or(String::new(), |mean| {
        format!("depth {mean:.1}, at most {}", count_text(total.depth_max.unwrap_or_default().into()))
    });
    let failed =
        |count: u64, name: &str| if count == 0 { String::new() } else { format!("{} {name}", count_text(count)) };
    let first = if latency.measured == 0 { "no latency yet".to_owned() } else { known("latency p50", latency.p50) };
    vec![
        first,
        known("p99", latency.p99),
        known("max", latency.max),
        failed(total.errors, "errors"),
        failed(total.unanswered, "unanswered"),
        depth,
        known("p90", latency.p90),
        failed(total.suspect, "suspect"),
    ]
}

fn class_parts(snapshot: &Snapshot) -> Vec<String> {
    let Figures { getpage, not_followed, classes, page_bytes_per_s, .. } = &snapshot.total;
    let compared = getpage.saturating_sub(*not_followed);
    let part = |name: &str, count: u64| {
        let share = if compared == 0 { 0.0 } else { count as f64 / compared as f64 };
        if count == 0 { String::new() } else { format!("{} {name}", share_text(share)) }
    };
    let sample = match snapshot.followed_one_in {
        0 | 1 => String::new(),
        one_in => format!("(one page in {})", count_text(one_in)),
    };
    let again = again(&snapshot.total);
    vec![
        format!("pages {}/s", size_text(*page_bytes_per_s)),
        part("first", classes.first),
        part("again", again),
        part("redundant", classes.redundant),
        sample,
        part("changed", classes.changed),
        part("same content", classes.same_content),
        part("in flight", classes.in_flight),
        part("unproven", classes.unproven),
    ]
}

/// What passes by, by the packets.
fn capture_parts(snapshot: &Snapshot) -> Vec<String> {
    let Snapshot { capture, capture_in_window, window_ns, .. } = snapshot;
    let per_s = |count: u64| if *window_ns == 0 { 0.0 } else { count as f64 * 1e9 / *window_ns as f64 };
    let left_out = capture.ledger.filtered.saturating_add(capture.ledger.sampled_out);
    let some =
        |count: u64, name: &str| if count == 0 { String::new() } else { format!("{} {name}", count_text(count)) };
    vec![
        format!("{} packets/s", rate_text(per_s(capture_in_window.packets))),
        format!("{}/s", size_text(per_s(capture_in_window.wire_bytes))),
        counted(capture.open_connections, "connection"),
        some(left_out, "requests left out"),
        some(capture.ledger.unattributed, "of unknown tenants left out"),
    ]
}

/// What was lost, where anything was: in all, and what of it in the window.
fn losses_text(snapshot: &Snapshot) -> Option<String> {
    let (all, now) = (&snapshot.capture.loss, &snapshot.capture_in_window.loss);
    let reasons = [
        ("dropped by the kernel", all.kernel_dropped, now.kernel_dropped),
        ("dropped by the interface", all.interface_dropped, now.interface_dropped),
        ("records not shown", all.dropped_records, now.dropped_records),
        ("requests lost", all.lost_requests, now.lost_requests),
        ("answers lost", all.lost_responses, now.lost_responses),
        ("bytes missing", all.gap_bytes, now.gap_bytes),
        ("packets cut", all.truncated_packets, now.truncated_packets),
        ("malformed", all.malformed, now.malformed),
        ("connections forgotten", all.evicted_connections, now.evicted_connections),
    ];
    let said = reasons.into_iter().filter(|(_, all, _)| *all > 0).map(|(name, all, now)| {
        let now = if now > 0 { format!(" ({} now)", count_text(now)) } else { String::new() };
        format!("{} {name}{now}", count_text(all))
    });
    let said: Vec<String> = said.collect();
    (!said.is_empty()).then(|| format!("LOST: {}", said.join(", ")))
}

/// The views to choose from, and how rows are chosen.
fn view_line(app: &App, width: u16) -> Line<'static> {
    let names = match width {
        0..50 => ["tenant", "rel", "client", "keys"],
        _ => ["tenants", "relations", "connections", "key ranges"],
    };
    let mut spans = Vec::new();
    for (number, (by, name)) in By::ALL.into_iter().zip(names).enumerate() {
        let style = if by == app.by { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        spans.push(Span::styled(format!(" {} {name} ", number + 1), style));
    }
    let used: usize = spans.iter().map(|span| span.content.chars().count()).sum();
    let rows = counted(app.view().map_or(0, |view| view.rows.len() as u64), "row");
    let order = format!("by {}{}", app.sort.name(), if app.is_reversed { ", reversed" } else { "" });
    let filter = match (app.filter.is_empty(), app.is_typing) {
        (true, false) => String::new(),
        _ => format!("filter: {}{}", app.filter, if app.is_typing { "_" } else { "" }),
    };
    let room = usize::from(width).saturating_sub(used + GAP.len());
    let rest = fitted([filter, order, rows], u16::try_from(room).unwrap_or(0));
    spans.push(Span::raw(format!("{GAP}{rest}")));
    Line::from(spans)
}
