//! What triggers took, and has not been uploaded yet. Its files stay until it has.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::Serialize;

use super::checkpoint::replace_file;
use super::control::words::UploadStatus;
use super::triggers::CAUSE;

/// What a directory has whose files have arrived.
const ARRIVED: &str = "uploaded.json";

/// One directory.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    /// What it is called in the store.
    pub(super) id: String,
    pub(super) directory: PathBuf,
    /// How often it was tried.
    pub(super) tries: u32,
    /// Not before then.
    next_try: Option<Instant>,
}

/// Where it is now.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Arrived {
    /// The beginning of the objects' names.
    pub(super) to: String,
    pub(super) bytes: u64,
}

/// All of them, oldest first.
#[derive(Debug, Default)]
pub(super) struct WaitingList(Mutex<(Vec<Waiting>, UploadStatus)>);

impl WaitingList {
    /// Those that an earlier run has left.
    pub(super) fn left_in(parents: &[PathBuf]) -> Self {
        let directories = parents.iter().filter_map(|parent| fs::read_dir(parent).ok()).flatten().flatten();
        let is_left = |directory: &PathBuf| directory.join(CAUSE).is_file() && !directory.join(ARRIVED).exists();
        let mut left: Vec<_> = directories.map(|entry| entry.path()).filter(is_left).filter_map(Waiting::new).collect();
        left.sort_by(|one, other| one.id.cmp(&other.id));
        Self(Mutex::new((left, UploadStatus::default())))
    }

    /// Takes one in.
    pub(super) fn add(&self, directory: &Path) {
        self.list().0.extend(Waiting::new(directory.to_owned()));
    }

    /// The first that can be uploaded now.
    pub(super) fn due(&self, now: Instant, running: &[PathBuf]) -> Option<Waiting> {
        let list = self.list();
        let is_due = |one: &&Waiting| one.next_try.is_none_or(|at| at <= now) && !running.contains(&one.directory);
        list.0.iter().find(is_due).cloned()
    }

    /// It is in the store.
    pub(super) fn arrived(&self, waiting: &Waiting, arrived: &Arrived) {
        if let Ok(mut said) = serde_json::to_vec_pretty(arrived) {
            said.push(b'\n');
            // Where the disk does not take it, it is uploaded once more after the next start.
            let _ = replace_file(&waiting.directory.join(ARRIVED), &said);
        }
        let (list, status) = &mut *self.list();
        list.retain(|one| one.directory != waiting.directory);
        status.arrived = status.arrived.saturating_add(1);
        status.bytes = status.bytes.saturating_add(arrived.bytes);
        status.problem = None;
    }

    /// It was not brought there for this reason, and is tried again then.
    pub(super) fn failed(&self, waiting: &Waiting, problem: String, next_try: Option<Instant>) {
        let (list, status) = &mut *self.list();
        for one in list.iter_mut().filter(|one| one.directory == waiting.directory) {
            one.tries = one.tries.saturating_add(1);
            one.next_try = next_try;
        }
        status.failed_tries = status.failed_tries.saturating_add(1);
        status.problem = Some(problem);
    }

    /// Somebody has deleted its files.
    pub(super) fn gone(&self, waiting: &Waiting, problem: &str) {
        let (list, status) = &mut *self.list();
        list.retain(|one| one.directory != waiting.directory);
        status.problem = Some(format!("{}: deleted before it was uploaded: {problem}", waiting.id));
    }

    /// What may not be deleted to make room.
    pub(super) fn directories(&self) -> Vec<PathBuf> {
        self.list().0.iter().map(|one| one.directory.clone()).collect()
    }

    /// How it stands.
    pub(super) fn status(&self) -> UploadStatus {
        let (list, status) = &*self.list();
        UploadStatus { waiting: list.len() as u64, ..status.clone() }
    }

    /// A panic elsewhere leaves the list whole: every change of it is one step.
    fn list(&self) -> MutexGuard<'_, (Vec<Waiting>, UploadStatus)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn new(directory: PathBuf) -> Option<Self> {
        // Both are named by their moment, and may have the same.
        let kind = directory.parent()?.file_name()?.to_str()?.trim_end_matches('s');
        let id = format!("{kind}-{}", directory.file_name()?.to_str()?);
        Some(Self { id, directory, tries: 0, next_try: None })
    }
}
