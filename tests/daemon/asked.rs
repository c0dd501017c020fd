//! What is asked of a running daemon through its control socket.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tempfile::TempDir;
use trafficgen::live::{DriveOptions, ServeOptions, Server, SharedTruth, drive};
use trafficgen::model::Workload;
use trafficgen::truth::{TruthSides, TruthWriter};

use crate::configuration;
use crate::harness::{Dir, Ended};
use crate::network::may_capture;
use crate::sniffer::{Sniffer, signal};
use crate::truth::Truth;

/// Fifty computes of fifty tenants that keep asking, and what they know of it.
pub(crate) struct Traffic {
    server: Server,
    truth: SharedTruth,
    dir: TempDir,
    pub(crate) options: DriveOptions,
}

impl Traffic {
    pub(crate) fn listen() -> Self {
        let dir = TempDir::new().unwrap();
        let truth = Arc::new(Mutex::new(TruthWriter::create(dir.path(), TruthSides::Both).unwrap()));
        let serving = ServeOptions { listen: "127.0.0.1:0".parse().unwrap(), ..ServeOptions::default() };
        let server = Server::start(&serving, Some(Arc::clone(&truth))).unwrap();
        let workload = Workload { tenants: 50, connections: 50, requests: u64::MAX, ..Workload::default() };
        let options = DriveOptions { workload, rate: Some(1_500.0), ..DriveOptions::at(server.address()) };
        Self { server, truth, dir, options }
    }

    pub(crate) fn tenant(&self, number: u32) -> String {
        self.options.workload.owner_of(number).tenant.to_string()
    }

    pub(crate) fn port(&self) -> u16 {
        self.server.address().port()
    }

    pub(crate) fn daemon(&self, dir: &Dir, more: &str) -> Sniffer {
        let port = self.port();
        dir.write("c.toml", format!("{}buffer_size = \"128MiB\"\n{more}", configuration(port)).as_bytes());
        Sniffer::start_as_typed(dir, "serve --config c.toml")
    }

    /// Asks for so long, on a thread of its own.
    pub(crate) fn drive_for(&self, duration: Duration) -> JoinHandle<()> {
        let options = DriveOptions { duration: Some(duration.into()), ..self.options.clone() };
        let truth = Arc::clone(&self.truth);
        thread::spawn(move || {
            drive(&options, Some(&truth)).unwrap();
        })
    }

    /// What the computes know: all of it, and one tenant's requests by client and id with their times.
    pub(crate) fn finish(self, tenant: &str) -> (Truth, Vec<Known>) {
        self.server.stop();
        drop(self.truth);
        let known = known_of(&self.dir.path().join("truth.csv"), tenant);
        (Truth::read(self.dir.path()), known)
    }
}

/// One tenant's requests in what the computes wrote down.
pub(crate) fn known_of(truth: &Path, tenant: &str) -> Vec<Known> {
    let text = fs::read_to_string(truth).unwrap();
    let mut rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = rows.next().unwrap();
    let at = |name: &str| names.iter().position(|&other| other == name).unwrap();
    let (tenants, ip, port, reqid) = (at("tenant"), at("local_ip"), at("local_port"), at("reqid"));
    let (sent, received) = (at("t_send_ns"), at("t_recv_ns"));
    let known = rows.filter(|row| row[tenants] == tenant).map(|row| Known {
        key: (format!("{}:{}", row[ip], row[port]), row[reqid].parse().unwrap()),
        sent_ns: row[sent].parse().unwrap(),
        received_ns: row[received].parse().unwrap(),
    });
    known.collect()
}

/// A request that was answered.
pub(crate) struct Known {
    pub(crate) key: (String, u64),
    pub(crate) sent_ns: u64,
    pub(crate) received_ns: u64,
}

pub(crate) fn now_ns() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

/// Records by client and id; each is there once, the tenant's, and timed. Where its one connection was joined in the middle the
/// first packet's requests are not: they may have come before.
pub(crate) fn keys_of(jsonl: &str, tenant: &str, is_joined: bool) -> HashSet<(String, u64)> {
    let (mut keys, mut first_ns) = (HashSet::new(), None);
    for record in jsonl.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        assert_eq!((&record["tenant"], &record["attribution"]), (&json!(tenant), &json!("handshake")), "{record}");
        let is_first = *first_ns.get_or_insert_with(|| record["time_ns"].clone()) == record["time_ns"];
        assert!((is_joined && is_first) || record["latency_ns"].is_u64(), "{record}");
        let key = (record["client"].as_str().unwrap().to_owned(), record["reqid"].as_u64().unwrap());
        assert!(keys.insert(key), "there twice: {record}");
    }
    keys
}

/// What a command that is still running says first.
pub(crate) fn first_line(child: &mut Child) -> (String, BufReader<impl Read + use<>>) {
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    (line, stderr)
}

#[test]
fn a_trace_asked_for_in_the_middle_has_every_request_answered_from_then_on_once_and_none_of_another_tenant() {
    if !may_capture() {
        return;
    }
    let (traffic, dir) = (Traffic::listen(), Dir::new());
    let daemon = traffic.daemon(&dir, "[recorder]\nenabled = false\n");
    let tenant = traffic.tenant(7);
    let driving = traffic.drive_for(Duration::from_secs(5));
    thread::sleep(Duration::from_millis(1_500));
    let mut asking =
        dir.piped(&format!("trace --socket socket --tenant {tenant} --duration 1500ms --out taken --max-bytes 8MiB"));
    let (line, _stderr) = first_line(&mut asking);
    let begun_ns = now_ns();
    assert!(line.starts_with("Trace 20") && line.ends_with(" runs. Ctrl-C ends it.\n"), "{line}");
    let status: Value = serde_json::from_str(&dir.run("status --socket socket --json").stdout).unwrap();
    assert_eq!((&status["connections"], &status["tenants"]), (&json!(50), &json!(50)), "{status}");
    assert_eq!(status["traces"][0]["state"], "running");
    let ended = Ended::from(asking.wait_with_output().unwrap());
    assert_eq!((ended.status, ended.stdout.as_str()), (0, "taken\n"), "{ended:?}");
    let until_ns = begun_ns + 1_300_000_000;
    driving.join().unwrap();
    let (truth, known) = traffic.finish(&tenant);
    assert_eq!(daemon.stop("TERM").status, 0);

    let jsonl = dir.run("export taken --to jsonl").stdout;
    truth.assert_nothing_wrong(&jsonl);
    let recorded = keys_of(&jsonl, &tenant, true);
    let wanted = known.iter().filter(|known| known.sent_ns >= begun_ns && known.received_ns <= until_ns);
    let wanted: Vec<_> = wanted.collect();
    assert!(wanted.len() > 15 && recorded.len() < known.len(), "{} of {}", wanted.len(), known.len());
    for known in wanted {
        assert!(recorded.contains(&known.key), "missing: {:?}", known.key);
    }
    assert!(!dir.path("data/ring").exists());
}

#[test]
fn a_snapshot_keeps_the_latest_requests_of_one_tenant_and_a_trace_can_be_ended_early() {
    if !may_capture() {
        return;
    }
    let (traffic, dir) = (Traffic::listen(), Dir::new());
    let daemon = traffic.daemon(&dir, "");
    let tenant = traffic.tenant(3);
    let driving = traffic.drive_for(Duration::from_secs(4));
    thread::sleep(Duration::from_millis(1_000));
    let mut asking = dir.piped(&format!("trace --socket socket --tenant {tenant} --duration 1h"));
    let (line, mut stderr) = first_line(&mut asking);
    assert!(line.starts_with("Trace "), "{line}");
    thread::sleep(Duration::from_millis(500));
    let until_ns = now_ns() - 100_000_000;
    let taken = dir.run(&format!("snapshot --socket socket --tenant {tenant} --last 10m"));
    assert_eq!(taken.status, 0, "{}", taken.stderr);
    signal(asking.id(), "INT");
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    let ended = asking.wait_with_output().unwrap();
    assert!(ended.status.success() && rest.contains(" requests"), "{rest}");
    let directory = String::from_utf8(ended.stdout).unwrap();
    assert!(!keys_of(&dir.run(&format!("export {} --to jsonl", directory.trim())).stdout, &tenant, false).is_empty());
    driving.join().unwrap();
    let (truth, known) = traffic.finish(&tenant);

    // Everything that was answered before it, and nothing that came after.
    let jsonl = dir.run(&format!("export {} --to jsonl", taken.stdout.trim())).stdout;
    truth.assert_nothing_wrong(&jsonl);
    let recorded = keys_of(&jsonl, &tenant, false);
    assert!(recorded.len() > 15 && recorded.len() < known.len(), "{} of {}", recorded.len(), known.len());
    for known in known.iter().filter(|known| known.received_ns < until_ns) {
        assert!(recorded.contains(&known.key), "missing: {:?}", known.key);
    }
    let nobody = "f".repeat(32);
    let refused = dir.run(&format!("snapshot --socket socket --tenant {nobody} --last 10m"));
    assert_eq!((refused.status, refused.stdout.as_str()), (1, ""));
    assert!(refused.stderr.contains(&format!("has nothing of tenant {nobody}")), "{}", refused.stderr);
    let kept: Vec<_> = fs::read_dir(dir.path("data/snapshots")).unwrap().collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(daemon.stop("TERM").status, 0);
}

#[test]
fn what_was_lost_is_said_at_the_end() {
    if !may_capture() {
        return;
    }
    let (traffic, dir) = (Traffic::listen(), Dir::new());
    let driving = traffic.drive_for(Duration::from_secs(2));
    thread::sleep(Duration::from_millis(500));
    // Its connections are older than the daemon.
    let daemon = traffic.daemon(&dir, "");
    thread::sleep(Duration::from_millis(700));
    let ended = daemon.stop("TERM");
    assert!(ended.status == 0 && ended.stderr.contains("\nlo:\n  "), "{}", ended.stderr);
    assert!(ended.stderr.contains(" requests of unknown tenant\n"), "{}", ended.stderr);
    driving.join().unwrap();
    traffic.finish("");
}

#[test]
fn whoever_says_nonsense_to_the_socket_is_told_and_harms_nobody() {
    if !may_capture() {
        return;
    }
    let dir = Dir::new();
    let none = dir.run("status --socket socket");
    assert_eq!((none.status, none.stdout.as_str(), none.stderr.lines().count()), (1, "", 1));
    assert!(none.stderr.contains("no daemon answers at socket") && none.stderr.contains("pagesniff serve"));

    let wrong = dir.run("status --socket .");
    assert!(wrong.status == 1 && wrong.stderr.contains(".: this is no socket: --socket names"), "{}", wrong.stderr);

    let traffic = Traffic::listen();
    let daemon = traffic.daemon(&dir, "[control]\nmode = \"0600\"\n".replace("[control]\n", "control.").as_str());
    assert_eq!(fs::metadata(dir.path("socket")).unwrap().permissions().mode() & 0o777, 0o600);
    let say = |bytes: &[u8]| {
        let mut stream = UnixStream::connect(dir.path("socket")).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    for (said, expected) in [
        (&b"\n"[..], "this is no request"),
        (b"{}", "missing field `command`"),
        (b"{\"command\":\"reboot\"}\n", "unknown variant `reboot`"),
        (b"{\"command\":\"trace\",\"duration_ms\":1,\"tenat\":[]}\n", "unknown field `tenat`"),
        (b"{\"command\":\"trace\",\"duration_ms\":0}\n", "duration_ms: give 1 to"),
        (
            b"{\"command\":\"trace\",\"duration_ms\":5,\"tenant\":[\"x\"]}\n",
            "tenant: x: not a tenant: an id has 32 hex digits",
        ),
        (b"{\"command\":\"trace\",\"duration_ms\":5,\"max_bytes\":5}\n", "too small for a trace"),
        (b"{\"command\":\"trace\",\"duration_ms\":5,\"max_bytes\":1099511627776}\n", "no room for it within limits"),
        (b"{\"command\":\"stop\",\"id\":\"../..\"}\n", "there is no trace ../.."),
        (&[0xff; 1 << 17], "longer than 65536 bytes"),
    ] {
        let answer = say(said);
        assert!(answer.starts_with("{\"error\":\"") && answer.contains(expected), "{expected}: {answer}");
    }
    let another = dir.run("serve --config c.toml");
    assert!(another.status == 1 && another.stderr.contains("another daemon answers there"), "{}", another.stderr);
    let status = dir.run("status --socket socket");
    assert!(status.status == 0 && status.stdout.contains("flight recorder: data/ring"), "{}", status.stdout);
    assert_eq!(daemon.stop("TERM").status, 0);
    assert!(!dir.path("socket").exists());
}
