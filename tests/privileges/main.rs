//! What a process cannot do any more once its handles are open. The process is this test, run again by itself.
//!
//! They take root; where that is missing each test says so and passes; with `PAGESNIFF_REQUIRE_LIVE=1` it fails instead.

mod daemon;
#[path = "../harness/mod.rs"]
#[allow(dead_code, reason = "shared with the other tests, which use the rest")]
mod harness;
#[path = "../live/network.rs"]
#[allow(dead_code, reason = "shared with the live tests, which use the rest")]
mod network;
#[path = "../live/sniffer.rs"]
#[allow(dead_code, reason = "shared with the live tests, which use the rest")]
mod sniffer;
mod unit;

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use harness::Dir;
use network::may_capture;
use pagesniff::privileges::{Become, Confinement, Files, Kept};
use sniffer::Sniffer;
use trafficgen::compose::Auth;
use trafficgen::live::{DriveOptions, ServeOptions, Server, drive};
use trafficgen::model::Workload;
use trafficgen::wire::libpq::FAKE_TOKEN;

/// The user that every Linux system has for nobody's files.
const NOBODY: (&str, u32) = ("nobody", 65_534);

/// Marks the confined child: the directory that it is given.
const CHILD: &str = "PAGESNIFF_TEST_CONFINED_IN";

fn main() -> ExitCode {
    // Confinement comes before any other thread, which a test harness has.
    if let Some(dir) = std::env::var_os(CHILD) {
        match std::env::var_os(unit::IS_IN_UNIT) {
            Some(_) => unit::confined(Path::new(&dir)),
            None => confined(Path::new(&dir)),
        }
        return ExitCode::SUCCESS;
    }
    if !may_capture() {
        return ExitCode::SUCCESS;
    }
    for (name, test) in TESTS {
        println!("test {name} ...");
        test();
    }
    println!("{} tests passed", TESTS.len());
    ExitCode::SUCCESS
}

const TESTS: [(&str, fn()); 10] = [
    ("a_confined_process_writes_traces_and_nothing_else", a_confined_process_writes_traces_and_nothing_else),
    ("a_capture_keeps_no_privileges", a_capture_keeps_no_privileges),
    ("root_captures_into_the_directory_of_another", root_captures_into_the_directory_of_another),
    ("a_token_on_the_wire_is_found_nowhere", a_token_on_the_wire_is_found_nowhere),
    ("a_capture_becomes_the_user_that_is_named", a_capture_becomes_the_user_that_is_named),
    ("the_systemd_unit_leaves_the_calls_that_confinement_takes", unit::leaves_the_calls_that_confinement_takes),
    ("the_daemon_does_all_of_its_work_without_privileges", daemon::does_all_of_its_work_without_privileges),
    ("the_daemon_opens_no_other_file", daemon::opens_no_other_file),
    ("the_daemon_says_whom_the_data_directory_has_to_belong_to", daemon::says_whom_the_data_directory_has_to_belong_to),
    ("an_ordinary_user_with_the_capability_runs_the_daemon", daemon::runs_for_an_ordinary_user_with_the_capability),
];

/// The status of a process, as /proc has it.
fn status(process: &str, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect(name);
    line.trim_start_matches(':').split_whitespace().collect::<Vec<_>>().join(" ")
}

fn a_confined_process_writes_traces_and_nothing_else() {
    let dir = Dir::new();
    for name in ["read", "write", "elsewhere"] {
        fs::create_dir(dir.path(name)).unwrap();
        dir.write(&format!("{name}/file"), b"text");
        for path in [dir.path(name), dir.path(&format!("{name}/file"))] {
            chown(path, Some(NOBODY.1), Some(NOBODY.1)).unwrap();
        }
    }
    chown(dir.path("."), Some(NOBODY.1), Some(NOBODY.1)).unwrap();
    let child = Command::new(std::env::current_exe().unwrap()).env(CHILD, dir.path(".")).output().unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
}

/// Inside of the child.
fn confined(dir: &Path) {
    let files = Files { read: vec![dir.join("read")], write: vec![dir.join("write")] };
    let user = Become::Named(NOBODY.0.to_owned());
    let confined = Confinement { user, capabilities: Kept::Nothing, files: Some(files) }.apply().unwrap();
    assert_eq!(confined.missing, Vec::<String>::new(), "this kernel has it all");

    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(status("self", set), "0000000000000000", "{set}");
    }
    let expected = [("NoNewPrivs", "1"), ("Seccomp", "2"), ("Uid", "65534 65534 65534 65534"), ("Groups", "65534")];
    for (name, value) in expected {
        assert_eq!(status("self", name), value, "{name}");
    }
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    assert!(limits.is_empty() || limits.contains("Max core file size        0                    0"), "{limits}");

    // Traces: made, appended to, renamed, removed.
    let (old, new) = (dir.join("write/sub/a"), dir.join("write/sub/b"));
    fs::create_dir(dir.join("write/sub")).unwrap();
    let mut file = fs::File::create(&old).unwrap();
    file.write_all(b"block").unwrap();
    file.sync_all().unwrap();
    fs::rename(&old, &new).unwrap();
    assert_eq!(fs::read(&new).unwrap(), b"block");
    fs::remove_file(&new).unwrap();
    assert_eq!(fs::read(dir.join("read/file")).unwrap(), b"text");
    // A thread that is started later can do no more.
    std::thread::spawn(|| assert_eq!(status("thread-self", "Seccomp"), "2")).join().unwrap();
    TcpListener::bind("127.0.0.1:0").unwrap();

    for (what, refused) in [
        ("writes what it may read", fs::write(dir.join("read/file"), "x").is_err()),
        ("makes files where it may read", fs::write(dir.join("read/new"), "x").is_err()),
        ("reads its own user's other files", fs::read(dir.join("elsewhere/file")).is_err()),
        ("writes its own user's other files", fs::write(dir.join("elsewhere/new"), "x").is_err()),
        ("reads what everybody may", fs::read("/etc/passwd").is_err()),
        ("starts a program", Command::new("/bin/true").status().is_err()),
        ("opens a socket of the link layer", pcap::Capture::from_device("lo").unwrap().open().is_err()),
    ] {
        assert!(refused, "it {what}");
    }
}

/// A page service.
fn serve() -> Server {
    serve_with(Auth::Trust)
}

/// One that wants this of its computes.
fn serve_with(auth: Auth) -> Server {
    let serving = ServeOptions { listen: "127.0.0.1:0".parse().unwrap(), auth, ..ServeOptions::default() };
    Server::start(&serving, None).unwrap()
}

fn drive_some(server: &Server) {
    let workload = Workload { tenants: 2, connections: 4, requests: 4_000, ..Workload::default() };
    drive(&DriveOptions { workload, ..DriveOptions::at(server.address()) }, None).unwrap();
}

fn a_capture_keeps_no_privileges() {
    let (server, dir) = (serve(), Dir::new());
    let sniffer = Sniffer::start(&dir, &format!("--iface lo --port {}", server.address().port()));
    let id = sniffer.id().to_string();
    // CAP_DAC_OVERRIDE, which is number 1, is what root needs for the directories of others.
    for (name, value) in [
        ("CapEff", "0000000000000002"),
        ("CapPrm", "0000000000000002"),
        ("CapBnd", "0000000000000000"),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
    ] {
        assert_eq!(status(&id, name), value, "{name}");
    }
    let limits = fs::read_to_string(format!("/proc/{id}/limits")).unwrap();
    assert!(
        limits
            .lines()
            .any(|line| line.split_whitespace().collect::<Vec<_>>()[..6] == ["Max", "core", "file", "size", "0", "0"]),
        "{limits}"
    );
    drive_some(&server);
    let ended = sniffer.stop("INT");
    assert!(ended.status == 0 && ended.stderr.contains("Complete: "), "{}", ended.stderr);
}

fn a_capture_becomes_the_user_that_is_named() {
    let (server, dir) = (serve(), Dir::new());
    // Theirs is the directory above only as far as they may pass through it: the traces' own is made for them.
    fs::set_permissions(dir.path("."), fs::Permissions::from_mode(0o711)).unwrap();
    let words = format!("--iface lo --port {} --user nobody --out t --max-bytes 128KiB", server.address().port());
    let sniffer = Sniffer::start(&dir, &words);
    let id = sniffer.id().to_string();
    for (name, value) in [("Uid", "65534 65534 65534 65534"), ("CapPrm", "0000000000000000"), ("Seccomp", "2")] {
        assert_eq!(status(&id, name), value, "{name}");
    }
    drive_some(&server);
    let ended = sniffer.stop("INT");
    assert!(ended.status == 0 && ended.stderr.contains(" in t, "), "{}", ended.stderr);
    let files = files_below(&dir.path("t"));
    assert!(!files.is_empty() && files.iter().all(|file| file.metadata().unwrap().uid() == NOBODY.1), "{files:?}");
    for (user, expected) in [("root", "this is root under another name"), ("nobodys-cousin", "there is no such user")] {
        let refused = dir.run(&format!("--iface lo --port 1 --duration 1ms --user {user}"));
        assert!(refused.status == 1 && refused.stderr.contains(expected), "{}", refused.stderr);
    }
}

fn root_captures_into_the_directory_of_another() {
    let (server, dir) = (serve(), Dir::new());
    fs::create_dir(dir.path("theirs")).unwrap();
    chown(dir.path("theirs"), Some(NOBODY.1), Some(NOBODY.1)).unwrap();
    let words = format!("--iface lo --port {} --out theirs/t --max-bytes 128KiB", server.address().port());
    let sniffer = Sniffer::start(&dir, &words);
    drive_some(&server);
    let ended = sniffer.stop("INT");
    assert!(ended.status == 0 && ended.stderr.contains(" in theirs/t, "), "{}", ended.stderr);
}

fn a_token_on_the_wire_is_found_nowhere() {
    let (server, dir) = (serve_with(Auth::Password), Dir::new());
    let words = "--out t --format jsonl --summary summary.json --unattributed --page-hash";
    let sniffer = Sniffer::start(&dir, &format!("--iface lo --port {} {words}", server.address().port()));
    // An independent capture: the token did cross the wire. Not blocking, as a silent wire would hold it up for ever. It is
    // read at the end, so all has to fit: libpcap's own ring of 2 MiB holds 32 packets of the length that it expects.
    let witness = pcap::Capture::from_device("lo").unwrap().snaplen(4096).buffer_size(64 << 20);
    let witness = witness.immediate_mode(true).timeout(100).open().unwrap();
    let mut witness = witness.setnonblock().unwrap();
    witness.filter(&format!("dst port {}", server.address().port()), true).unwrap();
    drive_some(&server);
    let ended = sniffer.stop("INT");
    let mut was_on_the_wire = false;
    while let Ok(packet) = witness.next_packet() {
        was_on_the_wire |= holds_token(packet.data);
    }
    assert!(was_on_the_wire, "this test would find nothing");
    assert!(ended.status == 0 && ended.stdout.lines().count() > 1_000, "{}", ended.stderr);
    assert!(!holds_token(ended.stdout.as_bytes()) && !holds_token(ended.stderr.as_bytes()));
    let report = dir.run("report t --json report.json");
    assert!(report.status == 0 && !holds_token(report.stdout.as_bytes()), "{}", report.stderr);
    let files = files_below(&dir.path("."));
    assert!(files.iter().any(|file| file.extension().is_some_and(|extension| extension == "pgtrace")), "{files:?}");
    for file in files {
        assert!(!holds_token(&fs::read(&file).unwrap()), "{}", file.display());
    }
}

/// Whether a token, or any of its three parts, is in there.
fn holds_token(bytes: &[u8]) -> bool {
    let parts = FAKE_TOKEN.split('.').filter(|part| part.len() >= 8);
    parts.map(str::as_bytes).any(|part| bytes.windows(part.len()).any(|window| window == part))
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let (directories, mut files): (Vec<_>, Vec<_>) =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).partition(|path| path.is_dir());
    files.extend(directories.iter().flat_map(|directory| files_below(directory)));
    files
}
