//! Who is let in, to what, and what is left of it in the audit log.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::http::Client;
use super::{ADMIN, EXPIRED, ONE_TENANT, Served};
use crate::network::may_capture;

#[test]
fn each_token_opens_its_own_doors_and_the_log_has_no_token() {
    if !may_capture() {
        return;
    }
    let served = Served::start("");
    let other = served.traffic.tenant(4);
    let trace_of = |tenant: &str| {
        format!("/v1/tenant/{tenant}/timeline/{}/page_trace?time_limit_secs=1&token=in-the-address", served.timeline)
    };
    let of = |tenant: &str| trace_of(tenant).replace("&token=in-the-address", "");
    let capture = |tenant: &str| json!({"tenant": [tenant], "duration_ms": 1});
    let none = Client { port: served.port, token: None };
    let mut asked = 0;
    let mut check = |client: &Client, target: &str, status: u16| {
        let answer = client.get(target);
        assert_eq!(answer.status, status, "{target}: {}", answer.text());
        if status >= 400 {
            assert!(answer.json()["msg"].as_str().unwrap().len() > 10);
        }
        asked += 1;
        answer
    };
    check(&none, "/healthz", 200);
    for (client, status) in [(&none, 401), (&served.client("wrong"), 401), (&served.client(EXPIRED), 401)] {
        for target in ["/metrics", "/v1/status", "/v1/captures", "/v1/nothing", &of(&served.tenant)] {
            assert_eq!(check(client, target, status).headers["www-authenticate"], "Bearer");
        }
    }
    let one = served.client(ONE_TENANT);
    for target in ["/metrics", "/v1/status"] {
        check(&one, target, 403);
    }
    // What is another's, and what is not there at all, are told in the same words.
    let foreign = check(&one, &of(&other), 404);
    let nobody = check(&one, &of(&"f".repeat(32)), 404);
    assert_eq!((&foreign.body, foreign.headers.len()), (&nobody.body, nobody.headers.len()));
    check(&one, &of(&served.tenant), 200);
    check(&one, &trace_of(&served.tenant), 400);
    check(&one, &format!("/v1/live?tenant={other}"), 404);
    let admin = served.client(ADMIN);
    check(&admin, "/v1/status", 200);
    check(&admin, &of(&other), 200);
    assert_eq!(one.post("/v1/captures", &capture(&other)).status, 404);
    assert_eq!(one.post("/v1/captures", &json!({"duration_ms": 1})).status, 403);
    assert_eq!(one.post("/v1/captures", &json!({"tenant": [served.tenant], "duration_ms": 31_000})).status, 403);
    let begun = admin.post("/v1/captures", &capture(&other));
    assert_eq!(begun.status, 201, "{}", begun.text());
    let id = begun.json()["id"].as_str().unwrap().to_owned();
    for target in ["", "/trace", "/report"].map(|rest| format!("/v1/captures/{id}{rest}")) {
        check(&one, &target, 404);
    }
    assert_eq!(one.ask("DELETE", &format!("/v1/captures/{id}"), &[], b"").status, 404);
    assert_eq!(check(&one, "/v1/captures", 200).json(), json!([]));

    let lines = served.audit(asked + 5);
    assert_eq!(lines.len(), asked + 5);
    let line = |who: &str, what: &str, outcome: u64| {
        let is_it = |line: &&serde_json::Value| {
            line["who"] == who && line["what"] == what && line["outcome"] == outcome && line["complete"] == true
        };
        lines.iter().find(is_it).unwrap_or_else(|| panic!("no line of {who}, {what}, {outcome}: {lines:#?}"))
    };
    let neons = "GET /v1/tenant/{tenant_shard_id}/timeline/{timeline_id}/page_trace";
    let foreign = line("one", neons, 404);
    assert_eq!(foreign["parameters"]["tenant_shard_id"], other);
    assert_eq!(foreign["from"].as_str().unwrap().split(':').next(), Some("127.0.0.1"));
    assert!(line("one", neons, 200)["duration_ms"].as_u64().unwrap() >= 900);
    assert_eq!(line("admin", "POST /v1/captures", 201)["wanted"]["tenant"][0], other);
    let text = fs::read_to_string(served.dir.path("data/audit.jsonl")).unwrap();
    for secret in [ADMIN, ONE_TENANT, EXPIRED, "wrong", "in-the-address"] {
        assert!(!text.contains(secret), "{secret}");
        assert!(!is_in_a_file(&served.dir.path("data"), secret.as_bytes()), "{secret}");
    }
    let Served { daemon, traffic, .. } = served;
    traffic.drive_for(Duration::from_millis(100)).join().unwrap();
    traffic.finish("");
    let ended = daemon.stop("TERM");
    assert!(ended.status == 0 && !ended.stderr.contains(ADMIN), "{}", ended.stderr);
}

fn is_in_a_file(directory: &Path, secret: &[u8]) -> bool {
    fs::read_dir(directory).unwrap().flatten().any(|entry| match entry.file_type().unwrap().is_dir() {
        true => is_in_a_file(&entry.path(), secret),
        false => fs::read(entry.path()).unwrap().windows(secret.len()).any(|bytes| bytes == secret),
    })
}

#[test]
fn nonsense_is_refused_and_harms_nobody() {
    if !may_capture() {
        return;
    }
    let served = Served::start("");
    let driving = served.traffic.drive_for(Duration::from_secs(9));
    let long = "x".repeat(200_000);
    let requests = [
        "\r\n\r\n".to_owned(),
        "GET\r\n\r\n".to_owned(),
        "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}".to_owned(),
        format!("GET /{long} HTTP/1.1\r\n\r\n"),
        format!("GET /v1/status HTTP/1.1\r\nx: {long}\r\n\r\n"),
        format!("GET /v1/status HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(5_000)),
        "GET /v1/captures/..%2f..%2fetc%2fpasswd/trace HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n".to_owned(),
        "POST /v1/captures HTTP/1.1\r\nhost: t\r\ncontent-length: 99999999999999999999\r\n\r\n".to_owned(),
        "POST /v1/captures HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        format!("GET /metrics HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {long}\r\n\r\n"),
        "GET /metrics HTTP/1.1\r\nhost: t\r\nauthorization: Basic YTpi\r\nconnection: close\r\n\r\n".to_owned(),
    ];
    for request in requests.iter().cycle().take(240) {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        // It may be closed before all is written.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.take(1 << 16).read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP/1.1 2") && !answer.starts_with(b"HTTP/1.1 5"), "{request:.80}");
    }
    let admin = served.client(ADMIN);
    let deep = "[".repeat(10_000);
    for body in ["", "{", "null", "{\"duration_ms\":-1}", "{\"duration_ms\":1,\"x\":1}", &deep, &"1".repeat(70_000)] {
        let headers = [("content-type", "application/json".to_owned())];
        let answer = admin.ask("POST", "/v1/captures", &headers, body.as_bytes());
        assert!((400..500).contains(&answer.status), "{body:.40}: {}", answer.status);
    }
    assert_eq!(admin.ask("PUT", "/v1/captures", &[], b"").status, 405);
    let status = admin.get("/v1/status").json();
    assert_eq!((&status["workers"][0]["kernel_dropped"], &status["connections"]), (&json!(0), &json!(50)), "{status}");
    driving.join().unwrap();
    let Served { daemon, traffic, .. } = served;
    traffic.finish("");
    assert_eq!(daemon.stop("TERM").status, 0);
}

#[test]
fn who_asks_too_fast_is_told_to_wait() {
    if !may_capture() {
        return;
    }
    let served = Served::start("");
    let (one, admin) = (served.client(ONE_TENANT), served.client(ADMIN));
    let statuses: Vec<_> = (0..200).map(|_| one.get("/v1/reports").status).collect();
    assert!(statuses.contains(&429) && statuses[0] == 200, "{statuses:?}");
    assert_eq!(admin.get("/v1/reports").status, 200, "another one's rate is its own");
    let Served { daemon, traffic, .. } = served;
    traffic.drive_for(Duration::from_millis(100)).join().unwrap();
    traffic.finish("");
    assert_eq!(daemon.stop("TERM").status, 0);
}
