//! `pagesniff doctor` on captures and on this machine: what it finds, what it advises, and how it ends.

#[allow(dead_code, reason = "shared with the other tests, which use the rest")]
mod harness;

use harness::{Dir, Ended};
use serde_json::{Value, json};

/// The examination of a golden capture, as JSON, and its exit status.
fn examined(capture: &str, options: &str) -> (Value, i32) {
    let path = format!("{}/../../pcaps/{capture}.pcap", env!("CARGO_MANIFEST_DIR"));
    let Ended { status, stdout, stderr } = Dir::new().run(&format!("doctor --read {path} --json {options}"));
    assert_eq!(stderr, "");
    (serde_json::from_str(&stdout).unwrap(), status)
}

/// The checks of one kind.
fn checks<'a>(report: &'a Value, id: &str) -> Vec<&'a Value> {
    report["checks"].as_array().unwrap().iter().filter(|check| check["id"] == id).collect()
}

#[test]
fn a_whole_capture_has_nothing_in_its_way() {
    let (report, status) = examined("clean_v3", "");
    assert_eq!((status, &report["level"]), (0, &json!("ok")), "{report:#}");
    let port = &report["ports"][0];
    assert_eq!((&port["port"], &port["pagestream"], &port["requests"]), (&json!(6400), &json!(1), &json!(14)));
    assert_eq!((&port["requests_with_tenant"], &port["requests_with_latency"]), (&json!(14), &json!(14)));
}

#[test]
fn what_is_on_a_port_is_named_and_measured() {
    let (report, status) = examined("not_postgres", "");
    let port = &report["ports"][0];
    for (name, expected) in [
        ("pagestream", 1),
        ("http", 1),
        ("http2", 1),
        ("grpc", 1),
        ("http2_bytes", 98),
        ("other", 3),
        ("unidentified", 2),
    ] {
        assert_eq!(port[name], expected, "{name}: {port:#}");
    }
    let text = checks(&report, "port")[0]["text"].as_str().unwrap();
    assert!(
        text.starts_with("port 6400 carries 1 pagestream connection, 1 gRPC connection, 1 HTTP connection"),
        "{text}"
    );
    assert_eq!(status, 0);
}

#[test]
fn pagestream_on_another_port_is_found() {
    let (report, status) = examined("clean_v3", "--port 7000");
    assert_eq!((status, &report["level"]), (3, &json!("problem")));
    let expected = checks(&report, "port")[0];
    assert_eq!((&expected["level"], &expected["text"]), (&json!("problem"), &json!("port 7000 carries nothing")));
    assert_eq!(expected["advice"], "watch where pagestream is: --port 6400");
}

#[test]
fn what_stands_in_the_way_is_said_with_what_to_do() {
    let problems = [
        ("tls", "port", "pagesniff reads plain connections only"),
        ("answers_only", "note", "a mirror or tap must deliver both directions"),
        ("requests_only", "note", "a mirror or tap must deliver both directions"),
        ("snaplen_128_v2", "tenants", "--hint ADDR=TENANT/TIMELINE"),
    ];
    for (capture, id, advice) in problems {
        let (report, status) = examined(capture, "");
        let found = checks(&report, id).into_iter().find(|check| check["level"] == "problem");
        let said = found.and_then(|check| check["advice"].as_str()).unwrap_or_default();
        assert!(status == 3 && said.contains(advice), "{capture}: {report:#}");
    }
    let hints = [
        ("mirror_duplicates", "note", "info", "capture one interface rather than any"),
        ("capture_drops", "loss", "warning", "raise its buffer"),
        ("snaplen_256", "snaplen", "warning", "capture whole packets"),
        ("joined_midstream_v2", "tenants", "warning", "--one-tenant-per-address"),
        ("vxlan", "tunnels", "info", "--tunnels"),
        ("pcap_microseconds", "timestamps", "info", "--nano"),
    ];
    for (capture, id, level, advice) in hints {
        let (report, _) = examined(capture, "");
        let is_said = |check: &&Value| {
            check["level"] == level && check["advice"].as_str().is_some_and(|said| said.contains(advice))
        };
        assert!(checks(&report, id).iter().any(is_said), "{capture}: {report:#}");
    }
}

#[test]
fn text_has_a_line_for_each_finding_and_one_for_what_to_do() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pcaps/tls.pcap");
    let ended = Dir::new().run(&format!("doctor --read {path}"));
    assert_eq!((ended.status, ended.stderr.as_str()), (3, ""));
    let lines: Vec<&str> = ended.stdout.lines().collect();
    let problem =
        lines.iter().position(|line| line.starts_with("PROBLEM port 6400 carries 2 TLS connections")).unwrap();
    assert!(lines[problem + 1].starts_with("        → pagesniff reads plain connections only"), "{}", ended.stdout);
}

#[test]
fn a_capture_that_cannot_be_read_is_a_failure_and_wrong_usage_is_told() {
    let dir = Dir::new();
    let absent = dir.run("doctor --read absent.pcap");
    assert!(absent.status == 1 && absent.stderr.contains("absent.pcap"), "{absent:?}");
    assert_eq!(dir.run("doctor --read a --iface lo").status, 2);
}

#[cfg(all(feature = "live", target_os = "linux"))]
#[test]
fn the_machine_and_its_interfaces_are_examined() {
    let dir = Dir::new();
    let ended = dir.run("doctor --json");
    let machine: Value = serde_json::from_str(&ended.stdout).unwrap();
    let libpcap = checks(&machine, "libpcap")[0]["text"].as_str().unwrap();
    assert!(libpcap.starts_with("libpcap version"), "{libpcap}");
    let may_capture = checks(&machine, "privileges")[0]["level"] == "ok";
    assert_eq!(ended.status, if may_capture { 0 } else { 3 });

    let absent = dir.run("doctor --iface no-such0 --duration 100ms");
    assert_eq!(absent.status, 3, "{absent:?}");
    assert!(absent.stdout.contains("PROBLEM --iface no-such0: "), "{absent:?}");

    let silent: Value =
        serde_json::from_str(&dir.run("doctor --iface lo --duration 100ms --port 1 --json").stdout).unwrap();
    // Whoever may not capture is told so; whoever may is told that port 1 is silent.
    let expected = if may_capture { "port" } else { "interface" };
    assert!(checks(&silent, expected).iter().any(|check| check["level"] == "problem"), "{silent:#}");
    assert_eq!(checks(&silent, "timestamps").len(), 1, "{silent:#}");
}
