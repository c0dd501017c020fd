//! `pagesniff fetch` and `pagesniff top URL` against a daemon, and against connections that break.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::{Value, json};

use super::{ADMIN, ONE_TENANT, Served};
use crate::harness::{Dir, Ended};
use crate::network::may_capture;
use crate::sniffer::signal;

/// Runs the program with a token in its environment.
fn run(dir: &Dir, token: &str, arguments: &str) -> Ended {
    Ended::from(dir.command(arguments).env("PAGESNIFF_TOKEN", token).output().unwrap())
}

/// All files below a directory with what is in them.
fn tree(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.is_dir() {
                true => left.push(entry),
                false => {
                    drop(files.insert(entry.strip_prefix(directory).unwrap().to_owned(), fs::read(&entry).unwrap()))
                }
            }
        }
    }
    files
}

/// A way to the daemon that breaks: the first answers are cut after so many bytes each, and stay open where `is_silent`.
struct Breaking {
    port: u16,
    connections: Arc<AtomicUsize>,
    bytes: Arc<AtomicU64>,
}

impl Breaking {
    fn start(daemon: u16, cuts: usize, after: u64, is_silent: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (connections, bytes) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
        let (counted, passed) = (Arc::clone(&connections), Arc::clone(&bytes));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(("127.0.0.1", daemon)).unwrap();
                let is_cut = counted.fetch_add(1, Ordering::Relaxed) < cuts;
                let limit = if is_cut { after } else { u64::MAX };
                let passed = Arc::clone(&passed);
                thread::spawn(move || pass(client, server, (limit, is_silent), &passed));
            }
        });
        Self { port, connections, bytes }
    }
}

fn pass(client: TcpStream, server: TcpStream, (limit, is_silent): (u64, bool), passed: &AtomicU64) {
    let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let (mut server, mut client, mut piece, mut sent) = (server, client, [0; 512], 0);
    while let Ok(read @ 1..) = server.read(&mut piece) {
        let read = read.min(usize::try_from(limit - sent).unwrap_or(usize::MAX));
        sent += read as u64;
        passed.fetch_add(read as u64, Ordering::Relaxed);
        if client.write_all(&piece[..read]).is_err() || sent == limit {
            break;
        }
    }
    if is_silent {
        thread::sleep(Duration::from_secs(60));
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

#[test]
fn a_capture_is_begun_awaited_and_fetched_as_it_is_on_the_node() {
    if !may_capture() {
        return;
    }
    let served = Served::start("");
    let driving = served.traffic.drive_for(Duration::from_secs(8));
    thread::sleep(Duration::from_millis(500));
    let dir = Dir::new();
    let url = format!("http://127.0.0.1:{}", served.port);
    let fetch = format!("fetch {url} --tenant {} --duration 1500ms --kind getpage --out got", served.tenant);
    let fetched = run(&dir, ONE_TENANT, &fetch);
    assert_eq!(fetched.status, 0, "{}", fetched.stderr);
    let place = fetched.stdout.trim_end();
    let id = place.strip_prefix("got/").unwrap();
    assert!(
        fetched.stderr.contains(" requests in ") && fetched.stderr.contains("says what they tell"),
        "{}",
        fetched.stderr
    );
    let there = tree(&served.dir.path(&format!("data/traces/{id}")));
    let got = tree(&dir.path(place));
    assert!(!got.is_empty() && got.iter().all(|(path, content)| there.get(path) == Some(content)), "{:?}", got.keys());
    assert_eq!(got.len(), there.keys().filter(|path| path.extension().is_some_and(|end| end == "pgtrace")).count());
    let left: Vec<_> = fs::read_dir(dir.path("got")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [id], "nothing else is left");
    let records = dir.run(&format!("export {place} --to jsonl")).stdout;
    assert!(records.lines().count() > 10 && records.lines().all(|line| line.contains("\"kind\":\"getpage\"")));

    // What is there is not fetched again, and reports come in either form.
    assert!(
        run(&dir, ONE_TENANT, &format!("fetch {url} --capture {id} --out got")).stderr.contains("is there already")
    );
    let reports = run(&dir, ONE_TENANT, &format!("fetch {url} --capture {id} --html r.html --json r.json --quiet"));
    assert_eq!((reports.status, reports.stderr.as_str(), reports.stdout.as_str()), (0, "", ""));
    assert!(fs::read_to_string(dir.path("r.html")).unwrap().starts_with("<!doctype html>"));
    assert!(serde_json::from_slice::<Value>(&fs::read(dir.path("r.json")).unwrap()).unwrap()["window"].is_object());
    let past = run(&dir, ONE_TENANT, &format!("fetch {url} --tenant {} --last 1m --archive --out past", served.tenant));
    assert!(
        past.status == 0 && past.stdout.starts_with("past/snapshot-") && past.stdout.ends_with(".tar\n"),
        "{past:?}"
    );
    let list = run(&dir, ADMIN, &format!("fetch {url} --list"));
    assert!(list.stdout.contains(id) && list.stdout.contains(&served.traffic.tenant(4)), "{}", list.stdout);
    let list = run(&dir, ONE_TENANT, &format!("fetch {url} --list")).stdout;
    assert!(list.contains(&served.tenant) && !list.contains(&served.traffic.tenant(4)), "{list}");
    driving.join().unwrap();
    let Served { daemon, traffic, .. } = served;
    traffic.finish("");
    assert_eq!(daemon.stop("TERM").status, 0);
}

#[test]
fn a_download_goes_on_where_it_was_cut_off_in_one_run_and_in_the_next() {
    if !may_capture() {
        return;
    }
    let served = Served::start("");
    let driving = served.traffic.drive_for(Duration::from_secs(3));
    let client = served.client(ADMIN);
    let begun = client.post("/v1/captures", &json!({"duration_ms": 1_500})).json();
    let id = begun["id"].as_str().unwrap();
    let since = Instant::now();
    while client.get(&format!("/v1/captures/{id}")).json()["state"] == "running" {
        assert!(since.elapsed() < Duration::from_secs(20));
        thread::sleep(Duration::from_millis(100));
    }
    let whole = client.get(&format!("/v1/captures/{id}/trace")).body;
    let length = whole.len() as u64;
    assert!(length > 50_000, "{length}");
    let dir = Dir::new();

    // The first connection says that the capture has ended; it and two downloads are cut.
    let breaking = Breaking::start(served.port, 4, length / 3, false);
    let fetch = |port: u16, out: &str| format!("fetch http://127.0.0.1:{port} --capture {id} --archive --out {out}");
    let fetched = run(&dir, ADMIN, &fetch(breaking.port, "cut"));
    assert_eq!(fetched.status, 0, "{}", fetched.stderr);
    assert!(fs::read(dir.path(&format!("cut/{id}.tar"))).unwrap() == whole);
    let (connections, bytes) = (breaking.connections.load(Ordering::Relaxed), breaking.bytes.load(Ordering::Relaxed));
    assert!(connections >= 4 && bytes < length + length / 2, "{connections} connections, {bytes} of {length} bytes");

    // One that is ended by hand leaves the beginning to the next run.
    let silent = Breaking::start(served.port, usize::MAX, length / 2, true);
    let mut command = dir.command(&fetch(silent.port, "ended"));
    command.env("PAGESNIFF_TOKEN", ADMIN).stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = command.spawn().unwrap();
    let part = dir.path(&format!("ended/{id}.tar.part"));
    let since = Instant::now();
    while fs::metadata(&part).map_or(0, |part| part.len()) < length / 4 {
        assert!(since.elapsed() < Duration::from_secs(20));
        thread::sleep(Duration::from_millis(20));
    }
    let second = run(&dir, ADMIN, &fetch(served.port, "ended"));
    assert!(second.status == 1 && second.stderr.contains("another pagesniff is downloading"), "{second:?}");
    signal(running.id(), "INT");
    let ended = Ended::from(running.wait_with_output().unwrap());
    assert_eq!((ended.status, ended.stdout.as_str()), (1, ""));
    assert!(ended.stderr.ends_with("the same command goes on where it stopped\n"), "{}", ended.stderr);
    let had = fs::metadata(&part).unwrap().len();
    let counting = Breaking::start(served.port, 0, 0, false);
    assert_eq!(run(&dir, ADMIN, &fetch(counting.port, "ended")).status, 0);
    assert!(fs::read(dir.path(&format!("ended/{id}.tar"))).unwrap() == whole && !part.exists());
    let bytes = counting.bytes.load(Ordering::Relaxed);
    assert!(bytes < length - had + 4_096, "{bytes} bytes came again of {length}, of which {had} were there");
    driving.join().unwrap();
    let Served { daemon, traffic, .. } = served;
    traffic.finish("");
    assert_eq!(daemon.stop("TERM").status, 0);
}

#[test]
fn the_same_command_goes_on_with_the_capture_that_it_has_begun() {
    if !may_capture() {
        return;
    }
    let served = Served::start("");
    let driving = served.traffic.drive_for(Duration::from_secs(8));
    let dir = Dir::new();
    let url = format!("http://127.0.0.1:{}", served.port);
    let fetch = format!("fetch {url} --tenant {} --duration 4s", served.tenant);
    let mut command = dir.command(&fetch);
    command.env("PAGESNIFF_TOKEN", ADMIN).stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = command.spawn().unwrap();
    let since = Instant::now();
    while served.client(ADMIN).get("/v1/captures").json().as_array().unwrap().is_empty() {
        assert!(since.elapsed() < Duration::from_secs(20));
        thread::sleep(Duration::from_millis(50));
    }
    thread::sleep(Duration::from_millis(500));
    signal(running.id(), "INT");
    let ended = Ended::from(running.wait_with_output().unwrap());
    assert!(ended.status == 1 && ended.stderr.contains("goes on, and the same command fetches it"), "{ended:?}");
    let fetched = run(&dir, ADMIN, &fetch);
    assert!(fetched.status == 0 && fetched.stderr.contains("which the same command has begun"), "{}", fetched.stderr);
    assert_eq!(served.client(ADMIN).get("/v1/captures").json().as_array().unwrap().len(), 1);
    assert_eq!(
        fetched.stdout.trim_end(),
        format!("./{}", served.client(ADMIN).get("/v1/captures").json()[0]["id"].as_str().unwrap())
    );
    driving.join().unwrap();
    let Served { daemon, traffic, .. } = served;
    traffic.finish("");
    assert_eq!(daemon.stop("TERM").status, 0);
}

#[test]
fn refusals_are_said_and_no_token_is() {
    if !may_capture() {
        return;
    }
    let served = Served::start("");
    let dir = Dir::new();
    let url = format!("http://127.0.0.1:{}", served.port);
    let other = served.traffic.tenant(4);
    for (token, arguments, status, expected) in [
        ("wrong-token", format!("fetch {url} --list"), 1, "the daemon refuses: this token is not known here"),
        (ONE_TENANT, format!("fetch {url} --tenant {other} --duration 1s"), 1, "there is no such thing here"),
        (ONE_TENANT, format!("fetch {url} --tenant {} --duration 1h", served.tenant), 1, "at most 30000 are yours"),
        (ONE_TENANT, format!("fetch {url} --capture none"), 1, "there is no such thing here"),
        (ONE_TENANT, format!("fetch {url} --capture ../x"), 1, "is no capture's name; --list shows them"),
        (ONE_TENANT, "fetch http://127.0.0.1:1 --list".to_owned(), 1, "no daemon answers"),
        (ONE_TENANT, format!("fetch {url} --list --ca nowhere.pem"), 1, "--ca nowhere.pem"),
        (ONE_TENANT, format!("fetch {url} --list --token-file nowhere"), 1, "--token-file nowhere"),
        (ONE_TENANT, format!("fetch {url}"), 2, "--list|--capture"),
        (ONE_TENANT, format!("fetch {url} --capture x --html none/r.html"), 1, "--html none/r.html: cannot be created"),
        (ONE_TENANT, "fetch https://user:secret-word@node --list".to_owned(), 2, "--token-file or PAGESNIFF_TOKEN"),
        (ONE_TENANT, format!("top {url} --once"), 1, "tenant: name yours"),
        (ONE_TENANT, format!("top {url} --once --tenant {other}"), 1, "there is no such thing here"),
        (ONE_TENANT, format!("top {url} --once --kind getpage"), 2, "for captures on this machine"),
        (ONE_TENANT, format!("top {url} --iface lo"), 2, "cannot be used with"),
    ] {
        let ended = run(&dir, token, &arguments);
        assert_eq!((ended.status, ended.stdout.as_str()), (status, ""), "{arguments}: {}", ended.stderr);
        assert!(ended.stderr.contains(expected) && !ended.stderr.contains(token), "{arguments}: {}", ended.stderr);
        assert!(status == 2 || ended.stderr.lines().count() == 1, "{}", ended.stderr);
    }
    dir.write("token", format!("{ADMIN}\n").as_bytes());
    assert_eq!(dir.run(&format!("fetch {url} --list --token-file token")).status, 0);
    served.traffic.drive_for(Duration::from_millis(100)).join().unwrap();
    let Served { daemon, traffic, .. } = served;
    traffic.finish("");
    assert_eq!(daemon.stop("TERM").status, 0);
}

#[cfg(feature = "top")]
#[test]
fn top_shows_what_the_daemon_sees() {
    if !may_capture() {
        return;
    }
    let served = Served::start("");
    let driving = served.traffic.drive_for(Duration::from_secs(34));
    let dir = Dir::new();
    let url = format!("http://127.0.0.1:{}", served.port);
    let one = run(&dir, ONE_TENANT, &format!("top {url} --tenant {} --by rel --once --json", served.tenant));
    assert_eq!(one.status, 0, "{}", one.stderr);
    let one: Value = serde_json::from_str(&one.stdout).unwrap();
    let rate = one["total"]["requests_per_s"].as_f64().unwrap();
    // A fiftieth of 1,500.
    assert!((5.0..60.0).contains(&rate), "{rate}");
    assert_eq!((&one["views"][0]["by"], one["views"].as_array().unwrap().len()), (&json!("rel"), 1));
    let all = run(&dir, ADMIN, &format!("top {url} --once --rows 60"));
    assert_eq!(all.status, 0, "{}", all.stderr);
    let rows = all.stdout.lines().filter(|line| (0..50).any(|number| line.starts_with(&served.traffic.tenant(number))));
    assert_eq!(rows.count(), 50, "{}", all.stdout);
    assert!(
        all.stdout.starts_with(&format!("pagesniff top  {url}")) && all.stdout.contains("nothing lost"),
        "{}",
        all.stdout
    );
    assert!(all.stdout.contains("50 connections"), "{}", all.stdout);
    driving.join().unwrap();
    let Served { daemon, traffic, .. } = served;
    traffic.finish("");
    assert_eq!(daemon.stop("TERM").status, 0);
}
