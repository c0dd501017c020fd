//! The other end of the control socket: `pagesniff status`, `trace` and `snapshot`.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::anyhow;
use bytesize::ByteSize;
use clap::Args;
use record::TenantId;
use serde::de::DeserializeOwned;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::words::{ConnectionStatus, Reply, Request, Snapshot, Status, TenantStatus, TraceState, TraceStatus, Wanted};
use crate::daemon::config::DEFAULT_SOCKET;
use crate::daemon::status_text::{connections_text, status_text, tenants_text};
use crate::flags::{RawFilter, duration, size};
use crate::run::{Ended, output_outcome};
use crate::terminal::say;

/// How often a trace that runs is asked about.
const ASK_INTERVAL: Duration = Duration::from_millis(200);

/// Where the daemon is asked.
#[derive(Debug, Clone, Args)]
pub struct RawSocket {
    /// The daemon's control socket
    #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET)]
    pub socket: PathBuf,
}

/// What was typed after `pagesniff status`.
#[derive(Debug, Clone, Args)]
pub struct RawStatus {
    /// Where the daemon is asked.
    #[command(flatten)]
    pub socket: RawSocket,

    /// As JSON
    #[arg(long)]
    pub json: bool,

    /// List the tenants: their connections, and their requests since the daemon began
    #[arg(long, conflicts_with = "connections")]
    pub tenants: bool,

    /// List the open pagestream connections
    #[arg(long)]
    pub connections: bool,
}

/// What was typed after `pagesniff trace`.
#[derive(Debug, Clone, Args)]
pub struct RawTakeTrace {
    /// Which requests.
    #[command(flatten)]
    pub filter: RawFilter,

    /// How long
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Duration,

    /// The most bytes of the trace; what comes then is counted and left out [default: limits.tenant_bytes of the daemon]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub max_bytes: Option<ByteSize>,

    /// Copy the trace to this directory; without it, it stays in the daemon's
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Where the daemon is asked.
    #[command(flatten)]
    pub socket: RawSocket,
}

/// What was typed after `pagesniff snapshot`.
#[derive(Debug, Clone, Args)]
pub struct RawSnapshot {
    /// Whose requests
    #[arg(long, value_name = "TENANT")]
    pub tenant: TenantId,

    /// How far back
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub last: Duration,

    /// Copy the traces to this directory; without it, they stay in the daemon's
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Where the daemon is asked.
    #[command(flatten)]
    pub socket: RawSocket,
}

/// Says how the daemon is.
///
/// # Errors
///
/// No daemon answers.
pub fn status(raw: &RawStatus) -> anyhow::Result<Ended> {
    let mut daemon = Daemon::connect(&raw.socket.socket)?;
    let request = match (raw.tenants, raw.connections) {
        (true, _) => Request::Tenants,
        (_, true) => Request::Connections,
        _ => Request::Status,
    };
    let answer: serde_json::Value = daemon.ask(&request)?;
    let text = match request {
        _ if raw.json => format!("{answer}\n"),
        Request::Tenants => tenants_text(&understood::<Vec<TenantStatus>>(answer)?),
        Request::Connections => connections_text(&understood::<Vec<ConnectionStatus>>(answer)?),
        _ => status_text(&understood::<Status>(answer)?),
    };
    output_outcome(io::stdout().lock().write_all(text.as_bytes()))
}

/// Takes a trace, and waits for its end; Ctrl-C brings that about.
///
/// # Errors
///
/// No daemon answers, it refuses, or the trace could not be written.
pub fn take_trace(raw: &RawTakeTrace) -> anyhow::Result<Ended> {
    let mut daemon = Daemon::connect(&raw.socket.socket)?;
    let is_to_end = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&is_to_end))?;
        signal_hook::flag::register(signal, Arc::clone(&is_to_end))?;
    }
    let wanted = Wanted::new(&raw.filter, raw.duration, raw.max_bytes.map(|size| size.as_u64()));
    let mut trace: TraceStatus = daemon.ask(&Request::Trace(wanted))?;
    say(format_args!("Trace {} runs. Ctrl-C ends it.", trace.id));
    while trace.state == TraceState::Running {
        if is_to_end.load(Ordering::Relaxed) {
            trace = daemon.ask(&Request::Stop { id: trace.id })?;
            continue;
        }
        std::thread::sleep(ASK_INTERVAL);
        let traces: Vec<TraceStatus> = daemon.ask(&Request::Traces)?;
        let gone = || anyhow!("the daemon has forgotten trace {}", trace.id);
        trace = traces.into_iter().find(|other| other.id == trace.id).ok_or_else(gone)?;
    }
    let problem = trace.problem.as_ref().map_or(String::new(), |problem| format!("; {problem}"));
    if matches!(trace.state, TraceState::Failed | TraceState::Interrupted) {
        return Err(anyhow!("trace {}{problem}", trace.id));
    }
    let directory = brought(&trace.directory, raw.out.as_deref())?;
    say(format_args!(
        "{} requests{problem}. `pagesniff report {}` says what they tell.",
        trace.requests,
        directory.display()
    ));
    if trace.unattributed > 0 {
        say(format_args!(
            "{} requests came on connections whose tenant is not known: they are older than the daemon's table.",
            trace.unattributed
        ));
    }
    output_outcome(writeln!(io::stdout().lock(), "{}", directory.display()))
}

/// Keeps a tenant's latest requests.
///
/// # Errors
///
/// No daemon answers, or it refuses.
pub fn take_snapshot(raw: &RawSnapshot) -> anyhow::Result<Ended> {
    let mut daemon = Daemon::connect(&raw.socket.socket)?;
    let last_ms = u64::try_from(raw.last.as_millis()).unwrap_or(u64::MAX);
    let taken: Snapshot = daemon.ask(&Request::Snapshot { tenant: raw.tenant.to_string(), last_ms })?;
    let directory = brought(&taken.directory, raw.out.as_deref())?;
    say(format_args!("{} requests. `pagesniff report {}` says what they tell.", taken.requests, directory.display()));
    output_outcome(writeln!(io::stdout().lock(), "{}", directory.display()))
}

/// Copies traces to where they are wanted; says where they are.
fn brought(directory: &Path, wanted: Option<&Path>) -> anyhow::Result<PathBuf> {
    let Some(wanted) = wanted else { return Ok(directory.to_owned()) };
    let failed = |path: &Path, error: io::Error| {
        anyhow!("{}: {error}; the traces are in {}", path.display(), directory.display())
    };
    let files = trace::trace_files(&[directory])
        .map_err(|error| anyhow!("{error}; run it as a user who may read the daemon's data directory"))?;
    for file in files {
        let below = file.strip_prefix(directory).unwrap_or(&file);
        let to = wanted.join(below);
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(|error| failed(parent, error))?;
        }
        fs::copy(&file, &to).map_err(|error| failed(&to, error))?;
    }
    Ok(wanted.to_owned())
}

/// A running daemon.
struct Daemon {
    stream: BufReader<UnixStream>,
    path: PathBuf,
}

impl Daemon {
    fn connect(path: &Path) -> anyhow::Result<Self> {
        let at = path.display();
        let stream = UnixStream::connect(path).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                anyhow!("{at}: {error}: run it as root, or as a user whom control.mode of the daemon lets in")
            }
            io::ErrorKind::ConnectionRefused if !is_socket(path) => anyhow!(
                "{at}: this is no socket: --socket names the one that `pagesniff serve` has made, control.socket of its \
                 configuration"
            ),
            _ => anyhow!(
                "no daemon answers at {at}: {error}: `pagesniff serve` starts one, --socket says where another one is"
            ),
        })?;
        Ok(Self { stream: BufReader::new(stream), path: path.to_owned() })
    }

    fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> anyhow::Result<T> {
        let at = self.path.display();
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line).map_err(|error| anyhow!("{at}: the daemon has left: {error}"))?;
        let mut answer = Vec::new();
        self.stream.read_until(b'\n', &mut answer).map_err(|error| anyhow!("{at}: the daemon has left: {error}"))?;
        if answer.is_empty() {
            return Err(anyhow!("{at}: the daemon has left"));
        }
        match serde_json::from_slice(&answer).map_err(|error| anyhow!("{at}: this is no pagesniff daemon: {error}"))? {
            Reply::Ok(value) => understood(value),
            Reply::Error(error) => Err(anyhow!(error)),
        }
    }
}

/// Connecting to what is no socket is refused as by a daemon that is gone.
fn is_socket(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

/// An answer, in the form that it has to have.
fn understood<T: DeserializeOwned>(answer: serde_json::Value) -> anyhow::Result<T> {
    serde_json::from_value(answer).map_err(|error| anyhow!("the daemon is of another version: {error}"))
}
