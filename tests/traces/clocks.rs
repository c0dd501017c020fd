//! The two directions stamped by clocks that disagree: what is noticed late is told to whoever reads the traces.

use serde_json::Value;

use crate::harness::Dir;
use crate::{composed, done, summary};

/// Connections that are open when the capture begins: no handshake tells of the clocks.
const LATE: &str = "--tenants 1 --connections 4 --protocol 3 --requests 2000 --depth 4 --join-at 0.004";

/// The server's clock is so far behind: less than most answers take, and more than some.
const BEHIND_NS: u64 = 200_000;

/// A capture's header and its packets, each with its time in ns.
fn packets(capture: &[u8]) -> (&[u8], Vec<(u64, &[u8])>) {
    let word = |at: usize| u32::from_le_bytes(capture[at..at + 4].try_into().unwrap());
    assert_eq!(word(0), 0xa1b2_3c4d, "a pcap file of nanoseconds");
    let (mut packets, mut at) = (Vec::new(), 24);
    while at < capture.len() {
        let end = at + 16 + word(at + 8) as usize;
        packets.push((u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4)), &capture[at..end]));
        at = end;
    }
    (&capture[..24], packets)
}

/// The same with the server's packets stamped earlier, in the order of the stamps: what mergecap makes of two captures.
fn shifted(capture: &[u8]) -> Vec<u8> {
    const SOURCE_PORT: usize = 16 + 14 + 20;
    let (header, mut packets) = packets(capture);
    for (time, packet) in &mut packets {
        let is_from_server = packet[SOURCE_PORT..SOURCE_PORT + 2] == 6400u16.to_be_bytes();
        *time -= if is_from_server { BEHIND_NS } else { 0 };
    }
    packets.sort_by_key(|(time, _)| *time);
    let mut out = header.to_vec();
    for (time, packet) in packets {
        out.extend(((time / 1_000_000_000) as u32).to_le_bytes());
        out.extend(((time % 1_000_000_000) as u32).to_le_bytes());
        out.extend(&packet[8..]);
    }
    out
}

fn timed(jsonl: &str) -> usize {
    jsonl.lines().filter(|line| serde_json::from_str::<Value>(line).unwrap()["latency_ns"].is_u64()).count()
}

#[test]
fn latencies_from_before_it_was_noticed_are_shown_nowhere() {
    let dir = Dir::new();
    dir.write("a", &shifted(&composed(LATE)));
    let printed = done(dir.run("--read a --unattributed --out t --format jsonl"));
    let given = timed(&printed.stdout);
    assert!(given > 0 && given < 1000, "records are made before anything tells of the clocks: {given}");
    assert!(printed.stderr.contains("no latency of this capture is shown"), "{}", printed.stderr);
    let figures = summary(&dir, "--read a --unattributed");
    for row in figures["tenants"].as_array().unwrap().iter().chain([&figures["total"]]) {
        assert_eq!(row["latency_ns"], serde_json::json!({ "measured": 0, "p50": null, "p99": null, "max": null }));
    }
    let table = done(dir.run("--read a --unattributed")).stderr;
    assert!(!table.contains("GetPage took") && !table.contains("at the 99th percentile"), "{table}");

    let exported = done(dir.run("export t --to jsonl"));
    assert_eq!((timed(&exported.stdout), exported.stdout.lines().count()), (0, printed.stdout.lines().count()));
    assert!(exported.stderr.contains("all latencies are left out"), "{}", exported.stderr);
    let report = done(dir.run("report t"));
    assert!(report.stdout.contains("all latencies are left out"), "{}", report.stdout);
    assert!(!report.stdout.contains("GetPage took"), "{}", report.stdout);
}
