//! The trace file of pagesniff, both directions.
//!
//! ```text
//! TraceWriter::append → batch → block (columns, ledger, CRC-32C) → DIR/<tenant>/<timeline>/<start>-<instance>-<n>.pgtrace
//! TraceReader::open → records(), or block by block;  Follower goes on while one is written
//! OrderedRecords, WrittenRecords merge files: by time, or as the records were completed
//! ```
//!
//! The contract:
//!
//! - Every field of a record returns as it was appended.
//! - A file is a header and whole blocks, each self-contained and written by one call. Whatever happens to a file, its
//!   whole blocks are found, and the bytes that belong to none are told.
//! - `seen` in the ledgers of an owner's files is the sum of the other reasons and of the records in them, also after old
//!   files were deleted.
//! - Files stay within their limits at every moment; memory is bounded, whatever a file says and whoever sends.
//! - No clock is read here: time is handed in.
//!
//! `docs/trace-format.md` has the bytes.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

mod columns;
mod error;
mod format;
mod freeze;
mod name;
mod read;
mod stream;
mod write;

#[cfg(test)]
#[path = "../tests/sample/arbitrary.rs"]
mod arbitrary;
#[cfg(test)]
#[path = "../tests/sample/mod.rs"]
mod sample;

pub use error::{BlockError, TraceError};
pub use format::attribution::ConnectionOwner;
pub use format::block::{BlockHeader, BlockKind};
pub use format::header::{Circumstances, FileHeader};
pub use format::ledger::{Counter, Ledger};
pub use format::{
    BLOCK_HEADER_BYTES, BLOCK_MAGIC, FILE_HEADER_FIXED_BYTES, FILE_MAGIC, FORMAT_MAJOR, FORMAT_MINOR, HeaderField,
    MAX_BLOCK_BYTES, MAX_BLOCK_RECORDS, MAX_FILE_HEADER_BYTES, Section,
};
pub use freeze::{Frozen, freeze};
pub use name::MAX_INSTANCE_LEN;
pub use read::files::{open_all, trace_files};
pub use read::follow::Follower;
pub use read::ordered::{FileSummary, OrderedRecords};
pub use read::written::{FileDamage, WrittenRecords};
pub use read::{Block, BlockRecords, Damage, Records, TraceReader};
pub use stream::TraceStream;
pub use write::{
    Change, DEFAULT_FLUSH_INTERVAL_NS, DEFAULT_MAX_BYTES, MIN_LIMIT_BYTES, OnFull, TraceWriter, WriterConfig,
};
