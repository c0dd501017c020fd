//! `pagesniff top`: who asks for what now, and how it is answered.
//!
//! ```text
//! a daemon's address → remote (thread): its snapshots, in place of those that are made here
//! interface, files → Capturing (thread): Decoder → Feed ── records, ticks → Snapshots (analysis::live) ─┬→ screen: App, draw
//!                                                  bounded queue                                       └→ output: JSON, text
//! ```
//!
//! The contract:
//!
//! - The capture waits for nobody: records for which there is no room are left out, counted, and the comparison of fetches is
//!   told of it. A capture file waits, so that its figures are the same every time.
//! - Once the interface is open no privilege is kept, and no file can be opened.
//! - The terminal is given back however the view ends: by a key, a signal, a fault or the input's end.

mod app;
mod capture;
mod columns;
mod draw;
mod feed;
mod flags;
mod header;
mod keys;
mod lines;
mod output;
#[cfg(feature = "client")]
mod remote;
mod screen;
mod snapshots;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};

use analysis::live::{By, Wanted};
use anyhow::anyhow;
use decode::Decoder;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::attribution::Attributor;
use crate::capture::live::Live;
use crate::capture::{CaptureError, Files, Source};
#[cfg(feature = "client")]
use crate::client::{Daemon, DaemonUrl};
use crate::earlier::Earlier;
use crate::filter::Filter;
use crate::flags::DaemonState;
use crate::privileges::{Become, Confinement, Files as Reachable, Kept};
use crate::run::Ended;
use crate::terminal::say;
use app::App;
use capture::{Capturing, Clock};
use feed::{Feed, MOST_MESSAGES};
pub use flags::{RawBy, RawTop};
use output::Form;
#[cfg(feature = "client")]
use remote::Remote;
use snapshots::Snapshots;

/// Shows, or writes, how it is until somebody ends it.
///
/// # Errors
///
/// There is no terminal, the input cannot be opened or read, or standard output takes nothing more.
pub fn top(raw: RawTop) -> anyhow::Result<Ended> {
    if !raw.is_output() {
        screen::check_terminal()?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        flag::register(signal, Arc::clone(&stop))?;
    }
    #[cfg(feature = "client")]
    if let Some(url) = &raw.url {
        return of_daemon(url, &raw, stop);
    }
    let ports = if raw.port.is_empty() { vec![decode::DEFAULT_PORT] } else { raw.port.clone() };
    let attributor = raw.attribution.clone().attributor().unwrap_or_else(|wrong_usage| wrong_usage.exit());
    let view = View::of(&raw, &ports, attributor);
    match raw.live.clone().options(&ports) {
        Some(options) => {
            let user = raw.live.user.clone();
            let source = Live::open_until(options, Arc::clone(&stop))?;
            let earlier = Earlier::read(&DaemonState::typed(raw.live.daemon_state.clone()))?;
            confine(user)?;
            if let (Some(_), Some(iface)) = (view.form, &raw.live.iface) {
                say(format_args!("Capturing on {iface}. Ctrl-C ends it."));
            }
            view.run((source, earlier), Clock::Machine, stop)
        }
        None => {
            let source = Files::open(&raw.read)?;
            let clock = if raw.is_output() { Clock::Packets } else { Clock::Played };
            view.run((source, Earlier::default()), clock, stop)
        }
    }
}

/// Shows, or writes, how it is on the machine of a daemon.
#[cfg(feature = "client")]
fn of_daemon(url: &DaemonUrl, raw: &RawTop, stop: Arc<AtomicBool>) -> anyhow::Result<Ended> {
    let asked = raw.asked_of_daemon().unwrap_or_else(|wrong_usage| wrong_usage.exit());
    let filter = raw.filter.in_words();
    let gap = if filter.is_empty() { "" } else { "  " };
    let mut app = App::new(format!("{url}{gap}{filter}"), raw.by.into(), screen::is_coloured());
    let mut remote = Remote::open(Daemon::open(url, &raw.access)?, asked, &stop)?;
    let ended = if raw.is_output() {
        app.is_coloured = false;
        let wanted = Wanted { by: &[raw.by.into()], rows: raw.rows.map_or(output::ROWS, usize::from) };
        let form = Form { is_json: raw.json, is_once: raw.once };
        output::write(&mut remote, wanted, (form, app), &stop)?
    } else {
        screen::show(&mut remote, app, (&stop, false)).map_err(|error| anyhow!("the terminal: {error}"))?;
        Ended::Done
    };
    remote.problem.map_or(Ok(ended), |failed| Err(failed.into()))
}

/// What is wanted, put together.
struct View {
    decode: decode::Config,
    filter: Filter,
    attributor: Attributor,
    title: String,
    by: By,
    rows: Option<usize>,
    form: Option<Form>,
}

impl View {
    fn of(raw: &RawTop, ports: &[u16], attributor: Attributor) -> Self {
        // Most connections are older than this: without a tenant that is asked for, theirs have a row as well.
        let unattributed = raw.unattributed || !raw.filter.owner.names_owner();
        let memory_limit_bytes = usize::try_from(raw.memory.as_u64()).unwrap_or(usize::MAX);
        Self {
            decode: decode::Config { ports: ports.to_vec(), page_hash: false, memory_limit_bytes },
            filter: Filter::from_raw(&raw.filter, unattributed),
            attributor,
            title: title(raw, ports),
            by: raw.by.into(),
            rows: raw.rows.map(usize::from),
            form: raw.is_output().then_some(Form { is_json: raw.json, is_once: raw.once }),
        }
    }

    /// Captures on a thread of its own, and shows it on this one.
    fn run(
        self,
        (source, earlier): (impl Source + Send + 'static, Earlier),
        clock: Clock,
        stop: Arc<AtomicBool>,
    ) -> anyhow::Result<Ended> {
        let (queue, messages) = sync_channel(MOST_MESSAGES);
        let has_hints = !self.attributor.is_empty();
        let capturing = Capturing {
            ports: self.decode.ports.clone(),
            decoder: Decoder::new(self.decode),
            feed: Feed::new(self.attributor, self.filter, queue, clock != Clock::Machine),
            earlier,
            has_hints,
            stop: Arc::clone(&stop),
        };
        let mut snapshots = Snapshots::new(messages);
        let thread = start(capturing, source, clock).map_err(|error| anyhow!("cannot start a thread: {error}"))?;
        let mut app = App::new(self.title, self.by, screen::is_coloured());
        let shown = match self.form {
            Some(form) => {
                app.is_coloured = false;
                let wanted = Wanted { by: &[self.by], rows: self.rows.unwrap_or(output::ROWS) };
                output::write(&mut snapshots, wanted, (form, app), &stop)
            }
            None => screen::show(&mut snapshots, app, (&stop, clock != Clock::Machine))
                .map(|()| Ended::Done)
                .map_err(|error| anyhow!("the terminal: {error}")),
        };
        stop.store(true, Ordering::Relaxed);
        // Whoever waits for room in the queue finds that nobody takes anything.
        drop(snapshots);
        let captured = thread.join().map_err(|_| anyhow!("the capturing thread ended by a fault"))?;
        let ended = shown?;
        captured?;
        Ok(ended)
    }
}

type Captured = Result<(), CaptureError>;

fn start(
    capturing: Capturing,
    mut source: impl Source + Send + 'static,
    clock: Clock,
) -> std::io::Result<JoinHandle<Captured>> {
    thread::Builder::new().name("capture".into()).spawn(move || capturing.run(&mut source, clock))
}

/// What is captured, in words.
fn title(raw: &RawTop, ports: &[u16]) -> String {
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    let input = match &raw.live.iface {
        Some(iface) => iface.clone(),
        None => raw.read.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" "),
    };
    let filter = raw.filter.in_words();
    let gap = if filter.is_empty() { "" } else { "  " };
    format!("{input} port {}{gap}{filter}", ports.join(","))
}

/// Gives up everything that opening the interface took: nothing is written, and no file read.
fn confine(user: Option<String>) -> anyhow::Result<()> {
    let user = user.map_or(Become::Nobody, Become::Named);
    let confinement = Confinement { user, capabilities: Kept::Nothing, files: Some(Reachable::default()) };
    for missing in confinement.apply()?.missing {
        say(format_args!("note: {missing}"));
    }
    Ok(())
}
