//! Neon's page traces: written, read, and held against those of a real pageserver.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use trafficgen::compose::compose_into;
use trafficgen::golden::Golden;

use crate::harness::{Dir, Ended};
use crate::session::{MS, REL, Reply, Session, US};
use crate::{json, traced};

/// An event as `wire.md` has it: (spcnode, dbnode, relnode, forknum, blkno), effective LSN, time.
type Event = ((u32, u32, u32, u8, u32), u64, u64);

/// Reads 36-byte events by nothing but their offsets.
fn events(bytes: &[u8]) -> Vec<Event> {
    assert!(bytes.len().is_multiple_of(36), "{} bytes", bytes.len());
    let event = |event: &[u8]| {
        let number = |at: usize, len: usize| {
            event[at..at + len].iter().rev().fold(0u64, |value, &byte| value << 8 | u64::from(byte))
        };
        assert_eq!(number(15, 1), 0);
        let key =
            (number(13, 2) as u32, number(9, 4) as u32, number(5, 4) as u32, number(4, 1) as u8, number(0, 4) as u32);
        (key, number(16, 8), number(24, 8) * 1_000_000_000 + number(32, 4))
    };
    bytes.chunks_exact(36).map(event).collect()
}

fn keys_of(events: &[Event]) -> BTreeMap<(u32, u32, u32, u8, u32), usize> {
    let mut keys = BTreeMap::new();
    events.iter().for_each(|(key, ..)| *keys.entry(*key).or_default() += 1);
    keys
}

/// Standard output as it is: a page trace is no text.
fn exported(directory: &Dir, arguments: &str) -> Vec<u8> {
    let output = directory.command(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn an_export_holds_each_getpage_with_its_key_lsn_and_time() {
    let mut session = Session::new();
    let backend = session.open();
    let mut expected = Vec::new();
    for (block, lsns, effective) in [(5, (u64::MAX, 77), 77), (6, (90, 77), 90), (5, (u64::MAX, 78), 78)] {
        expected.push(((REL.spcnode, REL.dbnode, REL.relnode, 0, block), effective, session.now));
        session.ask(backend, block, lsns, (Reply::Page(70), 200 * US));
        session.wait(MS);
    }
    let directory = traced(&session.capture(|_, _| false), "");
    let bytes = exported(&directory, "export traces --to page-trace");
    assert_eq!(events(&bytes), expected);
    directory.write("page_trace.bin", &bytes);
    let report = json(&directory.run("report page_trace.bin --json -"));
    assert_eq!((&report["totals"]["getpage"], &report["totals"]["unique_keys"]), (&3.into(), &2.into()));
    assert_eq!((&report["refetch"], &report["latency"]), (&Value::Null, &Value::Null));
    assert_eq!((&report["keys"][0]["blkno"], &report["keys"][0]["requests"]), (&5.into(), &2.into()));
    assert_eq!(report["window"]["first_time_ns"], expected[0].2);
    assert_eq!(report["completeness"]["complete"], false, "a page trace does not tell");
}

#[test]
fn an_export_has_the_getpage_of_a_whole_capture() {
    const OPTIONS: &str = "--connections 5 --requests 2000 --pages 300 --protocol mixed --error-rate 0.02 --end rst";
    let composed = Golden { name: "export", purpose: "", options: OPTIONS }.parse("-".into()).unwrap();
    let mut capture = Vec::new();
    compose_into(&mut capture, composed).unwrap();
    let directory = traced(&capture, "");
    let mut keys = BTreeMap::new();
    let lines = directory.run("export traces --to jsonl");
    for line in lines.stdout.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        if record["kind"] == "getpage" {
            let number = |name: &str| record[name].as_u64().unwrap() as u32;
            let key =
                (number("spcnode"), number("dbnode"), number("relnode"), number("forknum") as u8, number("blkno"));
            *keys.entry(key).or_default() += 1;
        }
    }
    assert!(keys.len() > 200, "{}", keys.len());
    assert_eq!(keys_of(&events(&exported(&directory, "export traces --to page-trace"))), keys);
}

/// The folder of real captures, or `None`, with a printed line, where it is missing.
fn real() -> Option<PathBuf> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let found = shared.join("real").is_dir();
    if !found {
        println!("skipped: there are no real captures here");
    }
    found.then_some(shared)
}

/// Every page trace of a real pageserver, with how many events it holds.
const REAL_TRACES: [(&str, usize); 6] = [
    ("04_pagebench_3timelines/page_trace.11aa22bb33cc44dd55ee66ff77880001.bin", 247),
    ("04_pagebench_3timelines/page_trace.11aa22bb33cc44dd55ee66ff77880002.bin", 246),
    ("04_pagebench_3timelines/page_trace.22bb33cc44dd55ee66ff778899000001.bin", 246),
    ("06_libpq_v3_pipelined/page_trace.bin", 582),
    ("18_serial_pipelining/page_trace.bin", 622),
    ("20_tls_required/page_trace.bin", 200),
];

#[test]
fn real_page_traces_are_reported_as_far_as_they_tell() {
    let Some(shared) = real() else { return };
    let directory = Dir::new();
    for (name, count) in REAL_TRACES {
        let path = shared.join("real").join(name);
        let keys = keys_of(&events(&std::fs::read(&path).unwrap()));
        let report = json(&directory.run(&format!("report {} --json -", path.display())));
        assert_eq!((&report["totals"]["getpage"], &report["totals"]["requests"]), (&count.into(), &count.into()));
        assert_eq!(report["totals"]["unique_keys"], keys.len());
        let mut counts: Vec<u64> = keys.values().map(|&count| count as u64).filter(|&count| count > 1).collect();
        counts.sort_by(|a, b| b.cmp(a));
        let listed = report["keys"].as_array().unwrap();
        let listed: Vec<u64> = listed.iter().map(|key| key["requests"].as_u64().unwrap()).collect();
        assert_eq!(listed, counts, "{name}");
        assert_eq!(report["totals"]["errors"], Value::Null, "{name}");
    }
}

/// A capture's folder, its page traces with the timeline where there are several, and what the comparison must bear.
type RealCapture = (&'static str, &'static [(&'static str, Option<&'static str>)], &'static str);

/// Those with both.
const REAL_CAPTURES: [RealCapture; 3] = [
    (
        "04_pagebench_3timelines",
        &[
            ("page_trace.11aa22bb33cc44dd55ee66ff77880001.bin", Some("11aa22bb33cc44dd55ee66ff77880001")),
            ("page_trace.11aa22bb33cc44dd55ee66ff77880002.bin", Some("11aa22bb33cc44dd55ee66ff77880002")),
            ("page_trace.22bb33cc44dd55ee66ff778899000001.bin", Some("22bb33cc44dd55ee66ff778899000001")),
        ],
        "",
    ),
    // Requests that the pageserver rejected before their execution are in the capture only.
    ("06_libpq_v3_pipelined", &[("page_trace.bin", None)], "--extra 100"),
    ("18_serial_pipelining", &[("page_trace.bin", None)], "--extra 100"),
];

#[test]
fn what_a_real_pageserver_traced_is_what_was_captured() {
    let Some(shared) = real() else { return };
    for (folder, traces, slack) in REAL_CAPTURES {
        let capture = std::fs::read(shared.join("real").join(folder).join("capture.pcap")).unwrap();
        let directory = traced(&capture, "--port 64000");
        directory.write("records.jsonl", directory.run("export traces --to jsonl").stdout.as_bytes());
        for (trace, timeline) in traces {
            let trace = shared.join("real").join(folder).join(trace);
            let of_timeline = timeline.map_or(String::new(), |timeline| format!("--timeline {timeline}"));
            let ours = exported(&directory, &format!("export traces --to page-trace {of_timeline}"));
            let (ours, theirs) = (keys_of(&events(&ours)), keys_of(&events(&std::fs::read(&trace).unwrap())));
            let missing = theirs.iter().filter(|(key, count)| ours.get(key).is_none_or(|have| have < count)).count();
            assert_eq!(missing, 0, "{folder}: keys that the pageserver saw and the export lacks");
            if slack.is_empty() {
                assert_eq!(ours, theirs, "{folder}");
            }
            let ended = Command::new("python3")
                .arg(shared.join("tools/compare_page_trace.py"))
                .arg(directory.path("records.jsonl"))
                .arg(&trace)
                .args(of_timeline.split_whitespace())
                .args(slack.split_whitespace())
                .output()
                .unwrap();
            let ended = Ended::from(ended);
            assert_eq!(ended.status, 0, "{folder}: {}{}", ended.stdout, ended.stderr);
        }
    }
}

#[test]
fn what_is_no_trace_is_refused_with_a_word() {
    let directory = Dir::new();
    directory.write("odd.bin", &[1; 37]);
    directory.write("other.bin", &[0xff; 72]);
    directory.write("good.bin", &[0; 36]);
    for (arguments, expected) in [
        ("report odd.bin", "odd.bin: neither a trace of pagesniff"),
        ("report odd.bin", "its 37 bytes are no whole number of events of 36 bytes"),
        ("report other.bin", "what stands at event 0 is no GetPage of a relation at a time"),
        ("report missing", "cannot open missing"),
        ("report .", "no trace of what is wanted in ."),
        ("report good.bin --tenant 3aabbf1a5d0f4e2a9d3c1b2a49505101", "a page trace does not tell whose it is"),
    ] {
        let Ended { status, stdout, stderr } = directory.run(arguments);
        assert_eq!((status, stdout.as_str()), (1, ""), "{arguments}: {stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(expected), "{arguments}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}
