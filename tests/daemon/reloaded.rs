//! SIGHUP.

use std::collections::HashSet;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use record::Record;
use serde_json::{Value, json};
use trace::{TraceReader, trace_files};

use crate::asked::{Traffic, first_line};
use crate::configuration;
use crate::harness::{Dir, Ended};
use crate::network::may_capture;
use crate::sniffer::signal;

/// What is waited for comes within some seconds, or never.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn status(dir: &Dir) -> Value {
    serde_json::from_str(&dir.run("status --socket socket --json").stdout).unwrap()
}

/// Puts another file in place, has it read, and says what came of it.
pub(crate) fn reload(dir: &Dir, daemon: u32, content: &str) -> Value {
    let before = status(dir)["reload"]["times"].as_u64().unwrap();
    dir.write("new.toml", content.as_bytes());
    fs::rename(dir.path("new.toml"), dir.path("c.toml")).unwrap();
    signal(daemon, "HUP");
    let asked = Instant::now();
    loop {
        let now = status(dir);
        if now["reload"]["times"] == before + 1 {
            return now["reload"].clone();
        }
        assert!(asked.elapsed() < PATIENCE, "{now}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The records of each file, with one key in how many it has; oldest file first.
pub(crate) fn files(dir: &Dir, name: &str) -> Vec<(u32, Vec<Record>)> {
    let mut files: Vec<_> = trace_files(&[dir.path(name)])
        .unwrap()
        .into_iter()
        .map(|path| {
            let mut reader = TraceReader::open(&path).unwrap();
            let header = reader.header().unwrap().clone();
            (header.sequence, header.circumstances.sample_one_in, reader.records().map(Result::unwrap).collect())
        })
        .collect();
    files.sort_by_key(|(sequence, ..)| *sequence);
    files.into_iter().map(|(_, one_in, records)| (one_in, records)).collect()
}

pub(crate) fn is_kept(record: &Record, one_in: u64) -> bool {
    analysis::target_hash(&record.target, 0).is_multiple_of(one_in)
}

/// Each file has all requests of the keys that it says, of those that there were while it was written.
pub(crate) fn assert_each_file_has_its_keys(files: &[(u32, Vec<Record>)], all: &[Record]) {
    let identity = |record: &Record| (record.client, record.seq);
    for (one_in, records) in files.iter().filter(|(_, records)| !records.is_empty()) {
        let there: HashSet<_> = records.iter().map(identity).collect();
        let (first, last) = (records.first().unwrap().time, records.last().unwrap().time);
        let theirs = all.iter().filter(|record| record.time >= first && record.time <= last);
        let wanted: Vec<_> = theirs.filter(|record| is_kept(record, u64::from(*one_in))).collect();
        assert!(wanted.iter().all(|record| there.contains(&identity(record))), "one in {one_in}: one is missing");
        // Beyond them there are those of the moment at which it changed only.
        let others = records.iter().filter(|record| !is_kept(record, u64::from(*one_in))).count();
        assert!(others <= wanted.len().max(10), "one in {one_in}: {others} others beside {}", wanted.len());
    }
}

#[test]
fn a_broken_file_changes_nothing_and_a_good_one_what_it_can_and_every_file_says_which_keys_it_has() {
    if !may_capture() {
        return;
    }
    let (traffic, dir) = (Traffic::listen(), Dir::new());
    let daemon = traffic.daemon(&dir, "");
    let good = format!("{}buffer_size = \"128MiB\"\n", configuration(traffic.port()));
    let tenant = traffic.tenant(5);
    let driving = traffic.drive_for(Duration::from_secs(6));
    thread::sleep(Duration::from_millis(500));
    // All of the tenant's requests, to hold what the flight recorder has against.
    let mut asking = dir.piped(&format!("trace --socket socket --tenant {tenant} --duration 1h --out all"));
    assert!(first_line(&mut asking).0.starts_with("Trace "));

    let refused = reload(&dir, daemon.id(), &format!("{good}colour = 1\n"));
    assert!(refused["refused"].as_str().unwrap().starts_with("c.toml:7: colour: unknown field"), "{refused}");
    let text = dir.run("status --socket socket").stdout;
    assert!(text.contains("configuration: NOT RELOADED, the one before holds: c.toml:7: colour: unknown"), "{text}");

    for (sample, at_the_next_start, more) in [
        ("1/4", json!([]), "[limits]\ntenant_bytes = \"8MiB\"\n"),
        // Neither of the two numbers divides the other.
        ("1/6", json!(["instance", "control"]), ""),
        ("1/1", json!([]), ""),
    ] {
        let (more, file) = match at_the_next_start.as_array().unwrap().is_empty() {
            true => (more, good.clone()),
            false => ("", good.replace("\"n\"", "\"m\"").replace("\"socket\"", "\"other\"")),
        };
        let done = reload(&dir, daemon.id(), &format!("{file}{more}[recorder]\nsample = \"{sample}\"\n"));
        assert_eq!((&done["refused"], &done["at_the_next_start"]), (&Value::Null, &at_the_next_start));
        thread::sleep(Duration::from_millis(900));
    }
    signal(asking.id(), "INT");
    assert!(Ended::from(asking.wait_with_output().unwrap()).status == 0);
    driving.join().unwrap();
    let ended = daemon.stop("TERM");
    assert!(ended.status == 0 && ended.stderr.contains("was not reloaded, nothing has changed: c.toml:7"), "{ended:?}");
    assert!(ended.stderr.contains("note: this changes when the daemon is started anew: instance, control\n"));

    let kept = files(&dir, &format!("data/ring/{tenant}"));
    let all: Vec<Record> = files(&dir, &format!("all/{tenant}")).into_iter().flat_map(|(_, records)| records).collect();
    assert_each_file_has_its_keys(&kept, &all);
    // Between 4 and 6 it keeps one in 12, for a moment in which no request may pass.
    let rates: Vec<u32> = kept.iter().map(|&(one_in, _)| one_in).filter(|&one_in| one_in != 12).collect();
    assert_eq!(rates, [1, 4, 6, 1]);
    traffic.finish(&tenant);
}
