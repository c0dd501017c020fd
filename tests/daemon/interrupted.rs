//! Interfaces that go down or away while the daemon runs.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use trafficgen::live::{DriveOptions, ServeOptions, Server, drive};
use trafficgen::model::Workload;

use crate::harness::Dir;
use crate::network::{Pair, ip};
use crate::sniffer::signal;

/// What is waited for comes within some seconds, or never.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a phase of traffic asks for.
const REQUESTS: u64 = 500;

fn status(dir: &Dir) -> Value {
    serde_json::from_str(&dir.run("status --socket socket --json").stdout).unwrap_or(Value::Null)
}

/// Waits until the daemon's only worker is as wanted.
fn wait_until(dir: &Dir, wanted: impl Fn(&Value) -> bool) {
    let asked = Instant::now();
    while !wanted(&status(dir)["workers"][0]) {
        let log = || fs::read_to_string(dir.path("log")).unwrap();
        assert!(asked.elapsed() < PATIENCE, "{} {}", status(dir), log());
        thread::sleep(Duration::from_millis(50));
    }
}

/// A daemon at the server's end of the wire, with that end's view of the interfaces.
fn daemon_at(pair: &Pair, dir: &Dir) -> Child {
    let configuration = crate::configuration(6400).replace("\"lo\"", &format!("\"{}\"", Pair::IFACE));
    dir.write("c.toml", format!("buffer_size = \"64MiB\"\n{configuration}").as_bytes());
    let daemon = Command::new("ip")
        .current_dir(dir.path("."))
        .args(["netns", "exec", pair.server.name(), env!("CARGO_BIN_EXE_pagesniff"), "serve", "--config", "c.toml"])
        .stdin(Stdio::null())
        .stderr(File::create(dir.path("log")).unwrap())
        .spawn()
        .unwrap();
    wait_until(dir, |worker| worker["requests"] == 0);
    daemon
}

fn drive_some(pair: &Pair, server: &Server) {
    let workload = Workload { tenants: 4, connections: 4, requests: REQUESTS, ..Workload::default() };
    let options = DriveOptions { workload, ..DriveOptions::at(server.address()) };
    pair.client.within(|| drive(&options, None)).unwrap();
}

#[test]
fn an_interface_that_is_down_is_waited_for_and_of_one_that_is_gone_it_is_said_what_it_takes() {
    let Some(pair) = Pair::new() else { return };
    let listen = format!("{}:6400", Pair::SERVER_ADDRESS).parse().unwrap();
    let server =
        pair.server.within(|| Server::start(&ServeOptions { listen, ..ServeOptions::default() }, None)).unwrap();
    let dir = Dir::new();
    let mut daemon = daemon_at(&pair, &dir);
    drive_some(&pair, &server);
    wait_until(&dir, |worker| worker["requests"] == REQUESTS);

    pair.set_down();
    wait_until(&dir, |worker| worker["problem"] == "wire0: the interface is down" && worker["interruptions"] == 1);
    ip(&format!("-n {} link set {} up", pair.server.name(), Pair::IFACE)).unwrap();
    wait_until(&dir, |worker| worker["problem"].is_null());
    drive_some(&pair, &server);
    wait_until(&dir, |worker| worker["requests"] == 2 * REQUESTS);

    pair.unplug();
    wait_until(&dir, |worker| worker["problem"].is_string() && worker["interruptions"] == 2);
    let text = dir.run("status --socket socket").stdout;
    assert!(text.contains("NOTHING IS CAPTURED: ") && text.contains("2 times that the interface went down"), "{text}");
    // The right to open it was given up at the start, and that is said.
    pair.plug().unwrap();
    wait_until(&dir, |worker| worker["problem"].as_str().is_some_and(|problem| problem.contains("CAP_NET_RAW")));

    signal(daemon.id(), "TERM");
    assert!(daemon.wait().unwrap().success());
    let log = fs::read_to_string(dir.path("log")).unwrap();
    for said in
        ["the interface is down: waiting", "capturing again after", "the capture broke off", "start the daemon anew"]
    {
        assert!(log.contains(said), "{said}: {log}");
    }
    let records = dir.run("export data/ring --to jsonl").stdout.lines().count() as u64;
    assert_eq!(records, 2 * REQUESTS);
    // It wakes its listener up through a connection, which takes being where it can be reached.
    pair.client.within(|| server.stop());
}
