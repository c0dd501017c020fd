//! Figures of capture files.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use serde_json::Value;
use trafficgen::compose::compose_into;
use trafficgen::golden::{GOLDENS, Golden};

use crate::harness::{Dir, Ended, pcap};
use crate::truth::Truth;
use crate::{lines, requests_by};

const SECOND: u64 = 1_000_000_000;

/// A capture in `c.pcap` of the directory, and its truth.
fn composed(dir: &Dir, options: &'static str) -> Truth {
    let golden = Golden { name: "composed", purpose: "", options };
    let mut parsed = golden.parse(PathBuf::from("-")).unwrap();
    parsed.output.truth = Some(dir.path("."));
    let mut bytes = Vec::new();
    compose_into(&mut bytes, parsed).unwrap();
    dir.write("c.pcap", &bytes);
    Truth::read(&dir.path("."))
}

/// The snapshots of a capture, one a second.
fn snapshots(dir: &Dir, options: &str) -> Vec<Value> {
    let ended = dir.run(&format!("top --read c.pcap --json --rows 200 {options}"));
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
    lines(&ended.stdout)
}

#[test]
fn every_request_of_a_capture_is_in_the_row_that_it_belongs_to() {
    let dir = Dir::new();
    let truth = composed(
        &dir,
        "--tenants 5 --connections 12 --depth 8 --requests 3000 --kinds getpage=20,exists=1,nblocks=1,dbsize=1,slru=1 \
         --protocol mixed --error-rate 0.02",
    );
    let last = |by: &str| snapshots(&dir, &format!("--by {by}")).pop().unwrap();
    let by_tenant = last("tenant");
    assert_eq!(requests_by(&by_tenant, "tenant"), truth.counts("tenant"));
    assert_eq!(requests_by(&by_tenant, "timeline"), truth.counts("timeline"));
    let total = &by_tenant["total"];
    assert_eq!((&total["requests"], &total["unanswered"]), (&3000.into(), &0.into()));
    assert_eq!(total["errors"].as_u64().unwrap(), truth.counts("resp_kind")["error"]);
    assert_eq!(total["getpage"].as_u64().unwrap(), truth.counts("kind")["getpage"]);
    assert_eq!(
        (&by_tenant["capture"]["ledger"]["kept"], &by_tenant["capture"]["loss"]["gap_bytes"]),
        (&3000.into(), &0.into())
    );

    let by_client = requests_by(&last("client"), "client");
    let ports: std::collections::HashMap<String, u64> = by_client
        .into_iter()
        .map(|(client, requests)| (client.rsplit(':').next().unwrap().to_owned(), requests))
        .collect();
    assert_eq!(ports, truth.counts("local_port"));

    let by_rel = last("rel");
    let without = ["dbsize", "getslrusegment"].iter().map(|kind| truth.counts("kind")[*kind]).sum::<u64>();
    assert_eq!(requests_by(&by_rel, "rel")[""], without);
    let by_range = last("key-range");
    assert_eq!(requests_by(&by_range, "kind")[""], truth.counts("kind")["getpage"]);
}

#[test]
fn a_second_has_the_requests_that_arrived_in_it() {
    let dir = Dir::new();
    composed(&dir, "--connections 3 --depth 8 --requests 1500 --think 400ms --latency exponential:2ms");
    let records = lines(&dir.run("--read c.pcap --format jsonl").stdout);
    let times: Vec<u64> = records.iter().map(|record| record["time_ns"].as_u64().unwrap()).collect();
    let snapshots = snapshots(&dir, "");
    assert!(snapshots.len() > 12, "{} s are no more than a window", snapshots.len());
    for (number, snapshot) in snapshots[..snapshots.len() - 1].iter().enumerate() {
        assert_eq!(snapshot["ticks"].as_u64().unwrap(), number as u64 + 1);
        let until = snapshot["time_ns"].as_u64().unwrap() - SECOND;
        let window = until - 10 * SECOND..until;
        let expected = times.iter().filter(|time| window.contains(time)).count() as u64;
        assert_eq!(snapshot["total"]["requests"].as_u64().unwrap(), expected, "in second {number}");
    }
    let last = snapshots.last().unwrap();
    let history = last["history"].as_array().unwrap();
    let whole: f64 = history[..history.len() - 1].iter().map(|rate| rate.as_f64().unwrap()).sum();
    let ended = last["time_ns"].as_u64().unwrap() - snapshots[snapshots.len() - 2]["time_ns"].as_u64().unwrap();
    let rest = history.last().unwrap().as_f64().unwrap() * ended as f64 / 1e9;
    assert_eq!((whole + rest).round() as usize, records.len());
}

#[test]
fn its_classes_are_those_of_the_report() {
    let mut compared = 0;
    for golden in GOLDENS {
        let dir = Dir::new();
        let Ok(bytes) = fs::read(format!("{}/../../pcaps/{}.pcap", env!("CARGO_MANIFEST_DIR"), golden.name)) else {
            continue;
        };
        dir.write("c.pcap", &bytes);
        let live = snapshots(&dir, "").pop().unwrap();
        dir.run("--read c.pcap --out t --unattributed --quiet");
        let report = dir.run("report t --json -");
        if report.status != 0 {
            continue;
        }
        let report: Value = serde_json::from_str(&report.stdout).unwrap();
        let refetch = &report["refetch"];
        if refetch.is_null() || live["window_ns"].as_u64().unwrap() > 9 * SECOND {
            continue;
        }
        for class in
            ["first", "in_flight", "redundant", "same_content", "changed", "raced", "contradictions", "unproven"]
        {
            assert_eq!(live["total"][class], refetch[class], "{class} of {}", golden.name);
        }
        compared += refetch["first"].as_u64().unwrap().min(1);
    }
    assert!(compared > 20, "{compared}");
}

#[test]
fn once_is_one_table_or_one_object() {
    let dir = Dir::new();
    composed(&dir, "--tenants 2 --connections 2 --requests 200");
    let table = dir.run("top --read c.pcap --once --by client");
    assert_eq!((table.status, table.stderr.as_str()), (0, ""));
    assert!(table.stdout.starts_with("pagesniff top  c.pcap port 6400"), "{}", table.stdout);
    assert!(table.stdout.contains("\nnothing lost\n") && table.stdout.contains("\nconnection  "), "{}", table.stdout);
    let left_open = format!("{}/../../pcaps/left_open.pcap", env!("CARGO_MANIFEST_DIR"));
    let table = dir.run(&format!("top --read {left_open} --once")).stdout;
    assert!(table.contains("1 connection\n"), "what is open at the end is so: {table}");
    let object = dir.run("top --read c.pcap --once --json --rows 1");
    let [object] = &lines(&object.stdout)[..] else { panic!("{}", object.stdout) };
    assert_eq!((&object["views"][0]["by"], &object["views"][0]["more_rows"]), (&"tenant".into(), &1.into()));
}

#[test]
fn filters_leave_out_and_say_how_many() {
    let dir = Dir::new();
    let truth = composed(&dir, "--tenants 3 --connections 3 --requests 300");
    let tenant = truth.counts("tenant").into_keys().min().unwrap();
    let last = snapshots(&dir, &format!("--tenant {tenant}")).pop().unwrap();
    let wanted = truth.counts("tenant")[&tenant];
    assert_eq!(last["total"]["requests"].as_u64().unwrap(), wanted);
    assert_eq!(last["capture"]["ledger"]["filtered"].as_u64().unwrap(), 300 - wanted);
}

fn one_error_line(ended: &Ended, expected: &str) {
    assert_eq!((ended.status, ended.stdout.as_str()), (1, ""), "{ended:?}");
    assert!(ended.stderr.starts_with("error: ") && ended.stderr.contains(expected), "{}", ended.stderr);
    assert_eq!(ended.stderr.trim_end().lines().count(), 1, "{}", ended.stderr);
}

#[test]
fn what_cannot_be_shown_is_said_in_one_line() {
    let dir = Dir::new();
    dir.write("a.pcap", &pcap(3));
    one_error_line(
        &dir.run("top --read a.pcap"),
        "standard output is no terminal that the view could be drawn on; --once and --json",
    );
    one_error_line(&dir.run("top --read absent --once"), "absent");
    dir.write("text", b"root:x:0:0:root:/root:/bin/bash\n");
    one_error_line(&dir.run("top --read text --json"), "text");
    for (arguments, expected) in [("top", "--iface <NAME>|--read <FILE>"), ("top --read a --by page", "key-range")] {
        let ended = dir.run(arguments);
        assert!(ended.status == 2 && ended.stderr.contains(expected), "{}", ended.stderr);
    }
}

#[test]
fn a_capture_of_nothing_says_so() {
    let dir = Dir::new();
    dir.write("a.pcap", &pcap(3));
    let ended = dir.run("top --read a.pcap --once");
    assert!(ended.status == 0 && ended.stdout.contains("no request was seen"), "{ended:?}");
    assert!(ended.stdout.contains("note: nothing was sent from or to port 6400"), "{}", ended.stdout);
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let dir = Dir::new();
    let mut child = dir.piped("top --read - --json");
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    // What is written after it has left is refused.
    let _ = stdin.write_all(&pcap(10_000));
    drop(stdin);
    let ended = Ended::from(child.wait_with_output().unwrap());
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
}
