//! Where packets come from: capture files, or an interface ([`live`]). Bytes in, [`decode::Packet`] out.
//!
//! ```text
//! Files (merge) → Reader (one file) → pcap | pcapng (formats) → Window (1 MiB of it) → compression → storage (the bytes)
//! ```
//!
//! The contract:
//!
//! - A packet is handed out as a slice of the window it was read into: nothing is copied for it.
//! - Files are read, never mapped: one that shrinks meanwhile ends with an error, not with a signal.
//! - A file that is cut or damaged is used up to there. What was left is counted in [`SourceStats`] and told in the notes.
//! - No content makes it panic, loop, or hold more than 65 MiB of a file at a time
//!   (to which a zstd frame may add its own window, of at most 128 MiB).

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

mod bytes;
mod compression;
mod error;
mod foreign;
mod interface;
mod link_names;
pub mod live;
mod merge;
mod packet;
mod pcap;
mod pcapng;
mod reader;
mod storage;
#[cfg(test)]
mod tests;
mod window;

pub use error::CaptureError;
pub use merge::Files;
use record::Timestamp;

/// What a [`Source`] has to say behind the packets that it handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// There may be more at hand.
    Packets,
    /// There is no packet at hand; live sources only. A chance to write what is buffered.
    Idle {
        /// What time it is at least, in the clock of the packets: no packet stamped before it will follow.
        now: Timestamp,
    },
    /// There will be no more.
    End,
}

/// Somewhere that packets come from.
pub trait Source {
    /// Hands packets to `take`, and says what there is to say behind them. A file gives them one at a time, an interface as
    /// many as the kernel has at hand, up to a few hundred, where they lie. After an error or [`After::End`] there is nothing
    /// but [`After::End`].
    ///
    /// # Errors
    ///
    /// Whatever makes it senseless to go on; see [`CaptureError`]. Everything handed out before holds.
    fn burst(&mut self, take: impl FnMut(&decode::Packet<'_>)) -> Result<After, CaptureError>;

    /// How far it is, where that can be known.
    fn progress(&self) -> Option<Progress>;

    /// Plain sentences for the summary: what was odd, cut, damaged, passed over.
    fn notes(&self) -> Vec<String>;

    /// What it has counted up to now.
    fn statistics(&self) -> SourceStats;
}

/// How much of the input has been read, as it lies on the disk (compressed, where it is).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes in all, or `None` where one of the inputs is a pipe.
    pub total_bytes: Option<u64>,
}

/// What a source counts. Packets that are handed out are counted by who takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourceStats {
    /// Packets that the capturing kernel dropped (pcapng: `isb_osdrop`, or the drop counts of the packets themselves).
    pub kernel_dropped: u64,
    /// Packets that the interface dropped (pcapng: `isb_ifdrop`).
    pub interface_dropped: u64,
    /// Packets passed over since their interface has a link type that pagesniff does not read.
    pub unsupported_link: u64,
    /// Packets passed over since they carry no time (pcapng's Simple Packet Blocks): any time given to them would be invented.
    pub untimed: u64,
    /// Packets whose time stamp contradicts itself or lies outside 1970 to 2554; they are handed out, the stamp held at the nearest end.
    pub odd_timestamps: u64,
    /// Files that end within a packet.
    pub cut_files: u64,
    /// Files with content that their format does not allow; used up to there.
    pub damaged_files: u64,
}

impl SourceStats {
    /// Adds what another file, or the same interface later, counted.
    pub(crate) fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.kernel_dropped, other.kernel_dropped),
            (&mut self.interface_dropped, other.interface_dropped),
            (&mut self.unsupported_link, other.unsupported_link),
            (&mut self.untimed, other.untimed),
            (&mut self.odd_timestamps, other.odd_timestamps),
            (&mut self.cut_files, other.cut_files),
            (&mut self.damaged_files, other.damaged_files),
        ];
        for (total, more) in pairs {
            *total = total.saturating_add(more);
        }
    }
}
