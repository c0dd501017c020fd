//! What the two formats have in common: a packet that was found, and the ways a file ends.

use std::ops::Range;

use decode::LinkType;
use record::Timestamp;

use super::window::WindowError;

/// A packet in the window. Its range holds until the window is filled again.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// When it was captured.
    pub(super) time: Timestamp,
    /// What its first bytes are.
    pub(super) link: LinkType,
    /// Bytes on the wire: never fewer than were captured, whatever the file says.
    pub(super) wire_len: u32,
    /// Where in the window's storage the captured bytes lie.
    pub(super) data: Range<usize>,
}

/// Why a file gives no further packet.
#[derive(Debug)]
pub(super) enum Stop {
    /// It ends where a packet or block ends.
    End,
    /// It ends within something that begins at `offset`, of which `left_bytes` are there.
    Cut { offset: u64, left_bytes: u64 },
    /// It holds at `offset` what its format does not allow.
    Damaged { offset: u64, what: String },
    /// A version of the format that is not known.
    Version { format: &'static str, major: u16, minor: u16 },
    /// It is not a capture at all.
    Foreign { found: String, advice: &'static str },
    /// It has one link type only, and that is not read.
    LinkType { number: u32 },
    /// The bytes could not be had.
    Failed(WindowError),
}

impl From<WindowError> for Stop {
    fn from(error: WindowError) -> Self {
        Self::Failed(error)
    }
}
