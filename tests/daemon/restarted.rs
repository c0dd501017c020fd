//! A daemon that was killed, and the one that comes after it.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::asked::{Traffic, first_line, keys_of, now_ns};
use crate::harness::Dir;
use crate::network::may_capture;
use crate::sniffer::{Sniffer, signal};

/// What is waited for comes within some seconds, or never.
const PATIENCE: Duration = Duration::from_secs(10);

fn status(dir: &Dir) -> Value {
    serde_json::from_str(&dir.run("status --socket socket --json").stdout).unwrap()
}

fn wait_until(dir: &Dir, wanted: impl Fn(&Value) -> bool) {
    let asked = Instant::now();
    while !wanted(&status(dir)) {
        assert!(asked.elapsed() < PATIENCE, "{}", status(dir));
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn kill_9_in_the_middle_of_four_traces_loses_no_tenant_and_no_whole_block() {
    if !may_capture() {
        return;
    }
    let (traffic, dir) = (Traffic::listen(), Dir::new());
    let daemon = traffic.daemon(&dir, "");
    let tenants: Vec<String> = (0..4).map(|number| traffic.tenant(number)).collect();
    let driving = traffic.drive_for(Duration::from_secs(9));
    wait_until(&dir, |status| status["checkpoint"]["connections"] == 50);
    let mut asking: Vec<_> = tenants
        .iter()
        .map(|tenant| dir.piped(&format!("trace --socket socket --tenant {tenant} --duration 1h --max-bytes 8MiB")))
        .collect();
    asking.iter_mut().for_each(|child| assert!(first_line(child).0.starts_with("Trace ")));
    thread::sleep(Duration::from_millis(2_500));
    // Answered for longer than a batch waits: in a whole block on the disk.
    let written_ns = now_ns() - 1_500_000_000;
    // SIGKILL.
    drop(daemon);
    for child in asking {
        assert_eq!(child.wait_with_output().unwrap().status.code(), Some(1));
    }

    let daemon = Sniffer::start_as_typed(&dir, "serve --config c.toml");
    let again_ns = now_ns();
    wait_until(&dir, |status| status["workers"][0]["requests"].as_u64() > Some(500));
    let after = status(&dir);
    assert_eq!(
        (&after["checkpoint"]["restored"], &after["unattributed_connections"]),
        (&json!(50), &json!(0)),
        "{after}"
    );
    for trace in after["traces"].as_array().unwrap() {
        assert_eq!(trace["state"], "interrupted", "{trace}");
    }
    assert_eq!(after["traces"].as_array().unwrap().len(), 4);
    // A capture beside it takes the tenants from its table.
    let table = "data/connections.table";
    let port = traffic.port();
    let beside = format!(
        "--iface lo --port {port} --duration 700ms --quiet --buffer-size 64MiB --format jsonl --summary s.json"
    );
    let known = dir.run(&format!("{beside} --daemon-state {table} --tenant {}", tenants[2]));
    assert!(known.status == 0 && !keys_of_joined(&known.stdout, &tenants[2]).is_empty(), "{}", known.stderr);
    let summary = fs::read_to_string(dir.path("s.json")).unwrap();
    assert!(summary.contains("told the tenant of 50 connections that were open before"), "{summary}");
    let unknown = dir.run(&format!("{beside} --daemon-state none --tenant {}", tenants[2]));
    assert_eq!((unknown.status, unknown.stdout.as_str()), (0, ""), "{}", unknown.stderr);
    driving.join().unwrap();
    assert_eq!(daemon.stop("TERM").status, 0);

    // The four were asked for at once, in whatever order.
    let of = |tenant: &String| {
        let mut traces = after["traces"].as_array().unwrap().iter();
        traces.find(|trace| trace["filter"].as_str().unwrap().contains(tenant)).unwrap()
    };
    let directories: Vec<_> = tenants.iter().map(|tenant| of(tenant)["directory"].as_str().unwrap()).collect();
    let begun_ns = of(&tenants[1])["started_ns"].as_u64().unwrap();
    let taken: Vec<String> = directories.iter().map(|at| dir.run(&format!("export {at} --to jsonl")).stdout).collect();
    let ring = dir.run(&format!("export data/ring --to jsonl --tenant {}", tenants[1])).stdout;
    let report = dir.run(&format!("report {}", directories[1]));
    assert!(report.stdout.contains("interrupted"), "{}", report.stdout);
    let (truth, known) = traffic.finish(&tenants[1]);
    taken.iter().for_each(|jsonl| truth.assert_nothing_wrong(jsonl));
    truth.assert_nothing_wrong(&ring);
    let recorded = keys_of(&taken[1], &tenants[1], false);
    for known in known.iter().filter(|known| known.sent_ns >= begun_ns + 300_000_000 && known.received_ns < written_ns)
    {
        assert!(recorded.contains(&known.key), "missing: {:?}", known.key);
    }
    assert!(!recorded.is_empty());
    // The one that came after it has the tenant's requests too, with the tenant.
    let times = ring.lines().map(|record| serde_json::from_str::<Value>(record).unwrap()["time_ns"].as_u64().unwrap());
    assert!(times.filter(|&time_ns| time_ns > again_ns).count() > 10, "{ring}");
}

/// Records of connections that were joined in the middle are the tenant's.
fn keys_of_joined(jsonl: &str, tenant: &str) -> Vec<Value> {
    let records: Vec<Value> = jsonl.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    records.iter().for_each(|record| assert_eq!(record["tenant"], json!(tenant), "{record}"));
    records
}

#[test]
fn a_damaged_table_is_refused_counted_and_said() {
    if !may_capture() {
        return;
    }
    let (traffic, dir) = (Traffic::listen(), Dir::new());
    fs::create_dir(dir.path("data")).unwrap();
    fs::write(dir.path("data/connections.table"), b"\x89PGCONN\nnonsense").unwrap();
    let daemon = traffic.daemon(&dir, "");
    let checkpoint = &status(&dir)["checkpoint"];
    assert!(checkpoint["refused"].as_str().unwrap().contains("connections.table"), "{checkpoint}");
    assert_eq!(checkpoint["restored"], 0);
    // The next one takes its place.
    wait_until(&dir, |status| status["checkpoint"]["written_ns"].is_u64());
    let text = dir.run("status --socket socket").stdout;
    assert!(text.contains("not used at the start: data/connections.table: "), "{text}");
    signal(daemon.id(), "TERM");
    let ended = daemon.wait();
    assert!(ended.status == 0 && ended.stderr.contains("note: data/connections.table: "), "{}", ended.stderr);
}
