//! Figures of an interface.

use std::thread;
use std::time::Duration;

use crate::harness::Dir;
use crate::network::{Pair, may_capture};
use crate::sniffer::Sniffer;
use crate::traffic::Traffic;
use crate::{lines, requests_by};

#[test]
fn every_request_on_a_wire_is_counted_once() {
    let Some(pair) = Pair::new() else { return };
    for (by, field, column) in [("tenant", "tenant", "tenant"), ("client", "client", "local_port")] {
        let traffic = Traffic::listen_in(&pair.server, &format!("{}:6400", Pair::SERVER_ADDRESS));
        let dir = Dir::new();
        let place = format!("--iface {} --netns {}", Pair::IFACE, pair.server.name());
        let top = Sniffer::start(&dir, &format!("top {place} --json --rows 100 --by {by}"));
        let truth = traffic.drive_in(&pair.client);
        let ended = top.stop("INT");
        assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
        let seconds = lines(&ended.stdout);
        let last = seconds.last().unwrap();
        let requests = requests_by(last, field).into_iter();
        let requests =
            requests.map(|(name, requests)| (name.rsplit(':').next().unwrap().to_owned(), requests)).collect();
        assert_eq!(truth.counts(column), requests);
        let (capture, total) = (&last["capture"], &last["total"]);
        assert_eq!((&capture["loss"]["kernel_dropped"], &capture["loss"]["lost_requests"]), (&0.into(), &0.into()));
        assert_eq!(total["errors"].as_u64().unwrap(), truth.counts("resp_kind")["error"]);
        assert_eq!(total["latency_ns"]["measured"], total["requests"]);
        assert_eq!(capture["ledger"]["kept"], total["requests"]);
        assert_eq!(capture["connections"], 6);
    }
}

#[test]
fn a_duration_ends_it_and_once_is_written_then() {
    if !may_capture() {
        return;
    }
    let traffic = Traffic::listen("127.0.0.1:0");
    let dir = Dir::new();
    let top = Sniffer::start(&dir, &format!("top --iface lo --port {} --once --json --duration 7s", traffic.port()));
    let truth = traffic.drive();
    let ended = top.wait();
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
    let [once] = &lines(&ended.stdout)[..] else { panic!("{}", ended.stdout) };
    assert_eq!(requests_by(once, "tenant"), truth.counts("tenant"));
}

#[test]
fn an_interface_that_vanishes_is_an_error_behind_the_figures() {
    let Some(pair) = Pair::new() else { return };
    let dir = Dir::new();
    let place = format!("--iface {} --netns {}", Pair::IFACE, pair.server.name());
    let top = Sniffer::start(&dir, &format!("top {place} --json"));
    thread::sleep(Duration::from_millis(1_500));
    pair.unplug();
    let ended = top.wait();
    assert_eq!(ended.status, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("the capture broke off"), "{}", ended.stderr);
    assert!(lines(&ended.stdout).len() >= 2, "{}", ended.stdout);
}

#[test]
fn no_privilege_is_left_and_no_file_in_reach() {
    if !may_capture() {
        return;
    }
    let dir = Dir::new();
    let top = Sniffer::start(&dir, "top --iface lo --port 1 --json");
    let status = std::fs::read_to_string(format!("/proc/{}/status", top.id())).unwrap();
    let field = |name: &str| {
        let line =
            status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {status}"));
        line.trim_start_matches(':').trim().to_owned()
    };
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(u64::from_str_radix(&field(set), 16).unwrap(), 0, "{set}: {status}");
    }
    assert_eq!((field("NoNewPrivs"), field("Seccomp")), ("1".to_owned(), "2".to_owned()));
    assert_eq!(top.stop("TERM").status, 0);
}
