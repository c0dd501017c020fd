//! Rules that captures and snapshots are taken by, and where these go to.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::asked::Traffic;
use crate::harness::Dir;
use crate::network::may_capture;
use crate::reloaded::status;

/// What is waited for comes within some seconds, or never.
const PATIENCE: Duration = Duration::from_secs(40);

/// One rule that a capture begins by, one that a snapshot is taken by, and one that never holds; of one tenant.
fn rules(tenant: &str) -> String {
    let rule = |name: &str, more: &str| {
        format!(
            "[[triggers]]\nname = \"{name}\"\ntenants = [\"{tenant}\"]\nfor_secs = 2\nleast_requests = 20\n{more}\n"
        )
    };
    rule("slow", "figure = \"p99_latency_ms\"\nabove = 0.0001\naction = \"capture\"\nduration_secs = 2")
        + &rule("again", "figure = \"redundant_ratio\"\nabove = 0.0\naction = \"snapshot\"\nduration_secs = 60")
        + &rule("never", "figure = \"p99_latency_ms\"\nabove = 3600000\naction = \"capture\"")
}

fn wait_until(dir: &Dir, wanted: impl Fn(&Value) -> bool) -> Value {
    let asked = Instant::now();
    loop {
        let now = status(dir);
        if wanted(&now) {
            return now;
        }
        assert!(asked.elapsed() < PATIENCE, "{now:#}");
        thread::sleep(Duration::from_millis(200));
    }
}

/// The two have acted, once each, and what they took has arrived.
fn have_arrived(status: &Value) -> bool {
    status["upload"]["arrived"] == 2
}

fn assert_each_acted_once(status: &Value, tenant: &str) {
    for (index, (name, acted)) in [("slow", 1), ("again", 1), ("never", 0)].into_iter().enumerate() {
        let trigger = &status["triggers"][index];
        assert_eq!((&trigger["name"], &trigger["acted"]), (&name.into(), &acted.into()), "{trigger}");
        if acted > 0 {
            let last = &trigger["last"];
            assert_eq!((&last["tenant"], &last["problem"]), (&tenant.into(), &Value::Null), "{trigger}");
            assert!(last["value"].as_f64() > last["above"].as_f64(), "{trigger}");
        }
    }
}

/// Everything below a directory, by its names in it.
fn below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(below(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

#[test]
fn rules_act_once_and_what_they_took_goes_to_a_directory() {
    if !may_capture() {
        return;
    }
    let (traffic, dir) = (Traffic::listen(), Dir::new());
    let tenant = traffic.tenant(7);
    let to = dir.path("store");
    let upload = format!("[upload]\nurl = \"file://{}/pagesniff\"\n", to.display());
    let daemon = traffic.daemon(&dir, &format!("{}{upload}", rules(&tenant)));
    let driving = traffic.drive_for(Duration::from_secs(15));
    wait_until(&dir, have_arrived);
    driving.join().unwrap();
    let now = status(&dir);
    assert_each_acted_once(&now, &tenant);
    let text = dir.run("status --socket socket").stdout;
    assert!(text.contains("trigger slow: acted 1 times\n  last: trigger slow: p99_latency_ms of tenant "), "{text}");
    assert!(text.contains("upload: 2 arrived ("), "{text}");

    // All files are there as they are here, but for what says that they are there.
    let mut taken = 0;
    for (kind, trigger) in [("traces", 0), ("snapshots", 1)] {
        let id = now["triggers"][trigger]["last"]["id"].as_str().unwrap();
        let (here, there) = (
            dir.path(&format!("data/{kind}/{id}")),
            to.join(format!("pagesniff/n/{}-{id}", kind.trim_end_matches('s'))),
        );
        for file in below(&here).into_iter().filter(|file| !file.ends_with("uploaded.json")) {
            let name = file.strip_prefix(&here).unwrap();
            assert_eq!(fs::read(&file).unwrap(), fs::read(there.join(name)).unwrap(), "{}", name.display());
            taken += 1;
        }
        assert!(here.join("uploaded.json").is_file());
        let cause: Value = serde_json::from_slice(&fs::read(there.join("trigger.json")).unwrap()).unwrap();
        assert_eq!(cause, now["triggers"][trigger]["last"]);
    }
    assert_eq!(below(&to).len(), taken);
    let ended = daemon.stop("TERM");
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    // What has arrived is not brought there once more.
    fs::remove_dir_all(&to).unwrap();
    let again = traffic.daemon(&dir, &upload);
    wait_until(&dir, |status| status["upload"]["waiting"] == 0);
    thread::sleep(Duration::from_secs(1));
    assert_eq!(status(&dir)["upload"]["arrived"], 0);
    assert_eq!(again.stop("TERM").status, 0);

    let (truth, _) = traffic.finish(&tenant);
    for (kind, trigger) in [("traces", 0), ("snapshots", 1)] {
        let id = now["triggers"][trigger]["last"]["id"].as_str().unwrap();
        let jsonl = dir.run(&format!("export data/{kind}/{id} --to jsonl")).stdout;
        truth.assert_nothing_wrong(&jsonl);
        assert!(jsonl.lines().count() > 5, "{kind}: {jsonl}");
        assert!(jsonl.lines().all(|line| line.contains(&tenant)), "{kind}: {jsonl}");
    }
}

/// A server that speaks S3's protocol: of the Python module `moto`.
struct Store {
    server: Child,
    port: u16,
}

impl Store {
    /// `None` where there is no such module; where `PAGESNIFF_REQUIRE_PYTHON=1` says that there is, that fails the test.
    fn start(port: u16) -> Option<Self> {
        let python = std::env::var_os("PAGESNIFF_PYTHON").unwrap_or_else(|| "python3".into());
        let has_module = Command::new(&python).args(["-c", "import moto.server"]).output();
        if !has_module.is_ok_and(|output| output.status.success()) {
            let is_required = std::env::var_os("PAGESNIFF_REQUIRE_PYTHON").is_some_and(|value| value == "1");
            assert!(!is_required, "the Python module moto is missing: see .ci/setup");
            eprintln!("SKIPPED: the Python module moto is missing: see .ci/setup");
            return None;
        }
        let arguments = ["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()];
        let server = Command::new(&python).args(arguments).stderr(std::process::Stdio::null()).spawn().unwrap();
        let (store, asked) = (Self { server, port }, Instant::now());
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(asked.elapsed() < PATIENCE);
            thread::sleep(Duration::from_millis(100));
        }
        Some(store)
    }

    /// Asks it as anybody could: it wants a signature, and does not check it.
    fn ask(&self, method: &str, target: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let host = format!("127.0.0.1:{}", self.port);
        let signed =
            "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
        let head = format!("{method} {target} HTTP/1.1\r\nhost: {host}\r\nauthorization: {signed}\r\n");
        stream.write_all(format!("{head}connection: close\r\ncontent-length: 0\r\n\r\n").as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn what_rules_took_waits_here_until_the_store_is_there() {
    if !may_capture() {
        return;
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    if Store::start(port).is_none() {
        return;
    }
    let (traffic, dir) = (Traffic::listen(), Dir::new());
    let tenant = traffic.tenant(7);
    dir.write("secrets.toml", b"access_key_id = \"key\"\nsecret_access_key = \"a-secret-of-the-store\"\n");
    let options = format!("endpoint = \"http://127.0.0.1:{port}\", allow_http = \"true\", region = \"eu-central-1\"");
    let upload = format!(
        "[upload]\nurl = \"s3://bucket/some/where\"\noptions = {{ {options} }}\nsecrets = \"{}\"\n",
        dir.path("secrets.toml").display()
    );
    let daemon = traffic.daemon(&dir, &format!("{}{upload}", rules(&tenant)));
    let driving = traffic.drive_for(Duration::from_secs(10));
    let away = wait_until(&dir, |status| status["upload"]["failed_tries"].as_u64() >= Some(2));
    assert_eq!(away["upload"]["arrived"], 0);
    driving.join().unwrap();
    let waiting = wait_until(&dir, |status| status["upload"]["waiting"] == 2);
    assert!(waiting["upload"]["problem"].is_string(), "{waiting}");
    let store = Store::start(port).unwrap();
    store.ask("PUT", "/bucket");
    let now = wait_until(&dir, have_arrived);
    assert_each_acted_once(&now, &tenant);
    let listed = store.ask("GET", "/bucket?list-type=2");
    let keys: Vec<_> = listed.split("<Key>").skip(1).map(|key| key.split('<').next().unwrap()).collect();
    for (kind, trigger) in [("traces", 0), ("snapshots", 1)] {
        let id = now["triggers"][trigger]["last"]["id"].as_str().unwrap();
        let here = dir.path(&format!("data/{kind}/{id}"));
        for file in below(&here).into_iter().filter(|file| !file.ends_with("uploaded.json")) {
            let name = file.strip_prefix(&here).unwrap().display();
            let key = format!("some/where/n/{}-{id}/{name}", kind.trim_end_matches('s'));
            assert!(keys.contains(&key.as_str()), "{key} is not among {keys:?}");
            let length = format!("content-length: {}", fs::metadata(&file).unwrap().len());
            let head = store.ask("HEAD", &format!("/bucket/{key}")).to_ascii_lowercase();
            assert!(head.contains(&length), "{key}: {head}");
        }
    }
    let ended = daemon.stop("TERM");
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    assert!(!format!("{}{}{now}", ended.stdout, ended.stderr).contains("a-secret-of-the-store"));
    traffic.finish(&tenant);
}
