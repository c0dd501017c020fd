//! What is said on the control socket: one JSON object a line, each way.
//!
//! ```text
//! {"command":"status"}                                                     → {"ok":{…}}
//! {"command":"trace","tenant":["3aab…"],"duration_ms":30000}               → {"ok":{"id":"20261202T…",…}}
//! {"command":"snapshot","tenant":"3aab…","last_ms":600000}                 → {"error":"nothing of tenant …"}
//! ```

use std::fmt::{self, Display};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::daemon::triggers::{Action, Figure};
use crate::flags::{RawFilter, RawOwnerFilter, SampleRate};

/// A trace that is wanted for longer is the flight recorder's business.
const LONGEST_TRACE: Duration = Duration::from_secs(24 * 3_600);

/// What is asked of the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Request {
    /// How it is: [`Status`].
    Status,
    /// Whose requests there were: a list of [`TenantStatus`].
    Tenants,
    /// Who is connected: a list of [`ConnectionStatus`].
    Connections,
    /// The traces that were asked for: a list of [`TraceStatus`].
    Traces,
    /// To begin a trace: its [`TraceStatus`].
    Trace(Wanted),
    /// To end a trace before its time: its [`TraceStatus`].
    Stop {
        /// Which.
        id: String,
    },
    /// To keep a tenant's latest requests for good: [`Snapshot`].
    Snapshot {
        /// Whose.
        tenant: String,
        /// How far back, in milliseconds.
        last_ms: u64,
    },
}

/// What it answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// What was asked for.
    Ok(serde_json::Value),
    /// Why not: one line, what was wrong and what to do.
    Error(String),
}

/// Which trace is wanted. The filters are those of the command line, with its words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// `--tenant`; all of them where it is empty.
    #[serde(default)]
    pub tenant: Vec<String>,
    /// `--stripe-size`, in blocks.
    #[serde(default)]
    pub stripe_size: Option<u32>,
    /// `--timeline`.
    #[serde(default)]
    pub timeline: Vec<String>,
    /// `--rel`.
    #[serde(default)]
    pub rel: Vec<String>,
    /// `--kind`.
    #[serde(default)]
    pub kind: Vec<String>,
    /// `--client`.
    #[serde(default)]
    pub client: Vec<String>,
    /// `--min-latency`, in nanoseconds.
    #[serde(default)]
    pub min_latency_ns: Option<u64>,
    /// `--sample`: one key in so many.
    #[serde(default)]
    pub sample_one_in: Option<u64>,
    /// How long, in milliseconds.
    pub duration_ms: u64,
    /// The most bytes of it; the configuration's `limits.tenant_bytes` where nothing is said.
    #[serde(default)]
    pub max_bytes: Option<u64>,
}

impl Wanted {
    /// A trace of what a command line's filters want.
    pub fn new(filter: &RawFilter, duration: Duration, max_bytes: Option<u64>) -> Self {
        Self {
            tenant: texts(&filter.owner.tenant),
            stripe_size: Some(filter.owner.stripe_size),
            timeline: texts(&filter.owner.timeline),
            rel: texts(&filter.rel),
            kind: texts(&filter.kind),
            client: texts(&filter.owner.client),
            min_latency_ns: filter.min_latency.map(|least| u64::try_from(least.as_nanos()).unwrap_or(u64::MAX)),
            sample_one_in: filter.sample.map(|sample| sample.one_in),
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            max_bytes,
        }
    }

    /// Every request of a tenant, for so long.
    pub fn of_tenant(tenant: String, duration: Duration) -> Self {
        Self { tenant: vec![tenant], ..Self::new(&RawFilter::default(), duration, None) }
    }

    /// How long.
    ///
    /// # Errors
    ///
    /// For no time, or for too long.
    pub fn duration(&self) -> Result<Duration, String> {
        let duration = Duration::from_millis(self.duration_ms);
        if duration.is_zero() || duration > LONGEST_TRACE {
            return Err("duration_ms: give 1 to 86400000, a day".to_owned());
        }
        Ok(duration)
    }

    /// The filters.
    ///
    /// # Errors
    ///
    /// One that does not have its form; says which.
    pub fn filter(&self) -> Result<RawFilter, String> {
        if self.stripe_size == Some(0) || self.sample_one_in == Some(0) {
            return Err("stripe_size and sample_one_in: give at least 1".to_owned());
        }
        let owner = RawOwnerFilter {
            tenant: parsed("tenant", &self.tenant)?,
            stripe_size: self.stripe_size.unwrap_or(RawOwnerFilter::default().stripe_size),
            timeline: parsed("timeline", &self.timeline)?,
            client: parsed("client", &self.client)?,
        };
        Ok(RawFilter {
            owner,
            rel: parsed("rel", &self.rel)?,
            kind: parsed("kind", &self.kind)?,
            min_latency: self.min_latency_ns.map(Duration::from_nanos),
            sample: self.sample_one_in.map(|one_in| SampleRate { one_in }),
        })
    }
}

fn texts<T: Display>(values: &[T]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

fn parsed<T: FromStr<Err: Display>>(name: &str, texts: &[String]) -> Result<Vec<T>, String> {
    texts.iter().map(|text| text.parse().map_err(|error| format!("{name}: {text}: {error}"))).collect()
}

/// How the daemon is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Its instance name.
    pub instance: String,
    /// Its version.
    pub version: String,
    /// When it began, in unix nanoseconds.
    pub started_ns: u64,
    /// Pagestream connections that are open.
    pub connections: u64,
    /// How many of them have no known tenant.
    pub unattributed_connections: u64,
    /// Tenants with an open connection.
    pub tenants: u64,
    /// Its capturing threads.
    pub workers: Vec<WorkerStatus>,
    /// The flight recorder; `None` where it is off.
    pub recorder: Option<RecorderStatus>,
    /// The traces that were asked for.
    pub traces: Vec<TraceStatus>,
    /// The table of connections on the disk.
    #[serde(default)]
    pub checkpoint: CheckpointStatus,
    /// What became of SIGHUP.
    #[serde(default)]
    pub reload: ReloadStatus,
    /// What it takes of the machine.
    #[serde(default)]
    pub load: LoadStatus,
    /// The rules that captures begin by.
    #[serde(default)]
    pub triggers: Vec<TriggerStatus>,
    /// What they took, on its way into the object store; `None` where there is none.
    #[serde(default)]
    pub upload: Option<UploadStatus>,
}

/// How a rule stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TriggerStatus {
    /// Its name.
    pub name: String,
    /// How often it has acted.
    pub acted: u64,
    /// How often it would have, but had for the same timeline a short time ago.
    pub cooled_down: u64,
    /// How often it would have, but had too often that day.
    pub over_budget: u64,
    /// What it did last.
    pub last: Option<Firing>,
    /// Why it is not looked at.
    pub problem: Option<String>,
}

/// Why a capture or snapshot was taken, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Firing {
    /// The rule's name.
    pub trigger: String,
    /// When, in unix nanoseconds.
    pub time_ns: u64,
    /// Whose requests.
    pub tenant: String,
    /// Of which timeline.
    pub timeline: String,
    /// What was looked at.
    pub figure: Figure,
    /// How it was.
    pub value: f64,
    /// It was to be no more than this.
    pub above: f64,
    /// What was done.
    pub action: Action,
    /// The capture's or snapshot's name.
    pub id: Option<String>,
    /// Why there is none.
    pub problem: Option<String>,
}

impl Display for Firing {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trigger, tenant, timeline, figure, value, above, .. } = self;
        let figure = figure.as_str();
        write!(
            to,
            "trigger {trigger}: {figure} of tenant {tenant}, timeline {timeline} is {value:.3}, above {above}: "
        )?;
        let what = match self.action {
            Action::Capture => "capture",
            Action::Snapshot => "snapshot",
        };
        match (&self.id, &self.problem) {
            (Some(id), _) => write!(to, "{what} {id}"),
            (None, problem) => write!(to, "no {what}: {}", problem.as_deref().unwrap_or_default()),
        }
    }
}

/// How uploading stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadStatus {
    /// Captures and snapshots that have not arrived. Their files stay until they have.
    pub waiting: u64,
    /// Those that have arrived.
    pub arrived: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Tries that failed.
    pub failed_tries: u64,
    /// Why the last one did.
    pub problem: Option<String>,
}

/// What the daemon takes of the machine, and what it sheds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadStatus {
    /// The CPU budget, in percent of one core; `None` is any.
    pub cpu_budget_percent: Option<f64>,
    /// What was used in the last second, in percent of one core.
    pub cpu_used_percent: f64,
    /// By how many times fewer keys are kept than are wanted; 1 where nothing is shed.
    pub factor: u64,
    /// How often fewer keys were kept than before.
    pub tightened: u64,
    /// Memory of the process, without what it maps of the kernel's buffers and of files.
    pub memory_bytes: Option<u64>,
    /// Above it no further trace begins.
    pub memory_cap_bytes: u64,
}

/// How reading the configuration again went.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadStatus {
    /// How often it was read again.
    pub times: u64,
    /// Why the last time changed nothing.
    pub refused: Option<String>,
    /// Keys of the configuration whose new values hold from the next start only.
    pub at_the_next_start: Vec<String>,
}

/// How the table of connections on the disk is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointStatus {
    /// Where it is.
    pub path: PathBuf,
    /// Connections that it had when the daemon began.
    pub restored: u64,
    /// Why it could not be used then.
    pub refused: Option<String>,
    /// Connections in it now.
    pub connections: u64,
    /// When it was written last, in unix nanoseconds.
    pub written_ns: Option<u64>,
    /// How often it could not be written.
    pub failures: u64,
    /// Why it could not be written last.
    pub problem: Option<String>,
}

/// How a capturing thread is. Counters begin at its start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// What it captures on.
    pub interface: String,
    /// What the kernel lets through to it.
    #[serde(default)]
    pub passing: String,
    /// Packets that it was given.
    pub packets: u64,
    /// Their bytes on the wire.
    pub wire_bytes: u64,
    /// Requests that it saw.
    pub requests: u64,
    /// Those of them whose tenant is not known.
    pub unattributed: u64,
    /// Memory that its decoder takes, in bytes.
    pub memory_bytes: u64,
    /// Packets that the kernel dropped since its buffer was full.
    pub kernel_dropped: u64,
    /// Packets that the interface dropped.
    pub interface_dropped: u64,
    /// Bytes that are missing in connections.
    pub gap_bytes: u64,
    /// Requests that are missing.
    pub lost_requests: u64,
    /// Answers that are missing.
    pub lost_responses: u64,
    /// Connections that were forgotten for want of memory.
    pub evicted_connections: u64,
    /// Requests that the recorder had no room for.
    pub queue_dropped: u64,
    /// How often the interface went down or away.
    #[serde(default)]
    pub interruptions: u64,
    /// Why nothing is captured at present.
    #[serde(default)]
    pub problem: Option<String>,
}

/// How the flight recorder is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecorderStatus {
    /// Where its traces are.
    pub directory: PathBuf,
    /// Whether its disk takes nothing at present.
    pub has_failed: bool,
    /// How often its disk has begun to take nothing.
    #[serde(default)]
    pub faults: u64,
    /// Requests that could not be written.
    #[serde(default)]
    pub write_failed: u64,
    /// The last error, where there was one.
    #[serde(default)]
    pub problem: Option<String>,
    /// Which limit left requests out, where one did.
    #[serde(default)]
    pub limit: Option<String>,
}

/// What is known of a tenant's timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantStatus {
    /// The tenant.
    pub tenant: String,
    /// Its timeline.
    pub timeline: String,
    /// Its open connections.
    pub connections: u64,
    /// Its requests since the daemon began.
    pub requests: u64,
}

/// An open pagestream connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionStatus {
    /// The compute's end.
    pub client: String,
    /// The pageserver's end.
    pub server: String,
    /// Whose it is, where that is known.
    pub tenant: Option<String>,
    /// Of which timeline.
    pub timeline: Option<String>,
    /// How that is known.
    pub attribution: Option<String>,
    /// The version of its pagestream.
    pub protocol: u8,
    /// The process that asks, where that is known.
    pub backend_pid: Option<u32>,
}

/// Where a trace that was asked for stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceState {
    /// Requests are taken.
    Running,
    /// Everything is in its files.
    Done,
    /// It could not be written to its end; what was written before is whole.
    Failed,
    /// The daemon ended in the middle of it, by no will of its own.
    Interrupted,
}

/// A trace that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceStatus {
    /// Its name.
    pub id: String,
    /// Where its files are.
    pub directory: PathBuf,
    /// Where it stands.
    pub state: TraceState,
    /// Whose requests were asked for; everybody's where it is empty.
    #[serde(default)]
    pub tenants: Vec<String>,
    /// Its filters, as words of a command line.
    pub filter: String,
    /// When it began, in unix nanoseconds.
    pub started_ns: u64,
    /// How long it was to take, in milliseconds.
    pub duration_ms: u64,
    /// Requests in it; 0 while it runs.
    pub requests: u64,
    /// Bytes of its files; 0 while it runs.
    pub bytes: u64,
    /// Requests that had to be left out: no room in its queue, or its limit.
    pub lost_requests: u64,
    /// Requests on connections whose tenant is not known.
    pub unattributed: u64,
    /// One key in how many is kept: what was asked for, or the fewest so far where load is shed.
    #[serde(default = "every_key")]
    pub sample_one_in: u64,
    /// What went wrong, or which limit left requests out.
    pub problem: Option<String>,
}

fn every_key() -> u64 {
    1
}

/// A tenant's latest requests, kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Its name.
    #[serde(default)]
    pub id: String,
    /// Where its files are.
    pub directory: PathBuf,
    /// Requests in it.
    pub requests: u64,
    /// Bytes of its files.
    pub bytes: u64,
}
