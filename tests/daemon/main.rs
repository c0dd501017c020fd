//! The daemon with real sockets. Where capturing is not allowed the live test says so and passes; with
//! `PAGESNIFF_REQUIRE_LIVE=1` it fails instead.

#[cfg(feature = "api")]
mod api;
mod asked;
#[path = "../harness/mod.rs"]
#[allow(dead_code, reason = "shared with the other tests, which use the rest")]
mod harness;
mod interrupted;
#[path = "../live/network.rs"]
#[allow(dead_code, reason = "shared with the live tests, which use the rest")]
mod network;
mod reloaded;
mod restarted;
mod shed;
#[path = "../live/sniffer.rs"]
#[allow(dead_code, reason = "shared with the live tests, which use the rest")]
mod sniffer;
mod triggered;
#[allow(dead_code, reason = "shared with the live tests, which use the rest")]
#[path = "../live/truth.rs"]
mod truth;
#[cfg(feature = "api")]
#[allow(dead_code, reason = "shared with the report's tests, which use the rest")]
#[path = "../html/webdriver.rs"]
mod webdriver;
mod widened;

use std::collections::BTreeSet;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::{Duration, Instant};

use harness::Dir;
use network::may_capture;
use sniffer::signal;
use trafficgen::live::{DriveOptions, ServeOptions, Server, drive};
use trafficgen::model::Workload;

fn configuration(port: u16) -> String {
    format!(
        "instance = \"n\"\ninterfaces = [\"lo\"]\nports = [{port}]\ndata_directory = \"data\"\ncontrol.socket = \"socket\"\n"
    )
}

#[test]
fn a_file_is_checked_without_capturing() {
    let dir = Dir::new();
    dir.write("good.toml", configuration(6400).as_bytes());
    let good = dir.run("serve --config good.toml --check");
    assert!(good.status == 0 && good.stdout.contains("captures port 6400 on lo"), "{good:?}");
    dir.write("bad.toml", format!("{}colour = 1\n", configuration(6400)).as_bytes());
    for arguments in ["serve --config bad.toml --check", "serve --config bad.toml"] {
        let bad = dir.run(arguments);
        assert_eq!((bad.status, bad.stdout.as_str()), (1, ""));
        assert!(bad.stderr.starts_with("error: bad.toml:6: colour: unknown field"), "{}", bad.stderr);
        assert_eq!(bad.stderr.lines().count(), 1, "{}", bad.stderr);
    }
    assert!(!dir.path("data").exists());
}

#[test]
fn fifty_tenants_are_kept_whole_and_sigterm_ends_it_in_order() {
    if !may_capture() {
        return;
    }
    let serving = ServeOptions { listen: "127.0.0.1:0".parse().unwrap(), ..ServeOptions::default() };
    let server = Server::start(&serving, None).unwrap();
    let dir = Dir::new();
    // The whole session, as often as loopback shows it, finds room in this buffer: nothing is dropped on a busy machine.
    let buffer = "buffer_size = \"256MiB\"\n";
    dir.write("c.toml", (configuration(server.address().port()) + buffer).as_bytes());
    let systemd = UnixDatagram::bind(dir.path("notify")).unwrap();
    systemd.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut command = dir.command("serve --config c.toml");
    command.env("NOTIFY_SOCKET", dir.path("notify")).stderr(Stdio::null());
    let mut daemon = command.spawn().unwrap();
    let mut state = [0; 64];
    let length = systemd.recv(&mut state).unwrap();
    assert_eq!(&state[..length], b"READY=1");

    let workload = Workload { tenants: 50, connections: 50, requests: 5_000, ..Workload::default() };
    let owners: BTreeSet<String> = (0..50).map(|number| workload.owner_of(number).tenant.to_string()).collect();
    drive(&DriveOptions { workload, ..DriveOptions::at(server.address()) }, None).unwrap();
    server.stop();
    signal(daemon.id(), "TERM");
    let signalled = Instant::now();
    assert_eq!(daemon.wait().unwrap().code(), Some(0));
    assert!(signalled.elapsed() < Duration::from_secs(5));

    let exported = dir.run("export data/ring --to jsonl");
    let records = exported.stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let tenants: Vec<String> = records.map(|record| record["tenant"].as_str().unwrap().to_owned()).collect();
    assert_eq!(tenants.len(), 5_000);
    assert_eq!(tenants.into_iter().collect::<BTreeSet<_>>(), owners);
}
