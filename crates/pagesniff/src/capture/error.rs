//! Why captures cannot be read. Each message says what is wrong, where, and what to do.

use std::io;

use super::link_names;

/// Why a capture cannot be read, or not further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file cannot be opened.
    #[error("{file}: cannot be opened: {source}")]
    Open {
        /// As named on the command line.
        file: String,
        /// The system's word.
        source: io::Error,
    },
    /// The path is a directory.
    #[error("{file}: is a directory: name the capture files in it, such as {file}/*.pcap")]
    Directory {
        /// As named on the command line.
        file: String,
    },
    /// The file has no bytes.
    #[error("{file}: is empty: a capture has at least a header, so nothing was written to it yet; capture again")]
    Empty {
        /// As named on the command line.
        file: String,
    },
    /// The system failed to deliver bytes.
    #[error("{file}: reading failed: {source}")]
    Read {
        /// As named on the command line.
        file: String,
        /// The system's word.
        source: io::Error,
    },
    /// The file became shorter, or another one, during the reading.
    #[error(
        "{file}: changed while it was read ({what}): what was read before is whole; read a copy that nobody writes to"
    )]
    Changed {
        /// As named on the command line.
        file: String,
        /// What happened to it.
        what: String,
    },
    /// Not a capture in a format that pagesniff reads.
    #[error("{file}: not a capture file: {found}; {advice}")]
    Foreign {
        /// As named on the command line.
        file: String,
        /// What it seems to be.
        found: String,
        /// What can be done about it.
        advice: &'static str,
    },
    /// A capture format, but a version of it that pagesniff does not know.
    #[error(
        "{file}: {format} version {major}.{minor} is not supported: if Wireshark opens it, save it from there as pcapng"
    )]
    Version {
        /// As named on the command line.
        file: String,
        /// `pcap` or `pcapng`.
        format: &'static str,
        /// The version's first half.
        major: u16,
        /// The version's second half.
        minor: u16,
    },
    /// No packet of the file has a link type that pagesniff reads.
    #[error("{file}: link type {} is not supported: capture on an interface of one of these: {}", link_names::describe(*.number), link_names::SUPPORTED)]
    LinkType {
        /// As named on the command line.
        file: String,
        /// By <https://www.tcpdump.org/linktypes.html>.
        number: u32,
    },
    /// An interface cannot be captured from.
    #[cfg(feature = "live")]
    #[error(transparent)]
    Live(#[from] super::live::LiveError),
    /// The file contradicts its format before its first packet, so that nothing of it can be used.
    #[error("{file}: damaged at byte {offset}: {what}; no packet comes before that: capture or copy it again")]
    Damaged {
        /// As named on the command line.
        file: String,
        /// Where, counted after decompression.
        offset: u64,
        /// What the format does not allow.
        what: String,
    },
}
