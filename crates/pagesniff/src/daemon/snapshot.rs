//! A tenant's latest requests, out of the flight recorder, as traces of their own.

use std::fs;
use std::path::Path;

use record::{TenantId, Timestamp};
use trace::{TraceError, freeze, trace_files};

use super::control::words::Snapshot;
use super::traces::new_directory;

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
