//! The traces that were asked for: those that run, and the latest that have ended.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use trace::{Change, Counter};

use super::control::words::{TraceState, TraceStatus};
use super::sampling::in_header;
use super::story;
pub(super) use crate::clock::wall_clock;
use crate::recorder::{Recorded, RecorderThread};

/// So many run at once: each takes a thread, some megabytes, and its share of every request.
const MOST_RUNNING: usize = 8;

/// So many are listed. The files of older ones are there as long as there is room for them.
const MOST_LISTED: usize = 256;

/// What is said of a trace whose daemon was killed.
const INTERRUPTED: &str = "it was interrupted: the daemon ended in the middle of it; what was written before is whole";

/// So many may begin in one second.
const MOST_IN_A_SECOND: u32 = 1000;

/// A trace, and what it needs while it runs.
struct Entry {
    status: TraceStatus,
    running: Option<Running>,
}

struct Running {
    thread: RecorderThread,
    /// Capturing threads that still give something to it.
    feeds: usize,
    /// One key in how many is wanted; fewer are kept while load is shed.
    wanted_one_in: u64,
}

/// All of them, oldest first.
pub(super) struct Traces {
    entries: Mutex<VecDeque<Entry>>,
    is_late: Arc<AtomicBool>,
}

impl Traces {
    /// Those that an earlier daemon has left in the directory of all. What ran when it ended was interrupted, and its
    /// directory says so from now on.
    /// Once `is_late` is set nothing more is written into traces that begin from now on.
    pub(super) fn left_in(parent: &Path, is_late: &Arc<AtomicBool>) -> Self {
        let mut directories: Vec<PathBuf> =
            fs::read_dir(parent).map(|all| all.flatten().map(|entry| entry.path()).collect()).unwrap_or_default();
        directories.sort_unstable();
        let latest = directories.into_iter().rev().take(MOST_LISTED).rev();
        let entries = latest.filter_map(|directory| {
            let mut status = story::read(&directory)?;
            if status.state == TraceState::Running {
                status.state = TraceState::Interrupted;
                status.bytes = bytes_below(&directory, MOST_DEPTH);
                status.problem = Some(INTERRUPTED.to_owned());
                story::write(&status);
            }
            Some(Entry { status, running: None })
        });
        Self { entries: Mutex::new(entries.collect()), is_late: Arc::clone(is_late) }
    }

    /// Set where there is no time left to write.
    pub(super) fn is_late(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_late)
    }

    /// Whether another one may begin.
    ///
    /// # Errors
    ///
    /// Too many run.
    pub(super) fn check_room(&self) -> Result<(), String> {
        let running = self.entries().iter().filter(|entry| entry.running.is_some()).count();
        if running >= MOST_RUNNING {
            return Err(format!("{running} traces run already: wait for one, or stop one"));
        }
        Ok(())
    }

    /// Takes one in that so many capturing threads give to.
    pub(super) fn begin(&self, status: TraceStatus, thread: RecorderThread, (feeds, wanted_one_in): (usize, u64)) {
        story::write(&status);
        let mut entries = self.entries();
        if entries.len() >= MOST_LISTED
            && let Some(oldest) = entries.iter().position(|entry| entry.running.is_none())
        {
            entries.remove(oldest);
        }
        entries.push_back(Entry { status, running: Some(Running { thread, feeds, wanted_one_in }) });
    }

    /// A capturing thread has given its last to it. Behind the last of them, waits until all is written.
    pub(super) fn one_feed_less(&self, id: &str) {
        let running = {
            let mut entries = self.entries();
            let Some(entry) = entries.iter_mut().find(|entry| entry.status.id == id) else { return };
            let Some(running) = &mut entry.running else { return };
            running.feeds = running.feeds.saturating_sub(1);
            if running.feeds > 0 {
                return;
            }
            entry.running.take()
        };
        // Others may ask while it is written: the lock is not held.
        let Some(Running { thread, .. }) = running else { return };
        let recorded = thread.finish();
        if let Some(entry) = self.entries().iter_mut().find(|entry| entry.status.id == id) {
            conclude(&mut entry.status, recorded);
            story::write(&entry.status);
        }
    }

    /// Those that run say from now on that they keep so many times fewer keys than are wanted. False where one of them cannot.
    pub(super) fn say_sample(&self, factor: u64) -> bool {
        let mut all_can = true;
        for Entry { status, running } in self.entries().iter_mut() {
            let Some(Running { thread, wanted_one_in, .. }) = running else { continue };
            let one_in = wanted_one_in.saturating_mul(factor);
            let change = Change { sample_one_in: Some(in_header(one_in)), ..Change::default() };
            if thread.change(change) {
                status.sample_one_in = status.sample_one_in.max(one_in);
            } else {
                all_can = false;
            }
        }
        all_can
    }

    /// One of them failed for this reason; it ends when its last feed does.
    pub(super) fn fail(&self, id: &str, problem: &str) {
        if let Some(entry) = self.entries().iter_mut().find(|entry| entry.status.id == id) {
            entry.status.problem = Some(problem.to_owned());
            if entry.running.is_none() {
                entry.status.state = TraceState::Failed;
                story::write(&entry.status);
            }
        }
    }

    /// Deletes one that has ended, with its files.
    ///
    /// # Errors
    ///
    /// There is none of that name, it still runs, or its files cannot be deleted.
    pub(super) fn remove(&self, id: &str) -> Result<(), String> {
        let mut entries = self.entries();
        let index = entries.iter().position(|entry| entry.status.id == id).ok_or("there is no such trace")?;
        let Some(entry) = entries.get(index) else { return Ok(()) };
        if entry.status.state == TraceState::Running {
            return Err("it still runs".to_owned());
        }
        match fs::remove_dir_all(&entry.status.directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(format!("{}: {error}", entry.status.directory.display()));
            }
            _ => {}
        }
        entries.remove(index);
        Ok(())
    }

    /// One of them.
    pub(super) fn one(&self, id: &str) -> Option<TraceStatus> {
        self.entries().iter().find(|entry| entry.status.id == id).map(|entry| entry.status.clone())
    }

    /// All of them, oldest first.
    pub(super) fn all(&self) -> Vec<TraceStatus> {
        self.entries().iter().map(|entry| entry.status.clone()).collect()
    }

    /// The directories of those that run.
    pub(super) fn running_directories(&self) -> Vec<PathBuf> {
        let is_running = |entry: &&Entry| entry.status.state == TraceState::Running;
        self.entries().iter().filter(is_running).map(|entry| entry.status.directory.clone()).collect()
    }

    /// A panic elsewhere leaves the list whole: every change of it is one step.
    fn entries(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a trace came to.
fn conclude(status: &mut TraceStatus, recorded: Recorded) {
    let lost = [Counter::QueueDropped, Counter::WriteFailed, Counter::Rotated];
    let error = status.problem.take().or(recorded.error);
    status.state = if error.is_some() { TraceState::Failed } else { TraceState::Done };
    status.requests = recorded.kept;
    status.bytes = recorded.bytes;
    status.lost_requests = lost.iter().fold(0, |sum: u64, &reason| sum.saturating_add(recorded.ledger.value(reason)));
    status.unattributed = recorded.ledger.value(Counter::Unattributed);
    status.problem = error.or(recorded.limit);
}

/// Makes a directory that is named by the moment; a number behind it tells those of one second apart.
pub(super) fn new_directory(parent: &Path) -> io::Result<(String, PathBuf)> {
    fs::create_dir_all(parent)?;
    let moment = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let moment: String = moment.chars().filter(|letter| !matches!(letter, '-' | ':')).collect();
    for number in 1..MOST_IN_A_SECOND {
        let name = format!("{moment}-{number:03}");
        let directory = parent.join(&name);
        match fs::create_dir(&directory) {
            Ok(()) => return Ok((name, directory)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// The moment of which a directory has its name.
pub(super) fn moment_of(name: &str) -> Option<SystemTime> {
    let (moment, _) = name.split_once('-')?;
    let (date, time) = moment.strip_suffix('Z')?.split_once('T')?;
    let (year, month, day) = (date.get(0..4)?, date.get(4..6)?, date.get(6..)?);
    let (hour, minute, second) = (time.get(0..2)?, time.get(2..4)?, time.get(4..)?);
    humantime::parse_rfc3339(&format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z")).ok()
}

/// Deletes the oldest of the directories below `parents`, which are named by their moment, until `bytes` more fit into
/// `limit_bytes`. Those in `spared` stay.
pub(super) fn make_room(parents: &[PathBuf], limit_bytes: u64, bytes: u64, spared: &[PathBuf]) -> io::Result<()> {
    let mut kept = Vec::new();
    for parent in parents.iter().filter(|parent| parent.is_dir()) {
        for entry in fs::read_dir(parent)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                kept.push((entry.file_name(), entry.path(), bytes_below(&entry.path(), MOST_DEPTH)));
            }
        }
    }
    kept.sort();
    let mut sum = kept.iter().fold(bytes, |sum, (_, _, bytes)| sum.saturating_add(*bytes));
    for (_, directory, bytes) in kept.iter().filter(|(_, directory, _)| !spared.contains(directory)) {
        if sum <= limit_bytes {
            break;
        }
        fs::remove_dir_all(directory)?;
        sum = sum.saturating_sub(*bytes);
    }
    if sum > limit_bytes { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
}

/// A trace's directory, a tenant's, a timeline's, its files.
pub(super) const MOST_DEPTH: usize = 4;

/// The bytes of all files below a directory; one that is gone has none.
pub(super) fn bytes_below(directory: &Path, depth: usize) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    entries.flatten().fold(0, |sum: u64, entry| {
        let bytes = match entry.metadata() {
            Ok(metadata) if metadata.is_file() => metadata.len(),
            Ok(metadata) if metadata.is_dir() && depth > 1 => bytes_below(&entry.path(), depth.saturating_sub(1)),
            _ => 0,
        };
        sum.saturating_add(bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_until_there_is_room_and_what_runs_stays() {
        let data = tempfile::tempdir().unwrap();
        let (traces, snapshots) = (data.path().join("traces"), data.path().join("snapshots"));
        for directory in [traces.join("1"), snapshots.join("2"), traces.join("3"), traces.join("4")] {
            fs::create_dir_all(directory.join("tenant")).unwrap();
            fs::write(directory.join("tenant/file"), [0; 100]).unwrap();
        }
        let parents = [traces.clone(), snapshots.clone()];
        let spared = [traces.join("3")];
        make_room(&parents, 400, 0, &spared).unwrap();
        assert!(traces.join("1").exists());
        make_room(&parents, 400, 150, &spared).unwrap();
        assert!(!traces.join("1").exists() && !snapshots.join("2").exists() && traces.join("4").exists());
        make_room(&parents, 400, 300, &spared).unwrap();
        assert!(traces.join("3").exists() && !traces.join("4").exists());
        assert!(make_room(&parents, 400, 301, &spared).is_err() && traces.join("3").exists());
    }

    #[test]
    fn directories_of_one_second_have_names_of_their_own() {
        let parent = tempfile::tempdir().unwrap();
        let (first, _) = new_directory(parent.path()).unwrap();
        let (second, directory) = new_directory(parent.path()).unwrap();
        assert!(first < second && directory.is_dir());
        let moment = moment_of(&first).unwrap();
        assert!(SystemTime::now().duration_since(moment).unwrap() < std::time::Duration::from_secs(60));
        for name in ["", "20261203T070000Z", "lost+found", "20261303T070000Z-001", "é0261203T070000Z-001"] {
            assert_eq!(moment_of(name), None, "{name}");
        }
    }
}
