//! The daemon works as somebody who may do next to nothing.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use trafficgen::compose::Auth;
use trafficgen::live::{DriveOptions, Server, drive};
use trafficgen::model::Workload;

use crate::harness::{Dir, Ended};
use crate::sniffer::{Sniffer, signal};
use crate::{NOBODY, files_below, holds_token, serve, serve_with, status};

/// Small, so that files are rotated and deleted.
const LIMITS: &str = "[limits]\ntenant_bytes = \"128KiB\"\n";

/// A directory of the user nobody, with the configuration of a daemon in it.
fn directory(server: &Server) -> Dir {
    let dir = Dir::new();
    let port = server.address().port();
    let text = format!(
        "instance = \"n\"\ninterfaces = [\"lo\"]\nports = [{port}]\ndata_directory = \"data\"\n\
         control.socket = \"run/socket\"\nbuffer_size = \"128MiB\"\n{LIMITS}"
    );
    fs::create_dir(dir.path("etc")).unwrap();
    dir.write("etc/c.toml", text.as_bytes());
    fs::set_permissions(dir.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

fn start(dir: &Dir) -> Sniffer {
    Sniffer::start_as_typed(dir, "serve --config etc/c.toml --user nobody")
}

/// Two tenants' requests; a file of the flight recorder holds fewer.
fn workload() -> Workload {
    Workload { tenants: 2, connections: 4, requests: 60_000, ..Workload::default() }
}

fn ask(dir: &Dir, what: &str) -> Ended {
    dir.run(&what.replacen(' ', " --socket run/socket ", 1))
}

/// The threads of a process.
fn threads(id: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{id}/task")).unwrap();
    tasks.map(|task| format!("{id}/task/{}", task.unwrap().file_name().into_string().unwrap())).collect()
}

fn assert_unprivileged(id: u32) {
    let threads = threads(id);
    assert!(threads.len() >= 4, "capture, ending, recorder, control: {threads:?}");
    for thread in threads {
        for (name, value) in [
            ("CapEff", "0000000000000000"),
            ("CapPrm", "0000000000000000"),
            ("CapInh", "0000000000000000"),
            ("CapAmb", "0000000000000000"),
            ("NoNewPrivs", "1"),
            ("Seccomp", "2"),
            ("Uid", "65534 65534 65534 65534"),
            ("Gid", "65534 65534 65534 65534"),
        ] {
            assert_eq!(status(&thread, name), value, "{thread} {name}");
        }
    }
}

pub(crate) fn does_all_of_its_work_without_privileges() {
    let server = serve_with(Auth::Password);
    let dir = directory(&server);
    let daemon = start(&dir);
    assert_unprivileged(daemon.id());
    let tenant = workload().owner_of(0).tenant.to_string();
    let taking = dir.piped(&format!("trace --socket run/socket --tenant {tenant} --duration 1h"));
    drive(&DriveOptions { workload: workload(), ..DriveOptions::at(server.address()) }, None).unwrap();
    // Loopback shows a packet's time late: what was asked for last is there a moment after.
    thread::sleep(Duration::from_millis(500));
    let told: Vec<_> = ["status --json", "status --tenants", "status --connections"].map(|what| ask(&dir, what)).into();
    for told in &told {
        assert!(told.status == 0 && !told.stdout.is_empty(), "{told:?}");
    }
    let snapshot = ask(&dir, &format!("snapshot --tenant {tenant} --last 10m"));
    assert_eq!(snapshot.status, 0, "{}", snapshot.stderr);
    signal(taking.id(), "INT");
    let taken = Ended::from(taking.wait_with_output().unwrap());
    assert_eq!(taken.status, 0, "{}", taken.stderr);
    for directory in [&snapshot.stdout, &taken.stdout] {
        let exported = dir.run(&format!("export {} --to jsonl", directory.trim()));
        assert!(exported.stdout.lines().count() > 1_000, "{}", exported.stderr);
    }
    // It takes its socket's file away.
    let ended = daemon.stop("TERM");
    assert!(ended.status == 0 && !dir.path("run/socket").exists(), "{}", ended.stderr);
    // Files were begun and deleted: what is left is some of them, of the directory's own owner.
    let ring = files_below(&dir.path("data/ring"));
    let sequence = |file: &PathBuf| file.file_stem().unwrap().to_str().unwrap().rsplit('-').next().map(str::to_owned);
    let latest = ring.iter().filter_map(sequence).max().unwrap();
    assert!(latest.parse::<usize>().unwrap() > ring.len(), "{latest}: {ring:?}");
    let said = [told, vec![snapshot, taken, ended]].concat();
    for said in said {
        assert!(!holds_token(said.stdout.as_bytes()) && !holds_token(said.stderr.as_bytes()));
    }
    let files = files_below(&dir.path("data"));
    assert!(files.len() > 4, "{files:?}");
    for file in files {
        assert_eq!(file.metadata().unwrap().uid(), NOBODY.1, "{}", file.display());
        assert!(!holds_token(&fs::read(&file).unwrap()), "{}", file.display());
    }
}

pub(crate) fn opens_no_other_file() {
    let server = serve();
    let dir = directory(&server);
    let daemon = start(&dir);
    // Its own user may write there, and it is led there by a link in its own directory.
    fs::create_dir(dir.path("elsewhere")).unwrap();
    chown(dir.path("elsewhere"), Some(NOBODY.1), Some(NOBODY.1)).unwrap();
    symlink(dir.path("elsewhere"), dir.path("data/traces")).unwrap();
    let refused = ask(&dir, "trace --tenant 00000000000000000000000000000001 --duration 1s");
    assert!(refused.status == 1 && refused.stderr.contains("Permission denied"), "{refused:?}");
    assert_eq!(fs::read_dir(dir.path("elsewhere")).unwrap().count(), 0);
    fs::remove_file(dir.path("data/traces")).unwrap();
    let taken = ask(&dir, "trace --tenant 00000000000000000000000000000001 --duration 10ms");
    assert_eq!(taken.status, 0, "{taken:?}");
    assert_eq!(daemon.stop("TERM").status, 0);
}

pub(crate) fn says_whom_the_data_directory_has_to_belong_to() {
    let server = serve();
    let dir = directory(&server);
    fs::create_dir(dir.path("data")).unwrap();
    let refused = dir.run("serve --config etc/c.toml --user nobody");
    assert!(refused.status == 1 && refused.stderr.contains("data_directory has to belong to"), "{refused:?}");
    assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
    assert!(!dir.path("run/socket").exists());
}

/// As systemd starts it, and `setcap` lets anybody.
pub(crate) fn runs_for_an_ordinary_user_with_the_capability() {
    let server = serve();
    let dir = directory(&server);
    chown(dir.path("."), Some(NOBODY.1), Some(NOBODY.1)).unwrap();
    // Where it was built may be out of the user's reach.
    fs::copy(env!("CARGO_BIN_EXE_pagesniff"), dir.path("pagesniff")).unwrap();
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let with_capability = ["--inh-caps=+net_raw", "--ambient-caps=+net_raw"];
    let serve = |capabilities: &[&str]| {
        let mut command = Command::new("setpriv");
        command.current_dir(dir.path(".")).args(user).args(capabilities);
        command.args(["./pagesniff", "serve", "--config", "etc/c.toml"]);
        command
    };
    let refused = Ended::from(serve(&[]).output().unwrap());
    assert!(refused.status == 1 && refused.stderr.contains("CAP_NET_RAW"), "{refused:?}");

    let daemon = Sniffer::start_command(serve(&with_capability));
    assert_unprivileged(daemon.id());
    drive(&DriveOptions { workload: workload(), ..DriveOptions::at(server.address()) }, None).unwrap();
    let tenant = workload().owner_of(1).tenant.to_string();
    let snapshot = ask(&dir, &format!("snapshot --tenant {tenant} --last 10m"));
    assert_eq!(snapshot.status, 0, "{}", snapshot.stderr);
    let ended = daemon.stop("TERM");
    assert!(ended.status == 0 && !ended.stderr.contains("note: "), "{}", ended.stderr);
}
