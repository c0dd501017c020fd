//! What triggers took goes to an object store, and stays here until it has arrived.
//!
//! ```text
//! Hub::took → trigger.json in its directory → Waiting ─(its capture has ended)→ PREFIX/INSTANCE/ID/… → uploaded.json in it
//! ```
//!
//! What waits is told by the directories themselves, so a restart forgets nothing. `trigger.json` goes last: where it is in the
//! store, everything is.

mod config;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use object_store::path::Path as ObjectPath;
use object_store::{MultipartUpload, ObjectStoreExt};
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use tokio::runtime::Builder;

pub(super) use config::UploadConfig;

use super::hub::Hub;
use super::traces::MOST_DEPTH;
use super::triggers::CAUSE;
use super::waiting::{Arrived, Waiting};
use crate::back_off;
use crate::terminal::say;
use config::Store;

/// How often it is looked for something to upload.
const LOOK: Duration = Duration::from_millis(250);

/// What is held of a file on its way; larger ones go in parts of this.
const PART_BYTES: u64 = 8 << 20;

/// Two tries of the same lie at most so far apart.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// An upload that takes longer is tried again: 32 MiB at 1 Mbit/s.
const LONGEST_UPLOAD: Duration = Duration::from_secs(600);

/// Uploads until `stop`; an upload in progress is then broken off, and made anew after the next start.
///
/// # Errors
///
/// One line: what of the configuration is wrong, or that the system has no thread to give.
pub(super) fn start(config: &UploadConfig, hub: Arc<Hub>, stop: Arc<AtomicBool>) -> Result<JoinHandle<()>, String> {
    let store = config.open()?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| format!("upload: {error}"))?;
    let run = move || {
        runtime.block_on(async {
            while !stop.load(Ordering::Relaxed) {
                tokio::time::sleep(LOOK).await;
                let due = hub.waiting().due(Instant::now(), &hub.asked_traces().running_directories());
                let Some(waiting) = due else { continue };
                let instance = hub.instance();
                let ended = tokio::select! {
                    ended = upload(&store, &instance, &waiting) => ended,
                    () = stopped(&stop) => return,
                };
                settle(&hub, &waiting, ended);
            }
        });
        // A name that is being looked up cannot be broken off.
        runtime.shutdown_background();
    };
    thread::Builder::new().name("upload".into()).spawn(run).map_err(|error| format!("cannot start a thread: {error}"))
}

async fn stopped(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(LOOK).await;
    }
}

/// Takes it off the list, or says when it is tried again.
fn settle(hub: &Hub, waiting: &Waiting, ended: Result<Arrived, String>) {
    let id = &waiting.id;
    match ended {
        Ok(arrived) => {
            say(format_args!("{id} was uploaded to {} ({} bytes)", arrived.to, arrived.bytes));
            hub.waiting().arrived(waiting, &arrived);
        }
        Err(problem) if !waiting.directory.is_dir() => hub.waiting().gone(waiting, &problem),
        Err(problem) => {
            let pause = back_off::pause(waiting.tries, LONGEST_PAUSE);
            say(format_args!("{id} was not uploaded, and is tried again in {} s: {problem}", pause.as_secs()));
            hub.waiting().failed(waiting, problem, Instant::now().checked_add(pause));
        }
    }
}

/// Brings all files of a directory into the store.
async fn upload(store: &Store, instance: &str, waiting: &Waiting) -> Result<Arrived, String> {
    let (_, prefix) = store;
    let to = prefix.clone().join(instance).join(waiting.id.as_str());
    let all = async {
        let mut bytes = 0_u64;
        for file in files(&waiting.directory).map_err(|error| format!("{}: {error}", waiting.directory.display()))? {
            bytes = bytes.saturating_add(put(store, &to, &waiting.directory, &file).await?);
        }
        Ok::<_, String>(bytes)
    };
    let bytes = tokio::time::timeout(LONGEST_UPLOAD, all);
    let bytes = bytes.await.map_err(|_| format!("it took longer than {} s", LONGEST_UPLOAD.as_secs()))??;
    Ok(Arrived { to: to.to_string(), bytes })
}

/// The files below a directory in their order, but for the one that says why it is there, which is the last.
fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    fn below(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
        for entry in std::fs::read_dir(directory)? {
            let (entry, is_deep) = (entry?, depth >= MOST_DEPTH);
            let kind = entry.file_type()?;
            if kind.is_dir() && !is_deep {
                below(&entry.path(), depth.saturating_add(1), found)?;
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
        Ok(())
    }
    let mut found = Vec::new();
    below(directory, 1, &mut found)?;
    found.sort_by_key(|file| (file.file_name() == Some(CAUSE.as_ref()), file.clone()));
    Ok(found)
}

/// One file. In the store it is whole or not there.
async fn put((store, _): &Store, to: &ObjectPath, directory: &Path, file: &Path) -> Result<u64, String> {
    let relative = file.strip_prefix(directory).unwrap_or(file);
    let name = relative.iter().fold(to.clone(), |name, part| name.join(part.to_string_lossy().as_ref()));
    let failed = |error: &dyn std::fmt::Display| format!("{name}: {error}");
    let mut from = File::open(file).await.map_err(|error| failed(&error))?;
    let bytes = from.metadata().await.map_err(|error| failed(&error))?.len();
    if bytes <= PART_BYTES {
        let mut content = Vec::new();
        from.read_to_end(&mut content).await.map_err(|error| failed(&error))?;
        store.put(&name, content.into()).await.map_err(|error| failed(&error))?;
        return Ok(bytes);
    }
    let mut into = store.put_multipart(&name).await.map_err(|error| failed(&error))?;
    let ended = match in_parts(&mut from, into.as_mut()).await {
        Ok(()) => into.complete().await.map(drop).map_err(|error| failed(&error)),
        Err(problem) => Err(failed(&problem)),
    };
    if ended.is_err() {
        // Parts that have arrived cost money for as long as nobody says that they are not wanted.
        let _ = into.abort().await;
    }
    ended.map(|()| bytes)
}

async fn in_parts(from: &mut File, into: &mut dyn MultipartUpload) -> Result<(), String> {
    loop {
        let mut part = Vec::new();
        from.take(PART_BYTES).read_to_end(&mut part).await.map_err(|error| error.to_string())?;
        if part.is_empty() {
            return Ok(());
        }
        into.put_part(part.into()).await.map_err(|error| error.to_string())?;
    }
}
