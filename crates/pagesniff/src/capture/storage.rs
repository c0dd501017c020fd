//! A capture's bytes as they lie on the disk or come out of a pipe.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::CaptureError;

/// Why bytes could not be had, carried through the decompressors inside an [`io::Error`].
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadFailure {
    /// The system's word.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is not what it was when it was opened.
    #[error("{0}")]
    Changed(String),
}

impl From<ReadFailure> for io::Error {
    fn from(failure: ReadFailure) -> Self {
        Self::other(failure)
    }
}

/// Where a capture comes from.
#[derive(Debug, Clone)]
pub(super) enum Origin {
    /// `-`.
    StandardInput,
    /// A file that can be closed and opened again.
    Regular(PathBuf),
    /// A pipe or a device: read once, from its beginning.
    Stream(PathBuf),
}

impl Origin {
    /// Looks at what `path` is, without reading from it. Gives also its length in bytes, for a regular file.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Open`], [`CaptureError::Directory`], [`CaptureError::Empty`].
    pub(super) fn examine(path: &Path) -> Result<(Self, Option<u64>), CaptureError> {
        if path == Path::new("-") {
            return Ok((Self::StandardInput, None));
        }
        let file = path.display().to_string();
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(source) => return Err(CaptureError::Open { file, source }),
        };
        if metadata.is_dir() {
            return Err(CaptureError::Directory { file });
        }
        if !metadata.is_file() {
            return Ok((Self::Stream(path.to_path_buf()), None));
        }
        if metadata.len() == 0 {
            return Err(CaptureError::Empty { file });
        }
        Ok((Self::Regular(path.to_path_buf()), Some(metadata.len())))
    }

    /// Its name in messages.
    pub(super) fn name(&self) -> String {
        match self {
            Self::StandardInput => "standard input".to_owned(),
            Self::Regular(path) | Self::Stream(path) => path.display().to_string(),
        }
    }

    /// Starts reading from its beginning; the bytes read are added to `read_bytes`. A regular file that is not to be
    /// `held_open` is opened anew for each piece, so that thousands can be read at a time.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Open`].
    pub(super) fn open(
        &self,
        held_open: bool,
        read_bytes: Arc<AtomicU64>,
    ) -> Result<Box<dyn Read + Send>, CaptureError> {
        let opened = match self {
            // A descriptor of our own: the library's standard input has a buffer that we do not want.
            Self::StandardInput => io::stdin().as_fd().try_clone_to_owned().map(File::from),
            Self::Stream(path) => File::open(path),
            Self::Regular(path) => return RegularFile::open(path, held_open, read_bytes),
        };
        match opened {
            Ok(file) => Ok(Box::new(Stream { file, read_bytes })),
            Err(source) => Err(CaptureError::Open { file: self.name(), source }),
        }
    }
}

/// A pipe or a device.
struct Stream {
    file: File,
    read_bytes: Arc<AtomicU64>,
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = read_uninterrupted(&mut self.file, buffer)?;
        self.read_bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// A regular file, watched for becoming shorter or being replaced.
struct RegularFile {
    path: PathBuf,
    file: Option<File>,
    held_open: bool,
    /// Device and inode: which file it was when it was opened.
    identity: (u64, u64),
    opened_len_bytes: u64,
    offset: u64,
    read_bytes: Arc<AtomicU64>,
}

impl RegularFile {
    fn open(path: &Path, held_open: bool, read_bytes: Arc<AtomicU64>) -> Result<Box<dyn Read + Send>, CaptureError> {
        let open = || -> io::Result<(File, std::fs::Metadata)> {
            let file = File::open(path)?;
            let metadata = file.metadata()?;
            Ok((file, metadata))
        };
        let (file, metadata) = match open() {
            Ok(opened) => opened,
            Err(source) => return Err(CaptureError::Open { file: path.display().to_string(), source }),
        };
        Ok(Box::new(Self {
            path: path.to_path_buf(),
            file: held_open.then_some(file),
            held_open,
            identity: (metadata.dev(), metadata.ino()),
            opened_len_bytes: metadata.len(),
            offset: 0,
            read_bytes,
        }))
    }

    /// The file, at the place where the last piece ended.
    fn file_at_offset(&mut self) -> Result<File, ReadFailure> {
        if let Some(file) = self.file.take() {
            return Ok(file);
        }
        let mut file = File::open(&self.path)?;
        let metadata = file.metadata()?;
        if (metadata.dev(), metadata.ino()) != self.identity {
            return Err(ReadFailure::Changed("another file has taken its name".to_owned()));
        }
        file.seek(SeekFrom::Start(self.offset))?;
        Ok(file)
    }
}

impl Read for RegularFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut file = self.file_at_offset()?;
        let count = read_uninterrupted(&mut file, buffer)?;
        self.file = self.held_open.then_some(file);
        if count == 0 && !buffer.is_empty() && self.offset < self.opened_len_bytes {
            return Err(ReadFailure::Changed(format!(
                "it had {} bytes at first and now ends at byte {}",
                self.opened_len_bytes, self.offset
            ))
            .into());
        }
        self.offset = self.offset.saturating_add(count as u64);
        self.read_bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

fn read_uninterrupted(file: &mut File, buffer: &mut [u8]) -> Result<usize, ReadFailure> {
    loop {
        match file.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result.map_err(ReadFailure::Io),
        }
    }
}
