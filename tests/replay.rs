//! Composed traffic through the whole program: the same bytes every time, filters that add up, goldens that can be read.

#[allow(dead_code, reason = "shared with cli.rs, which uses the rest")]
mod harness;

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use flate2::Compression;
use flate2::write::GzEncoder;
use harness::{Dir, Ended};
use serde_json::Value;
use trafficgen::golden::{GOLDENS, Golden};

/// Three tenants on six connections in all versions, with loss on the wire and in the capture.
const LOSSY: &str = "--tenants 3 --timelines 2 --connections 6 --protocol mixed --requests 3000 --loss 0.01 \
                     --reorder 0.01 --duplicate 0.01 --drop 0.002 --pattern hot-set --also basebackup --also tls";

fn composed(options: &'static str) -> Vec<u8> {
    let mut capture = Vec::new();
    Golden { name: "composed", purpose: "", options }.compose_into(&mut capture).unwrap();
    capture
}

fn lines(ended: &Ended) -> Vec<&str> {
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    ended.stdout.lines().collect()
}

fn summary(dir: &Dir, arguments: &str) -> Value {
    let ended = dir.run(&format!("{arguments} --quiet --summary -"));
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

#[test]
fn the_same_capture_gives_the_same_bytes_from_wherever_it_comes() {
    let dir = Dir::new();
    let capture = composed(LOSSY);
    dir.write("a.pcap", &capture);
    let expected = dir.run("--read a.pcap --format jsonl --page-hash --unattributed");
    assert!(lines(&expected).len() > 2900, "{}", expected.stderr);

    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&capture).unwrap();
    dir.write("a.gz", &gzip.finish().unwrap());
    dir.write("a.zst", &zstd::encode_all(&capture[..], 1).unwrap());
    let other_format = "--tenants 3 --timelines 2 --connections 6 --protocol mixed --requests 3000 --loss 0.01 \
                        --reorder 0.01 --duplicate 0.01 --drop 0.002 --pattern hot-set --also basebackup --also tls \
                        --format pcapng";
    dir.write("a.pcapng", &composed(other_format));
    for name in ["a.pcap", "a.gz", "a.zst", "a.pcapng"] {
        let again = dir.run(&format!("--read {name} --format jsonl --page-hash --unattributed"));
        assert!(again == expected, "{name}");
    }
    assert!(dir.run_with_stdin("--read - --format jsonl --page-hash --unattributed", &capture) == expected);
}

#[test]
fn filters_take_apart_what_they_leave_whole() {
    let dir = Dir::new();
    dir.write("a.pcap", &composed(LOSSY));
    let all = dir.run("--read a.pcap --format jsonl");
    let all = lines(&all);
    let field = |line: &str, name: &str| serde_json::from_str::<Value>(line).unwrap()[name].clone();
    let values = |name: &str| {
        let mut values: Vec<String> =
            all.iter().filter_map(|line| field(line, name).as_str().map(str::to_owned)).collect();
        values.sort();
        values.dedup();
        values
    };
    for (option, name, least) in
        [("--tenant", "tenant", 3), ("--timeline", "timeline", 6), ("--kind", "kind", 3), ("--client", "client", 6)]
    {
        let values = values(name);
        assert!(values.len() >= least, "{values:?}");
        let mut parts = 0;
        for value in values {
            let part = dir.run(&format!("--read a.pcap --format jsonl {option} {value}"));
            let part = lines(&part);
            let expected: Vec<&str> = all.iter().filter(|line| field(line, name) == *value).copied().collect();
            assert!(part == expected, "{option} {value}");
            parts += part.len();
        }
        assert_eq!(parts, all.len(), "{option}");
    }
    let slow = dir.run("--read a.pcap --format jsonl --min-latency 300us");
    let expected: Vec<&str> =
        all.iter().filter(|line| field(line, "latency_ns").as_u64() >= Some(300_000)).copied().collect();
    assert!(!expected.is_empty() && lines(&slow) == expected);
}

#[test]
fn the_ledger_adds_up_whatever_is_left_out() {
    let dir = Dir::new();
    dir.write("a.pcap", &composed(LOSSY));
    let records = |arguments: &str| lines(&dir.run(&format!("{arguments} --format csv"))).len() as u64 - 1;
    for filter in ["", "--kind getpage", "--sample 1/4", "--unattributed", "--min-latency 200us --sample 1/2"] {
        let arguments = format!("--read a.pcap {filter}");
        let summary = summary(&dir, &arguments);
        let ledger = summary["ledger"].as_object().unwrap();
        let of = |name: &str| ledger[name].as_u64().unwrap();
        let sum: u64 =
            ledger.iter().filter(|(name, _)| *name != "seen").map(|(_, count)| count.as_u64().unwrap()).sum();
        assert!(of("seen") > 2900 && of("seen") == sum, "{filter}: {ledger:?}");
        assert_eq!(of("kept"), records(&arguments), "{filter}");
        assert_eq!(summary["records"].as_u64(), Some(of("kept")), "{filter}");
    }
}

#[test]
fn a_sample_by_key_keeps_the_share_of_keys_asked_again() {
    let dir = Dir::new();
    dir.write("a.pcap", &composed("--requests 20000 --pages 4000 --kinds getpage=1 --connections 4"));
    let share = |arguments: &str| {
        let summary = summary(&dir, arguments);
        let of = |name: &str| summary["total"][name].as_f64().unwrap();
        (of("unique_keys"), of("repeated_keys") / of("unique_keys"))
    };
    let (keys, all) = share("--read a.pcap");
    let (sampled_keys, sampled) = share("--read a.pcap --sample 1/8");
    assert!((keys / 8.0 - sampled_keys).abs() < 100.0, "{sampled_keys} of {keys}");
    assert!((all - sampled).abs() < 0.05, "{sampled} of {all}");
}

#[test]
fn a_reader_that_wants_one_line_ends_the_run_quietly() {
    let dir = Dir::new();
    dir.write("a.pcap", &composed("--requests 5000"));
    let mut command = dir.command("--read a.pcap --format jsonl");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    // The reader, and with it the pipe, goes away after one line.
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let ended = Ended::from(child.wait_with_output().unwrap());
    assert!(first.starts_with("{\"time_ns\":"));
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
}

#[test]
fn records_lost_to_a_full_disk_are_counted() {
    let dir = Dir::new();
    dir.write("a.pcap", &composed("--requests 5000"));
    let full = File::options().write(true).open("/dev/full").unwrap();
    let ended = dir.command("--read a.pcap --format jsonl --summary s.json -q").stdout(full).output().unwrap();
    assert_eq!(Ended::from(ended).status, 1);
    let summary: Value = serde_json::from_slice(&std::fs::read(dir.path("s.json")).unwrap()).unwrap();
    let (ledger, loss) = (&summary["ledger"], &summary["loss"]);
    assert_eq!((&ledger["kept"], &summary["complete"]), (&Value::from(0), &Value::from(false)));
    assert!(ledger["write_failed"].as_u64() > Some(0) && ledger["write_failed"] == loss["dropped_records"]);
}

/// Every golden capture as a person sees it. A change here is a change of what users see: read it before accepting it.
#[test]
fn goldens_look_as_they_did() {
    let dir = Dir::new();
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pcaps");
    for golden in GOLDENS {
        let file = captures.join(golden.file_name().unwrap());
        let ended = dir.run(&format!("--read {} --unattributed --format table", file.display()));
        let text = format!("status {}\n\n{}\n{}", ended.status, ended.stdout, ended.stderr);
        let text = text.replace(&format!("{}/", captures.display()), "");
        insta::with_settings!({ description => golden.purpose, omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!(format!("golden_{}", golden.name), text);
        });
    }
}

#[test]
fn a_capture_ends_with_its_findings_where_somebody_waits_for_them() {
    let dir = Dir::new();
    dir.write("a.pcap", &composed("--requests 60 --kinds getpage=1 --pages 3 --pattern uniform --depth 2 --mtu 65000"));
    let ended = dir.run("--read a.pcap");
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("fetched a page that had not changed since it last fetched it: "),
        "{}",
        ended.stderr
    );
    // The same proofs as a report on the trace gives.
    assert_eq!(dir.run("--read a.pcap --out t --quiet").status, 0);
    let reported = dir.run("report t").stdout;
    let finding = ended.stderr.lines().find(|line| line.starts_with("! ")).unwrap();
    assert!(reported.lines().any(|line| line == finding), "{finding}\n{reported}");
    // Proofs rest on all requests of a connection, whatever of them is kept.
    assert!(dir.run("--read a.pcap --sample 1/2").stderr.contains(finding));
    // A summary has them, too: where they are printed, and where they are asked for.
    let findings = summary(&dir, "--read a.pcap --findings")["findings"].clone();
    let printed: Value = serde_json::from_str(&dir.run("--read a.pcap --summary -").stdout).unwrap();
    assert_eq!(printed["findings"], findings);
    assert_eq!(summary(&dir, "--read a.pcap")["findings"], Value::Null);
    assert_eq!(dir.run("--read a.pcap --findings").status, 2);
    let report: Value = serde_json::from_str(&dir.run("report t --json -").stdout).unwrap();
    let texts = |findings: &Value| -> Vec<String> {
        findings.as_array().unwrap().iter().map(|finding| finding["text"].to_string()).collect()
    };
    let of_report = texts(&report["findings"]);
    assert!(texts(&findings).len() > 2 && texts(&findings).iter().all(|text| of_report.contains(text)), "{findings:#}");
    for silent in ["--quiet", "--format jsonl"] {
        assert!(!dir.run(&format!("--read a.pcap {silent}")).stderr.contains("fetched a page"), "{silent}");
    }
}

#[test]
fn what_http2_carries_is_in_the_summary() {
    let dir = Dir::new();
    let path = format!("{}/../../pcaps/not_postgres.pcap", env!("CARGO_MANIFEST_DIR"));
    let connections = &summary(&dir, &format!("--read {path}"))["connections"];
    let of = |name: &str| connections[name].as_u64().unwrap();
    // The preface and settings of both sides, and the headers of one call.
    assert_eq!((of("http2"), of("grpc"), of("http2_bytes"), of("http")), (1, 1, 24 + 9 + 56 + 9, 1));
    assert!(of("http") + of("http2") <= of("other"));
}

/// Nobody reads fifty sentences that say the same of a few requests each.
#[test]
fn many_small_computes_are_told_of_together() {
    let dir = Dir::new();
    let each =
        "--tenants 50 --connections 50 --requests 5000 --kinds getpage=1 --pages 80 --replica-every 0 --mtu 65000";
    dir.write("a.pcap", &composed(each));
    let summary = summary(&dir, "--read a.pcap --findings");
    let findings = summary["findings"].as_array().unwrap();
    let of = |id: &str| findings.iter().filter(|finding| finding["id"] == id).collect::<Vec<_>>();
    assert_eq!((of("redundant_refetch").len(), of("cache_size").len()), (0, 0), "{findings:#?}");
    let together = of("redundant_refetch_others");
    assert!(matches!(&together[..], [one] if one["evidence"]["computes"] == 50), "{findings:#?}");
    assert!(together[0]["text"].as_str().unwrap().contains(" GetPage by 50 computes fetched a page"), "{together:#?}");
    assert!(findings.len() < 10, "{findings:#?}");
}
