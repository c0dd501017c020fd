//! Who watches the wire.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use wait4::Wait4;

use super::daemon::{self, Tracing};
use super::wire::{Namespace, Wire};

/// Who watches.
#[derive(Debug, Clone)]
pub(crate) enum Watcher {
    Nobody,
    Tcpdump,
    Pagesniff(PathBuf),
    Daemon(PathBuf, Tracing),
}

impl fmt::Display for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "nobody",
            Self::Tcpdump => "tcpdump -w /dev/null",
            Self::Pagesniff(_) => "pagesniff --iface --out",
            Self::Daemon(_, Tracing::Nothing) => "pagesniff serve, idle",
            Self::Daemon(_, Tracing::One) => "pagesniff serve, one of fifty",
            Self::Daemon(_, Tracing::All) => "pagesniff serve, all",
        })
    }
}

/// What a watcher saw, and what that took.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    pub(crate) packets: u64,
    pub(crate) dropped: u64,
    pub(crate) cpu: Duration,
}

/// A watcher at work.
pub(crate) enum Watching {
    Nobody,
    Process { watcher: Watcher, child: Child, stderr: JoinHandle<String>, directory: TempDir },
}

impl Watcher {
    /// Starts it, and waits until it captures.
    pub(crate) fn start(&self, namespace: &Namespace) -> Result<Watching> {
        let directory = TempDir::with_prefix("pagesniff-bench").context("cannot make a directory for traces")?;
        let mut command = match self {
            Self::Nobody => return Ok(Watching::Nobody),
            Self::Tcpdump => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace.name(), "tcpdump", "-i", Wire::IFACE, "-w", "/dev/null"]);
                command.arg("tcp port 6400");
                command
            }
            Self::Pagesniff(program) => {
                let mut command = Command::new(program);
                command.args(["--iface", Wire::IFACE, "--netns", namespace.name(), "--out"]).arg(directory.path());
                command.arg("--summary").arg(directory.path().join("summary.json"));
                command
            }
            Self::Daemon(program, _) => daemon::serving(program, namespace, directory.path())?,
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {self}"))?;
        let mut stderr = BufReader::new(child.stderr.take().context("no standard error")?);
        let mut ready = String::new();
        while !(ready.contains("listening on") || ready.contains("Capturing on")) {
            if stderr.read_line(&mut ready)? == 0 {
                bail!("{self} does not capture: {}", ready.trim());
            }
        }
        let stderr = thread::spawn(move || {
            let mut said = String::new();
            // What cannot be read is missed where the drops are looked for.
            let _ = stderr.read_to_string(&mut said);
            said
        });
        Ok(Watching::Process { watcher: self.clone(), child, stderr, directory })
    }
}

/// The processor time of each thread of a process.
#[derive(Debug, Default)]
pub(crate) struct ThreadTimes(HashMap<OsString, Duration>);

impl ThreadTimes {
    /// What the threads that are there have spent since then.
    pub(crate) fn since(&self, before: &Self) -> Duration {
        let spent = |(thread, time): (&OsString, &Duration)| {
            time.saturating_sub(before.0.get(thread).copied().unwrap_or_default())
        };
        self.0.iter().map(spent).sum()
    }
}

impl Watching {
    /// Asks a daemon for its trace.
    pub(crate) fn ask(&self, tenant: &str) -> Result<()> {
        match self {
            Self::Process { watcher: Watcher::Daemon(program, tracing), directory, .. } => {
                tracing.begin(program, directory.path(), tenant)
            }
            _ => Ok(()),
        }
    }

    /// The processor time of each of its threads. Threads that have served a client are gone.
    pub(crate) fn cpu_until_now(&self) -> Result<ThreadTimes> {
        let Self::Process { child, .. } = self else { return Ok(ThreadTimes::default()) };
        let mut times = ThreadTimes::default();
        for thread in fs::read_dir(format!("/proc/{}/task", child.id())).context("it has ended")? {
            let thread = thread?;
            // Nanoseconds on a processor come first (proc(5)). Who is gone meanwhile has none.
            let Ok(figures) = fs::read_to_string(thread.path().join("schedstat")) else { continue };
            let on_cpu = figures.split_whitespace().next().and_then(|ns| ns.parse().ok()).context("no figure")?;
            times.0.insert(thread.file_name(), Duration::from_nanos(on_cpu));
        }
        Ok(times)
    }

    /// Ends it, and asks what it has seen.
    pub(crate) fn stop(self) -> Result<Seen> {
        let Self::Process { watcher, mut child, stderr, directory } = self else { return Ok(Seen::default()) };
        let by_status = match &watcher {
            Watcher::Daemon(program, _) => Some(daemon::status(program, directory.path())?),
            _ => None,
        };
        let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("no process")?;
        kill_process(id, Signal::INT).with_context(|| format!("cannot end {watcher}"))?;
        let ended = child.wait4().with_context(|| format!("cannot wait for {watcher}"))?;
        let said = stderr.join().map_err(|_| anyhow!("a thread panicked"))?;
        if !ended.status.success() {
            bail!("{watcher} failed ({}): {}", ended.status, said.trim());
        }
        let cpu = ended.rusage.utime + ended.rusage.stime;
        let (packets, dropped) = match watcher {
            Watcher::Nobody => (0, 0),
            Watcher::Daemon(..) => by_status.context("no status")?,
            Watcher::Tcpdump => {
                let counted =
                    |what| number_before(&said, what).with_context(|| format!("tcpdump does not say: {what}"));
                (counted(" packets captured")?, counted(" packets dropped by kernel")?)
            }
            Watcher::Pagesniff(_) => {
                let summary = fs::read(directory.path().join("summary.json")).context("no summary")?;
                let summary: serde_json::Value = serde_json::from_slice(&summary)?;
                let counted = |value: &serde_json::Value| value.as_u64().context("the summary lacks a figure");
                let dropped =
                    counted(&summary["loss"]["kernel_dropped"])? + counted(&summary["ledger"]["queue_dropped"])?;
                (counted(&summary["packets"])?, dropped)
            }
        };
        Ok(Seen { packets, dropped, cpu })
    }
}

/// The number that stands right before some words.
fn number_before(text: &str, words: &str) -> Option<u64> {
    let before = text.split_once(words)?.0;
    let digits = before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    before.get(digits..)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcpdump_is_understood() {
        let said = "31 packets captured\n62 packets received by filter\n5 packets dropped by kernel\n";
        assert_eq!(number_before(said, " packets captured"), Some(31));
        assert_eq!(number_before(said, " packets dropped by kernel"), Some(5));
        assert_eq!(number_before(said, " packets lost"), None);
    }
}
