//! Traces as the program writes and exports them: the same records, the same bytes, within the limits, never in silence.

mod attribution;
mod clocks;
#[path = "../harness/mod.rs"]
#[allow(dead_code, reason = "shared with the other tests, which use the rest")]
mod harness;
mod joins;
mod limits;
mod refusals;
#[path = "../loss/rng.rs"]
#[allow(dead_code, reason = "shared with the tests of loss, which use the rest")]
mod rng;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use harness::{Dir, Ended};
use serde_json::Value;
use trafficgen::golden::{GOLDENS, Golden};

/// Three tenants on six connections in all versions, with loss on the wire and in the capture.
const LOSSY: &str = "--tenants 3 --timelines 2 --connections 6 --protocol mixed --requests 3000 --loss 0.01 \
                     --reorder 0.01 --duplicate 0.01 --drop 0.002 --pattern hot-set --also basebackup --also tls";

/// A hundred thousand pages of one tenant.
const PAGES: &str =
    "--tenants 1 --connections 8 --protocol 3 --requests 100000 --depth 16 --kinds getpage=1 --mtu 65000";

fn composed(options: &'static str) -> Vec<u8> {
    let mut capture = Vec::new();
    Golden { name: "composed", purpose: "", options }.compose_into(&mut capture).unwrap();
    capture
}

/// Every file below a directory, with its content.
fn tree(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            files.extend(tree(&path).into_iter().map(|(below, content)| (format!("{name}/{below}"), content)));
        } else {
            files.insert(name, fs::read(path).unwrap());
        }
    }
    files
}

/// The trace files of a tree, without the lock.
fn traces(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = tree(directory);
    files.retain(|name, _| name.ends_with(".pgtrace"));
    files
}

fn done(ended: Ended) -> Ended {
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    ended
}

fn sorted(lines: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = lines.lines().collect();
    lines.sort_unstable();
    lines
}

fn summary(dir: &Dir, arguments: &str) -> Value {
    serde_json::from_str(&done(dir.run(&format!("{arguments} --quiet --summary -"))).stdout).unwrap()
}

#[test]
fn an_export_gives_what_the_capture_printed() {
    for golden in GOLDENS {
        let dir = Dir::new();
        let mut capture = Vec::new();
        golden.compose_into(&mut capture).unwrap();
        dir.write("a", &capture);
        for format in ["jsonl", "csv"] {
            let printed =
                done(dir.run(&format!("--read a --format {format} --unattributed --page-hash --out {format}")));
            if traces(&dir.path(format)).is_empty() {
                // No record at all leaves no file.
                assert_eq!(printed.stdout.lines().filter(|line| line.contains("1767")).count(), 0, "{}", golden.name);
                assert_eq!(dir.run(&format!("export {format} --to {format}")).status, 1);
                continue;
            }
            let exported = done(dir.run(&format!("export {format} --to {format}")));
            assert_eq!(exported.stdout, printed.stdout, "{} as {format}", golden.name);
            assert_eq!(exported.stderr, "", "{}", golden.name);
        }
    }
}

#[test]
fn filters_of_an_export_are_those_of_a_capture() {
    let dir = Dir::new();
    dir.write("a", &composed(LOSSY));
    done(dir.run("--read a --out all"));
    let tenant = traces(&dir.path("all")).into_keys().next().unwrap().split('/').next().unwrap().to_owned();
    for filters in ["--kind getpage --min-latency 200us", &format!("--tenant {tenant}"), "--sample 1/4"] {
        let printed = done(dir.run(&format!("--read a --format jsonl {filters}")));
        let exported = done(dir.run(&format!("export all --to jsonl {filters}")));
        assert!(printed.stdout.lines().count() > 20, "{filters}");
        // Between traces of several tenants, what loss delayed may stand elsewhere.
        assert_eq!(sorted(&exported.stdout), sorted(&printed.stdout), "{filters}");
    }
}

#[test]
fn the_same_capture_gives_the_same_files() {
    let dir = Dir::new();
    let capture = composed(LOSSY);
    dir.write("a.pcap", &capture);
    dir.write("a.zst", &zstd::encode_all(&capture[..], 1).unwrap());
    for (input, out) in [("a.pcap", "one"), ("a.pcap", "two"), ("a.zst", "three")] {
        done(dir.run(&format!("--read {input} --out {out} --unattributed --flush-interval 50ms --rotate-interval 1s")));
    }
    let one = traces(&dir.path("one"));
    assert!(one.len() > 6, "{:?}", one.keys());
    assert!(one == traces(&dir.path("two")) && one == traces(&dir.path("three")));
}

#[test]
fn only_the_wanted_tenant_has_a_directory_and_the_ledgers_add_up() {
    let dir = Dir::new();
    dir.write("a", &composed(LOSSY));
    done(dir.run("--read a --out all"));
    let tenants: Vec<String> = fs::read_dir(dir.path("all"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.len() == 32)
        .collect();
    assert_eq!(tenants.len(), 3, "{tenants:?}");
    let wanted = &tenants[0];
    let figures = summary(&dir, &format!("--read a --tenant {wanted} --kind getpage --out one"));
    assert!(traces(&dir.path("one")).keys().all(|name| name.starts_with(wanted.as_str())));
    let of = |name: &str| figures["ledger"][name].as_u64().unwrap();
    assert!(of("kept") > 100 && of("filtered") > 100);
    let reasons = ["filtered", "sampled_out", "unattributed", "queue_dropped", "write_failed", "rotated", "kept"];
    assert_eq!(of("seen"), reasons.iter().map(|reason| of(reason)).sum::<u64>());
    assert_eq!(figures["records"], figures["ledger"]["kept"]);
    assert_eq!(figures["traces"]["files"], traces(&dir.path("one")).len());
    let bytes: usize = traces(&dir.path("one")).values().map(Vec::len).sum();
    assert_eq!(figures["traces"]["bytes"], bytes);
}

#[test]
fn a_page_request_takes_at_most_fourteen_bytes() {
    let dir = Dir::new();
    dir.write("a", &composed(PAGES));
    let figures = summary(&dir, "--read a --out t");
    let records = figures["by_kind"]["getpage"].as_u64().unwrap();
    assert!(records >= 99_000, "{figures}");
    let bytes = figures["traces"]["bytes"].as_u64().unwrap();
    assert!(bytes <= 14 * records, "{bytes} bytes for {records} records");
}

#[test]
fn a_damaged_trace_is_exported_up_to_the_damage_and_behind_it() {
    let dir = Dir::new();
    dir.write("a", &composed("--tenants 1 --connections 1 --requests 3000 --protocol 3"));
    done(dir.run("--read a --out t --flush-interval 10ms"));
    let whole = done(dir.run("export t --to jsonl")).stdout;
    let (name, mut content) = traces(&dir.path("t")).into_iter().next().unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 0x10;
    content.truncate(content.len() - 1);
    fs::write(dir.path("t").join(&name), &content).unwrap();
    let ended = done(dir.run("export t --to jsonl"));
    assert!(ended.stdout.lines().count() > 500, "{}", ended.stderr);
    assert!(ended.stdout.lines().count() < whole.lines().count());
    let mut rest = whole.lines();
    assert!(ended.stdout.lines().all(|line| rest.any(|other| other == line)), "a subset, in the same order");
    assert!(ended.stderr.starts_with("Note: t/"), "{}", ended.stderr);
    assert!(ended.stderr.contains("belong to no whole block"), "{}", ended.stderr);
    assert_eq!(done(dir.run("export t --to jsonl --quiet")).stderr, "");
}
