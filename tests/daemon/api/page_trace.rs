//! Neon's route, read by a reader of its own.

use std::collections::BTreeMap;
use std::io::{BufReader, Read};
use std::ops::Range;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::{ADMIN, ONE_TENANT, Served};
use crate::asked::{Known, keys_of, now_ns};
use crate::network::may_capture;

/// Blocks with their LSNs, and how often each was asked for.
type Events = BTreeMap<(String, u64), usize>;

/// The 36 bytes as `shared/wire.md` and Neon's `pageserver_api::models::PageTraceEvent` have them.
fn events(bytes: &[u8], within_ns: &Range<u64>) -> Events {
    assert_eq!(bytes.len() % 36, 0);
    let mut events = Events::new();
    for event in bytes.chunks_exact(36) {
        let u32_at = |at: usize| u32::from_le_bytes(event[at..at + 4].try_into().unwrap());
        let u64_at = |at: usize| u64::from_le_bytes(event[at..at + 8].try_into().unwrap());
        let spcnode = u16::from_le_bytes(event[13..15].try_into().unwrap());
        assert_eq!(event[15], 0);
        let block = format!("{spcnode}/{}/{}/{}/{}", u32_at(9), u32_at(5), event[4], u32_at(0));
        assert!(u64_at(24) > 1_700_000_000 && u32_at(32) < 1_000_000_000);
        if within_ns.contains(&(u64_at(24) * 1_000_000_000 + u64::from(u32_at(32)))) {
            *events.entry((block, u64_at(16))).or_default() += 1;
        }
    }
    events
}

/// The same from records.
fn events_of(jsonl: &str, within_ns: &Range<u64>) -> Events {
    let mut events = Events::new();
    for record in jsonl.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        if record["kind"] == "getpage" && within_ns.contains(&record["time_ns"].as_u64().unwrap()) {
            let number = |name: &str| record[name].as_u64().unwrap();
            let (spc, db, rel) = (number("spcnode"), number("dbnode"), number("relnode"));
            let block = format!("{spc}/{db}/{rel}/{}/{}", number("forknum"), number("blkno"));
            *events.entry((block, effective_lsn(&record))).or_default() += 1;
        }
    }
    events
}

/// The LSN whose page the pageserver looks for: that of the request, or where that is MAX, the last change that is known.
fn effective_lsn(record: &Value) -> u64 {
    let lsn = |name: &str| {
        let (high, low) = record[name].as_str().unwrap().split_once('/').unwrap();
        u64::from_str_radix(high, 16).unwrap() << 32 | u64::from_str_radix(low, 16).unwrap()
    };
    match lsn("request_lsn") {
        u64::MAX => lsn("not_modified_since"),
        request_lsn => request_lsn,
    }
}

#[test]
fn two_readers_of_one_tenant_have_every_request_answered_meanwhile_and_none_of_another() {
    if !may_capture() {
        return;
    }
    let served = Served::start("[recorder]\nenabled = false\n");
    let driving = served.traffic.drive_for(Duration::from_secs(7));
    thread::sleep(Duration::from_millis(1_000));
    let route = format!("/v1/tenant/{}/timeline/{}/page_trace?time_limit_secs=4", served.tenant, served.timeline);
    let (neon, ours, asked_ns) = (served.client(ONE_TENANT), served.client(ADMIN), now_ns());
    let jsonl_route = format!("{route}&format=jsonl");
    let second = thread::spawn(move || ours.get(&jsonl_route));
    let neon = neon.get(&route);
    let answer = second.join().unwrap();
    driving.join().unwrap();
    let Served { dir, daemon, traffic, tenant, .. } = served;
    let (truth, known) = traffic.finish(&tenant);
    for answer in [&neon, &answer] {
        assert_eq!((answer.status, answer.trailers["pagesniff-lost-requests"].as_str()), (200, "0"), "{answer:?}");
        assert_eq!(answer.trailers["pagesniff-sampled-out-requests"], "0");
    }
    assert_eq!(neon.headers["content-type"], "application/octet-stream");

    let jsonl = answer.text();
    truth.assert_nothing_wrong(&jsonl);
    // A busy machine may begin late, and nothing ends early.
    let within_ns = asked_ns + 1_000_000_000..asked_ns + 3_500_000_000;
    let is_within = |known: &&Known| within_ns.contains(&known.sent_ns) && within_ns.contains(&known.received_ns);
    let wanted: Vec<_> = known.iter().filter(is_within).collect();
    assert!(wanted.len() > 15, "{}", wanted.len());
    let recorded = keys_of(&jsonl, &tenant, true);
    wanted.iter().for_each(|known| assert!(recorded.contains(&known.key), "missing: {:?}", known.key));
    let (neon, ours) = (events(&neon.body, &within_ns), events_of(&jsonl, &within_ns));
    assert!(neon == ours && neon.len() > 10, "{neon:?} {ours:?}");
    assert_eq!(daemon.stop("TERM").status, 0);
    drop(dir);
}

#[test]
fn a_slow_reader_loses_its_own_records_only_and_both_are_told() {
    if !may_capture() {
        return;
    }
    let mut served = Served::start("[recorder]\nenabled = false\n[limits]\ntenant_bytes = \"256MiB\"\n");
    served.traffic.options.rate = None;
    served.traffic.options.workload.tenants = 1;
    served.traffic.options.workload.connections = 8;
    let owner = served.traffic.options.workload.owner_of(0);
    (served.tenant, served.timeline) = (owner.tenant.to_string(), owner.timeline.to_string());
    let route = format!(
        "/v1/tenant/{}/timeline/{}/page_trace?time_limit_secs=5&size_limit_bytes=250000000&format=jsonl",
        served.tenant, served.timeline
    );
    let driving = served.traffic.drive_for(Duration::from_secs(6));
    thread::sleep(Duration::from_millis(300));
    let mut slow = BufReader::with_capacity(1 << 10, served.client(ADMIN).send("GET", &route, &[], b""));
    let fast = served.client(ADMIN);
    let fast = thread::spawn(move || fast.get(&route));
    // A kilobyte a second until its time is over.
    for _ in 0..6 {
        slow.get_mut().read_exact(&mut [0; 1]).unwrap();
        thread::sleep(Duration::from_secs(1));
    }
    let fast = fast.join().unwrap();
    driving.join().unwrap();
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).unwrap();
    let rest = String::from_utf8_lossy(&rest);
    let lost = |text: &str| text.split("pagesniff-lost-requests: ").nth(1).unwrap().lines().next().unwrap().to_owned();
    let (slow_lost, slow_had): (u64, usize) = (lost(&rest).parse().unwrap(), rest.matches("\"time_ns\"").count());
    let (fast_lost, fast_had) = (&fast.trailers["pagesniff-lost-requests"], fast.text().lines().count());
    assert!(slow_lost > 0, "nothing lost of {slow_had}; the fast one had {fast_had}");
    assert_eq!(fast_lost, "0", "{fast_had}");
    assert!(fast_had > slow_had);
    let audit = served.audit(2);
    let lost: Vec<_> = audit.iter().map(|line| line["lost_requests"].as_u64().unwrap()).collect();
    assert!(lost.contains(&0) && lost.contains(&slow_lost), "{audit:?}");
    let Served { daemon, traffic, .. } = served;
    traffic.finish("");
    assert_eq!(daemon.stop("TERM").status, 0);
}

#[test]
fn a_page_trace_in_our_format_is_a_trace_file() {
    if !may_capture() {
        return;
    }
    let served = Served::start("");
    let driving = served.traffic.drive_for(Duration::from_secs(4));
    thread::sleep(Duration::from_millis(300));
    let begun_ns = now_ns();
    let route = format!("/v1/tenant/{}/timeline/{}/page_trace", served.tenant, served.timeline);
    let trace = served.client(ONE_TENANT).get(&format!("{route}?format=pgtrace&time_limit_secs=2"));
    assert_eq!((trace.status, trace.trailers["pagesniff-lost-requests"].as_str()), (200, "0"));
    let small = served.client(ONE_TENANT).get(&format!("{route}?format=pgtrace&size_limit_bytes=3000"));
    assert!(small.status == 200 && small.body.len() <= 3_000, "{}", small.body.len());
    driving.join().unwrap();
    served.dir.write("whole.pgtrace", &trace.body);
    served.dir.write("small.pgtrace", &small.body);
    let Served { dir, daemon, traffic, tenant, .. } = served;
    let jsonl = dir.run("export whole.pgtrace --to jsonl").stdout;
    let of_small = dir.run("export small.pgtrace --to jsonl").stdout;
    let (truth, known) = traffic.finish(&tenant);
    [&jsonl, &of_small].into_iter().for_each(|jsonl| truth.assert_nothing_wrong(jsonl));
    let recorded = keys_of(&jsonl, &tenant, false);
    let wanted: Vec<_> = known
        .iter()
        .filter(|known| known.sent_ns >= begun_ns + 300_000_000 && known.received_ns < begun_ns + 1_700_000_000)
        .collect();
    assert!(wanted.len() > 15, "{}", wanted.len());
    wanted.iter().for_each(|known| assert!(recorded.contains(&known.key), "missing: {:?}", known.key));
    let verified = dir.run("report whole.pgtrace");
    assert_eq!(verified.status, 0, "{}", verified.stderr);
    assert_eq!(daemon.stop("TERM").status, 0);
}

#[test]
fn a_page_trace_ends_at_its_size_with_a_whole_event() {
    if !may_capture() {
        return;
    }
    let served = Served::start("");
    let driving = served.traffic.drive_for(Duration::from_secs(3));
    thread::sleep(Duration::from_millis(300));
    let route = format!("/v1/tenant/{}/timeline/{}/page_trace?size_limit_bytes=100", served.tenant, served.timeline);
    let answer = served.client(ONE_TENANT).get(&route);
    assert_eq!((answer.status, answer.body.len()), (200, 72));
    for (query, status) in [
        ("time_limit_secs=31", 403),
        ("time_limit_secs=0", 400),
        ("time_limit_secs=x", 400),
        ("no_such=1", 400),
        ("size_limit_bytes=-1", 400),
    ] {
        let route = format!("/v1/tenant/{}/timeline/{}/page_trace?{query}", served.tenant, served.timeline);
        assert_eq!(served.client(ONE_TENANT).get(&route).status, status, "{query}");
    }
    driving.join().unwrap();
    let Served { daemon, traffic, .. } = served;
    traffic.finish("");
    assert_eq!(daemon.stop("TERM").status, 0);
}
