//! The command line as its users meet it: usage, exit statuses, where output goes, and what becomes of bad input.

mod harness;

use std::fs::OpenOptions;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use harness::{Dir, Ended, pcap};

/// One line on standard error, which begins as errors do.
fn assert_one_error_line(ended: &Ended) {
    assert!(ended.stderr.starts_with("error: "), "{ended:?}");
    assert_eq!(ended.stderr.trim_end().lines().count(), 1, "{ended:?}");
}

#[test]
fn wrong_usage_ends_with_status_2_and_says_what_is_expected() {
    let dir = Dir::new();
    for (arguments, expected) in [
        ("--read f --tenant abc", "an id has 32 hex digits, this has 3 characters"),
        ("--read f --tenant 3aabbf1a5d0f4e2a9d3c1b2a49505101-9", "-0b10 is shard 11 of 16"),
        ("--read f --summary - --format csv", "give --summary a file"),
        ("--read f --fromat csv", "--format"),
        ("--tenant 3aabbf1a5d0f4e2a9d3c1b2a49505101", "--read <FILE>"),
        ("", "Usage: pagesniff"),
        ("export t --to parquet", "--out <DIR>"),
        ("export t --to csv --out d", "--out goes with --to parquet only"),
    ] {
        let ended = dir.run(arguments);
        assert_eq!((ended.status, ended.stdout.as_str()), (2, ""), "{arguments}");
        assert!(ended.stderr.contains(expected), "{arguments}: {}", ended.stderr);
    }
}

#[test]
fn help_is_data_and_has_examples_and_statuses() {
    let ended = Dir::new().run("--help");
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
    for expected in ["Examples:", "Exit status:", "--max-loss"] {
        assert!(ended.stdout.contains(expected), "{expected}");
    }
}

#[test]
fn an_input_that_cannot_be_read_ends_with_status_1_and_one_line_that_names_it() {
    let dir = Dir::new();
    dir.write("text", b"root:x:0:0:root:/root:/bin/bash\n");
    dir.write("empty", b"");
    std::fs::create_dir(dir.path("folder")).unwrap();
    for name in ["absent", "text", "empty", "folder"] {
        let ended = dir.run(&format!("--read {name} --format jsonl"));
        assert_eq!((ended.status, ended.stdout.as_str()), (1, ""), "{name}");
        assert_one_error_line(&ended);
        assert!(ended.stderr.contains(name), "{}", ended.stderr);
    }
}

#[test]
fn without_a_format_standard_output_stays_empty() {
    let dir = Dir::new();
    dir.write("a.pcap", &pcap(3));
    let ended = dir.run("--read a.pcap");
    assert_eq!((ended.status, ended.stdout.as_str()), (0, ""));
    assert!(ended.stderr.contains("No pagestream request was seen"), "{}", ended.stderr);
    assert!(ended.stderr.contains("Note: "), "{}", ended.stderr);
    assert_eq!(dir.run("--read a.pcap --quiet").stderr, "");
}

#[test]
fn csv_has_its_header_even_where_there_are_no_records() {
    let dir = Dir::new();
    dir.write("a.pcap", &pcap(3));
    let ended = dir.run("--read a.pcap --format csv");
    assert!(ended.stdout.starts_with("time_ns,latency_ns,transfer_ns,depth,tenant,timeline,attribution,kind,"));
    assert_eq!(ended.stdout.lines().count(), 1);
    assert_eq!(dir.run("--read a.pcap --format jsonl").stdout, "");
}

#[test]
fn the_summary_has_its_fixed_names_in_a_file_and_on_standard_output() {
    let dir = Dir::new();
    dir.write("a.pcap", &pcap(3));
    let printed = dir.run("--read a.pcap --quiet --summary -");
    assert_eq!((printed.status, printed.stderr.as_str()), (0, ""));
    assert_eq!(dir.run("--read a.pcap --quiet --summary s.json").status, 0);
    assert_eq!(std::fs::read_to_string(dir.path("s.json")).unwrap(), printed.stdout);
    let names = |indent: &str| -> Vec<String> {
        let lines = printed.stdout.lines().filter_map(|line| line.strip_prefix(indent)?.strip_prefix('"'));
        lines.filter_map(|line| line.split_once('"').map(|(name, _)| name.to_owned())).collect()
    };
    let [top, loss, ledger, connections] = [
        "packets wire_bytes records by_kind by_status by_pairing by_attribution tenants connections loss ledger \
         duplicates retransmissions conflicts complete notes",
        "kernel_dropped interface_dropped truncated_packets gap_bytes lost_requests lost_responses malformed \
         evicted_connections dropped_records",
        "seen filtered sampled_out unattributed queue_dropped write_failed rotated kept",
        "pagestream encrypted other unidentified http http2 grpc http2_bytes",
    ]
    .map(|names| names.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    // What is added comes behind, as it did here: others and total.
    assert_eq!(names("  ")[..top.len()], top);
    let nested = names("    ");
    for group in [connections, loss, ledger] {
        assert!(nested.windows(group.len()).any(|window| window == group), "{group:?} in {nested:?}");
    }
}

#[test]
fn a_summary_that_cannot_be_written_is_found_out_at_once() {
    let dir = Dir::new();
    dir.write("a.pcap", &pcap(3));
    let ended = dir.run("--read a.pcap --summary absent/s.json");
    assert_eq!(ended.status, 1);
    assert_one_error_line(&ended);
    assert!(ended.stderr.contains("absent/s.json"), "{}", ended.stderr);
}

#[test]
fn the_same_capture_is_the_same_from_a_file_a_pipe_and_compressed() {
    let dir = Dir::new();
    let capture = pcap(1000);
    dir.write("a.pcap", &capture);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&capture).unwrap();
    dir.write("a.gz", &gzip.finish().unwrap());
    dir.write("a.zst", &zstd::encode_all(&capture[..], 1).unwrap());
    let expected = dir.run("--read a.pcap --summary -");
    assert_eq!(expected.status, 0);
    assert_eq!(dir.run("--read a.gz --summary -"), expected);
    assert_eq!(dir.run("--read a.zst --summary -"), expected);
    assert_eq!(dir.run_with_stdin("--read - --summary -", &capture), expected);
}

#[test]
fn a_cut_capture_is_used_up_to_there_and_only_then_too_much_when_no_loss_is_allowed() {
    let dir = Dir::new();
    let capture = pcap(10);
    dir.write("cut.pcap", &capture[..capture.len() - 10]);
    let ended = dir.run("--read cut.pcap");
    assert_eq!(ended.status, 0, "{ended:?}");
    assert!(ended.stderr.contains("NOT COMPLETE: the input ended early."), "{}", ended.stderr);
    assert!(ended.stderr.contains("Note: cut.pcap"), "{}", ended.stderr);
    for (limit, status) in [("0", 3), ("0%", 3), ("1", 0), ("1%", 0)] {
        assert_eq!(dir.run(&format!("--read cut.pcap --quiet --max-loss {limit}")).status, status, "{limit}");
    }
    dir.write("whole.pcap", &capture);
    assert_eq!(dir.run("--read whole.pcap --max-loss 0").status, 0);
}

#[test]
fn a_reader_that_leaves_ends_the_run_quietly() {
    let dir = Dir::new();
    for output in ["--format csv", "--summary -"] {
        let mut child = dir.piped(&format!("--read - {output}"));
        drop(child.stdout.take());
        child.stdin.take().unwrap().write_all(&pcap(10)).unwrap();
        let ended = Ended::from(child.wait_with_output().unwrap());
        assert_eq!(ended.status, 0, "{output}: {ended:?}");
        assert!(!ended.stderr.contains("error"), "{output}: {ended:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_under_standard_output_is_an_error() {
    let dir = Dir::new();
    dir.write("a.pcap", &pcap(10));
    for output in ["--format csv", "--summary -"] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ended = Ended::from(dir.command(&format!("--read a.pcap -q {output}")).stdout(full).output().unwrap());
        assert_eq!(ended.status, 1, "{output}");
        assert_one_error_line(&ended);
        assert!(ended.stderr.contains("standard output"), "{}", ended.stderr);
    }
}

#[test]
fn the_man_page_and_completions_know_every_option() {
    let dir = Dir::new();
    let page = dir.run("generate man");
    assert!(page.status == 0 && page.stdout.contains(".TH pagesniff 1"));
    for shell in ["bash", "zsh", "fish"] {
        let script = dir.run(&format!("generate completions {shell}"));
        assert!(script.status == 0 && script.stdout.contains("max-loss"), "{shell}");
        assert!(script.stdout.contains("key-range"), "{shell} does not know top");
    }
    assert!(page.stdout.contains("max\\-loss"));
}

#[test]
fn a_plan_says_what_a_capture_takes_in_words_and_as_json() {
    let dir = Dir::new();
    let text = dir.run("plan --rate 155000 --keep 1h");
    assert_eq!((text.status, text.stderr.as_str()), (0, ""));
    for expected in [
        "requests         155,000/s of 1 tenant\n",
        "bytes a record   8.8, as measured (docs/performance.md) for blocks of 16,384 records\n",
        "disk             1.3 MiB/s, 32.0 MiB at most\n",
        "limit reached    after 25s, --max-bytes 32.0 MiB\n",
        "kept then        the latest 22s to 25s; the oldest file goes as a whole\n",
        "to keep          1h it takes --max-bytes 4747MiB --max-total-bytes 4747MiB\n",
        "MiB at most: 64.0 MiB connections (--memory), 32.0 MiB kernel buffer (--buffer-size)",
    ] {
        assert!(text.stdout.contains(expected), "{expected}{}", text.stdout);
    }
    let json: serde_json::Value = serde_json::from_str(&dir.run("plan --rate 10 --tenants 2 --json").stdout).unwrap();
    assert_eq!((&json["tenants"], &json["limited_by"]), (&2.into(), &"max_bytes".into()));
    let many = dir.run("plan --rate 10 --tenants 9000").stdout;
    assert!(many.contains("traces           at most 8,192 at a time"), "{many}");
    for (arguments, expected) in [("plan", "--rate <N>"), ("plan --rate 0", "0 is not in 1..")] {
        let ended = dir.run(arguments);
        assert!(ended.status == 2 && ended.stderr.contains(expected), "{}", ended.stderr);
    }
}

#[test]
fn there_is_a_man_page_for_each_command() {
    let dir = Dir::new();
    std::fs::create_dir(dir.path("man")).unwrap();
    let ended = dir.run("generate man --dir man");
    assert_eq!((ended.status, ended.stdout.as_str(), ended.stderr.as_str()), (0, "", ""));
    for page in ["", "-export", "-report", "-compare", "-plan", "-doctor", "-top"] {
        let text = std::fs::read_to_string(dir.path(&format!("man/pagesniff{page}.1"))).unwrap();
        assert!(text.contains("Examples:") && text.contains("Exit status"), "{page}: {text}");
    }
    let absent = dir.run("generate man --dir absent");
    assert_eq!(absent.status, 1);
    assert_one_error_line(&absent);
}
