//! One writer for each directory and instance name.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::TraceError;

/// The lock file says who holds it, in so few bytes.
const MAX_HOLDER_BYTES: u64 = 64;

/// Another process may remove the lock file between our opening and locking it; more often than this it will not.
const ATTEMPTS: usize = 8;

/// Held as long as the writer lives; the system lets go of it when the process dies, whatever way.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    path: PathBuf,
    _file: File,
}

impl DirectoryLock {
    /// Takes the lock of `instance` in `directory`, which exists.
    pub(crate) fn acquire(directory: &Path, instance: &str) -> Result<Self, TraceError> {
        let path = directory.join(format!(".{instance}.lock"));
        let locked = || TraceError::Locked {
            directory: directory.to_owned(),
            instance: instance.to_owned(),
            holder: holder_of(&path),
        };
        for _ in 0..ATTEMPTS {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .map_err(TraceError::io("cannot write the lock file", &path))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(locked()),
                Err(TryLockError::Error(source)) => return Err(TraceError::io("cannot lock", &path)(source)),
            }
            if is_still_there(&file, &path) {
                // Only for the message of the one that comes next; the lock holds without it.
                let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
                return Ok(Self { path, _file: file });
            }
        }
        Err(locked())
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Still locked here: nobody else holds the file that is removed. If it stays, it is locked again later.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether the path still leads to the file that was locked.
fn is_still_there(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(locked), Ok(named)) => (locked.dev(), locked.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

/// ` (process 4711)` where the lock file says so.
fn holder_of(path: &Path) -> String {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_HOLDER_BYTES).read_to_string(&mut text));
    match (read, text.trim().parse::<u32>()) {
        (Ok(_), Ok(pid)) => format!(" (process {pid})"),
        _ => String::new(),
    }
}
