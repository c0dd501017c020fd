//! What the daemon can be asked for, whoever asks and by whatever way: the inner interface.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};
use std::time::{Duration, Instant};

use bytesize::ByteSize;
use decode::OpenConnection;
use record::{TenantTimeline, Timestamp};
use trace::{TraceWriter, WriterConfig};

use super::checkpoint::{Checkpoints, replace_file};
use super::config::{Config, Kept};
use super::control::words::{
    ConnectionStatus, Firing, LoadStatus, RecorderStatus, ReloadStatus, Snapshot, Status, TenantStatus, TraceState,
    TraceStatus, TriggerStatus, Wanted, WorkerStatus,
};
use super::distribution::{ActiveTrace, Outlet, Way};
use super::load::{self, memory_bytes};
use super::sampling::Sampling;
use super::snapshot::{self, KeptSnapshot};
use super::subscription::{Places, Subscription};
use super::traces::{Traces, make_room, new_directory, wall_clock};
use super::triggers::CAUSE;
use super::waiting::WaitingList;
use super::watch::SETTLING;
use super::worker::Command;
use crate::filter::Filter;
use crate::flags::RawFilter;
use crate::recorder::{Clock, Faulted, OnFault, Recorded, RecorderThread};

/// A capturing thread looks at what it is asked for every 100 ms where nothing passes, and far more often where it does. One
/// that has not for so long is stuck.
const PATIENCE: Duration = Duration::from_secs(2);

/// A queue of 1024 records a batch: 4 MB for each trace and capturing thread, 0.1 s of the busiest tenant.
const TRACE_BATCHES: usize = 16;

/// A capturing thread, from outside.
pub(super) struct WorkerEnd {
    pub(super) interface: String,
    pub(super) commands: SyncSender<Command>,
    pub(super) looks: Arc<AtomicU64>,
}

/// The daemon, for whoever wants something of it.
pub struct Hub {
    config: RwLock<Arc<Config>>,
    started: Timestamp,
    workers: Vec<WorkerEnd>,
    ring: Mutex<Option<RecorderThread>>,
    traces: Arc<Traces>,
    checkpoints: Checkpoints,
    /// Which keys are kept. Held by who makes room and fills it, and by who changes what the configuration says.
    keeping: Mutex<Sampling>,
    reloads: Mutex<ReloadStatus>,
    load: Mutex<LoadStatus>,
    subscribers: Places,
    triggers: Mutex<Vec<TriggerStatus>>,
    waiting: WaitingList,
}

impl Hub {
    pub(super) fn new(
        config: Config,
        workers: Vec<WorkerEnd>,
        ring: Option<RecorderThread>,
        (traces, checkpoints): (Arc<Traces>, Checkpoints),
    ) -> Self {
        let sampling = Sampling { ring_one_in: config.ring_one_in(), factor: 1 };
        let (reloads, load) = (Mutex::default(), Mutex::new(load::at_start(&config)));
        let parents = [Kept::Traces, Kept::Snapshots].map(|what| config.directory_of(what));
        let waiting = if config.uploads() { WaitingList::left_in(&parents) } else { WaitingList::default() };
        let (ring, config, keeping) = (Mutex::new(ring), RwLock::new(Arc::new(config)), Mutex::new(sampling));
        let (subscribers, triggers) = (Places::default(), Mutex::default());
        Self {
            config,
            reloads,
            load,
            started: wall_clock(),
            workers,
            ring,
            traces,
            checkpoints,
            keeping,
            subscribers,
            triggers,
            waiting,
        }
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
            instance: self.config().instance.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_ns: self.started.0,
            connections: connections.len() as u64,
            unattributed_connections: connections.iter().filter(|open| open.owner.is_none()).count() as u64,
            tenants: tenants.len() as u64,
            workers: self.workers()?,
            recorder: self.ring().as_ref().map(|ring| self.recorder(ring)),
            traces: self.traces.all(),
            checkpoint: self.checkpoints.status(),
            reload: self.reloads().clone(),
            load: self.load().clone(),
            triggers: self.triggers.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            upload: self.config().uploads().then(|| self.waiting.status()),
        })
    }

    fn recorder(&self, ring: &RecorderThread) -> RecorderStatus {
        let Faulted { times, write_failed, error, limit } = ring.faulted();
        RecorderStatus {
            directory: self.config().directory_of(Kept::Ring),
            has_failed: ring.has_failed(),
            faults: times,
            write_failed,
            problem: error,
            limit,
        }
    }

    /// The configuration as it is now.
    pub(super) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes this one the configuration.
    pub(super) fn set_config(&self, config: Config) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }

    /// How the capturing threads are.
    ///
    /// # Errors
    ///
    /// One of them does not answer.
    pub fn workers(&self) -> Result<Vec<WorkerStatus>, String> {
        self.ask_all(Command::Status)
    }

    /// The connections as the decoders have them.
    pub(crate) fn open_connections(&self) -> Result<Vec<OpenConnection>, String> {
        let mut connections: Vec<_> = self.ask_all(Command::Connections)?.into_iter().flatten().collect();
        // One that is remembered may be remembered twice: the one that was heard of last counts.
        connections.sort_unstable_by_key(|open| (open.client, open.server, Reverse(open.known_at)));
        connections.dedup_by_key(|open| (open.client, open.server));
        Ok(connections)
    }

    /// The same with the interface of each.
    pub(super) fn known_connections(&self) -> Result<Vec<(String, OpenConnection)>, String> {
        let of_workers = self.workers.iter().zip(self.ask_all(Command::Connections)?);
        let named = |(worker, connections): (&WorkerEnd, Vec<OpenConnection>)| {
            connections.into_iter().map(|open| (worker.interface.clone(), open)).collect::<Vec<_>>()
        };
        Ok(of_workers.flat_map(named).collect())
    }

    /// The table of connections on the disk.
    pub(super) fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
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
        let duration = wanted.duration()?;
        let sampling = self.keeping();
        self.traces.check_room()?;
        self.check_memory()?;
        let max_bytes = wanted.max_bytes.unwrap_or(self.config().limits.tenant_bytes.as_u64());
        self.make_room(max_bytes)?;
        let parent = self.config().directory_of(Kept::Traces);
        let (id, directory) = new_directory(&parent).map_err(|error| format!("{}: {error}", parent.display()))?;
        let filter = Filter::from_raw(&raw, false);
        let sample_one_in = filter.sample_one_in().saturating_mul(sampling.factor);
        let config = self.config().asked_trace(&directory, (raw.in_words(), sample_one_in), max_bytes);
        let config = WriterConfig { is_late: self.traces.is_late(), ..config };
        let writer = TraceWriter::open(config).map_err(|error| error.to_string())?;
        let thread = RecorderThread::start(writer, Clock::Wall, OnFault::End)
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        let feeds: Vec<_> = self.workers.iter().map(|_| thread.feed(TRACE_BATCHES)).collect();
        let (started, until_instant) = (wall_clock(), Instant::now().checked_add(duration));
        let status = TraceStatus {
            id: id.clone(),
            directory,
            state: TraceState::Running,
            tenants: tenants_of(&raw),
            filter: raw.in_words(),
            started_ns: started.0,
            duration_ms: wanted.duration_ms,
            requests: 0,
            bytes: 0,
            lost_requests: 0,
            unattributed: 0,
            sample_one_in,
            problem: None,
        };
        self.traces.begin(status.clone(), thread, (feeds.len(), filter.sample_one_in()));
        let until = started.plus(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
        let mut feeds = feeds.into_iter();
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let begun = self.ask_all(|done| {
            let Some(feed) = feeds.next() else { return Command::HandOver(done) };
            let mut outlet = Outlet::new(filter.clone(), Way::Files(feed));
            outlet.shed(sampling.factor);
            let until_instant = until_instant.unwrap_or_else(Instant::now);
            let is_cancelled = Arc::clone(&is_cancelled);
            Command::Begin(Box::new(ActiveTrace { id: id.clone(), outlet, until, until_instant, is_cancelled }), done)
        });
        settle();
        // What one thread does not take is no trace: those that have begun it end it, and late ones never begin.
        begun.map(|_| status).inspect_err(|problem| {
            is_cancelled.store(true, Ordering::Relaxed);
            self.traces.fail(&id, problem);
        })
    }

    /// The most bytes of a trace that says nothing else.
    pub fn default_trace_bytes(&self) -> u64 {
        self.config().limits.tenant_bytes.as_u64()
    }

    /// Gives records as they come to whoever reads them. When this returns, every request that is answered from now on does.
    ///
    /// # Errors
    ///
    /// What is wanted makes no sense, there are too many subscribers, or a capturing thread does not answer.
    pub fn subscribe(&self, wanted: &Wanted) -> Result<Subscription, String> {
        let raw = wanted.filter()?;
        let duration = wanted.duration()?;
        let filter = Filter::from_raw(&raw, false);
        let sampling = self.keeping();
        self.check_memory()?;
        let (subscription, subscribers, is_cancelled) = self.subscribers.subscribe(self.workers.len())?;
        let until = wall_clock().plus(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
        let until_instant = Instant::now().checked_add(duration).unwrap_or_else(Instant::now);
        let mut subscribers = subscribers.into_iter();
        self.ask_all(|done| {
            let Some(subscriber) = subscribers.next() else { return Command::HandOver(done) };
            let mut outlet = Outlet::new(filter.clone(), Way::Subscriber(subscriber));
            outlet.shed(sampling.factor);
            // It is ended by its reader or by time; nobody calls it by a name.
            let (id, is_cancelled) = (String::new(), Arc::clone(&is_cancelled));
            Command::Begin(Box::new(ActiveTrace { id, outlet, until, until_instant, is_cancelled }), done)
        })?;
        settle();
        Ok(subscription)
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
        let _keeping = self.keeping();
        self.ask_all(Command::HandOver)?;
        if !ring.flush() {
            return Err("the flight recorder has ended by a fault".to_owned());
        }
        self.make_room(self.config().limits.tenant_bytes.as_u64())?;
        let since = Timestamp(wall_clock().0.saturating_sub(u64::try_from(last.as_nanos()).unwrap_or(u64::MAX)));
        let (kept, parent) = (self.config().directory_of(Kept::Ring), self.config().directory_of(Kept::Snapshots));
        snapshot::take(&kept, &parent, tenant, since)
    }

    /// Whether a trace may take more memory.
    fn check_memory(&self) -> Result<(), String> {
        let cap = self.config().memory_cap;
        match memory_bytes() {
            Some(bytes) if bytes > cap.as_u64() => Err(format!(
                "the daemon takes {} of memory, more than memory_cap, {cap}: it begins no further trace",
                ByteSize(bytes)
            )),
            _ => Ok(()),
        }
    }

    /// Deletes a trace that has ended, with its files.
    ///
    /// # Errors
    ///
    /// There is none of that name, it still runs, or its files cannot be deleted.
    pub fn delete_trace(&self, id: &str) -> Result<(), String> {
        let _keeping = self.keeping();
        self.traces.remove(id)
    }

    /// The snapshots that are there, oldest first.
    pub fn snapshots(&self) -> Vec<KeptSnapshot> {
        snapshot::all(&self.config().directory_of(Kept::Snapshots))
    }

    /// Of the snapshots that are there, the one of that name.
    pub fn snapshot_of(&self, id: &str) -> Option<KeptSnapshot> {
        snapshot::one(&self.config().directory_of(Kept::Snapshots), id)
    }

    /// Makes room for a trace or a snapshot of so many bytes.
    fn make_room(&self, bytes: u64) -> Result<(), String> {
        let limit = self.config().limits.traces_bytes;
        let parents = [Kept::Traces, Kept::Snapshots].map(|what| self.config().directory_of(what));
        let spared = [self.traces.running_directories(), self.waiting.directories()].concat();
        make_room(&parents, limit.as_u64(), bytes, &spared)
            .map_err(|error| format!("no room for it within limits.traces_bytes, {limit}: {error}"))
    }

    /// How far each capturing thread has come; one whose number stays the same is stuck.
    pub(super) fn looks(&self) -> Vec<u64> {
        self.workers.iter().map(|worker| worker.looks.load(Ordering::Relaxed)).collect()
    }

    /// Asks every capturing thread, and waits for the answers.
    pub(super) fn ask_all<T>(&self, mut command: impl FnMut(SyncSender<T>) -> Command) -> Result<Vec<T>, String> {
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

    /// The daemon's name.
    pub fn instance(&self) -> String {
        self.config().instance.clone()
    }

    /// How the rules stand.
    pub(super) fn set_triggers(&self, status: Vec<TriggerStatus>) {
        *self.triggers.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    /// A rule took what is in that directory: it says why, and is uploaded where that is wanted.
    pub(super) fn took(&self, firing: &Firing, directory: &Path) {
        if let Ok(mut cause) = serde_json::to_vec_pretty(firing) {
            cause.push(b'\n');
            // Where the disk does not take it, the log has it.
            let _ = replace_file(&directory.join(CAUSE), &cause);
        }
        if self.config().uploads() {
            self.waiting.add(directory);
        }
    }

    /// What waits for its upload.
    #[cfg(feature = "upload")]
    pub(super) fn waiting(&self) -> &WaitingList {
        &self.waiting
    }

    /// Ends the flight recorder, to which nobody gives any more.
    pub(super) fn finish_ring(&self) -> Option<Recorded> {
        let ring = self.ring().take();
        ring.map(RecorderThread::finish)
    }

    /// The traces that were asked for.
    pub(super) fn asked_traces(&self) -> &Traces {
        &self.traces
    }

    /// A panic elsewhere leaves it as it was.
    pub(super) fn keeping(&self) -> MutexGuard<'_, Sampling> {
        self.keeping.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same; `None` where somebody holds it.
    pub(super) fn try_keeping(&self) -> Option<MutexGuard<'_, Sampling>> {
        match self.keeping.try_lock() {
            Ok(keeping) => Some(keeping),
            Err(TryLockError::Poisoned(broken)) => Some(broken.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The same.
    pub(super) fn reloads(&self) -> MutexGuard<'_, ReloadStatus> {
        self.reloads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same.
    pub(super) fn load(&self) -> MutexGuard<'_, LoadStatus> {
        self.load.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same.
    pub(super) fn ring(&self) -> MutexGuard<'_, Option<RecorderThread>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until every packet is read by what is wanted now; until then one may have been let through by what was wanted before.
fn settle() {
    std::thread::sleep(SETTLING.saturating_mul(2));
}

/// Whose requests a filter wants.
fn tenants_of(raw: &RawFilter) -> Vec<String> {
    let mut tenants: Vec<_> = raw.owner.tenant.iter().map(|wanted| wanted.tenant.to_string()).collect();
    tenants.sort_unstable();
    tenants.dedup();
    tenants
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};
    use std::thread;

    use std::fs;

    use super::*;
    use crate::daemon::checkpoint::Restored;
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
    fn above_the_memory_cap_no_further_trace_begins() {
        let data = tempfile::tempdir().unwrap();
        let (least, held) = (ByteSize::mib(4), std::hint::black_box(vec![1_u8; 64 << 20]));
        let config = Config { memory: least, memory_cap: least, ..config(data.path()) };
        let checkpoints = Checkpoints::new(config.table(), &Restored::default());
        let hub =
            Hub::new(config, Vec::new(), None, (Arc::new(Traces::left_in(data.path(), &Arc::default())), checkpoints));
        let refused = hub.begin_trace(&serde_json::from_str(ONE_SECOND).unwrap()).unwrap_err();
        assert!(refused.contains(" of memory, more than memory_cap, 4") && held.len() > 4 << 20, "{refused}");
    }

    #[test]
    fn a_trace_that_one_thread_does_not_take_ends_at_the_others_and_leaves_its_place() {
        let data = tempfile::tempdir().unwrap();
        let ((willing, orders), (full, _unread)) = (end("a", 4), end("b", 0));
        let traces = Arc::new(Traces::left_in(data.path(), &Arc::default()));
        let config = config(data.path());
        let checkpoints = Checkpoints::new(config.table(), &Restored::default());
        let hub = Hub::new(config, vec![willing, full], None, (Arc::clone(&traces), checkpoints));
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
                ended.send(ending::Ended::Trace(id, outlet.way.into_feed().unwrap())).unwrap();
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
