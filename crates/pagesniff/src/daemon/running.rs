//! The daemon from its start to its end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::anyhow;
use decode::Decoder;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use trace::{Counter, TraceError, TraceWriter, WriterConfig};

use super::RawServe;
use super::checkpoint::{self, Checkpoints, Restored};
use super::config::{Config, Kept};
use super::confine::confine;
use super::control::Control;
use super::control::words::WorkerStatus;
use super::distribution::{Distribution, Outlet, Way};
use super::ending;
use super::hub::{Hub, WorkerEnd};
use super::interface::Interface;
use super::load::Load;
use super::notify::{Notify, Watchdog};
use super::status_text::losses_text;
use super::traces::Traces;
use super::triggers;
#[cfg(feature = "upload")]
use super::upload;
use super::watch::Watch;
use super::worker::Worker;
#[cfg(feature = "api")]
use crate::api::{Listener, Served};
use crate::recorder::{Clock, MOST_BATCHES, OnFault, RecorderThread};
use crate::run::Ended;
use crate::terminal::say;

/// So many orders wait for a capturing thread, two of each client at once.
const MOST_COMMANDS: usize = 32;

/// How often signals are looked at.
const TICK: Duration = Duration::from_millis(100);

/// A full disk is rarely better a moment later, and a try costs a block of every tenant that has one waiting.
const RECORDER_PAUSE: Duration = Duration::from_secs(10);

/// What waits at the end is written for so long; then its loss is counted, so that the end comes within the five seconds in
/// which it is expected. Thousands of tenants that begin at once take a file each.
const LONGEST_WRITING: Duration = Duration::from_millis(2_500);

/// Captures until a signal or a failure ends it.
pub(super) fn run(config: Config, raw: &RawServe) -> anyhow::Result<Ended> {
    let stop = Arc::new(AtomicBool::new(false));
    let reload = Arc::new(AtomicBool::new(false));
    flag::register(SIGHUP, Arc::clone(&reload))?;
    for signal in [SIGTERM, SIGINT] {
        // In this order: the first signal finds the flag not set yet, the second ends the program at once.
        flag::register_conditional_default(signal, Arc::clone(&stop))?;
        flag::register(signal, Arc::clone(&stop))?;
    }
    // Everything is opened before anything runs: what fails, fails before systemd is told that all is well.
    let open = |interface: &String| Interface::open(config.live(interface), Arc::clone(&stop));
    let interfaces = config.interfaces.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    #[cfg(feature = "api")]
    let api = config.api.as_ref().map(|api| Listener::open(api, &config.authentication)).transpose();
    #[cfg(feature = "api")]
    let api = api.map_err(|error| anyhow!(error))?;
    // From here on as another user: what is made belongs to that one, and no interface can be opened any more.
    let unconfined = confine(&config, raw)?;
    let mode = config.mode().unwrap_or_default();
    let control = Control::bind(&config.control.socket, mode).map_err(|error| anyhow!(error))?;
    let is_late = Arc::new(AtomicBool::new(false));
    let ring = config.recorder.enabled.then(|| WriterConfig { is_late: Arc::clone(&is_late), ..config.ring() });
    let ring = ring.map(TraceWriter::open).transpose().map_err(not_writable)?;
    let start_ring = |writer| RecorderThread::start(writer, Clock::Wall, OnFault::TryAgainAfter(RECORDER_PAUSE));
    let ring = ring.map(start_ring).transpose().map_err(no_thread)?;

    let restored = Restored::read(&config.table());
    let checkpoints = Checkpoints::new(config.table(), &restored);
    let traces = Arc::new(Traces::left_in(&config.directory_of(Kept::Traces), &is_late));
    let (ended, to_end) = channel();
    let ending = {
        let traces = Arc::clone(&traces);
        thread::Builder::new().name("ending".into()).spawn(move || ending::run(&to_end, &traces)).map_err(no_thread)?
    };
    let (ends, threads) = start(interfaces, &config, (ring.as_ref(), &restored, &ended))?;
    drop(ended);
    let hub = Arc::new(Hub::new(config.clone(), ends, ring, (traces, checkpoints)));
    let checkpoint = checkpoint::start(Arc::clone(&hub), Arc::clone(&stop)).map_err(no_thread)?;
    let triggers = triggers::start(Arc::clone(&hub), Arc::clone(&stop)).map_err(no_thread)?;
    #[cfg(feature = "upload")]
    let uploading = config.upload.as_ref().map(|config| upload::start(config, Arc::clone(&hub), Arc::clone(&stop)));
    #[cfg(feature = "upload")]
    let uploading = uploading.transpose().map_err(|error| anyhow!(error))?;
    control.serve(Arc::clone(&hub)).map_err(no_thread)?;
    #[cfg(feature = "api")]
    let served = api.map(|listener| serve(listener, &hub, &config)).transpose()?;
    let notify = Notify::from_environment();
    notify.tell("READY=1");
    say(format_args!("Capturing on {}.\n{}", config.interfaces.join(", "), config.in_words().trim_end()));
    #[cfg(feature = "api")]
    served.iter().for_each(|served| say(format_args!("The HTTP API is at {}.", served.url())));
    unconfined.iter().chain(&restored.problem).for_each(|missing| say(format_args!("note: {missing}")));

    let mut load = Load::new();
    let look_at_load = || {
        if let Some(status) = load.look(&hub.config()) {
            *hub.load() = status;
        }
        hub.keep_wanted_keys(load.factor());
    };
    let read_anew = || say(format_args!("{}", hub.reload(Config::read(&raw.config))));
    let outcome = watch((&threads, Watchdog::new(&hub, &notify)), &stop, (&reload, read_anew, look_at_load));

    notify.tell("STOPPING=1");
    #[cfg(feature = "api")]
    drop(served);
    stop.store(true, Ordering::Relaxed);
    // Where there is no thread for it, all the rest is written.
    let _ = thread::Builder::new().name("deadline".into()).spawn(move || {
        thread::sleep(LONGEST_WRITING);
        is_late.store(true, Ordering::Relaxed);
    });
    let last_words: Vec<_> = threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
    last_words.iter().filter_map(losses_text).for_each(|losses| say(format_args!("{}", losses.trim_end())));
    let _ = (ending.join(), checkpoint.join(), triggers.join());
    #[cfg(feature = "upload")]
    let _ = uploading.map(JoinHandle::join);
    drop(control);
    finish(&hub)?;
    outcome.map(|()| Ended::Done)
}

/// Serves the HTTP API.
#[cfg(feature = "api")]
fn serve(listener: Listener, hub: &Arc<Hub>, config: &Config) -> anyhow::Result<Served> {
    listener.serve(Arc::clone(hub), &config.audit_log()).map_err(|error| anyhow!(error))
}

/// The capturing threads, from outside, and to be waited for.
type Started = (Vec<WorkerEnd>, Vec<JoinHandle<WorkerStatus>>);

/// Starts a capturing thread for each interface: into the flight recorder, and with what is known of connections.
fn start(
    interfaces: Vec<Interface>,
    config: &Config,
    (ring, restored, ended): (Option<&RecorderThread>, &Restored, &Sender<ending::Ended>),
) -> anyhow::Result<Started> {
    let mut started = Started::default();
    for interface in interfaces {
        let name = interface.name().to_owned();
        let (commands, orders) = sync_channel(MOST_COMMANDS);
        let looks = Arc::new(AtomicU64::new(0));
        let outlet = ring.map(|ring| Outlet::new(config.ring_filter(), Way::Files(ring.feed(MOST_BATCHES))));
        let mut decoder = Decoder::new(config.decode());
        restored.of(&name, &config.interfaces).for_each(|connection| decoder.remember(connection));
        let worker = Worker {
            interface,
            decoder,
            watch: Watch::new(&config.ports),
            sink: Distribution::new(outlet),
            commands: orders,
            ended: ended.clone(),
            looks: Arc::clone(&looks),
        };
        started.0.push(WorkerEnd { interface: name, commands, looks });
        let thread = thread::Builder::new().name("capture".into()).spawn(move || worker.run());
        started.1.push(thread.map_err(no_thread)?);
    }
    Ok(started)
}

/// Waits for the end, and reads the configuration anew where that is asked for. A capturing thread does not end by itself.
fn watch(
    (threads, mut watchdog): (&[JoinHandle<WorkerStatus>], Watchdog<'_>),
    stop: &AtomicBool,
    (reload, read_anew, mut each_tick): (&AtomicBool, impl Fn(), impl FnMut()),
) -> anyhow::Result<()> {
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(TICK);
        if threads.iter().any(JoinHandle::is_finished) && !stop.load(Ordering::Relaxed) {
            return Err(anyhow!("capturing ended by a fault in pagesniff"));
        }
        if reload.swap(false, Ordering::Relaxed) {
            read_anew();
        }
        each_tick();
        watchdog.feed_where_all_go_on();
    }
    Ok(())
}

/// Writes what the flight recorder holds.
fn finish(hub: &Hub) -> anyhow::Result<()> {
    let Some(recorded) = hub.finish_ring() else { return Ok(()) };
    let failed = match recorded.ledger.value(Counter::WriteFailed) {
        0 => String::new(),
        count => format!(", {count} could not be written"),
    };
    let limit = recorded.limit.map_or(String::new(), |limit| format!("; {limit}"));
    say(format_args!("Ended; {} requests of this run are kept{failed}{limit}.", recorded.kept));
    match recorded.error {
        Some(error) => Err(anyhow!("{error}; what was written before is whole")),
        None => Ok(()),
    }
}

fn not_writable(error: TraceError) -> anyhow::Error {
    match error {
        TraceError::Io { ref source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            anyhow!("{error}: data_directory has to belong to the user that the daemon runs as; --user names another")
        }
        other => other.into(),
    }
}

fn no_thread(error: io::Error) -> anyhow::Error {
    anyhow!("cannot start a thread: {error}")
}
