//! What the daemon can be asked for, whoever asks and by whatever way: the inner interface.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use decode::OpenConnection;
use record::{TenantTimeline, Timestamp};
use trace::TraceWriter;

use super::config::{Config, Kept};
use super::control::words::{
    ConnectionStatus, RecorderStatus, Snapshot, Status, TenantStatus, TraceState, TraceStatus, Wanted, WorkerStatus,
};
use super::distribution::{ActiveTrace, Outlet};
use super::snapshot;
use super::traces::{Traces, make_room, new_directory, wall_clock};
use super::worker::Command;
use crate::filter::Filter;
use crate::recorder::{Clock, Recorded, RecorderThread};

/// A capturing thread looks at what it is asked for every 100 ms where nothing passes, and far more often where it does. One
/// that has not for so long is stuck.
const PATIENCE: Duration = Duration::from_secs(2);

/// A queue of 1024 records a batch: 4 MB for each trace and capturing thread, 0.1 s of the busiest tenant.
const TRACE_BATCHES: usize = 16;

/// A trace that is wanted for longer is the flight recorder's business.
const LONGEST_TRACE: Duration = Duration::from_secs(24 * 3_600);

/// A capturing thread, from outside.
pub(super) struct WorkerEnd {
    pub(super) interface: String,
    pub(super) commands: SyncSender<Command>,
    pub(super) looks: Arc<AtomicU64>,
}

/// The daemon, for whoever wants something of it.
pub struct Hub {
    config: Config,
    started: Timestamp,
    workers: Vec<WorkerEnd>,
    ring: Mutex<Option<RecorderThread>>,
    traces: Arc<Traces>,
    /// Held by who makes room and fills it.
    keeping: Mutex<()>,
}

impl Hub {
    pub(super) fn new(
        config: Config,
        workers: Vec<WorkerEnd>,
        ring: Option<RecorderThread>,
        traces: Arc<Traces>,
    ) -> Self {
        Self { config, started: wall_clock(), workers, ring: Mutex::new(ring), traces, keeping: Mutex::new(()) }
    }

    /// How the daemon is.
    ///
    /// # Errors
    ///
    /// A capturing thread does not answer.
    pub fn status(&self) -> Result<Status, String> {
        let connections = self.open_connections()?;
        let mut tenants: Vec<_> = connections.iter().filter_map(|open| open.owner).map(|owner| owner.tenant).collect();
        tenants.sort_unstable();
        tenants.dedup();
        Ok(Status {
            instance: self.config.instance.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_ns: self.started.0,
            connections: connections.len() as u64,
            unattributed_connections: connections.iter().filter(|open| open.owner.is_none()).count() as u64,
            tenants: tenants.len() as u64,
            workers: self.workers()?,
            recorder: self.ring().as_ref().map(|ring| RecorderStatus {
                directory: self.config.directory_of(Kept::Ring),
                has_failed: ring.has_failed(),
            }),
            traces: self.traces.all(),
        })
    }

    fn workers(&self) -> Result<Vec<WorkerStatus>, String> {
        self.ask_all(Command::Status)
    }

    /// The connections as the decoders have them.
    pub(super) fn open_connections(&self) -> Result<Vec<OpenConnection>, String> {
        let mut connections: Vec<_> = self.ask_all(Command::Connections)?.into_iter().flatten().collect();
        connections.sort_unstable_by_key(|open| (open.client, open.server));
        Ok(connections)
    }

    /// The pagestream connections.
    ///
    /// # Errors
    ///
    /// A capturing thread does not answer.
    pub fn connections(&self) -> Result<Vec<ConnectionStatus>, String> {
        let said = |open: &OpenConnection| ConnectionStatus {
            client: open.client.to_string(),
            server: open.server.to_string(),
            tenant: open.owner.map(|owner| owner.tenant.to_string()),
            timeline: open.owner.map(|owner| owner.timeline.to_string()),
            attribution: open.attribution.map(|how| how.to_string()),
            protocol: open.protocol.number(),
            backend_pid: open.backend_pid,
        };
        Ok(self.open_connections()?.iter().map(said).collect())
    }

    /// The tenants that are connected, or have had requests.
    ///
    /// # Errors
    ///
    /// A capturing thread does not answer.
    pub fn tenants(&self) -> Result<Vec<TenantStatus>, String> {
        let mut tenants = BTreeMap::new();
        for owner in self.open_connections()?.iter().filter_map(|open| open.owner) {
            let (connections, _) = tenants.entry(owner).or_insert((0_u64, 0_u64));
            *connections = connections.saturating_add(1);
        }
        for (owner, more) in self.ask_all(Command::Tenants)?.into_iter().flatten() {
            let (_, requests) = tenants.entry(owner).or_insert((0, 0));
            *requests = requests.saturating_add(more);
        }
        let said = |(owner, (connections, requests)): (TenantTimeline, (u64, u64))| TenantStatus {
            tenant: owner.tenant.to_string(),
            timeline: owner.timeline.to_string(),
            connections,
            requests,
        };
        Ok(tenants.into_iter().map(said).collect())
    }

    /// The traces that were asked for, oldest first.
    pub fn traces(&self) -> Vec<TraceStatus> {
        self.traces.all()
    }

    /// Begins a trace. When this returns, every request that is answered from now on comes into it.
    ///
    /// # Errors
    ///
    /// What is wanted makes no sense, there is no room for it, or it cannot be written.
    pub fn begin_trace(&self, wanted: &Wanted) -> Result<TraceStatus, String> {
        let raw = wanted.filter()?;
        let duration = Duration::from_millis(wanted.duration_ms);
        if duration.is_zero() || duration > LONGEST_TRACE {
            return Err("duration_ms: give 1 to 86400000, a day".to_owned());
        }
        let _keeping = self.keeping.lock().unwrap_or_else(PoisonError::into_inner);
        self.traces.check_room()?;
        let max_bytes = wanted.max_bytes.unwrap_or(self.config.limits.tenant_bytes.as_u64());
        self.make_room(max_bytes)?;
        let parent = self.config.directory_of(Kept::Traces);
        let (id, directory) = new_directory(&parent).map_err(|error| format!("{}: {error}", parent.display()))?;
        let filter = Filter::from_raw(&raw, false);
        let config = self.config.asked_trace(&directory, (raw.in_words(), filter.sample_one_in()), max_bytes);
        let writer = TraceWriter::open(config).map_err(|error| error.to_string())?;
        let thread =
            RecorderThread::start(writer, Clock::Wall).map_err(|error| format!("cannot start a thread: {error}"))?;
        let feeds: Vec<_> = self.workers.iter().map(|_| thread.feed(TRACE_BATCHES)).collect();
        let (started, until_instant) = (wall_clock(), Instant::now().checked_add(duration));
        let status = TraceStatus {
            id: id.clone(),
            directory,
            state: TraceState::Running,
            filter: raw.in_words(),
            started_ns: started.0,
            duration_ms: wanted.duration_ms,
            requests: 0,
            bytes: 0,
            lost_requests: 0,
            unattributed: 0,
            problem: None,
        };
        self.traces.begin(status.clone(), thread, feeds.len());
        let until = started.plus(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
        let mut feeds = feeds.into_iter();
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let begun = self.ask_all(|done| {
            let Some(feed) = feeds.next() else { return Command::HandOver(done) };
            let outlet = Outlet::new(filter.clone(), feed);
            let until_instant = until_instant.unwrap_or_else(Instant::now);
            let is_cancelled = Arc::clone(&is_cancelled);
            Command::Begin(Box::new(ActiveTrace { id: id.clone(), outlet, until, until_instant, is_cancelled }), done)
        });
        // What one thread does not take is no trace: those that have begun it end it, and late ones never begin.
        begun.map(|_| status).inspect_err(|problem| {
            is_cancelled.store(true, Ordering::Relaxed);
            self.traces.fail(&id, problem);
        })
    }

    /// Ends a trace before its time, and waits until everything is written.
    ///
    /// # Errors
    ///
    /// There is none of that name, or a capturing thread does not answer.
    pub fn end_trace(&self, id: &str) -> Result<TraceStatus, String> {
        let none = || format!("there is no trace {id}; `pagesniff status` lists them");
        self.traces.one(id).ok_or_else(none)?;
        self.ask_all(|done| Command::End(id.to_owned(), done))?;
        let asked = Instant::now();
        loop {
            let status = self.traces.one(id).ok_or_else(none)?;
            if status.state != TraceState::Running || asked.elapsed() >= PATIENCE {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Keeps a tenant's latest requests, out of the flight recorder, for good.
    ///
    /// # Errors
    ///
    /// There are none, the flight recorder is off, or they cannot be written.
    pub fn snapshot(&self, tenant: &str, last: Duration) -> Result<Snapshot, String> {
        let tenant = tenant.parse().map_err(|error| format!("tenant: {tenant}: {error}"))?;
        let ring = self.ring();
        let Some(ring) = &*ring else {
            return Err(
                "the flight recorder is off: there is nothing to take a snapshot of; `enabled` in the section \
                        [recorder] of the configuration turns it on"
                    .to_owned(),
            );
        };
        let _keeping = self.keeping.lock().unwrap_or_else(PoisonError::into_inner);
        self.ask_all(Command::HandOver)?;
        if !ring.flush() {
            return Err("the flight recorder has ended by a fault".to_owned());
        }
        self.make_room(self.config.limits.tenant_bytes.as_u64())?;
        let since = Timestamp(wall_clock().0.saturating_sub(u64::try_from(last.as_nanos()).unwrap_or(u64::MAX)));
        let (kept, parent) = (self.config.directory_of(Kept::Ring), self.config.directory_of(Kept::Snapshots));
        snapshot::take(&kept, &parent, tenant, since)
    }

    /// Makes room for a trace or a snapshot of so many bytes.
    fn make_room(&self, bytes: u64) -> Result<(), String> {
        let limit = self.config.limits.traces_bytes;
        let parents = [Kept::Traces, Kept::Snapshots].map(|what| self.config.directory_of(what));
        let running: Vec<PathBuf> = self.traces.running_directories();
        make_room(&parents, limit.as_u64(), bytes, &running)
            .map_err(|error| format!("no room for it within limits.traces_bytes, {limit}: {error}"))
    }

    /// How far each capturing thread has come; one whose number stays the same is stuck.
    pub(super) fn looks(&self) -> Vec<u64> {
        self.workers.iter().map(|worker| worker.looks.load(Ordering::Relaxed)).collect()
    }

    /// Asks every capturing thread, and waits for the answers.
    fn ask_all<T>(&self, mut command: impl FnMut(SyncSender<T>) -> Command) -> Result<Vec<T>, String> {
        let mut answers = Vec::new();
        for worker in &self.workers {
            let (reply, answer) = sync_channel(1);
            let refused = worker.commands.try_send(command(reply)).err();
            answers.push((&worker.interface, refused.is_none().then_some(answer)));
            if let Some(TrySendError::Full(refused) | TrySendError::Disconnected(refused)) = refused {
                self.take_back(refused);
            }
        }
        let asked = Instant::now();
        let mut answered = Vec::new();
        for (interface, answer) in answers {
            let left = PATIENCE.saturating_sub(asked.elapsed());
            let value = answer.and_then(|answer| answer.recv_timeout(left).ok());
            answered.push(value.ok_or_else(|| format!("the thread that captures on {interface} does not answer"))?);
        }
        Ok(answered)
    }

    /// A capturing thread had no room for this command. A trace that it was to begin will get nothing from it.
    fn take_back(&self, refused: Command) {
        if let Command::Begin(trace, _) = refused {
            let ActiveTrace { id, outlet, .. } = *trace;
            // The trace's thread waits for the end of every feed.
            drop(outlet);
            self.traces.one_feed_less(&id);
        }
    }

    /// Ends the flight recorder, to which nobody gives any more.
    pub(super) fn finish_ring(&self) -> Option<Recorded> {
        let ring = self.ring().take();
        ring.map(RecorderThread::finish)
    }

    /// A panic elsewhere leaves it as it was.
    fn ring(&self) -> MutexGuard<'_, Option<RecorderThread>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc::{Receiver, channel};
    use std::thread;

    use super::*;
    use crate::daemon::ending;

    const ONE_SECOND: &str = r#"{"duration_ms":1000,"max_bytes":1048576}"#;

    fn config(data: &std::path::Path) -> Config {
        let file = data.join("c.toml");
        let (a, b) = ("interfaces = [\"a\", \"b\"]", "instance = \"n\"");
        fs::write(&file, format!("{a}\n{b}\ndata_directory = \"{}\"\n", data.display())).unwrap();
        Config::read(&file).unwrap()
    }

    fn end(interface: &str, most_commands: usize) -> (WorkerEnd, Receiver<Command>) {
        let (commands, orders) = sync_channel(most_commands);
        (WorkerEnd { interface: interface.to_owned(), commands, looks: Arc::default() }, orders)
    }

    #[test]
    fn a_trace_that_one_thread_does_not_take_ends_at_the_others_and_leaves_its_place() {
        let data = tempfile::tempdir().unwrap();
        let ((willing, orders), (full, _unread)) = (end("a", 4), end("b", 0));
        let traces = Arc::new(Traces::new());
        let hub = Hub::new(config(data.path()), vec![willing, full], None, Arc::clone(&traces));
        let (ended, to_end) = channel();
        let ending = {
            let traces = Arc::clone(&traces);
            thread::spawn(move || ending::run(&to_end, &traces))
        };
        // A capturing thread: it takes a trace, and gives it back when it is over.
        let worker = thread::spawn(move || {
            for command in orders {
                let Command::Begin(trace, done) = command else { continue };
                let _ = done.try_send(());
                while !trace.is_cancelled.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
                let ActiveTrace { id, outlet, .. } = *trace;
                ended.send(ending::Ended::Trace(id, outlet.feed)).unwrap();
            }
        });
        let wanted: Wanted = serde_json::from_str(ONE_SECOND).unwrap();
        for _ in 0..20 {
            let refused = hub.begin_trace(&wanted).unwrap_err();
            assert_eq!(refused, "the thread that captures on b does not answer");
            while traces.all().iter().any(|trace| trace.state == TraceState::Running) {
                thread::yield_now();
            }
        }
        drop(hub);
        worker.join().unwrap();
        ending.join().unwrap();
        assert_eq!(traces.all().len(), 20);
        for trace in traces.all() {
            let expected = Some("the thread that captures on b does not answer".to_owned());
            assert_eq!((trace.state, trace.problem), (TraceState::Failed, expected));
        }
    }
}
