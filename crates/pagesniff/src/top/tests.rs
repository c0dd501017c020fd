//! The screen, drawn into memory, and what keys do to it.

use analysis::diagnosis::RefetchCounts;
use analysis::live::{By, CaptureFigures, Figures, LatencyFigures, Row, RowName, Snapshot, View};
use analysis::summary::{Ledger, Loss};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::app::{App, Asked};
use super::draw::{draw, text_lines};
use super::keys::Key;

const TENANTS: [&str; 3] =
    ["3aabbf1a5d0f4e2a9d3c1b2a49505101", "3aabbf1a5d0f4e2a9d3c1b2a49505102", "11aa22bb33cc44dd55ee66ff77880001"];

/// Requests of about that rate, of which nothing else is special.
fn figures(requests_per_s: f64) -> Figures {
    let requests = (requests_per_s * 10.0) as u64;
    let getpage = requests * 9 / 10;
    let classes = RefetchCounts {
        first: getpage / 2,
        redundant: getpage / 4,
        redundant_r1: getpage / 4,
        changed: getpage / 8,
        unproven: getpage - getpage / 2 - getpage / 4 - getpage / 8,
        ..RefetchCounts::default()
    };
    let latency_ns = LatencyFigures {
        measured: requests,
        p50: Some(213_456),
        p90: Some(512_000),
        p99: Some(1_420_000),
        max: Some(20_300_000),
    };
    let page_bytes_per_s = getpage as f64 * 819.2;
    let (depth_mean, depth_max) = (Some(3.25), Some(17));
    Figures {
        requests,
        requests_per_s,
        getpage,
        page_bytes_per_s,
        classes,
        latency_ns,
        depth_mean,
        depth_max,
        ..Figures::default()
    }
}

fn rows(by: By, rates: &[f64]) -> Vec<Row> {
    let named = |number: usize| {
        let tenant = Some(TENANTS[number % 3].to_owned());
        let rel = Some(format!("1663/16384/{}{}", 16_402 + number, if number % 4 == 3 { "_vm" } else { "" }));
        let name = RowName { tenant, timeline: Some(TENANTS[2].to_owned()), ..RowName::default() };
        match by {
            By::Tenant if number == 3 => RowName::default(),
            By::Tenant => name,
            By::Rel => RowName { rel, ..name },
            By::Client => RowName { client: Some(format!("10.0.0.7:{}", 50_000 + number)), ..name },
            By::KeyRange => RowName { rel, first_blkno: Some(2048), last_blkno: Some(4095), ..name },
        }
    };
    let figured = |number: usize, rate: f64| Figures { errors: u64::from(number == 1) * 12, ..figures(rate) };
    rates
        .iter()
        .enumerate()
        .map(|(number, &rate)| Row { name: named(number), figures: figured(number, rate) })
        .collect()
}

fn snapshot() -> Snapshot {
    let rates = [12_345.6, 890.1, 12.3, 0.4];
    let many: Vec<f64> = (0..40).map(|number| 5_000.0 / f64::from(number + 1)).collect();
    let view = |by: By| View {
        by,
        rows: rows(by, if by == By::Tenant { &rates } else { &many }),
        more_rows: 0,
        others: if by == By::KeyRange { figures(77.0) } else { Figures::default() },
    };
    let capture = CaptureFigures {
        packets: 345_678,
        wire_bytes: 1 << 30,
        connections: 14,
        open_connections: 12,
        loss: Loss::default(),
        ledger: Ledger { seen: 132_484, kept: 132_484, ..Ledger::default() },
    };
    Snapshot {
        time_ns: 1_796_094_784_355_667_834,
        window_ns: 10_000_000_000,
        ticks: 42,
        capture,
        capture_in_window: capture,
        followed_one_in: 1,
        total: figures(13_248.4),
        history: (0..42).map(|second| 1000.0 * f64::from(second % 14)).collect(),
        views: By::ALL.map(view).to_vec(),
        notes: vec!["12 connections were open before the capture began".to_owned(), "a second".to_owned()],
    }
}

fn app() -> App {
    let mut app = App::new("eth0 port 6400".to_owned(), By::Tenant, false);
    app.take(snapshot());
    app
}

fn drawn(app: &mut App, (width, height): (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app)).unwrap();
    terminal.backend().to_string()
}

fn press(app: &mut App, keys: &str) {
    for key in keys.chars() {
        assert_eq!(app.key(Key::Char(key)), Asked::Nothing);
    }
}

#[test]
fn a_terminal_of_usual_size_shows_the_totals_and_the_rows() {
    insta::assert_snapshot!("usual", drawn(&mut app(), (80, 24)));
}

#[test]
fn a_wide_terminal_shows_every_column() {
    let mut app = app();
    press(&mut app, "4");
    insta::assert_snapshot!("wide", drawn(&mut app, (120, 40)));
}

#[test]
fn a_narrow_terminal_keeps_what_matters_most() {
    let mut app = app();
    press(&mut app, "2");
    insta::assert_snapshot!("narrow", drawn(&mut app, (40, 20)));
}

#[test]
fn what_was_lost_stands_above_the_table() {
    let mut app = app();
    let mut snapshot = snapshot();
    snapshot.capture.loss = Loss { kernel_dropped: 1234, lost_requests: 5, ..Loss::default() };
    snapshot.capture_in_window.loss = Loss { kernel_dropped: 34, ..Loss::default() };
    app.take(snapshot);
    let screen = drawn(&mut app, (80, 24));
    assert!(screen.contains("LOST: 1,234 dropped by the kernel (34 now), 5 requests lost"), "{screen}");
}

#[test]
fn before_the_first_second_it_says_what_it_waits_for() {
    let mut app = App::new("lo port 6400".to_owned(), By::Rel, true);
    insta::assert_snapshot!("empty", drawn(&mut app, (80, 12)));
    app.take(Snapshot { ticks: 3, window_ns: 3_000_000_000, ..Snapshot::default() });
    let screen = drawn(&mut app, (80, 24));
    assert!(screen.contains("no request was seen in the last seconds"), "{screen}");
}

#[test]
fn help_and_notes_lie_over_it_until_a_key_is_pressed() {
    let mut app = app();
    press(&mut app, "h");
    insta::assert_snapshot!("help", drawn(&mut app, (80, 24)));
    press(&mut app, "xn");
    let screen = drawn(&mut app, (80, 24));
    assert!(screen.contains("- a second.") && !screen.contains("keys and columns"), "{screen}");
    assert_eq!(app.key(Key::Escape), Asked::Nothing);
    assert!(!drawn(&mut app, (80, 24)).contains("- a second."));
}

#[test]
fn while_it_is_paused_what_comes_is_not_shown() {
    let mut app = app();
    press(&mut app, "p");
    app.take(Snapshot { total: figures(1.0), ..snapshot() });
    let screen = drawn(&mut app, (80, 24));
    assert!(screen.contains("PAUSED") && screen.contains("13,248 requests/s"), "{screen}");
    press(&mut app, " ");
    let screen = drawn(&mut app, (80, 24));
    assert!(!screen.contains("PAUSED") && screen.contains("1.0 requests/s"), "{screen}");
}

#[test]
fn a_filter_is_typed_kept_and_cleared() {
    let mut app = app();
    press(&mut app, "3/q:50007");
    let screen = drawn(&mut app, (80, 24));
    assert!(screen.contains("filter: q:50007_") && screen.contains("no row has 'q:50007' in its name"), "{screen}");
    for _ in 0.."q:50007".len() {
        app.key(Key::Backspace);
    }
    press(&mut app, ":50007");
    app.key(Key::Enter);
    assert_eq!(app.rows().len(), 1);
    assert!(drawn(&mut app, (80, 24)).contains("10.0.0.7:50007"));
    assert_eq!(app.key(Key::Escape), Asked::Nothing);
    assert_eq!(app.rows().len(), 40);
    press(&mut app, "1/UNKNOWN");
    assert_eq!(app.rows().len(), 1, "what is not known is found by that");
}

#[test]
fn rows_are_sorted_by_what_was_chosen_and_scrolled() {
    let mut app = app();
    drawn(&mut app, (80, 24));
    let first = |app: &App| app.rows()[0].figures.requests_per_s;
    assert_eq!(first(&app), 12_345.6);
    press(&mut app, "r");
    assert_eq!(first(&app), 0.4);
    press(&mut app, "S");
    assert_eq!(app.rows()[0].name, RowName::default(), "by name, from the beginning");
    app.key(Key::Left);
    assert_eq!(app.rows()[0].figures.errors, 12, "by the last column that is shown");
    press(&mut app, "2>>");
    app.key(Key::PageDown);
    let screen = drawn(&mut app, (80, 24));
    assert!(!screen.contains("1663/16384/16402 "), "{screen}");
    app.key(Key::End);
    assert!(drawn(&mut app, (80, 24)).contains("1663/16384/16441"));
    app.key(Key::Home);
    assert!(drawn(&mut app, (80, 24)).contains("1663/16384/16402"));
}

#[test]
fn keys_end_it() {
    for key in [Key::Char('q'), Key::Escape, Key::Interrupt] {
        assert_eq!(app().key(key), Asked::Quit);
    }
    let mut app = app();
    app.key(Key::Char('/'));
    assert_eq!((app.key(Key::Char('q')), app.key(Key::Interrupt)), (Asked::Nothing, Asked::Quit));
    assert_eq!((app.key(Key::Suspend), app.key(Key::Redraw)), (Asked::Suspend, Asked::Redraw));
    app.key(Key::Clear);
    assert_eq!(app.filter, "");
}

#[test]
fn every_size_can_be_drawn() {
    for by in ["1", "2", "3", "4"] {
        for (width, height) in [(1, 1), (2, 3), (7, 5), (13, 9), (20, 14), (39, 50), (79, 2), (300, 100)] {
            let mut app = app();
            press(&mut app, by);
            drawn(&mut app, (width, height));
            press(&mut app, "h");
            drawn(&mut app, (width, height));
            press(&mut app, "xn");
            drawn(&mut app, (width, height));
        }
    }
}

#[test]
fn without_a_terminal_all_rows_are_text() {
    let mut app = app();
    press(&mut app, "4");
    let lines = text_lines(&app, 132);
    assert_eq!(lines.iter().filter(|line| line.starts_with("1663/")).count(), 40);
    assert!(lines.iter().any(|line| line.starts_with("others ")));
    assert_eq!(lines.last().unwrap(), "note: a second");
    assert!(lines.iter().all(|line| line.chars().count() <= 132));
}
