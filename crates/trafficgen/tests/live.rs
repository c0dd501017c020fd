//! The live halves against each other, over loopback.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trafficgen::compose::{AskEncryption, Auth};
use trafficgen::live::{DriveOptions, Driven, Leave, ServeOptions, Server, SharedTruth, drive};
use trafficgen::model::{KindMix, Latency, ProtocolMix, Workload};
use trafficgen::truth::{TruthSides, TruthWriter};

/// Latency that does not slow the tests down.
const QUICK: Latency = Latency::Fixed { ns: 20_000 };

fn workload() -> Workload {
    let kinds: KindMix = "getpage=8,exists=1,nblocks=1,dbsize=1,slru=1".parse().unwrap();
    Workload { tenants: 2, connections: 3, protocol: ProtocolMix::Mixed, requests: 600, kinds, ..Workload::default() }
}

fn truth(directory: &Path) -> SharedTruth {
    Arc::new(Mutex::new(TruthWriter::create(directory, TruthSides::Both).unwrap()))
}

fn rows(directory: &Path, file: &str) -> Vec<HashMap<String, String>> {
    let text = fs::read_to_string(directory.join(file)).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let names = lines.next().unwrap();
    lines.map(|fields| names.iter().cloned().zip(fields).collect()).collect()
}

#[test]
fn both_sides_tell_the_same_story() {
    let directory = tempfile::tempdir().unwrap();
    let truth = truth(directory.path());
    let serving = ServeOptions { latency: QUICK, error_rate: 0.1, ..ServeOptions::default() };
    let server = Server::start(&serving, Some(truth.clone())).unwrap();
    let driving = DriveOptions { workload: workload(), ..DriveOptions::at(server.address()) };
    let driven = drive(&driving, Some(&truth)).unwrap();
    server.stop();
    assert_eq!((driven.asked, driven.answered), (600, 600));
    assert!(driven.errors > 20, "{driven:?}");
    let (asked, served) = (rows(directory.path(), "truth.csv"), rows(directory.path(), "server_truth.csv"));
    assert_eq!((asked.len(), served.len()), (600, 600));
    for number in 0..3 {
        let port = &asked.iter().find(|row| row["conn_id"] == number.to_string()).unwrap()["local_port"];
        let ours: Vec<_> = asked.iter().filter(|row| &row["local_port"] == port).collect();
        let theirs: Vec<_> = served.iter().filter(|row| &row["peer_port"] == port).collect();
        assert_eq!(ours.len(), theirs.len());
        for (our, their) in ours.iter().zip(&theirs) {
            for (one, other) in [("tenant", "tenant"), ("proto", "proto"), ("reqid", "reqid"), ("resp_len", "resp_len")]
            {
                assert_eq!(our[one], their[other]);
            }
            let time = |row: &HashMap<String, String>, name: &str| row[name].parse::<u64>().unwrap();
            assert!(time(our, "t_send_ns") <= time(their, "t_parsed_ns"));
            assert!(time(their, "t_write_ns") <= time(our, "t_recv_ns"));
        }
    }
}

#[test]
fn depth_fills_batches() {
    let directory = tempfile::tempdir().unwrap();
    let truth = truth(directory.path());
    let serving = ServeOptions { latency: Latency::Fixed { ns: 2_000_000 }, ..ServeOptions::default() };
    let server = Server::start(&serving, Some(truth.clone())).unwrap();
    let kinds = "getpage=1".parse().unwrap();
    let workload = Workload { depth: 128, requests: 512, kinds, ..Workload::default() };
    drive(&DriveOptions { workload, ..DriveOptions::at(server.address()) }, None).unwrap();
    server.stop();
    let largest = rows(directory.path(), "server_truth.csv").iter().map(|row| row["batch_len"].parse().unwrap()).max();
    assert_eq!(largest, Some(32));
}

#[test]
fn every_way_of_leaving_is_survived_and_told() {
    let directory = tempfile::tempdir().unwrap();
    let truth = truth(directory.path());
    let serving = ServeOptions { latency: QUICK, auth: Auth::Password, ..ServeOptions::default() };
    let server = Server::start(&serving, Some(truth.clone())).unwrap();
    let leave = vec![Leave::Terminate, Leave::Fin, Leave::Rst, Leave::HalfClose, Leave::CopyFail];
    let workload = Workload { connections: 5, requests: 100, depth: 8, ..Workload::default() };
    let driving =
        DriveOptions { workload, leave, ask_encryption: AskEncryption::Gss, ..DriveOptions::at(server.address()) };
    let driven = drive(&driving, Some(&truth)).unwrap();
    server.wait_until_idle();
    server.stop();
    assert_eq!(driven.asked, 100);
    let asked = rows(directory.path(), "truth.csv");
    let unanswered: Vec<&str> =
        asked.iter().filter(|row| row["resp_kind"] == "none").map(|row| row["conn_id"].as_str()).collect();
    assert_eq!(asked.len() - unanswered.len(), driven.answered as usize);
    assert!(unanswered.iter().all(|number| ["2", "4"].contains(number)), "{unanswered:?}");
}

#[test]
fn a_duration_ends_the_workload_and_a_rate_holds_it_back() {
    let server = Server::start(&ServeOptions { latency: QUICK, ..ServeOptions::default() }, None).unwrap();
    let duration = Some(Duration::from_millis(500).into());
    let driving = DriveOptions { duration, rate: Some(400.0), ..DriveOptions::at(server.address()) };
    let Driven { asked, answered, .. } = drive(&driving, None).unwrap();
    server.stop();
    assert_eq!(asked, answered);
    assert!((1..=220).contains(&asked), "{asked} requests in half a second at 400 a second");
}

#[test]
fn no_page_service_is_an_error_that_says_where() {
    let server = Server::start(&ServeOptions::default(), None).unwrap();
    let address = server.address();
    server.stop();
    let error = drive(&DriveOptions::at(address), None).unwrap_err();
    assert!(format!("{error:#}").contains(&address.to_string()), "{error:#}");
}
