//! What can go wrong with a trace, each with the file and what to do.

use std::io;
use std::path::PathBuf;

use crate::format::{FORMAT_MAJOR, FORMAT_MINOR};

/// Why a trace could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The operating system refused.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was tried, as `cannot open`.
        action: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file does not begin as a trace does, and holds no block near its beginning.
    #[error("{}: not a pagesniff trace; traces end in .pgtrace and begin with the bytes 89 50 47 54", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by a later major version of the format.
    #[error(
        "{}: the trace has format {major}.{minor}, this program reads up to {FORMAT_MAJOR}.{FORMAT_MINOR}; \
         read it with a newer pagesniff", path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its major version.
        major: u16,
        /// Its minor version.
        minor: u16,
    },
    /// Another process writes under this instance name in this directory.
    #[error(
        "{}: another pagesniff writes here as instance {instance:?}{holder}; stop it, or give this one another instance name \
         or directory", directory.display()
    )]
    Locked {
        /// The trace directory.
        directory: PathBuf,
        /// The instance name.
        instance: String,
        /// ` (process 4711)` where the lock says so, else empty.
        holder: String,
    },
    /// The instance name cannot be part of a file name.
    #[error(
        "instance name {name:?}: use 1 to {} letters, digits, '.', '_' and '-', not beginning with '.' or '-'",
        crate::MAX_INSTANCE_LEN
    )]
    InstanceName {
        /// The name that was given.
        name: String,
    },
    /// The limit is too small to hold a useful trace.
    #[error("a limit of {bytes} bytes is too small for a trace; give at least {}", crate::MIN_LIMIT_BYTES)]
    LimitTooSmall {
        /// The limit that was given.
        bytes: u64,
    },
    /// The limit is reached and nothing may be deleted for new records.
    #[error("{}: the trace has reached its limit of {limit_bytes} bytes, and --on-full stop keeps what is there", path.display())]
    Full {
        /// The trace's directory.
        path: PathBuf,
        /// The limit.
        limit_bytes: u64,
    },
    /// A block was not written. Its records are in the ledger as `write_failed`; the file ends with its last whole block.
    #[error("{records} records were not written to {}: {source}", path.display())]
    WriteFailed {
        /// The trace file, or the directory it was to be made in.
        path: PathBuf,
        /// How many records were lost.
        records: u64,
        /// What the system said.
        source: io::Error,
    },
    /// A record of a tenant and timeline that would need one directory more than is allowed.
    #[error(
        "{}: {limit} traces are open already, the limit; records of further tenants and timelines are counted as write_failed",
        directory.display()
    )]
    TooManyTraces {
        /// The trace directory.
        directory: PathBuf,
        /// The limit.
        limit: usize,
    },
}

impl TraceError {
    /// For `map_err`: an IO error with what was tried on which path.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.into(), source }
    }
}

/// Why a block whose checksum is right is not one that this program can decode. Only a forged file, or one of a later
/// version, gets here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the block's {part} {fault}")]
pub struct BlockError {
    /// Which section or column.
    pub part: &'static str,
    /// What is wrong with it.
    pub fault: &'static str,
}

impl BlockError {
    /// Shorthand of the constructor.
    pub(crate) fn new(part: &'static str, fault: &'static str) -> Self {
        Self { part, fault }
    }
}
