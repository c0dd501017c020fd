//! Directories and files that cannot be written or read: one line that says what is wrong, where, and what to do.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::harness::{Dir, Ended};
use crate::{composed, done, traces};

const FEW: &str = "--tenants 1 --connections 1 --requests 200 --protocol 3";

fn assert_refused(ended: &Ended, status: i32, expected: &str) {
    assert_eq!((ended.status, ended.stdout.as_str()), (status, ""), "{}", ended.stderr);
    assert!(ended.stderr.starts_with("error: "), "{}", ended.stderr);
    assert!(ended.stderr.contains(expected), "{}", ended.stderr);
}

#[test]
fn what_is_no_trace_is_refused_by_name() {
    let dir = Dir::new();
    dir.write("text.pgtrace", b"not a trace, and no block in it either");
    dir.write("a", &composed(FEW));
    done(dir.run("--read a --out t"));
    let (_, mut newer) = traces(&dir.path("t")).into_iter().next().unwrap();
    newer[8] = 2;
    let header_bytes = u32::from_le_bytes(newer[12..16].try_into().unwrap()) as usize;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&newer[..16]), &newer[20..header_bytes]);
    newer[16..20].copy_from_slice(&crc.to_le_bytes());
    dir.write("newer.pgtrace", &newer);
    assert_refused(&dir.run("export absent --to csv --quiet"), 1, "absent");
    fs::create_dir(dir.path("bare")).unwrap();
    assert_refused(&dir.run("export bare --to csv"), 1, "bare: no trace in there");
    assert_refused(&dir.run("export text.pgtrace --to jsonl"), 1, "text.pgtrace: not a pagesniff trace");
    assert_refused(&dir.run("export newer.pgtrace --to jsonl"), 1, "newer.pgtrace: the trace has format 2.0");
    assert_refused(&dir.run("export --to jsonl"), 2, "<TRACE>");
    assert_refused(&dir.run("export text.pgtrace"), 2, "--to");
    assert_refused(&dir.run("export text.pgtrace --to xml"), 2, "jsonl, csv");
}

#[test]
fn a_directory_in_use_under_the_same_name_is_refused_and_left_alone() {
    let dir = Dir::new();
    let capture = composed(FEW);
    dir.write("a", &capture);
    // The first run waits for more of its standard input, with the directory taken.
    let mut first = dir.piped("--read - --out t");
    let wait_for = std::time::Instant::now();
    while !dir.path("t").exists() && wait_for.elapsed().as_secs() < 20 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let locked = loop {
        let ended = dir.run("--read a --out t --format jsonl");
        // The directory is made a moment before it is locked.
        if ended.status != 0 || wait_for.elapsed().as_secs() > 20 {
            break ended;
        }
    };
    assert_refused(&locked, 1, "another pagesniff writes here as instance \"replay\"");
    let others = traces(&dir.path("t"));
    done(dir.run("--read a --out t --instance other"));
    assert_eq!(traces(&dir.path("t")).len(), others.len() + 1);
    drop(first.stdin.take());
    first.wait().unwrap();
}

#[test]
fn a_trace_directory_that_cannot_be_written_ends_the_run_before_it_begins() {
    let dir = Dir::new();
    dir.write("a", &composed(FEW));
    dir.write("file", b"");
    assert_refused(&dir.run("--read a --out file --format jsonl"), 1, "cannot make the trace directory file");
    fs::create_dir(dir.path("locked")).unwrap();
    fs::set_permissions(dir.path("locked"), Permissions::from_mode(0o500)).unwrap();
    let ended = dir.run("--read a --out locked/t --format jsonl");
    // Root writes anyway.
    assert!(ended.status == 0 || ended.stderr.contains("cannot make the trace directory locked/t"), "{ended:?}");
}

/// A file system of this size, taken down at the end. Mounting takes privileges that CI has.
struct SmallDisk<'a>(&'a Dir);

impl<'a> SmallDisk<'a> {
    fn mount(dir: &'a Dir) -> Option<Self> {
        fs::create_dir(dir.path("disk")).unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=512k", "tmpfs"]).arg(dir.path("disk")).output();
        let is_mounted = mounted.is_ok_and(|output| output.status.success());
        let is_required = std::env::var("PAGESNIFF_REQUIRE_LIVE").as_deref() == Ok("1");
        assert!(is_mounted || !is_required, "a small file system cannot be mounted");
        is_mounted.then_some(Self(dir))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path("disk")).status();
    }
}

#[test]
fn a_full_disk_ends_the_run_with_one_line_and_whole_blocks() {
    let dir = Dir::new();
    let Some(_disk) = SmallDisk::mount(&dir) else {
        eprintln!("SKIPPED: mounting a small file system is not allowed here");
        return;
    };
    dir.write("a", &composed("--tenants 1 --connections 4 --requests 150000 --kinds exists=1 --mtu 65000"));
    let ended = dir.run("--read a --out disk/t --on-full stop");
    assert_eq!(ended.status, 1, "{}", ended.stderr);
    let errors: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert!(matches!(errors[..], [error] if error.contains("No space left") && error.contains("disk/t")), "{errors:?}");
    let exported = done(dir.run("export disk/t --to jsonl"));
    let printed = done(dir.run("--read a --format jsonl")).stdout;
    assert!(exported.stdout.lines().count() > 1000);
    assert!(printed.starts_with(&exported.stdout), "nothing that was written is lost or changed");
    assert_eq!(exported.stderr, "", "only whole blocks are there");
}
