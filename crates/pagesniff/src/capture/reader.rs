//! One capture file, from its origin to its packets.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use decode::Packet;
use record::Timestamp;

use super::compression::{self, Compression};
use super::packet::{Found, Stop};
use super::pcap::Pcap;
use super::pcapng::Pcapng;
use super::storage::{Origin, ReadFailure};
use super::window::{Window, WindowError};
use super::{CaptureError, SourceStats, foreign};

/// How a file is to be read.
pub(super) struct Access {
    /// Whether its descriptor stays open between two pieces.
    pub(super) held_open: bool,
    /// How much of it is in memory at a time, as long as no packet is larger.
    pub(super) window_bytes: usize,
    /// What counts the bytes read.
    pub(super) read_bytes: Arc<AtomicU64>,
}

/// One capture file. It stands on a packet after each [`Reader::advance`] that said true.
pub(super) struct Reader {
    name: String,
    window: Window,
    format: Format,
    compression: Option<Compression>,
    found: Option<Found>,
    packets: u64,
    /// How it ended, where that was not as it should be.
    ending: Option<String>,
    stats: SourceStats,
}

enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

/// Enough of a file to say what else it is.
const FOREIGN_START_BYTES: usize = 512;

impl Format {
    /// Recognises the format by its magic number and reads its header.
    fn open(window: &mut Window) -> Result<Self, Stop> {
        window.need(4)?;
        let start = window.ahead();
        if let Some((order, magic)) = Pcap::recognise(start) {
            return Pcap::open(window, order, magic).map(Self::Pcap);
        }
        if Pcapng::recognise(start) {
            return Pcapng::open(window).map(Self::Pcapng);
        }
        if start.is_empty() {
            return Err(Stop::End);
        }
        let (found, advice) = foreign::describe(start.get(..FOREIGN_START_BYTES).unwrap_or(start));
        Err(Stop::Foreign { found, advice })
    }
}

impl Reader {
    /// Opens it and reads its header.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being read; see [`CaptureError`].
    pub(super) fn open(origin: &Origin, access: Access) -> Result<Self, CaptureError> {
        let raw = origin.open(access.held_open, access.read_bytes)?;
        Self::over(origin.name(), raw, access.window_bytes)
    }

    /// Reads the header of what `raw` delivers; `name` is for messages.
    ///
    /// # Errors
    ///
    /// As [`Reader::open`].
    pub(super) fn over(name: String, raw: Box<dyn Read + Send>, window_bytes: usize) -> Result<Self, CaptureError> {
        let (content, compression) = match compression::open(raw) {
            Ok(opened) => opened,
            Err(error) => {
                let stop = Stop::Failed(compression::classify(error));
                return Err(unusable(name, stop));
            }
        };
        let mut window = Window::new(content, window_bytes);
        match Format::open(&mut window) {
            Ok(format) => {
                let stats = SourceStats::default();
                Ok(Self { name, window, format, compression, found: None, packets: 0, ending: None, stats })
            }
            Err(stop) => Err(unusable(name, content_stop(stop, &window, compression))),
        }
    }

    /// Goes to the next packet; false at the end.
    ///
    /// # Errors
    ///
    /// Where the file fails, or where it turns out that nothing of it can be used.
    #[inline]
    pub(super) fn advance(&mut self) -> Result<bool, CaptureError> {
        let next = match &mut self.format {
            Format::Pcap(pcap) => pcap.next(&mut self.window),
            Format::Pcapng(pcapng) => pcapng.next(&mut self.window),
        };
        match next {
            Ok(found) => {
                self.packets = self.packets.saturating_add(1);
                self.found = Some(found);
                Ok(true)
            }
            Err(stop) => {
                self.found = None;
                self.stop(stop).map(|()| false)
            }
        }
    }

    /// The packet that it stands on.
    #[inline]
    pub(super) fn packet(&self) -> Option<Packet<'_>> {
        let found = self.found.as_ref()?;
        let data = self.window.slice(found.data.clone());
        Some(Packet { time: found.time, link: found.link, data, wire_len: found.wire_len })
    }

    /// The time of the packet that it stands on.
    #[inline]
    pub(super) fn time(&self) -> Option<Timestamp> {
        self.found.as_ref().map(|found| found.time)
    }

    /// What has been counted up to now.
    pub(super) fn statistics(&self) -> SourceStats {
        let mut stats = self.stats;
        match &self.format {
            Format::Pcap(pcap) => stats.odd_timestamps = stats.odd_timestamps.saturating_add(pcap.odd_timestamps),
            Format::Pcapng(pcapng) => stats.add(&pcapng.statistics()),
        }
        stats
    }

    /// What was odd about it up to now, in plain sentences.
    pub(super) fn notes(&self) -> Vec<String> {
        let stats = self.statistics();
        let mut notes: Vec<String> = self.ending.iter().map(|ending| format!("{}: {ending}", self.name)).collect();
        let mut count = |count: u64, what: &str| {
            if count > 0 {
                let packets = if count == 1 { "1 packet".to_owned() } else { format!("{count} packets") };
                notes.push(format!("{}: {packets} {what}", self.name));
            }
        };
        if let Format::Pcapng(pcapng) = &self.format {
            let links = pcapng.unsupported_names();
            count(stats.unsupported_link, &format!("passed over: their link type is not supported: {links}"));
        }
        count(
            stats.untimed,
            "passed over: they carry no time (Simple Packet Blocks), so nothing about them can be dated",
        );
        count(stats.odd_timestamps, "with an impossible time stamp: their times and latencies are not to be trusted");
        notes
    }

    /// The file gives no further packet: an error where nothing of it can be used, or where the system failed; else a note.
    #[cold]
    fn stop(&mut self, stop: Stop) -> Result<(), CaptureError> {
        match content_stop(stop, &self.window, self.compression) {
            Stop::End => {}
            Stop::Cut { offset, left_bytes } => {
                self.stats.cut_files = 1;
                self.ending = Some(format!(
                    "cut at byte {}{}: the {left_bytes} bytes from byte {offset} on are an incomplete packet and were left \
                     out; everything before them was used",
                    offset.saturating_add(left_bytes),
                    self.of_content()
                ));
            }
            Stop::Damaged { offset, what } if self.packets > 0 => {
                self.stats.damaged_files = 1;
                let of_content = self.of_content();
                self.ending =
                    Some(format!("damaged at byte {offset}{of_content}: {what}; everything before it was used"));
            }
            // A later section of another version: as unreadable as damage, and not worth more words.
            Stop::Version { format, major, minor } if self.packets > 0 => {
                self.stats.damaged_files = 1;
                let offset = self.window.offset();
                self.ending = Some(format!(
                    "a section at byte {offset}{} has {format} version {major}.{minor}, which is not supported; everything \
                     before it was used",
                    self.of_content()
                ));
            }
            stop => return Err(unusable(self.name.clone(), stop)),
        }
        let unreadable = match &self.format {
            Format::Pcap(_) => None,
            Format::Pcapng(pcapng) => pcapng.unreadable(),
        };
        match unreadable {
            Some(number) => Err(CaptureError::LinkType { file: self.name.clone(), number }),
            None => Ok(()),
        }
    }

    /// What offsets refer to, where that is not the file as it lies there.
    fn of_content(&self) -> String {
        self.compression.map_or_else(String::new, |compression| format!(" of its {} content", compression.name()))
    }
}

/// Puts the ways in which a compressed stream ends among those in which a capture ends.
fn content_stop(stop: Stop, window: &Window, compression: Option<Compression>) -> Stop {
    match stop {
        Stop::Failed(WindowError::Compression { cut: true, .. }) => {
            Stop::Cut { offset: window.offset(), left_bytes: window.ahead().len() as u64 }
        }
        Stop::Failed(WindowError::Compression { cut: false, what }) => {
            let format = compression.map_or("compressed", Compression::name);
            // What of the damaged piece came out is not a whole packet, so the damage lies just behind.
            let offset = window.offset().saturating_add(window.ahead().len() as u64);
            Stop::Damaged { offset, what: format!("its {format} data cannot be decompressed ({what})") }
        }
        stop => stop,
    }
}

/// The error for a file of which nothing can be used, or not further.
fn unusable(file: String, stop: Stop) -> CaptureError {
    match stop {
        Stop::End => CaptureError::Empty { file },
        Stop::Cut { offset, left_bytes } => {
            let offset = offset.saturating_add(left_bytes);
            CaptureError::Damaged { file, offset, what: "it ends within its header".to_owned() }
        }
        Stop::Damaged { offset, what } => CaptureError::Damaged { file, offset, what },
        Stop::Version { format, major, minor } => CaptureError::Version { file, format, major, minor },
        Stop::LinkType { number } => CaptureError::LinkType { file, number },
        Stop::Foreign { found, advice } => CaptureError::Foreign { file, found, advice },
        Stop::Failed(WindowError::Storage(ReadFailure::Changed(what))) => CaptureError::Changed { file, what },
        Stop::Failed(WindowError::Storage(ReadFailure::Io(source))) => CaptureError::Read { file, source },
        Stop::Failed(WindowError::Compression { what, .. }) => CaptureError::Damaged { file, offset: 0, what },
    }
}
