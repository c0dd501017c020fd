//! Captures from their beginning to their deletion.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http::Client;
use super::{ADMIN, ONE_TENANT, Served};
use crate::asked::{keys_of, now_ns};
use crate::network::may_capture;

#[test]
fn a_capture_is_begun_watched_downloaded_in_two_parts_diagnosed_and_deleted() {
    if !may_capture() {
        return;
    }
    let served = Served::start("");
    let client = served.client(ONE_TENANT);
    let driving = served.traffic.drive_for(Duration::from_secs(4));
    thread::sleep(Duration::from_millis(700));
    let begun = client.post("/v1/captures", &json!({"tenant": [served.tenant], "duration_ms": 1_500}));
    let begun_ns = now_ns();
    assert_eq!(begun.status, 201, "{}", begun.text());
    let capture = begun.json();
    assert!(capture.get("directory").is_none(), "where it is on the node is nobody's business: {capture}");
    let address = begun.headers["location"].clone();
    assert_eq!(address, format!("/v1/captures/{}", capture["id"].as_str().unwrap()));
    assert_eq!(client.get(&address).json()["state"], "running");
    assert_eq!(client.get(&format!("{address}/trace")).status, 409);
    let metrics = served.client(ADMIN).get("/metrics").text();
    let series = format!("tenant_id=\"{}\",timeline_id=\"{}\"}} ", served.tenant, served.timeline);
    assert!(metrics.contains(&series) && metrics.matches("tenant_id=").count() == 1, "{metrics}");
    let since = Instant::now();
    while client.get(&address).json()["state"] == "running" {
        assert!(since.elapsed() < Duration::from_secs(10));
        thread::sleep(Duration::from_millis(100));
    }
    let until_ns = capture["started_ns"].as_u64().unwrap() + 1_450_000_000;

    // Cut off after 700 bytes, gone on with by either way of saying where.
    let whole = client.get(&format!("{address}/trace"));
    assert_eq!((whole.status, whole.headers["accept-ranges"].as_str()), (200, "bytes"));
    let cut = &whole.body[..700];
    let rest = client.get(&format!("{address}/trace?cursor=700"));
    let range = client.ask("GET", &format!("{address}/trace"), &[("range", "bytes=700-".to_owned())], b"");
    assert_eq!((rest.status, range.status), (200, 206));
    assert_eq!(range.headers["content-range"], format!("bytes 700-{}/{}", whole.body.len() - 1, whole.body.len()));
    assert!(rest.body == range.body && [cut, &rest.body].concat() == whole.body);
    assert_eq!(client.get(&format!("{address}/trace?cursor={}", whole.body.len() + 1)).status, 416);

    served.dir.write("t.tar", &whole.body);
    assert!(Command::new("tar").current_dir(served.dir.path(".")).args(["xf", "t.tar"]).status().unwrap().success());
    let jsonl = served.dir.run(&format!("export {} --to jsonl", capture["id"].as_str().unwrap())).stdout;
    let report = client.get(&format!("{address}/report?format=json"));
    assert!(report.json()["window"]["duration_ns"].as_u64().is_some_and(|ns| ns < 2_000_000_000), "{}", report.text());
    let page = client.get(&format!("{address}/report"));
    assert!(page.headers["content-type"].starts_with("text/html") && page.text().starts_with("<!doctype html>"));
    assert_eq!(client.ask("DELETE", &address, &[], b"").status, 204);
    assert_eq!(client.get(&address).status, 404);
    assert_eq!(fs::read_dir(served.dir.path("data/traces")).unwrap().count(), 0);

    driving.join().unwrap();
    let Served { daemon, traffic, tenant, .. } = served;
    let (truth, known) = traffic.finish(&tenant);
    truth.assert_nothing_wrong(&jsonl);
    let keys = keys_of(&jsonl, &tenant, false);
    let wanted = known.iter().filter(|known| known.sent_ns >= begun_ns && known.received_ns <= until_ns);
    let wanted: Vec<_> = wanted.collect();
    assert!(wanted.len() > 15);
    wanted.iter().for_each(|known| assert!(keys.contains(&known.key), "missing: {:?}", known.key));
    assert_eq!(daemon.stop("TERM").status, 0);
}

#[test]
fn a_snapshot_is_handed_out_like_a_capture() {
    if !may_capture() {
        return;
    }
    let served = Served::start("");
    let client = served.client(ONE_TENANT);
    served.traffic.drive_for(Duration::from_secs(1)).join().unwrap();
    let taken = client.post("/v1/snapshots", &json!({"tenant": served.tenant, "last_ms": 60_000}));
    assert_eq!(taken.status, 201, "{}", taken.text());
    let snapshot = taken.json();
    assert!(snapshot["requests"].as_u64().unwrap() > 5, "{snapshot}");
    let id = snapshot["id"].as_str().unwrap();
    let archive = client.get(&format!("/v1/captures/{id}/trace"));
    assert_eq!((archive.status, archive.body.len() % 512), (200, 0));
    assert_eq!(client.get(&format!("/v1/captures/{id}/report")).status, 200);
    let other = served.traffic.tenant(4);
    assert_eq!(client.post("/v1/snapshots", &json!({"tenant": other, "last_ms": 60_000})).status, 404);
    let theirs = served.client(ADMIN).post("/v1/snapshots", &json!({"tenant": other, "last_ms": 60_000})).json();
    let listed = |client: &Client| {
        let listed = client.get("/v1/snapshots").json();
        listed.as_array().unwrap().iter().map(|kept| kept["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(listed(&client), [snapshot["id"].clone()]);
    assert_eq!(listed(&served.client(ADMIN)), [snapshot["id"].clone(), theirs["id"].clone()]);
    let foreign = format!("/v1/captures/{}/trace", theirs["id"].as_str().unwrap());
    assert_eq!((client.get(&foreign).status, served.client(ADMIN).get(&foreign).status), (404, 200));
    assert_eq!(client.get("/v1/captures/snapshot-..%2f..%2fdata/trace").status, 404);
    let Served { daemon, traffic, .. } = served;
    traffic.finish("");
    assert_eq!(daemon.stop("TERM").status, 0);
}

#[test]
fn live_figures_come_once_a_second() {
    if !may_capture() {
        return;
    }
    let served = Served::start("");
    let driving = served.traffic.drive_for(Duration::from_secs(5));
    thread::sleep(Duration::from_millis(300));
    let target = format!("/v1/live?tenant={}&by=key_range", served.tenant);
    let mut stream = BufReader::new(served.client(ONE_TENANT).send("GET", &target, &[], b""));
    let events: Vec<Value> = stream
        .by_ref()
        .lines()
        .map(Result::unwrap)
        .filter_map(|line| line.strip_prefix("data: ").map(|json| serde_json::from_str(json).unwrap()))
        .take(4)
        .collect();
    drop(stream);
    let last = &events[3];
    assert!(events[3]["time_ns"].as_u64().unwrap() - events[0]["time_ns"].as_u64().unwrap() > 2_500_000_000);
    let rate = last["total"]["requests_per_s"].as_f64().unwrap_or_else(|| panic!("{last}"));
    // A fiftieth of 1,500.
    assert!((5.0..60.0).contains(&rate), "{rate}");
    assert_eq!(last["views"][0]["by"], "key-range");
    assert!(!last["views"][0]["rows"].as_array().unwrap().is_empty(), "{last}");
    driving.join().unwrap();
    let Served { daemon, traffic, .. } = served;
    traffic.finish("");
    assert_eq!(daemon.stop("TERM").status, 0);
}
