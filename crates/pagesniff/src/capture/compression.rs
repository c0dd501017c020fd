//! Decompression, recognised by the first bytes and not by the file's name.

use std::io::{self, BufReader, Cursor, Read};

use flate2::bufread::MultiGzDecoder;

use super::storage::ReadFailure;
use super::window::WindowError;

/// How a capture is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    /// RFC 1952, one member or several.
    Gzip,
    /// RFC 8878, one frame or several, skippable ones among them.
    Zstd,
}

/// What the decompressors take at a time; above it neither becomes faster.
const COMPRESSED_PIECE_BYTES: usize = 128 << 10;

/// How much is read to recognise the file: a page, so that the pieces that follow lie on page boundaries.
const START_BYTES: usize = 4096;

/// The longest magic number that is looked for.
const MAGIC_BYTES: usize = 4;

impl Compression {
    /// By the magic numbers of RFC 1952, section 2.3.1, and RFC 8878, sections 3.1.1 and 3.1.2.
    pub(super) fn recognise(start: &[u8]) -> Option<Self> {
        match start {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Its name in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// The content of `raw`, decompressed once if it is compressed.
///
/// # Errors
///
/// Those of reading the first bytes, and the lack of memory for a decompressor.
pub(super) fn open(mut raw: Box<dyn Read + Send>) -> io::Result<(Box<dyn Read + Send>, Option<Compression>)> {
    let mut start = vec![0; START_BYTES];
    let mut filled = 0_usize;
    while filled < MAGIC_BYTES {
        match raw.read(start.get_mut(filled..).unwrap_or_default()) {
            Ok(0) => break,
            Ok(count) => filled = filled.saturating_add(count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    start.truncate(filled);
    let compression = Compression::recognise(&start);
    let whole = Cursor::new(start).chain(raw);
    let content: Box<dyn Read + Send> = match compression {
        None => Box::new(whole),
        Some(Compression::Gzip) => {
            Box::new(MultiGzDecoder::new(BufReader::with_capacity(COMPRESSED_PIECE_BYTES, whole)))
        }
        Some(Compression::Zstd) => {
            Box::new(zstd::Decoder::with_buffer(BufReader::with_capacity(COMPRESSED_PIECE_BYTES, whole))?)
        }
    };
    Ok((content, compression))
}

/// Tells the failures of the file from what the decompressors do not like about its content.
pub(super) fn classify(error: io::Error) -> WindowError {
    match error.downcast::<ReadFailure>() {
        Ok(failure) => WindowError::Storage(failure),
        Err(error) => {
            WindowError::Compression { cut: error.kind() == io::ErrorKind::UnexpectedEof, what: error.to_string() }
        }
    }
}
