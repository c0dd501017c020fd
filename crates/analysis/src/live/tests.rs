//! The last seconds against what was asked for in them.

use proptest::prelude::*;
use record::{RelTag, Status, Target, Timestamp};

use super::*;
use crate::render::samples;
use crate::summary::Loss;

const SECOND: u64 = 1_000_000_000;
/// Any beginning of a second will do.
const START: u64 = 1_796_094_784 * SECOND;
const REL: RelTag = RelTag { spcnode: 1663, dbnode: 5, relnode: 16_396, forknum: 0 };

fn limits(rows: usize) -> Limits {
    Limits { rows, ..Limits::DEFAULT }
}

/// A request for a block that arrived so long after the start.
fn getpage(after_ns: u64, blkno: u32) -> Record {
    Record {
        time: Timestamp(START + after_ns),
        target: Target::GetPage { rel: REL, blkno },
        seq: Some(after_ns),
        ..samples::getpage()
    }
}

fn tick(live: &mut Live, seconds: u64) {
    live.tick(Timestamp(START + seconds * SECOND), SECOND, CaptureFigures::default());
}

fn all(live: &Live) -> Snapshot {
    live.snapshot(Wanted { by: &By::ALL, rows: 1000 })
}

#[test]
fn before_the_first_tick_there_is_nothing() {
    let snapshot = all(&Live::new(Limits::DEFAULT));
    assert_eq!(
        (snapshot.ticks, snapshot.window_ns, snapshot.total, snapshot.followed_one_in),
        (0, 0, Figures::default(), 1)
    );
}

#[test]
fn a_request_counts_once_its_second_and_the_next_are_over_and_leaves_with_the_window() {
    let mut live = Live::new(Limits::DEFAULT);
    for n in 0..100 {
        live.observe(&getpage(n * 10_000_000, n as u32));
    }
    tick(&mut live, 1);
    assert_eq!(all(&live).total.requests, 0, "their answers are waited for");
    for seconds in 2..12 {
        tick(&mut live, seconds);
        let Snapshot { total, window_ns, .. } = all(&live);
        assert_eq!((total.requests, total.getpage), (100, 100), "{seconds}");
        assert_eq!(window_ns, seconds.min(WINDOW_TICKS as u64) * SECOND);
        assert!((total.requests_per_s * window_ns as f64 / 1e9 - 100.0).abs() < 1e-6);
        assert!((total.page_bytes_per_s - total.requests_per_s * 8192.0).abs() < 1e-6);
    }
    tick(&mut live, 12);
    let snapshot = all(&live);
    assert_eq!(snapshot.total, Figures::default());
    assert!(snapshot.views.iter().all(|view| view.rows.is_empty()), "{:?}", snapshot.views);
    let expected: Vec<f64> = [0.0, 100.0].into_iter().chain([0.0; 10]).collect();
    assert_eq!(snapshot.history, expected);
}

#[test]
fn figures_are_those_of_the_requests() {
    let mut live = Live::new(Limits::DEFAULT);
    for n in 0..1000_u64 {
        let status = if n % 100 == 7 { Status::Error } else { Status::Ok };
        let (latency_ns, depth) = (Some((n + 1) * 1_000), Some(1 + n as u32 % 4));
        live.observe(&Record { status, latency_ns, depth, ..getpage(n * 1000, n as u32) });
    }
    live.observe(&Record { target: Target::DbSize { dbnode: 5 }, ..getpage(2_000_000, 0) });
    live.observe(&Record { status: Status::Unanswered, latency_ns: None, depth: None, ..getpage(3_000_000, 5000) });
    tick(&mut live, 1);
    tick(&mut live, 2);
    let total = all(&live).total;
    assert_eq!((total.requests, total.getpage, total.errors, total.unanswered), (1002, 1001, 10, 1));
    assert_eq!((total.page_bytes_per_s, total.requests_per_s), (990.0 * 8192.0 / 2.0, 501.0));
    assert_eq!((total.latency_ns.measured, total.latency_ns.max), (1001, Some(1_000_000)));
    assert!(total.latency_ns.p50.unwrap().abs_diff(500_000) < 35_000, "{:?}", total.latency_ns);
    assert_eq!((total.depth_max, total.classes.first), (Some(4), 1001));
    assert!((total.depth_mean.unwrap() - 2.5).abs() < 0.01);
}

#[test]
fn what_is_fetched_again_is_found_though_the_answers_came_in_another_order() {
    let first = Record { latency_ns: Some(400_000_000), ..getpage(0, 7) };
    let again = Record { latency_ns: Some(1_000), ..getpage(600_000_000, 7) };
    let other = Record { latency_ns: Some(1_000), ..getpage(650_000_000, 8) };
    let mut live = Live::new(Limits::DEFAULT);
    // The second's answer was seen before the first's record was complete.
    [&again, &first, &other].into_iter().for_each(|record| live.observe(record));
    tick(&mut live, 1);
    tick(&mut live, 2);
    let classes = all(&live).total.classes;
    assert_eq!((classes.first, classes.redundant_r1, classes.unproven), (2, 1, 0));
}

#[test]
fn a_request_whose_place_is_past_counts_and_nothing_is_claimed_of_it() {
    let mut live = Live::new(Limits::DEFAULT);
    live.observe(&getpage(1_500_000_000, 1));
    [1, 2, 3].into_iter().for_each(|seconds| tick(&mut live, seconds));
    live.observe(&Record { latency_ns: Some(3 * SECOND), ..getpage(0, 1) });
    tick(&mut live, 4);
    let total = all(&live).total;
    assert_eq!((total.requests, total.classes.first, total.classes.unproven), (2, 1, 1));
    assert_eq!(total.latency_ns.max, Some(3 * SECOND));
}

#[test]
fn a_clock_that_is_set_back_stops_nothing() {
    let mut live = Live::new(Limits::DEFAULT);
    live.observe(&getpage(100 * SECOND, 1));
    tick(&mut live, 101);
    live.observe(&getpage(SECOND, 2));
    for seconds in 2..5 {
        tick(&mut live, seconds);
    }
    assert_eq!(all(&live).total.requests, 2);
}

#[test]
fn where_too_many_wait_the_earliest_do_not() {
    let mut live = Live::new(Limits { waiting: 100, ..Limits::DEFAULT });
    (0..1000).for_each(|n| live.observe(&getpage(n, n as u32)));
    assert!(live.waiting.places() <= 100);
    tick(&mut live, 1);
    assert!(all(&live).total.requests >= 900);
    live.finish(Timestamp(START + 2 * SECOND), SECOND, CaptureFigures::default());
    assert_eq!(all(&live).total.requests, 1000);
}

#[test]
fn more_keys_than_rows_share_one_and_who_becomes_busy_gets_a_row() {
    let mut live = Live::new(limits(16));
    let range = |n: u32| n * KEY_RANGE_BLOCKS;
    for seconds in 0..5 {
        // A hundred ranges, of which those with larger numbers are asked for more often; and a newcomer later on.
        for n in 0..100_u32 {
            let newcomer = if seconds >= 2 { 200 } else { 0 };
            let requests = if n == 99 { newcomer } else { 1 + n / 10 };
            for k in 0..requests {
                live.observe(&getpage(seconds * SECOND + u64::from(n * 1000 + k), range(n)));
            }
        }
        tick(&mut live, seconds + 1);
        let snapshot = all(&live);
        for view in &snapshot.views {
            let rows: u64 = view.rows.iter().map(|row| row.figures.requests).sum();
            assert_eq!(rows + view.others.requests, snapshot.total.requests, "{:?}", view.by);
            assert!(view.rows.len() <= 16);
        }
    }
    tick(&mut live, 6);
    let snapshot = all(&live);
    let busiest = &snapshot.views[By::KeyRange as usize].rows[0];
    assert_eq!((busiest.name.first_blkno, busiest.name.last_blkno), (Some(range(99)), Some(range(100) - 1)));
    assert!(busiest.figures.requests >= 400, "{busiest:?}");
    assert_eq!(snapshot.views[By::Tenant as usize].rows.len(), 1);
}

#[test]
fn fewer_rows_are_said_and_the_others_added_up() {
    let mut live = Live::new(Limits::DEFAULT);
    for n in 0..50_u16 {
        let client = ([10, 0, 0, 7], 50_000 + n).into();
        (0..=u64::from(n)).for_each(|k| live.observe(&Record { client, ..getpage(u64::from(n) * 100 + k, 0) }));
    }
    tick(&mut live, 1);
    tick(&mut live, 2);
    let snapshot = live.snapshot(Wanted { by: &[By::Client], rows: 3 });
    let [view] = &snapshot.views[..] else { panic!("{:?}", snapshot.views) };
    let shown: Vec<_> = view.rows.iter().map(|row| (row.name.client.as_deref(), row.figures.requests)).collect();
    let expected = [("10.0.0.7:50049", 50), ("10.0.0.7:50048", 49), ("10.0.0.7:50047", 48)];
    assert_eq!(shown, expected.map(|(client, requests)| (Some(client), requests)));
    assert_eq!((view.by, view.more_rows, view.others.requests), (By::Client, 47, (1..=47).sum()));
}

#[test]
fn the_capture_is_told_in_all_and_of_the_window() {
    let mut live = Live::new(Limits::DEFAULT);
    for n in 1..=15_u64 {
        let loss = Loss { kernel_dropped: u64::from(n > 12), ..Loss::default() };
        let capture = CaptureFigures { packets: n * n, loss, open_connections: 3, ..CaptureFigures::default() };
        live.tick(Timestamp(START + n * SECOND), SECOND, capture);
    }
    let Snapshot { capture, capture_in_window, .. } = all(&live);
    assert_eq!((capture.packets, capture_in_window.packets), (225, 225 - 25));
    assert_eq!((capture.loss.kernel_dropped, capture_in_window.loss.kernel_dropped), (1, 1));
    assert_eq!(capture_in_window.open_connections, 3);
}

#[test]
fn a_row_takes_what_is_said_of_it() {
    let bytes = size_of::<Seconds>() + (WINDOW_TICKS + 1) * latencies::BUCKET_BYTES;
    assert!((11 * 1024..13 * 1024).contains(&bytes), "{bytes}");
}

#[test]
fn as_json_it_has_its_fixed_names() {
    let mut live = Live::new(Limits::DEFAULT);
    live.observe(&getpage(0, 4242));
    tick(&mut live, 1);
    tick(&mut live, 2);
    let snapshot = live.snapshot(Wanted { by: &[By::KeyRange], rows: 9 });
    let json = serde_json::to_string_pretty(&snapshot).unwrap();
    assert_eq!(serde_json::from_str::<Snapshot>(&json).unwrap(), snapshot);
    insta::assert_snapshot!(json);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn nothing_is_counted_twice_or_forgotten(
        requests in prop::collection::vec((0u64..8, 0u64..SECOND, 0u64..3, 0u32..12), 0..300), rows in 1usize..6,
    ) {
        let mut requests = requests;
        requests.sort_unstable_by_key(|&(second, after_ns, latency_s, _)| second * SECOND + after_ns + latency_s * SECOND);
        let mut live = Live::new(limits(rows));
        let mut next = requests.iter().peekable();
        for second in 0..9 {
            while let Some((at, after_ns, latency_s, range)) = next.next_if(|request| request.0 + request.2 <= second) {
                let latency_ns = Some(latency_s * SECOND);
                live.observe(&Record { latency_ns, ..getpage(at * SECOND + after_ns, range * KEY_RANGE_BLOCKS) });
            }
            tick(&mut live, second + 1);
        }
        next.for_each(|(at, after_ns, _, range)| live.observe(&getpage(at * SECOND + after_ns, range * KEY_RANGE_BLOCKS)));
        live.finish(Timestamp(START + 10 * SECOND), SECOND, CaptureFigures::default());
        let snapshot = all(&live);
        prop_assert_eq!(snapshot.total.requests, requests.len() as u64);
        prop_assert_eq!(snapshot.history.iter().sum::<f64>() as usize, requests.len());
        for view in &snapshot.views {
            let of_rows: u64 = view.rows.iter().map(|row| row.figures.requests).sum();
            prop_assert_eq!(of_rows + view.others.requests, requests.len() as u64);
            prop_assert!(view.rows.len() <= rows);
        }
    }
}
