//! Downloads that go on where they stopped, within one run and from one run to the next.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use ureq::http::StatusCode;

use super::daemon::{Daemon, Failed};
use crate::back_off;

/// What is read at once.
const PIECE_BYTES: usize = 64 << 10;

/// Two tries lie at most so far apart.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// So many tries without a byte in between, some two minutes: a daemon that is started again is back by then.
const MOST_TRIES: u32 = 8;

/// Somebody wants it to end: it is looked so often during a pause.
const LOOK: Duration = Duration::from_millis(100);

/// Whoever is told how far it is: bytes that are there, and bytes in all.
pub(super) type Told<'a> = &'a mut dyn FnMut(u64, u64);

/// Downloads into a file, which may hold the beginning.
///
/// # Errors
///
/// It is refused, does not come after many tries, or cannot be written. What has come stays.
pub(super) fn download(
    (daemon, path): (&Daemon, &str),
    to: &Path,
    told: Told<'_>,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let wrong = |error: io::Error| anyhow!("{}: {error}", to.display());
    let mut file = OpenOptions::new().create(true).append(true).read(true).open(to).map_err(wrong)?;
    // Two that write at once would make one of both; a lock goes with the process.
    file.try_lock().map_err(|_| anyhow!("{}: another pagesniff is downloading into it", to.display()))?;
    let mut tries = Tries::default();
    let mut is_begun_anew = false;
    loop {
        let had = file.seek(SeekFrom::End(0)).map_err(wrong)?;
        match rest((daemon, path), (&mut file, had), told, stop) {
            Ok(()) => return file.sync_all().map_err(wrong),
            Err(Stopped::Asked) => return Err(anyhow!("ended; the same command goes on where it stopped")),
            Err(Stopped::Disk(error)) => return Err(wrong(error)),
            // There is more than the daemon has: it is the beginning of something else.
            Err(Stopped::Failed(failed)) if failed.is(StatusCode::RANGE_NOT_SATISFIABLE) && !is_begun_anew => {
                file.set_len(0).map_err(wrong)?;
                is_begun_anew = true;
            }
            Err(Stopped::Failed(failed)) if failed.may_pass() => {
                let has_come = file.seek(SeekFrom::End(0)).map_err(wrong)? > had;
                if has_come {
                    tries = Tries::default();
                }
                if !tries.wait(stop) {
                    return Err(anyhow!("{failed}; the same command goes on where it stopped"));
                }
            }
            Err(Stopped::Failed(failed)) => return Err(failed.into()),
        }
    }
}

/// Why it is not whole.
enum Stopped {
    Failed(Failed),
    Disk(io::Error),
    Asked,
}

impl From<Failed> for Stopped {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

/// What lies behind the first `had` bytes.
fn rest(
    (daemon, path): (&Daemon, &str),
    (file, mut had): (&mut File, u64),
    told: Told<'_>,
    stop: &AtomicBool,
) -> Result<(), Stopped> {
    let answer = daemon.stream(&format!("{path}?cursor={had}"))?;
    let length = answer.headers().get("content-length").and_then(|text| text.to_str().ok()?.parse::<u64>().ok());
    let no_length = || Failed::Broken(format!("{}: this is no pagesniff daemon: it says no length", daemon.url()));
    let all = had.saturating_add(length.ok_or_else(no_length)?);
    let mut body = answer.into_body().into_reader();
    let mut piece = vec![0; PIECE_BYTES];
    while had < all {
        if stop.load(Ordering::Relaxed) {
            return Err(Stopped::Asked);
        }
        let cut = |why: String| Failed::Lost(format!("{}: cut off after {had} of {all} bytes{why}", daemon.url()));
        let read = match body.read(&mut piece) {
            Ok(0) => return Err(cut(String::new()).into()),
            Ok(read) => read,
            Err(error) => return Err(cut(format!(": {error}")).into()),
        };
        file.write_all(piece.get(..read).unwrap_or_default()).map_err(Stopped::Disk)?;
        had = had.saturating_add(read as u64);
        told(had, all);
    }
    Ok(())
}

/// Tries one after the other, with pauses that grow.
#[derive(Debug, Default)]
pub(super) struct Tries(u32);

impl Tries {
    /// Waits for the time of the next; false where there were enough, or somebody wants it to end.
    pub(super) fn wait(&mut self, stop: &AtomicBool) -> bool {
        let pause = back_off::pause(self.0, LONGEST_PAUSE);
        self.0 = self.0.saturating_add(1);
        self.0 < MOST_TRIES && wait(pause, stop)
    }
}

/// False where somebody wants it to end.
pub(super) fn wait(pause: Duration, stop: &AtomicBool) -> bool {
    let since = Instant::now();
    while since.elapsed() < pause && !stop.load(Ordering::Relaxed) {
        thread::sleep(LOOK.min(pause));
    }
    !stop.load(Ordering::Relaxed)
}
