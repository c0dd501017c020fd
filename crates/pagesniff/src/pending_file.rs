//! A file that is opened before the work, so that a wrong path does not cost it, and written after it.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::anyhow;

/// Until it is written, what stood there stays; where nothing did, nothing is left.
pub(crate) struct PendingFile {
    /// What named it, `--html`.
    option: &'static str,
    path: PathBuf,
    file: File,
    is_unwanted: bool,
}

impl PendingFile {
    /// Opens the file that an option names.
    pub(crate) fn open(option: &'static str, path: &Path) -> anyhow::Result<Self> {
        let created = File::create_new(path);
        let is_new = created.is_ok();
        let opened = match created {
            // A link may lead to a file that is not there yet.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                File::options().write(true).create(true).truncate(false).open(path)
            }
            created => created,
        };
        let file = opened.map_err(|error| anyhow!("{option} {}: cannot be created: {error}", path.display()))?;
        Ok(Self { option, path: path.to_owned(), file, is_unwanted: is_new })
    }

    /// Writes all that is to be in it.
    pub(crate) fn write(mut self, content: &str) -> anyhow::Result<()> {
        let written = self.replace(content);
        self.is_unwanted &= written.is_err();
        written.map_err(|error| anyhow!("{} {}: writing failed: {error}", self.option, self.path.display()))
    }

    fn replace(&mut self, content: &str) -> std::io::Result<()> {
        // A pipe or a terminal has no length.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.write_all(content.as_bytes())
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if self.is_unwanted {
            // Nothing was promised of a file that could not be written.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_fails_leaves_what_was_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("page.html");
        drop(PendingFile::open("--html", &path).unwrap());
        assert!(!path.exists());
        PendingFile::open("--html", &path).unwrap().write("the long first").unwrap();
        drop(PendingFile::open("--html", &path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "the long first");
        PendingFile::open("--html", &path).unwrap().write("second").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
    }

    #[test]
    fn a_device_is_written_as_it_is_and_stays() {
        PendingFile::open("--json", Path::new("/dev/null")).unwrap().write("{}").unwrap();
        drop(PendingFile::open("--json", Path::new("/dev/null")).unwrap());
        let full = PendingFile::open("--json", Path::new("/dev/full")).unwrap().write("{}").unwrap_err().to_string();
        assert!(full.starts_with("--json /dev/full: writing failed: "), "{full}");
        assert!(Path::new("/dev/null").exists() && Path::new("/dev/full").exists());
    }
}
