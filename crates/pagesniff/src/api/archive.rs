//! The files of a finished capture as one tar archive. The same files give the same bytes, so that a download that was cut off
//! goes on at the byte where it stopped.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use axum::body::{Body, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use trace::trace_files;

/// POSIX's unit.
const BLOCK_BYTES: u64 = 512;

/// What is read at once.
const PIECE_BYTES: usize = 256 << 10;

/// Pieces that wait for a slow reader: 1 MiB.
const MOST_PIECES: usize = 4;

/// Piece by piece what the archive is.
#[derive(Debug)]
enum Part {
    Bytes(Vec<u8>),
    File { path: PathBuf, length: u64 },
}

impl Part {
    fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { length, .. } => *length,
        }
    }
}

/// An archive that is not made yet.
#[derive(Debug)]
pub(super) struct Archive {
    parts: Vec<Part>,
    length: u64,
}

impl Archive {
    /// Of the trace files below a directory, in the order of their names, below `name`.
    ///
    /// # Errors
    ///
    /// They cannot be listed, or there are none.
    pub(super) fn of(directory: &Path, name: &str) -> io::Result<Self> {
        let files = trace_files(&[directory]).map_err(io::Error::other)?;
        let mut parts = Vec::new();
        for path in files {
            let Ok(below) = path.strip_prefix(directory) else { continue };
            let length = fs::metadata(&path)?.len();
            parts.push(Part::Bytes(header(&Path::new(name).join(below), length)?));
            let padding = length.next_multiple_of(BLOCK_BYTES).saturating_sub(length);
            parts.push(Part::File { path, length });
            parts.push(Part::Bytes(vec![0; usize::try_from(padding).unwrap_or(0)]));
        }
        parts.push(Part::Bytes(vec![0; END_BYTES]));
        let length = parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.length()));
        Ok(Self { parts, length })
    }

    /// Its bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// The bytes from there on, read by a thread that may wait for the disk.
    pub(super) fn from(self, cursor: u64) -> Body {
        let (pieces, body) = channel(MOST_PIECES);
        let left = self.length.saturating_sub(cursor);
        tokio::task::spawn_blocking(move || {
            if let Err(error) = send(&self.parts, cursor, &pieces) {
                // The reader sees that it is not whole: its length was told before.
                let _ = pieces.blocking_send(Err(error));
            }
        });
        Body::new(Pieces { pieces: body, left })
    }
}

/// Two blocks of zeros end an archive.
const END_BYTES: usize = 1024;

fn header(path: &Path, length: u64) -> io::Result<Vec<u8>> {
    let mut header = tar::Header::new_ustar();
    header.set_path(path)?;
    header.set_size(length);
    header.set_mode(0o644);
    header.set_entry_type(tar::EntryType::Regular);
    header.set_mtime(0);
    header.set_cksum();
    Ok(header.as_bytes().to_vec())
}

/// Sends what lies behind the cursor. A reader that has left ends it.
fn send(parts: &[Part], cursor: u64, pieces: &Sender<io::Result<Bytes>>) -> io::Result<()> {
    let mut skip = cursor;
    for part in parts {
        let length = part.length();
        let from = skip.min(length);
        skip = skip.saturating_sub(from);
        if from == length {
            continue;
        }
        let goes_on = match part {
            Part::Bytes(bytes) => {
                let rest = usize::try_from(from).ok().and_then(|from| bytes.get(from..)).unwrap_or_default();
                pieces.blocking_send(Ok(Bytes::copy_from_slice(rest))).is_ok()
            }
            Part::File { path, length } => send_file(path, from, length.saturating_sub(from), pieces)?,
        };
        if !goes_on {
            break;
        }
    }
    Ok(())
}

/// False where the reader has left.
fn send_file(path: &Path, from: u64, mut left: u64, pieces: &Sender<io::Result<Bytes>>) -> io::Result<bool> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    while left > 0 {
        let mut piece = vec![0; PIECE_BYTES.min(usize::try_from(left).unwrap_or(PIECE_BYTES))];
        file.read_exact(&mut piece)?;
        left = left.saturating_sub(piece.len() as u64);
        if pieces.blocking_send(Ok(piece.into())).is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The pieces on their way out.
struct Pieces {
    pieces: Receiver<io::Result<Bytes>>,
    left: u64,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.pieces.poll_recv(cx).map(|piece| {
            let piece = piece?;
            if let Ok(bytes) = &piece {
                self.left = self.left.saturating_sub(bytes.len() as u64);
            }
            Some(piece.map(Frame::data))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
