//! The table of connections on the disk: what a daemon that starts anew, or a capture beside it, knows of connections whose
//! handshake it has not seen.

mod file;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use decode::OpenConnection;
use record::{Endpoint, TenantTimeline};

use super::control::words::CheckpointStatus;
use super::hub::Hub;
use super::traces::wall_clock;
pub(super) use file::write as replace_file;
use file::{Known, Table};

/// The table's name in the data directory.
pub(super) const NAME: &str = "connections.table";

/// A connection that has begun is in the table after so long.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Where no connection has begun or ended, the sequence numbers are written after so long: what a client sends in that time is
/// within reach of the older ones many times over.
const WRITE_INTERVAL: Duration = Duration::from_secs(10);

/// The daemon's end is noticed so soon.
const TICK: Duration = Duration::from_millis(100);

/// What was read at the start.
#[derive(Debug, Default)]
pub(super) struct Restored {
    connections: Vec<Known>,
    /// Why there is nothing, where there should be.
    pub(super) problem: Option<String>,
}

impl Restored {
    /// Reads the table. One that cannot be read is left where it is until the next takes its place.
    pub(super) fn read(path: &Path) -> Self {
        match file::read(path) {
            Ok(table) => Self { connections: table.map(|table| table.connections).unwrap_or_default(), problem: None },
            Err(error) => {
                let problem = format!(
                    "{}: {error}: connections that are open have no known tenant until they are opened anew",
                    path.display()
                );
                Self { connections: Vec::new(), problem: Some(problem) }
            }
        }
    }

    /// How many connections there were.
    pub(super) fn len(&self) -> usize {
        self.connections.len()
    }

    /// Those of an interface; with those of interfaces that are not captured on any more.
    pub(super) fn of(&self, interface: &str, interfaces: &[String]) -> impl Iterator<Item = OpenConnection> {
        let is_of = move |known: &&Known| known.interface == interface || !interfaces.contains(&known.interface);
        self.connections.iter().filter(is_of).map(|known| known.connection)
    }
}

/// Connections that a daemon's table tells, for a capture that is no daemon; `None` where there is no table.
///
/// # Errors
///
/// One line: the file cannot be read, or is not whole.
pub fn known_connections(path: &Path) -> Result<Option<Vec<OpenConnection>>, String> {
    let table = file::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(table.map(|table| table.connections.into_iter().map(|known| known.connection).collect()))
}

/// How writing the table goes.
#[derive(Debug)]
pub(super) struct Checkpoints {
    path: PathBuf,
    status: Mutex<CheckpointStatus>,
}

impl Checkpoints {
    pub(super) fn new(path: PathBuf, restored: &Restored) -> Self {
        let status = CheckpointStatus {
            path: path.clone(),
            restored: restored.len() as u64,
            refused: restored.problem.clone(),
            ..CheckpointStatus::default()
        };
        Self { path, status: Mutex::new(status) }
    }

    pub(super) fn status(&self) -> CheckpointStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn write(&self, connections: Vec<Known>) {
        let table = Table { written_at: wall_clock(), connections };
        let written = file::write(&self.path, &table.encode());
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        match written {
            Ok(()) => {
                status.written_ns = Some(table.written_at.0);
                status.connections = table.connections.len() as u64;
                status.problem = None;
            }
            Err(error) => {
                status.failures = status.failures.saturating_add(1);
                status.problem = Some(error.to_string());
            }
        }
    }
}

/// Which connections there are, without how far they are.
type Ends = HashSet<(Endpoint, Endpoint, TenantTimeline)>;

/// Writes the table as often as it takes, on a thread of its own, until `stop` says so.
pub(super) fn start(hub: Arc<Hub>, stop: Arc<AtomicBool>) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("checkpoint".into()).spawn(move || {
        let (mut before, mut written_at, mut looked_at) = (None, Instant::now(), None::<Instant>);
        while !stop.load(Ordering::Relaxed) {
            if looked_at.is_some_and(|at| at.elapsed() < LOOK_INTERVAL) {
                thread::sleep(TICK);
                continue;
            }
            looked_at = Some(Instant::now());
            // A capturing thread that does not answer is the watchdog's business.
            let Ok(connections) = hub.known_connections() else { continue };
            let ends: Ends =
                connections.iter().filter_map(|(_, open)| Some((open.client, open.server, open.owner?))).collect();
            let has_changed = before.as_ref() != Some(&ends);
            if has_changed || written_at.elapsed() >= WRITE_INTERVAL {
                let known = connections.into_iter();
                let known = known.map(|(interface, connection)| Known { interface, connection });
                hub.checkpoints().write(known.filter(|known| known.connection.owner.is_some()).collect());
                written_at = Instant::now();
                before = Some(ends);
            }
        }
    })
}
