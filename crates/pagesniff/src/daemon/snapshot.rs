//! A tenant's latest requests, out of the flight recorder, as traces of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use record::{TenantId, Timestamp};
use trace::{TraceError, freeze, trace_files};

use super::control::words::Snapshot;
use super::traces::{MOST_DEPTH, bytes_below, moment_of, new_directory};
use super::triggers::trigger_of;

/// A snapshot that is there.
#[derive(Debug)]
pub struct KeptSnapshot {
    /// What it is called, and its directory.
    pub id: String,
    /// Where its files are.
    pub directory: PathBuf,
    /// Whose it is.
    pub tenants: Vec<TenantId>,
    /// When it was taken; to the second.
    pub taken: Timestamp,
    /// How large its files are.
    pub bytes: u64,
    /// The rule by which the daemon took it; nothing where somebody asked for it.
    pub trigger: Option<String>,
}

/// Those that are there, oldest first.
pub(super) fn all(parent: &Path) -> Vec<KeptSnapshot> {
    let mut kept: Vec<KeptSnapshot> = names_in(parent).filter_map(|name| of(parent, &name)).collect();
    kept.sort_by(|one, other| one.id.cmp(&other.id));
    kept
}

/// The one of that name.
pub(super) fn one(parent: &Path, id: &str) -> Option<KeptSnapshot> {
    // A name that is compared leads nowhere else.
    names_in(parent).find(|name| name == id).and_then(|name| of(parent, &name))
}

fn of(parent: &Path, id: &str) -> Option<KeptSnapshot> {
    let directory = parent.join(id);
    let taken = moment_of(id)?.duration_since(UNIX_EPOCH).ok()?;
    Some(KeptSnapshot {
        id: id.to_owned(),
        tenants: names_in(&directory).filter_map(|name| name.parse().ok()).collect(),
        taken: Timestamp(u64::try_from(taken.as_nanos()).ok()?),
        bytes: bytes_below(&directory, MOST_DEPTH),
        trigger: trigger_of(&directory),
        directory,
    })
}

fn names_in(directory: &Path) -> impl Iterator<Item = String> {
    fs::read_dir(directory).into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok())
}

/// Copies what the flight recorder has of the tenant since then. No file of it is a whole one until all of it is on the disk.
///
/// # Errors
///
/// There is nothing, or it cannot be read or written.
pub(super) fn take(ring: &Path, parent: &Path, tenant: TenantId, since: Timestamp) -> Result<Snapshot, String> {
    let kept = ring.join(tenant.to_string());
    let nothing = || {
        format!(
            "the flight recorder has nothing of tenant {tenant} in that time; `pagesniff status --tenants` says whose \
             requests there were"
        )
    };
    if !kept.is_dir() {
        return Err(nothing());
    }
    let (id, directory) = new_directory(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
    let taken = copy(&kept, &directory.join(tenant.to_string()), since);
    let failed = match taken {
        Ok(taken) if taken.requests > 0 => return Ok(Snapshot { id, directory, ..taken }),
        Ok(_) => nothing(),
        Err(error) => error,
    };
    // What is half done would look like a whole one.
    let _ = fs::remove_dir_all(&directory);
    Err(failed)
}

/// The same into a directory of that tenant.
fn copy(from: &Path, to: &Path, since: Timestamp) -> Result<Snapshot, String> {
    let mut taken = Snapshot { id: String::new(), directory: to.to_owned(), requests: 0, bytes: 0 };
    for file in trace_files(&[from]).map_err(|error| error.to_string())? {
        let Some((timeline, name)) = file.parent().and_then(Path::file_name).zip(file.file_name()) else { continue };
        let directory = to.join(timeline);
        fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        match freeze(&file, &directory.join(name), since) {
            Ok(frozen) => {
                taken.requests = taken.requests.saturating_add(frozen.records);
                taken.bytes = taken.bytes.saturating_add(frozen.bytes);
            }
            // The flight recorder has deleted it meanwhile: it was the oldest.
            Err(TraceError::Io { .. }) if !file.exists() => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(taken)
}
