//! `pagesniff fetch`: captures, snapshots and reports from a daemon.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use analysis::render::{bytes_text, count_text};
use anyhow::anyhow;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use ureq::http::StatusCode;

use super::bars::{bytes_bar, time_bar};
use super::daemon::Daemon;
use super::download::{Tries, download, wait};
use super::flags::RawFetch;
use super::unpack::unpack;
use crate::daemon::tenants_text;
use crate::daemon::words::{TenantStatus, TraceState, Wanted};
use crate::pending_file::PendingFile;
use crate::run::{Ended, output_outcome};
use crate::terminal::say;

/// How often a capture that runs is asked about: each leaves a line in the daemon's audit log.
const ASK_INTERVAL: Duration = Duration::from_secs(1);

/// The longest name of a capture; the daemon's have some thirty letters.
const MOST_ID_BYTES: usize = 128;

/// What has been begun and not brought, in the directory where it is to go: the same command finds it there.
const PENDING_NAME: &str = ".pagesniff-fetch.json";

/// A capture as the API shows it.
#[derive(Debug, Deserialize)]
struct Capture {
    id: String,
    state: TraceState,
    #[serde(default)]
    filter: String,
    started_ns: u64,
    duration_ms: u64,
    requests: u64,
    bytes: u64,
    lost_requests: u64,
    unattributed: u64,
    problem: Option<String>,
}

/// What was begun.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Pending {
    url: String,
    wanted: Value,
    id: String,
}

/// Fetches what was asked for.
///
/// # Errors
///
/// No daemon answers, it refuses, or what comes cannot be written.
pub fn fetch(raw: &RawFetch) -> anyhow::Result<Ended> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag not set yet, the second ends the program.
        flag::register_conditional_default(signal, Arc::clone(&stop))?;
        flag::register(signal, Arc::clone(&stop))?;
    }
    let daemon = Daemon::open(&raw.url, &raw.access)?;
    let fetch = Fetch { raw, daemon, stop };
    if raw.list {
        return fetch.list();
    }
    let reports = fetch.open_reports()?;
    let id = fetch.begun()?;
    fetch.wait_for(&id)?;
    let ended = match reports.is_empty() {
        true => fetch.traces(&id)?,
        false => fetch.reports(&id, reports)?,
    };
    fetch.forget();
    Ok(ended)
}

struct Fetch<'a> {
    raw: &'a RawFetch,
    daemon: Daemon,
    stop: Arc<AtomicBool>,
}

impl Fetch<'_> {
    fn list(&self) -> anyhow::Result<Ended> {
        let captures: Vec<Capture> = self.daemon.get("/v1/captures")?;
        let tenants: Vec<TenantStatus> = self.daemon.get("/v1/tenants")?;
        let mut text = captures_text(&captures);
        text.push('\n');
        text.push_str(&tenants_text(&tenants));
        output_outcome(io::stdout().lock().write_all(text.as_bytes()))
    }

    /// The files of the reports that are wanted: where they cannot be written, nothing is begun.
    fn open_reports(&self) -> anyhow::Result<Vec<(&'static str, PendingFile)>> {
        let wanted = [("--html", "html", &self.raw.html), ("--json", "json", &self.raw.json)];
        let wanted = wanted.into_iter().filter_map(|(option, format, path)| Some((option, format, path.as_ref()?)));
        wanted.map(|(option, format, path)| Ok((format, PendingFile::open(option, path)?))).collect()
    }

    /// The name of what is to be fetched, which is begun where it is not there yet.
    fn begun(&self) -> anyhow::Result<String> {
        if let Some(id) = &self.raw.capture {
            return checked(id);
        }
        let tenants = &self.raw.filter.owner.tenant;
        let (path, wanted) = match self.raw.last {
            Some(last) => {
                let [tenant] = tenants.as_slice() else { return Err(anyhow!("--last: name one --tenant")) };
                let last_ms = u64::try_from(last.as_millis()).unwrap_or(u64::MAX);
                ("/v1/snapshots", json!({ "tenant": tenant.tenant.to_string(), "last_ms": last_ms }))
            }
            None => {
                let duration = self.raw.duration.unwrap_or_default();
                let most_bytes = self.raw.max_bytes.map(|size| size.as_u64());
                ("/v1/captures", serde_json::to_value(Wanted::new(&self.raw.filter, duration, most_bytes))?)
            }
        };
        fs::create_dir_all(&self.raw.out).map_err(|error| anyhow!("--out {}: {error}", self.raw.out.display()))?;
        if let Some(id) = self.begun_before(&wanted)? {
            self.say(format_args!("Going on with {id}, which the same command has begun."));
            return Ok(id);
        }
        let begun: Value = self.daemon.post(path, &wanted)?;
        let id = checked(begun["id"].as_str().unwrap_or_default())?;
        let pending = Pending { url: self.daemon.url().to_string(), wanted, id: id.clone() };
        let place = self.pending_path();
        fs::write(&place, serde_json::to_vec(&pending)?).map_err(|error| anyhow!("{}: {error}", place.display()))?;
        Ok(id)
    }

    fn pending_path(&self) -> PathBuf {
        self.raw.out.join(PENDING_NAME)
    }

    /// What the same command has begun, where the daemon still has it.
    fn begun_before(&self, wanted: &Value) -> anyhow::Result<Option<String>> {
        let Ok(text) = fs::read(self.pending_path()) else { return Ok(None) };
        let Ok(pending) = serde_json::from_slice::<Pending>(&text) else { return Ok(None) };
        if pending.url != self.daemon.url().to_string() || pending.wanted != *wanted {
            return Ok(None);
        }
        let id = checked(&pending.id)?;
        if id.starts_with(SNAPSHOT) {
            return Ok(Some(id));
        }
        match self.daemon.get::<Capture>(&format!("/v1/captures/{id}")) {
            Ok(_) => Ok(Some(id)),
            Err(failed) if failed.is(StatusCode::NOT_FOUND) => Ok(None),
            Err(failed) => Err(failed.into()),
        }
    }

    /// Everything has come.
    fn forget(&self) {
        if self.raw.capture.is_none() {
            let _ = fs::remove_file(self.pending_path());
        }
    }

    /// Waits until the capture has ended.
    fn wait_for(&self, id: &str) -> anyhow::Result<()> {
        if id.starts_with(SNAPSHOT) {
            return Ok(());
        }
        let (mut tries, mut bar) = (Tries::default(), None);
        let path = format!("/v1/captures/{id}");
        loop {
            let capture = match self.daemon.get::<Capture>(&path) {
                Ok(capture) => capture,
                Err(failed) if failed.may_pass() && tries.wait(&self.stop) => continue,
                Err(failed) => return Err(failed.into()),
            };
            tries = Tries::default();
            match capture.state {
                TraceState::Running if bar.is_none() => {
                    self.say(format_args!(
                        "Capture {id} runs; Ctrl-C leaves it running, and the same command goes on with it."
                    ));
                    bar = Some(time_bar(capture.duration_ms, !self.raw.quiet));
                }
                TraceState::Running => {}
                _ => {
                    drop(bar);
                    return self.say_ended(&capture);
                }
            }
            if let Some(bar) = &bar {
                bar.set_position(gone_ms(&capture));
            }
            if !wait(ASK_INTERVAL, &self.stop) {
                return Err(anyhow!("ended; capture {id} goes on, and the same command fetches it"));
            }
        }
    }

    fn say_ended(&self, capture: &Capture) -> anyhow::Result<()> {
        let problem = capture.problem.as_ref().map_or(String::new(), |problem| format!("; {}", plain(problem)));
        if capture.state == TraceState::Failed {
            return Err(anyhow!("capture {} has failed{problem}", capture.id));
        }
        let (requests, size) = (count_text(capture.requests), bytes_text(capture.bytes));
        self.say(format_args!("{requests} requests in {size}{problem}."));
        for (count, what) in [
            (capture.lost_requests, "requests are missing: there was no room for them"),
            (capture.unattributed, "requests came on connections whose tenant the daemon does not know"),
        ] {
            if count > 0 {
                self.say(format_args!("{} {what}.", count_text(count)));
            }
        }
        Ok(())
    }

    /// The traces, in a directory by the capture's name.
    fn traces(&self, id: &str) -> anyhow::Result<Ended> {
        let out = &self.raw.out;
        fs::create_dir_all(out).map_err(|error| anyhow!("--out {}: {error}", out.display()))?;
        let (directory, archive) = (out.join(id), out.join(format!("{id}.tar")));
        let there = if self.raw.archive { &archive } else { &directory };
        if there.exists() {
            self.say(format_args!("{} is there already.", there.display()));
            return printed(there);
        }
        let part = out.join(format!("{id}.tar.part"));
        let bar = bytes_bar(!self.raw.quiet);
        let mut told = |had, all| {
            bar.set_length(all);
            bar.set_position(had);
        };
        let path = format!("/v1/captures/{id}/trace");
        download((&self.daemon, &path), &part, &mut told, &self.stop)?;
        bar.finish_and_clear();
        if self.raw.archive {
            fs::rename(&part, &archive).map_err(|error| anyhow!("{}: {error}", archive.display()))?;
        } else {
            unpack(&part, id, &directory)?;
            let _ = fs::remove_file(&part);
            self.say(format_args!("`pagesniff report {}` says what they tell.", directory.display()));
        }
        printed(there)
    }

    fn reports(&self, id: &str, files: Vec<(&'static str, PendingFile)>) -> anyhow::Result<Ended> {
        for (format, file) in files {
            self.say(format_args!("The daemon makes the report ({format})."));
            let text = self.daemon.get_text(&format!("/v1/captures/{id}/report?format={format}"))?;
            file.write(&text)?;
        }
        Ok(Ended::Done)
    }

    fn say(&self, line: fmt::Arguments<'_>) {
        if !self.raw.quiet {
            say(line);
        }
    }
}

/// What tells a snapshot's name from a capture's.
const SNAPSHOT: &str = "snapshot-";

fn printed(path: &Path) -> anyhow::Result<Ended> {
    output_outcome(writeln!(io::stdout().lock(), "{}", path.display()))
}

/// A name that is one part of an address and of a path, and nothing else.
fn checked(id: &str) -> anyhow::Result<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_name =
        !id.is_empty() && id.len() <= MOST_ID_BYTES && id.bytes().all(is_plain) && !id.starts_with(['.', '-']);
    if is_name { Ok(id.to_owned()) } else { Err(anyhow!("{:?} is no capture's name; --list shows them", plain(id))) }
}

/// Text from elsewhere, for a terminal.
fn plain(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}

fn gone_ms(capture: &Capture) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    // Clocks may be apart: what is over is no more than there is.
    let gone = u64::try_from(now).unwrap_or(0).saturating_sub(capture.started_ns / 1_000_000);
    gone.min(capture.duration_ms)
}

fn captures_text(captures: &[Capture]) -> String {
    if captures.is_empty() {
        return "no captures\n".to_owned();
    }
    let longest = captures.iter().map(|capture| capture.id.len()).max().unwrap_or(0);
    let mut text = format!("{:<longest$}  {:<11}  {:>10}  {:>10}  filter\n", "capture", "state", "requests", "size");
    for capture in captures {
        let state = match capture.state {
            TraceState::Running => "running",
            TraceState::Done => "done",
            TraceState::Failed => "failed",
            TraceState::Interrupted => "interrupted",
        };
        let filter = if capture.filter.is_empty() { "everything" } else { &capture.filter };
        let (id, requests, size) = (plain(&capture.id), count_text(capture.requests), bytes_text(capture.bytes));
        text.push_str(&format!("{id:<longest$}  {state:<11}  {requests:>10}  {size:>10}  {}\n", plain(filter)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_path() {
        for id in ["20261203T070000Z-n-1", "snapshot-20261203T070000Z.1"] {
            assert_eq!(checked(id).unwrap(), id);
        }
        for id in ["", ".", "..", "../x", "a/b", "a%2fb", "-x", "a?b", "a\u{1b}[2J", &"x".repeat(129)] {
            assert!(checked(id).is_err(), "{id}");
        }
    }
}
