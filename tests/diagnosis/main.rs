//! From captures to diagnoses, through the built program: traces, reports, comparisons, page traces.

mod caches;
#[path = "../harness/mod.rs"]
#[allow(dead_code, reason = "shared with the other tests, which use the rest")]
mod harness;
mod outputs;
mod page_traces;
mod planted;
mod python;
mod session;
mod shards;
mod sql;

use harness::{Dir, Ended};
use serde_json::Value;

/// Decodes a capture into traces, and gives their report as JSON.
pub(crate) fn report_of(capture: &[u8], options: &str) -> Value {
    let directory = traced(capture, options);
    json(&directory.run("report traces --json -"))
}

/// A directory with a capture's traces in `traces`.
pub(crate) fn traced(capture: &[u8], options: &str) -> Dir {
    let directory = Dir::new();
    directory.write("capture.pcap", capture);
    let ended = directory.run(&format!("--read capture.pcap --out traces --quiet {options}"));
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
    directory
}

pub(crate) fn json(ended: &Ended) -> Value {
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
    serde_json::from_str(&ended.stdout).unwrap()
}
