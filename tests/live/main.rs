//! Live captures with the system's libpcap: real interfaces, real sockets, namespaces and signals.
//!
//! They take the privileges that capturing takes. Where these are missing each test says so and passes; with
//! `PAGESNIFF_REQUIRE_LIVE=1` it fails instead.

#[path = "../harness/mod.rs"]
#[allow(dead_code, reason = "shared with the other tests, which use the rest")]
mod harness;
mod network;
mod sniffer;
mod traffic;
mod truth;

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use harness::Dir;
use network::{Pair, may_capture};
use sniffer::{Sniffer, signal};
use traffic::{Traffic, replay};
use truth::Truth;

/// The clock, and the end of a capture, may be late by so much on a machine that does other things.
const LATE: Duration = Duration::from_millis(1_500);

const LOOPBACK: &str = "127.0.0.1:0";

#[test]
fn on_loopback_every_request_is_a_record_of_its_own() {
    if !may_capture() {
        return;
    }
    for (iface, address) in [("lo", LOOPBACK), ("any", LOOPBACK), ("lo", "[::1]:0")] {
        let traffic = Traffic::listen(address);
        let dir = Dir::new();
        let sniffer =
            Sniffer::start(&dir, &format!("--iface {iface} --port {} --format jsonl --page-hash", traffic.port()));
        let truth = traffic.drive();
        let ended = sniffer.stop("INT");
        assert_eq!(ended.status, 0, "{iface} {address}: {}", ended.stderr);
        assert!(ended.stderr.contains("Complete: "), "{}", ended.stderr);
        truth.assert_complete(&ended.stdout);
    }
}

#[test]
fn only_the_wanted_tenant_is_recorded_and_all_of_it() {
    if !may_capture() {
        return;
    }
    let traffic = Traffic::listen(LOOPBACK);
    let (dir, tenant) = (Dir::new(), traffic.tenant(1));
    let sniffer =
        Sniffer::start(&dir, &format!("-i lo --port {} --tenant {tenant} --format jsonl --page-hash", traffic.port()));
    let truth = traffic.drive().of_tenant(&tenant);
    let ended = sniffer.stop("TERM");
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    truth.assert_complete(&ended.stdout);
    // Where nothing else is said, a live capture leaves traces too.
    assert_eq!(tenants_in(&dir, "pagesniff"), [tenant]);
    assert_eq!(dir.run("export pagesniff --to jsonl").stdout, ended.stdout);
}

/// Whose traces there are.
fn tenants_in(dir: &Dir, out: &str) -> Vec<String> {
    let entries = std::fs::read_dir(dir.path(out)).unwrap().map(|entry| entry.unwrap());
    let directories = entries.filter(|entry| entry.path().is_dir());
    directories.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

#[test]
fn a_capture_broken_off_leaves_a_readable_trace() {
    if !may_capture() {
        return;
    }
    let dir = Dir::new();
    let capture = |out: &str| {
        let traffic = Traffic::listen(LOOPBACK);
        let words = format!("--iface lo --port {} --out {out} --flush-interval 50ms --page-hash", traffic.port());
        let sniffer = Sniffer::start(&dir, &words);
        (sniffer, traffic.drive())
    };
    let (killed, truth) = capture("t");
    // A process that is killed flushes nothing: what waited longer than the interval is there all the same.
    std::thread::sleep(LATE);
    signal(killed.id(), "KILL");
    truth.assert_complete(&dir.run("export t --to jsonl").stdout);

    let (interrupted, truth) = capture("u");
    let ended = interrupted.stop("INT");
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("Traces: ") && ended.stderr.contains(" in u, "), "{}", ended.stderr);
    let exported = dir.run("export u --to jsonl");
    assert_eq!(exported.stderr, "");
    truth.assert_complete(&exported.stdout);
}

#[test]
fn both_ends_of_a_pair_across_namespaces_record_the_same_requests() {
    let Some(pair) = Pair::new() else { return };
    let dirs = [Dir::new(), Dir::new(), Dir::new()];
    let traffic = Traffic::listen_in(&pair.server, &format!("{}:6400", Pair::SERVER_ADDRESS));
    let place = [
        format!("--iface {} --netns {}", Pair::IFACE, pair.server.name()),
        format!("--iface {} --netns {}", Pair::IFACE, pair.client.name()),
        format!("--iface any --netns {}", pair.server.path()),
    ];
    let sniffers = place
        .iter()
        .zip(&dirs)
        .map(|(place, dir)| Sniffer::start(dir, &format!("{place} --format jsonl --page-hash --bpf tcp")));
    let sniffers: Vec<Sniffer> = sniffers.collect();
    let truth = traffic.drive_in(&pair.client);
    for (sniffer, place) in sniffers.into_iter().zip(&place) {
        let ended = sniffer.stop("INT");
        assert_eq!(ended.status, 0, "{place}: {}", ended.stderr);
        truth.assert_complete(&ended.stdout);
    }
}

#[test]
fn tags_and_fragments_pass_the_kernels_filter() {
    let Some(pair) = Pair::new() else { return };
    for (name, options) in
        [("vlan", ""), ("vlan_qinq", ""), ("fragments", ""), ("fragments_ipv6", ""), ("vxlan", "--tunnels")]
    {
        let file = format!("{}/../../pcaps/{name}.pcap", env!("CARGO_MANIFEST_DIR"));
        let dir = Dir::new();
        let expected = dir.run(&format!("--read {file} --format jsonl"));
        // Outgoing tags are in the frame, incoming ones beside it.
        for end in [&pair.client, &pair.server] {
            let place = format!("--iface {} --netns {}", Pair::IFACE, end.name());
            let sniffer = Sniffer::start(&dir, &format!("{place} --format jsonl {options}"));
            replay(&file, &pair.client, Pair::IFACE);
            let ended = sniffer.stop("INT");
            let timeless = |text: &str| text.lines().map(traffic::without_times).collect::<Vec<_>>();
            assert!(!expected.stdout.is_empty());
            assert_eq!(timeless(&ended.stdout), timeless(&expected.stdout), "{name} on {place}");
        }
    }
}

#[test]
fn a_silent_interface_does_not_hold_up_the_end() {
    if !may_capture() {
        return;
    }
    let dir = Dir::new();
    let duration = Duration::from_millis(400);
    // No packet comes from or to port 1.
    let sniffer = Sniffer::start(&dir, "--iface lo --port 1 --duration 400ms");
    let started = Instant::now();
    let ended = sniffer.wait();
    let ran = started.elapsed();
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("nothing from or to port 1 passed lo"), "{}", ended.stderr);
    assert!(ran >= duration.mul_f64(0.9) && ran < duration + LATE, "{ran:?}");
}

#[test]
fn a_signal_in_the_middle_keeps_all_that_was_answered_before() {
    if !may_capture() {
        return;
    }
    for name in ["INT", "TERM"] {
        let traffic = Traffic::listen(LOOPBACK);
        let dir = Dir::new();
        let sniffer = Sniffer::start(
            &dir,
            &format!("--iface lo --port {} --format jsonl --page-hash --summary s.json", traffic.port()),
        );
        let (truth, ended, signalled_ns) = traffic.drive_while(|| {
            std::thread::sleep(Duration::from_millis(300));
            let now_ns = traffic::now_ns();
            (sniffer.stop(name), now_ns)
        });
        assert_eq!(ended.status, 0, "{}", ended.stderr);
        let records = truth.assert_complete_until(&ended.stdout, signalled_ns);
        let summary = std::fs::read_to_string(dir.path("s.json")).unwrap();
        assert!(records > 100 && summary.contains(&format!("\"records\": {records}")), "{records}: {summary}");
    }
}

#[test]
fn a_second_signal_ends_what_a_stuck_reader_holds_up() {
    if !may_capture() {
        return;
    }
    let traffic = Traffic::listen(LOOPBACK);
    let dir = Dir::new();
    let mut sniffer = Sniffer::start_unread(&dir, &format!("--iface lo --port {} --format jsonl", traffic.port()));
    traffic.drive();
    std::thread::sleep(Duration::from_millis(300));
    signal(sniffer.id(), "INT");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(sniffer.try_wait().unwrap(), None, "a pipe that nobody reads holds it up");
    signal(sniffer.id(), "INT");
    assert_eq!(sniffer.wait().unwrap().signal(), Some(2));
}

#[test]
fn a_count_is_of_packets() {
    if !may_capture() {
        return;
    }
    for count in [1, 255, 256, 300] {
        let traffic = Traffic::listen(LOOPBACK);
        let dir = Dir::new();
        let arguments = format!("--iface lo --port {} --count {count} --summary -", traffic.port());
        let sniffer = Sniffer::start(&dir, &arguments);
        traffic.drive();
        let ended = sniffer.wait();
        assert_eq!(ended.status, 0, "{}", ended.stderr);
        assert!(ended.stdout.contains(&format!("\"packets\": {count},")), "{}", ended.stdout);
    }
}

#[test]
fn what_the_kernel_drops_is_counted_and_told() {
    if !may_capture() {
        return;
    }
    let traffic = Traffic::listen(LOOPBACK);
    let dir = Dir::new();
    let port = traffic.port();
    let arguments = format!("--iface lo --port {port} --format jsonl --page-hash --max-loss 0 --summary s.json");
    let sniffer = Sniffer::start_with_buffer(&dir, &arguments, "1MiB");
    signal(sniffer.id(), "STOP");
    let truth = traffic.drive();
    signal(sniffer.id(), "CONT");
    let ended = sniffer.stop("INT");
    assert_eq!(ended.status, 3, "{}", ended.stderr);
    assert!(ended.stderr.contains("raise --buffer-size"), "{}", ended.stderr);
    let summary: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(dir.path("s.json")).unwrap()).unwrap();
    assert!(summary["loss"]["kernel_dropped"].as_u64() > Some(0), "{summary}");
    assert_eq!(summary["complete"], false);
    truth.assert_nothing_wrong(&ended.stdout);
}

#[test]
fn an_interface_that_vanishes_ends_the_run_with_all_that_came_before() {
    assert_that_it_ends_without_its_interface(Pair::unplug);
}

#[test]
fn an_interface_that_vanishes_while_it_is_down_ends_the_run_too() {
    assert_that_it_ends_without_its_interface(|pair| {
        pair.set_down();
        pair.unplug();
    });
}

fn assert_that_it_ends_without_its_interface(take_away: impl Fn(&Pair)) {
    let Some(pair) = Pair::new() else { return };
    let traffic = Traffic::listen_in(&pair.server, &format!("{}:6400", Pair::SERVER_ADDRESS));
    let dir = Dir::new();
    let place = format!("--iface {} --netns {}", Pair::IFACE, pair.server.name());
    let sniffer = Sniffer::start(&dir, &format!("{place} --format jsonl --page-hash --summary s.json"));
    let truth = traffic.drive_in(&pair.client);
    take_away(&pair);
    let ended = sniffer.wait();
    assert_eq!(ended.status, 1, "{}", ended.stderr);
    let error: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert!(matches!(error[..], [line] if line.contains("the capture broke off")), "{}", ended.stderr);
    assert!(ended.stderr.contains("NOT COMPLETE"), "{}", ended.stderr);
    assert!(dir.path("s.json").metadata().unwrap().len() > 0);
    truth.assert_complete(&ended.stdout);
}

#[test]
fn what_cannot_be_captured_is_said_in_one_line() {
    if !may_capture() {
        return;
    }
    let pair = Pair::new();
    let dir = Dir::new();
    let mut cases = vec![
        ("--iface no-such-iface".to_owned(), "there is no such interface; there are: "),
        ("--iface lo --netns no-such-netns".to_owned(), "`ip netns` lists those with names"),
        ("--iface lo --netns 4294967295".to_owned(), "there is no such process"),
        ("--iface lo --netns /dev/null".to_owned(), "this is no network namespace"),
        ("--iface lo --bpf tcp(and".to_owned(), "--bpf 'tcp(and': at its beginning: "),
    ];
    if let Some(pair) = &pair {
        cases
            .push((format!("--iface lo --netns {}", pair.client.name()), "the interface is down: `ip link set lo up`"));
        cases.push((
            format!("--iface eth9 --netns {}", pair.client.name()),
            "there is no such interface in the namespace",
        ));
    }
    for (arguments, expected) in cases {
        let ended = dir.run(&format!("{arguments} --duration 1s"));
        assert_eq!((ended.status, ended.stdout.as_str()), (1, ""), "{arguments}: {}", ended.stderr);
        assert!(
            ended.stderr.starts_with("error: ") && ended.stderr.contains(expected),
            "{arguments}: {}",
            ended.stderr
        );
        assert_eq!(ended.stderr.trim_end().lines().count(), 1, "{arguments}: {}", ended.stderr);
    }
}

#[test]
fn a_terminal_shows_how_it_goes() {
    if !may_capture() {
        return;
    }
    let traffic = Traffic::listen(LOOPBACK);
    let dir = Dir::new();
    let command = format!("{} --iface lo --port {} --duration 3s", env!("CARGO_BIN_EXE_pagesniff"), traffic.port());
    let sniffer = Sniffer::start_on_terminal(&dir, &command);
    traffic.drive();
    let shown = sniffer.wait().stdout;
    for expected in [" packets, ", " records/s, ", "3 tenants, 0 dropped"] {
        assert!(shown.contains(expected), "{expected:?}: {shown}");
    }
}

impl Truth {
    /// The rows of one tenant.
    fn of_tenant(mut self, tenant: &str) -> Self {
        self.retain(|row| row["tenant"] == tenant);
        self
    }
}
