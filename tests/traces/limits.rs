//! Limits hold at every moment, and what they cost is told.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, thread};

use crate::harness::Dir;
use crate::{composed, done, summary};

/// Enough for some 2.5 MB of trace.
const MANY: &str = "--tenants 1 --connections 8 --protocol 3 --requests 250000 --depth 32 --kinds exists=1 --mtu 65000";

const LIMIT_BYTES: u64 = 1 << 20;

/// What a directory takes up, as `du` counts; files may come and go meanwhile.
fn disk_bytes(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let own = fs::metadata(path).map_or(0, |metadata| metadata.blocks() * 512);
    let below = fs::read_dir(path).into_iter().flatten().flatten();
    own + below.map(|entry| disk_bytes(&entry.path())).sum::<u64>()
}

#[test]
fn a_limited_trace_never_exceeds_its_limit_and_keeps_the_newest() {
    let dir = Dir::new();
    dir.write("a", &composed(MANY));
    let (running, directory) = (AtomicBool::new(true), dir.path("t"));
    let (figures, most) = thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = 0;
            while running.load(Ordering::Relaxed) {
                most = most.max(disk_bytes(&directory));
            }
            most.max(disk_bytes(&directory))
        });
        let figures = summary(&dir, "--read a --out t --max-bytes 1MiB");
        running.store(false, Ordering::Relaxed);
        (figures, watch.join().unwrap())
    });
    assert!(most > LIMIT_BYTES / 2 && most <= LIMIT_BYTES, "{most}");
    let of = |name: &str| figures["ledger"][name].as_u64().unwrap();
    assert!(of("rotated") > 10_000, "{figures}");
    assert_eq!(of("seen"), of("kept") + of("rotated"));

    let printed = done(dir.run("--read a --format jsonl")).stdout;
    let exported = done(dir.run("export t --to jsonl")).stdout;
    assert_eq!(exported.lines().count() as u64, of("kept"));
    assert!(printed.ends_with(&exported), "the newest records are there, and no others");
}

#[test]
fn a_trace_told_to_stop_keeps_the_oldest_and_says_so() {
    let dir = Dir::new();
    dir.write("a", &composed(MANY));
    let ended = done(dir.run("--read a --out t --max-bytes 1MiB --on-full stop --summary s"));
    assert!(ended.stderr.contains("has reached its limit of 1048576 bytes"), "{}", ended.stderr);
    assert!(ended.stderr.contains("NOT COMPLETE"), "{}", ended.stderr);
    let figures: serde_json::Value = serde_json::from_slice(&fs::read(dir.path("s")).unwrap()).unwrap();
    let of = |name: &str| figures["ledger"][name].as_u64().unwrap();
    assert!(of("write_failed") > 10_000, "{figures}");
    assert_eq!(of("seen"), of("kept") + of("write_failed"));
    let printed = done(dir.run("--read a --format jsonl")).stdout;
    let exported = done(dir.run("export t --to jsonl")).stdout;
    assert_eq!(exported.lines().count() as u64, of("kept"));
    assert!(printed.starts_with(&exported), "the oldest records are there, and no others");
    assert!(disk_bytes(&dir.path("t")) <= LIMIT_BYTES);
}
