//! A daemon whose flight recorder is off looks at next to nothing until a trace is asked for.

use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::Value;
use trafficgen::live::{DriveOptions, ServeOptions, Server, drive};
use trafficgen::model::{ProtocolMix, Workload};
use trafficgen::truth::{TruthSides, TruthWriter};

use crate::asked::{Traffic, first_line, keys_of, known_of, now_ns};
use crate::harness::Dir;
use crate::network::{Pair, may_capture};
use crate::sniffer::Sniffer;
use crate::truth::Truth;

/// How many tenants there are, each on a connection of its own.
const TENANTS: u32 = 50;

/// What the capturing thread says of itself.
fn worker(dir: &Dir) -> Value {
    let status = dir.run("status --socket socket --json");
    serde_json::from_str::<Value>(&status.stdout).unwrap()["workers"][0].clone()
}

/// What was left out is no loss.
fn assert_nothing_lost(dir: &Dir, directory: &str) {
    let ended = dir.run(&format!("report {directory} --json report.json"));
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let report = serde_json::from_str::<Value>(&fs::read_to_string(dir.path("report.json")).unwrap()).unwrap();
    for (loss, count) in report["completeness"]["loss"].as_object().unwrap() {
        assert_eq!(count, 0, "{directory}: {loss}");
    }
}

/// One tenant of fifty, twice, over a wire between two namespaces, with quiet times before, between and behind.
#[test]
fn what_nobody_wants_stays_in_the_kernel_and_is_no_loss_of_a_trace() {
    let Some(pair) = Pair::new() else { return };
    let (dir, truth_dir) = (Dir::new(), Dir::new());
    let truth = TruthWriter::create(&truth_dir.path("."), TruthSides::Both).unwrap();
    let truth = std::sync::Arc::new(std::sync::Mutex::new(truth));
    let serving = ServeOptions { listen: "10.77.0.1:6400".parse().unwrap(), ..ServeOptions::default() };
    let server = pair.server.within(|| Server::start(&serving, Some(std::sync::Arc::clone(&truth))).unwrap());
    let text = format!(
        "instance = \"n\"\ninterfaces = [\"{}\"]\ndata_directory = \"data\"\ncontrol.socket = \"socket\"\n\
         recorder.enabled = false\nbuffer_size = \"64MiB\"\n",
        Pair::IFACE
    );
    dir.write("c.toml", text.as_bytes());
    let daemon = pair.server.within(|| Sniffer::start_as_typed(&dir, "serve --config c.toml"));
    let workload = Workload {
        tenants: TENANTS,
        connections: TENANTS,
        requests: u64::MAX,
        protocol: ProtocolMix::Only(record::Protocol::V3),
        ..Workload::default()
    };
    let tenant = workload.owner_of(7).tenant.to_string();
    let options = DriveOptions {
        workload,
        rate: Some(8_000.0),
        duration: Some(Duration::from_secs(6).into()),
        ..DriveOptions::at(server.address())
    };
    let mut begun = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| pair.client.within(|| drive(&options, Some(&truth)).unwrap()));
        thread::sleep(Duration::from_millis(2_000));
        let before = worker(&dir);
        for name in ["first", "second"] {
            let taking = format!("trace --socket socket --tenant {tenant} --duration 1s --out {name}");
            let mut asking = dir.piped(&taking);
            let (line, _stderr) = first_line(&mut asking);
            assert!(line.ends_with(" runs. Ctrl-C ends it.\n"), "{line}");
            begun.push(now_ns());
            assert!(asking.wait().unwrap().success());
            let idle = worker(&dir);
            assert_eq!(idle["passing"], "only what tells whose connections there are");
        }
        // In the two seconds before, 16,000 requests and as many answers; of all these some in 256 passed, and the openings.
        assert!(before["packets"].as_u64().unwrap() < 1_600, "{before}");
        let after = worker(&dir);
        for loss in ["kernel_dropped", "evicted_connections", "gap_bytes", "lost_requests", "lost_responses"] {
            assert_eq!(after[loss], 0, "{loss}: {after}");
        }
        let (seen, requests) = (after["packets"].as_u64().unwrap(), after["requests"].as_u64().unwrap());
        // One tenant's requests in two seconds are 320.
        assert!(requests < 1_000 && seen < 6_000, "{after}");
    });
    // It is woken from where it can be reached.
    pair.client.within(|| server.stop());
    drop(truth);
    let truth = Truth::read(&truth_dir.path("."));
    let known = known_of(&truth_dir.path("truth.csv"), &tenant);
    for (name, begun_ns) in ["first", "second"].into_iter().zip(begun) {
        let jsonl = dir.run(&format!("export {name} --to jsonl")).stdout;
        truth.assert_nothing_wrong(&jsonl);
        let records: Vec<Value> = jsonl.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        // The first answer may be to a request from before.
        for record in &records[1..] {
            assert_eq!(record["pairing"], "exact", "{record}");
        }
        let recorded = keys_of(&jsonl, &tenant, true);
        let until_ns = begun_ns + 800_000_000;
        let wanted = known.iter().filter(|known| known.sent_ns >= begun_ns && known.received_ns <= until_ns);
        let wanted: Vec<_> = wanted.collect();
        assert!(wanted.len() > 80 && recorded.len() < known.len() / 2, "{} of {}", wanted.len(), known.len());
        for known in wanted {
            assert!(recorded.contains(&known.key), "{name}: missing: {:?}", known.key);
        }
        assert_nothing_lost(&dir, name);
    }
    assert_eq!(daemon.stop("TERM").status, 0);
}

#[test]
fn a_trace_that_is_there_before_all_connections_leaves_out_those_of_others() {
    if !may_capture() {
        return;
    }
    let (traffic, dir) = (Traffic::listen(), Dir::new());
    let daemon = traffic.daemon(&dir, "recorder.enabled = false\n");
    let tenant = traffic.tenant(7);
    let mut asking = dir.piped(&format!("trace --socket socket --tenant {tenant} --duration 5s --out taken"));
    let (line, _stderr) = first_line(&mut asking);
    assert!(line.ends_with(" runs. Ctrl-C ends it.\n"), "{line}");
    assert_eq!(worker(&dir)["passing"], "everything");
    let (driving, begun) = (traffic.drive_for(Duration::from_secs(3)), Instant::now());
    while worker(&dir)["passing"] != "all but 49 connections of others" {
        assert!(begun.elapsed() < Duration::from_millis(2_500), "{}", worker(&dir));
        thread::sleep(Duration::from_millis(50));
    }
    driving.join().unwrap();
    assert!(asking.wait().unwrap().success());
    let (truth, known) = traffic.finish(&tenant);
    let jsonl = dir.run("export taken --to jsonl").stdout;
    truth.assert_nothing_wrong(&jsonl);
    let recorded = keys_of(&jsonl, &tenant, false);
    assert!(known.len() > 50 && known.iter().all(|known| recorded.contains(&known.key)), "{}", known.len());
    assert_eq!(recorded.len(), known.len());
    assert_nothing_lost(&dir, "taken");
    assert_eq!(daemon.stop("TERM").status, 0);
}
