//! The daemon from its start to its end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::anyhow;
use decode::Decoder;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use trace::{TraceError, TraceWriter};

use super::RawServe;
use super::config::Config;
use super::confine::confine;
use super::control::Control;
use super::control::words::WorkerStatus;
use super::distribution::{Distribution, Outlet};
use super::ending;
use super::hub::{Hub, WorkerEnd};
use super::notify::{Notify, Watchdog};
use super::status_text::losses_text;
use super::traces::Traces;
use super::worker::Worker;
use crate::capture::CaptureError;
use crate::capture::live::Live;
use crate::recorder::{Clock, MOST_BATCHES, RecorderThread};
use crate::run::Ended;
use crate::terminal::say;

/// So many orders wait for a capturing thread, two of each client at once.
const MOST_COMMANDS: usize = 32;

/// How often signals are looked at.
const TICK: Duration = Duration::from_millis(100);

/// Captures until a signal or a failure ends it.
pub(super) fn run(config: Config, raw: &RawServe) -> anyhow::Result<Ended> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        // In this order: the first signal finds the flag not set yet, the second ends the program at once.
        flag::register_conditional_default(signal, Arc::clone(&stop))?;
        flag::register(signal, Arc::clone(&stop))?;
    }
    // Everything is opened before anything runs: what fails, fails before systemd is told that all is well.
    let open = |interface: &String| Live::open_until(config.live(interface), Arc::clone(&stop));
    let sources = config.interfaces.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    // From here on as another user: what is made belongs to that one, and no interface can be opened any more.
    let unconfined = confine(&config, raw)?;
    let mode = config.mode().unwrap_or_default();
    let control = Control::bind(&config.control.socket, mode).map_err(|error| anyhow!(error))?;
    let ring = config.recorder.enabled.then(|| TraceWriter::open(config.ring())).transpose().map_err(not_writable)?;
    let ring = ring.map(|writer| RecorderThread::start(writer, Clock::Wall)).transpose().map_err(no_thread)?;

    let traces = Arc::new(Traces::new());
    let (ended, to_end) = channel();
    let ending = {
        let traces = Arc::clone(&traces);
        thread::Builder::new().name("ending".into()).spawn(move || ending::run(&to_end, &traces)).map_err(no_thread)?
    };
    let (finished, is_finished) = channel();
    let mut ends = Vec::new();
    let mut threads = Vec::new();
    for (source, interface) in sources.into_iter().zip(&config.interfaces) {
        let (commands, orders) = sync_channel(MOST_COMMANDS);
        let looks = Arc::new(AtomicU64::new(0));
        let outlet = ring.as_ref().map(|ring| Outlet::new(config.ring_filter(), ring.feed(MOST_BATCHES)));
        let worker = Worker {
            interface: interface.clone(),
            source,
            decoder: Decoder::new(config.decode()),
            sink: Distribution::new(outlet),
            commands: orders,
            ended: ended.clone(),
            looks: Arc::clone(&looks),
        };
        ends.push(WorkerEnd { interface: interface.clone(), commands, looks });
        threads.push(start(worker, finished.clone())?);
    }
    drop((ended, finished));
    let hub = Arc::new(Hub::new(config.clone(), ends, ring, traces));
    control.serve(Arc::clone(&hub)).map_err(no_thread)?;
    let notify = Notify::from_environment();
    notify.tell("READY=1");
    say(format_args!("Capturing on {}.\n{}", config.interfaces.join(", "), config.in_words().trim_end()));
    unconfined.iter().for_each(|missing| say(format_args!("note: {missing}")));

    let mut last_words = Vec::new();
    let outcome = watch(&is_finished, &mut last_words, &stop, Watchdog::new(&hub, &notify));

    notify.tell("STOPPING=1");
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| drop(thread.join()));
    let _ = ending.join();
    drop(control);
    last_words.extend(is_finished.iter().map(|finished| finished.status));
    last_words.iter().filter_map(losses_text).for_each(|losses| say(format_args!("{}", losses.trim_end())));
    finish(&hub)?;
    outcome.map(|()| Ended::Done)
}

/// How a capturing thread ended.
struct Finished {
    status: WorkerStatus,
    outcome: Result<(), CaptureError>,
}

/// Waits for a signal, or for a capturing thread that ends by itself.
fn watch(
    is_finished: &Receiver<Finished>,
    last_words: &mut Vec<WorkerStatus>,
    stop: &AtomicBool,
    mut watchdog: Watchdog<'_>,
) -> anyhow::Result<()> {
    while !stop.load(Ordering::Relaxed) {
        match is_finished.recv_timeout(TICK) {
            Ok(Finished { status, outcome }) => {
                last_words.push(status);
                return outcome.map_err(Into::into);
            }
            Err(RecvTimeoutError::Timeout) => watchdog.feed_where_all_go_on(),
            Err(RecvTimeoutError::Disconnected) => return Err(anyhow!("capturing ended by a fault in pagesniff")),
        }
    }
    Ok(())
}

/// Starts a capturing thread, which says at its end how that came.
fn start(worker: Worker, finished: Sender<Finished>) -> anyhow::Result<JoinHandle<()>> {
    let capture = move || {
        let (status, outcome) = worker.run();
        let _ = finished.send(Finished { status, outcome });
    };
    thread::Builder::new().name("capture".into()).spawn(capture).map_err(no_thread)
}

/// Writes what the flight recorder holds.
fn finish(hub: &Hub) -> anyhow::Result<()> {
    let Some(recorded) = hub.finish_ring() else { return Ok(()) };
    say(format_args!("Ended; {} requests of this run are kept.", recorded.kept));
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
