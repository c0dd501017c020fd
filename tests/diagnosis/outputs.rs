//! What reports and comparisons print, and where.

use serde_json::Value;

use crate::harness::{Dir, Ended};
use crate::planted::session_of_tenant;
use crate::session::{Backend, MS, Reply, Session, US};
use crate::{json, traced};

const MAX: u64 = u64::MAX;

/// A backend that asks for `blocks` pages `times` times over.
fn again_and_again(blocks: u32, times: u32) -> Session {
    let mut session = Session::new();
    session.basebackup();
    let backend: Backend = session.open();
    for _ in 0..times {
        for block in 0..blocks {
            session.ask(backend, block, (MAX, 100), (Reply::Page(50), 200 * US));
            session.wait(MS);
        }
    }
    session
}

fn traces_of(session: &Session) -> Dir {
    traced(&session.capture(|_, _| false), "")
}

#[test]
fn a_report_is_text_with_the_findings_first() {
    let session = again_and_again(200, 2);
    let directory = traces_of(&session);
    let Ended { status, stdout, stderr } = directory.run("report traces");
    assert_eq!((status, stderr.as_str()), (0, ""));
    let first = stdout.lines().next().unwrap();
    let tenant = session.owner().tenant;
    let expected = format!(
        "! 50.0 % of 400 GetPage of tenant {tenant} by the compute at 10.0.0.7 fetched a page that had not changed since \
         it last fetched it: 200 (1.6 MiB), proven for each by its own promises. Relation 1663/16384/16402 accounts for \
         100.0 % of them."
    );
    assert_eq!(first, expected);
    for title in
        ["GetPage by class over time", "Latency", "By relation and fork", "Hottest pages", "By compute", "By backend"]
    {
        assert!(stdout.contains(title), "{title}: {stdout}");
    }
    assert!(stdout.contains("Complete: nothing is known to be missing."), "{stdout}");
}

#[test]
fn json_goes_to_a_file_beside_the_text_or_to_standard_output_alone() {
    let directory = traces_of(&again_and_again(10, 2));
    let both = directory.run("report traces --json report.json");
    assert!(both.status == 0 && both.stdout.contains("By compute"));
    let file: Value = serde_json::from_slice(&std::fs::read(directory.path("report.json")).unwrap()).unwrap();
    assert_eq!(json(&directory.run("report traces --json -")), file);
    for name in ["window", "completeness", "totals", "refetch", "latency", "relations", "keys", "clients", "findings"] {
        assert!(!file[name].is_null(), "{name}");
    }
    let latency = file["latency"]["getpage"].as_object().unwrap();
    let names: Vec<&str> = latency.keys().map(String::as_str).collect();
    for name in ["count", "min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns", "mean_ns"] {
        assert!(names.contains(&name), "{name} of {names:?}");
    }
    assert_eq!((&latency["count"], &latency["max_ns"]), (&20.into(), &200_000.into()));
    for finding in file["findings"].as_array().unwrap() {
        let names: Vec<&String> = finding.as_object().unwrap().keys().collect();
        assert_eq!(names, ["evidence", "id", "severity", "text"], "serde_json sorts them here");
    }
}

#[test]
fn the_same_traces_given_twice_count_once() {
    let directory = traces_of(&again_and_again(20, 2));
    std::fs::create_dir(directory.path("copies")).unwrap();
    let once = json(&directory.run("report traces --json -"));
    std::fs::copy(trace_file(&directory), directory.path("copies/copy.pgtrace")).unwrap();
    let twice = json(&directory.run("report traces copies --json -"));
    assert_eq!((&twice["totals"], &twice["refetch"]), (&once["totals"], &once["refetch"]));
    assert_eq!(twice["completeness"]["duplicate_records"], 40);
}

#[test]
fn filters_keep_what_they_name() {
    let capture = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pcaps/multi_tenant.pcap");
    let directory = traced(&std::fs::read(capture).unwrap(), "");
    let all = json(&directory.run("report traces --json -"));
    let clients = all["clients"].as_array().unwrap();
    let tenant = clients[0]["tenant"].as_str().unwrap();
    let of_tenant: u64 =
        clients.iter().filter(|row| row["tenant"] == tenant).map(|row| row["requests"].as_u64().unwrap()).sum();
    assert!(of_tenant < all["totals"]["requests"].as_u64().unwrap());
    let one = json(&directory.run(&format!("report traces --json - --tenant {tenant}")));
    assert_eq!(one["totals"]["requests"], of_tenant);
    let client = clients[0]["client"].as_str().unwrap();
    let of_client = json(&directory.run(&format!("report traces --json - --client {client}")));
    assert!(of_client["clients"].as_array().unwrap().iter().all(|row| row["client"] == client));
    let timeline = clients[0]["timeline"].as_str().unwrap();
    let of_timeline = json(&directory.run(&format!("report traces --json - --timeline {timeline}")));
    assert!(of_timeline["clients"].as_array().unwrap().iter().all(|row| row["timeline"] == timeline));
}

#[test]
fn a_comparison_tells_whether_the_larger_cache_helped() {
    let before = traces_of(&again_and_again(100, 4));
    let after = traces_of(&again_and_again(300, 1));
    let after_path = after.path("traces");
    let ended = before.run(&format!("compare traces {} --json change.json", after_path.display()));
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
    let first = ended.stdout.lines().next().unwrap();
    assert_eq!(
        first,
        "- The share of GetPage that fetched a page unchanged since the compute last fetched it fell from 75.0 % to 0.0 %."
    );
    let change: Value = serde_json::from_slice(&std::fs::read(before.path("change.json")).unwrap()).unwrap();
    let of = |figure: &str| change["changes"].as_array().unwrap().iter().find(|row| row["figure"] == figure).unwrap();
    let redundant = of("redundant");
    assert_eq!(
        (&redundant["before"], &redundant["after"], &redundant["difference"]),
        (&300.0.into(), &0.0.into(), &(-300.0).into())
    );
    assert_eq!(change["before"]["refetch"]["redundant"], 300);
    assert_eq!(change["after"]["refetch"]["redundant"], 0);
}

#[test]
fn a_scan_that_fetches_its_pages_twice_is_found() {
    let mut session = Session::new();
    let backend = session.open();
    let mut ask = |block| {
        session.ask(backend, block, (MAX, 100), (Reply::Page(50), 100 * US));
        session.wait(200 * US);
    };
    for block in 0..300u32 {
        ask(block);
        if let Some(earlier) = block.checked_sub(9) {
            ask(earlier);
        }
    }
    let report = json(&traces_of(&session).run("report traces --json -"));
    let duplicates = &report["duplicate_prefetches"];
    assert_eq!((&duplicates["requests"], &duplicates["requests_apart"]["p50"]), (&291.into(), &19.into()));
    let finding = report["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == "duplicate_prefetch");
    let finding = finding.unwrap();
    assert_eq!(finding["severity"], "warning");
    assert!(finding["text"].as_str().unwrap().contains("typically 19 requests before"), "{finding}");
    let restarts = report["findings"].as_array().unwrap().iter().any(|finding| finding["id"] == "restarts_invisible");
    assert!(restarts, "no base backup was seen");
}

#[test]
fn a_damaged_trace_is_used_as_far_as_it_goes_and_said_to_be_damaged() {
    let directory = traces_of(&again_and_again(100, 2));
    let file = trace_file(&directory);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.extend_from_slice(&[0x55; 100]);
    std::fs::write(&file, bytes).unwrap();
    let report = json(&directory.run("report traces --json -"));
    assert_eq!((&report["totals"]["requests"], &report["completeness"]["damaged_bytes"]), (&200.into(), &100.into()));
    assert_eq!(report["completeness"]["complete"], false);
}

#[test]
fn a_file_without_a_byte_is_no_complete_trace() {
    let directory = traces_of(&again_and_again(100, 2));
    let empty = trace_file(&directory).with_file_name("empty.pgtrace");
    std::fs::write(&empty, []).unwrap();
    for traces in ["traces".to_owned(), empty.display().to_string()] {
        let ended = directory.run(&format!("report {traces} --json r.json"));
        assert_eq!(ended.status, 0, "{}", ended.stderr);
        assert!(ended.stdout.contains("NOT COMPLETE: ") && !ended.stdout.contains("Complete: "), "{}", ended.stdout);
        assert!(ended.stdout.contains("Note: of one file: nothing is in it"), "{}", ended.stdout);
        for format in ["jsonl", "parquet --out records"] {
            let ended = directory.run(&format!("export {traces} --to {format}"));
            assert!(ended.status == 0 && ended.stderr.contains("empty.pgtrace: nothing is in it"), "{}", ended.stderr);
        }
    }
}

fn trace_file(directory: &Dir) -> std::path::PathBuf {
    let mut path = directory.path("traces");
    while path.is_dir() {
        let entries = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
        path = entries
            .filter(|entry| entry.is_dir() || entry.extension().is_some_and(|end| end == "pgtrace"))
            .min()
            .unwrap();
    }
    path
}

#[test]
fn a_report_says_what_cache_would_have_spared_the_fetches() {
    // A loop over 64 pages, ten times: a cache of 64 pages spares all fetches but the first of each.
    let directory = traces_of(&again_and_again(64, 10));
    let bytes = 64 * 8192;
    let report = json(&directory.run("report traces --cache-now 1MiB --chunk-blocks 16 --json -"));
    let curves = report["mrc"].as_array().unwrap();
    let names: Vec<_> = curves
        .iter()
        .map(|curve| (curve["cache"]["client"].as_str(), curve["granularity"].as_str().unwrap()))
        .collect();
    let own = Some("10.0.0.7");
    assert_eq!(names, [(None, "pages"), (None, "chunks"), (own, "pages"), (own, "chunks")]);
    for curve in curves {
        let last = curve["points"].as_array().unwrap().last().unwrap();
        let first_fetches = if curve["granularity"] == "pages" { 64.0 } else { 4.0 };
        assert_eq!((curve["method"].as_str(), curve["sampling_rate"].as_f64()), (Some("exact"), Some(1.0)));
        assert_eq!((&last["bytes"], last["miss_ratio"].as_f64()), (&bytes.into(), Some(first_fetches / 640.0)));
    }
    let sizing = &report["cache_sizing"][2];
    let sizes = ["added_bytes", "size_low_bytes", "size_high_bytes"].map(|name| sizing[name].as_u64().unwrap());
    assert_eq!((sizing["target_hit_ratio"].as_f64(), sizes), (Some(0.9), [bytes, 1 << 20, (1 << 20) + bytes]));
    assert_eq!(report["working_set"][0]["windows"][2]["peak_pages"], 64);

    let text = directory.run("report traces --cache-now 1MiB").stdout;
    assert!(text.contains("An added LRU cache of 512.0 KiB would have answered 90.0 % of these 640 fetches"), "{text}");
    assert!(text.contains("has between 1.0 MiB and 1.5 MiB."), "{text}");
    let refused = directory.run("report traces --chunk-blocks 0");
    assert_eq!(refused.status, 2, "{}", refused.stderr);
}

#[test]
fn bars_of_several_tenants_tell_whose_they_are() {
    let one = session_of_tenant(0);
    let directory = traces_of(&one);
    let bars_of = |traces: &str| {
        assert_eq!(directory.run(&format!("report {traces} --html page.html --quiet")).status, 0);
        let page = std::fs::read_to_string(directory.path("page.html")).unwrap();
        page.split_once("id=relations").unwrap().1.split_once("</figure>").unwrap().0.to_owned()
    };
    let tenant = one.owner().tenant.to_string();
    assert!(!bars_of("traces").contains(&tenant[..8]), "the only tenant needs no telling");
    let other = session_of_tenant(1);
    directory.write("other.pcap", &other.capture(|_, _| false));
    assert_eq!(directory.run("--read other.pcap --out others --quiet").status, 0);
    let bars = bars_of("traces others");
    for session in [&one, &other] {
        let tenant = session.owner().tenant.to_string();
        let beside = format!(" {}…</text>", &tenant[..8]);
        assert!(bars.contains(&beside) && bars.contains(&format!(" of {tenant}/")), "{bars}");
    }
}

#[cfg(feature = "parquet")]
#[test]
fn an_export_of_nothing_says_that_there_is_no_file() {
    let directory = traces_of(&again_and_again(2, 1));
    let ended = directory.run("export traces --to parquet --out records --kind dbsize");
    let note = "Note: no request is left to export, so no file was written.\n";
    assert_eq!(ended, Ended { status: 0, stdout: String::new(), stderr: note.to_owned() });
}

#[test]
fn a_message_that_nobody_reads_is_no_failure() {
    let directory = traces_of(&again_and_again(2, 1));
    let unread = |arguments: &str| {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        directory.command(arguments).stderr(full).output().unwrap().status.code()
    };
    for arguments in [
        "export traces --to page-trace --kind dbsize",
        "export traces --to oracle-general",
        "report traces",
        "--read capture.pcap",
    ] {
        assert_eq!(unread(arguments), Some(0), "{arguments}");
    }
    assert_eq!(unread("export missing --to csv"), Some(1));
    // The end of the trace is missing, which is said too.
    let file = trace_file(&directory);
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    assert_eq!(unread("export traces --to csv"), Some(0));
}

#[cfg(feature = "parquet")]
#[test]
fn what_hinders_a_parquet_export_is_said() {
    let directory = traces_of(&again_and_again(2, 1));
    let ended = directory.run("export traces --to parquet --out capture.pcap/records");
    let expected = "error: capture.pcap/records: no files can be written there: Not a directory (os error 20)\n";
    assert_eq!((ended.status, ended.stderr.as_str()), (1, expected));
}
