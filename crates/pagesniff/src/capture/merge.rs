//! Several captures as one, merged by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use decode::Packet;
use record::Timestamp;

use super::reader::{Access, Reader};
use super::storage::Origin;
use super::{After, CaptureError, Progress, Source, SourceStats};

/// How much of a file is read at a time: large enough that the calls do not count, small enough for a second-level cache.
const WINDOW_BYTES: usize = 1 << 20;

/// Files that overlap in time are open together; so much memory they share, with [`WINDOW_LEAST_BYTES`] for each.
const WINDOWS_BYTES: usize = 16 << 20;
const WINDOW_LEAST_BYTES: usize = 16 << 10;

/// The window for a look at a file's first packet.
const FIRST_LOOK_BYTES: usize = 64 << 10;

/// How many of the open files keep their descriptors. The usual limit of a process is 1,024, and others need some too.
const HELD_OPEN_LIMIT: usize = 128;

/// How many notes are kept, so that a thousand cut files do not make a thousand lines.
const NOTE_LIMIT: usize = 20;

/// Capture files, and pipes, as one source: merged by the packets' times, where they are equal in the order of the arguments.
///
/// Each file is opened when the merge reaches its first packet, so thousands of rotated files are no matter. A file
/// whose own packets go back in time is passed on as it is.
pub struct Files {
    active: Option<Queued>,
    queue: BinaryHeap<Reverse<Queued>>,
    /// Pipes: not touched before the first call of [`Files::next_packet`], since that can wait.
    unstarted: Vec<(usize, Origin)>,
    open_files: usize,
    ended: bool,
    read_bytes: Arc<AtomicU64>,
    total_bytes: Option<u64>,
    finished: SourceStats,
    notes: Vec<String>,
    notes_left_out: u64,
}

/// A file at the place of its next packet. Ordered by that packet's time, then by the arguments.
struct Queued {
    time: Timestamp,
    argument: usize,
    content: Content,
}

enum Content {
    /// Only its first packet has been looked at.
    Closed(Origin),
    /// It stands on the packet.
    Open(Box<Reader>),
}

impl Queued {
    fn key(&self) -> (Timestamp, usize) {
        (self.time, self.argument)
    }
}

impl PartialEq for Queued {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Queued {}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl Files {
    /// Opens captures; `-` is standard input. Regular files are looked at up to their first packet, so that one that cannot be
    /// used is refused before any work is done. Pipes are first read by [`Files::next_packet`].
    ///
    /// # Errors
    ///
    /// Whatever keeps one of the files from being used; see [`CaptureError`].
    pub fn open(paths: &[PathBuf]) -> Result<Self, CaptureError> {
        let mut files = Self {
            active: None,
            queue: BinaryHeap::new(),
            unstarted: Vec::new(),
            open_files: 0,
            ended: false,
            read_bytes: Arc::default(),
            total_bytes: Some(0),
            finished: SourceStats::default(),
            notes: Vec::new(),
            notes_left_out: 0,
        };
        let only_one = paths.len() == 1;
        for (argument, path) in paths.iter().enumerate() {
            let (origin, length_bytes) = Origin::examine(path)?;
            files.total_bytes = files.total_bytes.zip(length_bytes).map(|(total, length)| total.saturating_add(length));
            match origin {
                Origin::Regular(_) if only_one => files.start(argument, &origin)?,
                Origin::Regular(_) => files.look_at(argument, origin)?,
                Origin::StandardInput | Origin::Stream(_) => files.unstarted.push((argument, origin)),
            }
        }
        Ok(files)
    }

    /// Queues a file by its first packet, without keeping it open.
    fn look_at(&mut self, argument: usize, origin: Origin) -> Result<(), CaptureError> {
        let access = Access { held_open: true, window_bytes: FIRST_LOOK_BYTES, read_bytes: Arc::default() };
        let mut reader = Reader::open(&origin, access)?;
        reader.advance()?;
        match reader.time() {
            Some(time) => self.queue.push(Reverse(Queued { time, argument, content: Content::Closed(origin) })),
            None => self.finish(&reader),
        }
        Ok(())
    }

    /// Opens a file and queues it at its first packet.
    fn start(&mut self, argument: usize, origin: &Origin) -> Result<(), CaptureError> {
        let share = WINDOWS_BYTES.checked_div(self.open_files.saturating_add(1)).unwrap_or(WINDOW_LEAST_BYTES);
        let access = Access {
            held_open: self.open_files < HELD_OPEN_LIMIT,
            window_bytes: share.clamp(WINDOW_LEAST_BYTES, WINDOW_BYTES),
            read_bytes: Arc::clone(&self.read_bytes),
        };
        let mut reader = Box::new(Reader::open(origin, access)?);
        reader.advance()?;
        match reader.time() {
            Some(time) => {
                self.open_files = self.open_files.saturating_add(1);
                self.queue.push(Reverse(Queued { time, argument, content: Content::Open(reader) }));
            }
            None => self.finish(&reader),
        }
        Ok(())
    }

    /// Keeps what a file counted and noted.
    fn finish(&mut self, reader: &Reader) {
        self.finished.add(&reader.statistics());
        for note in reader.notes() {
            if self.notes.len() < NOTE_LIMIT {
                self.notes.push(note);
            } else {
                self.notes_left_out = self.notes_left_out.saturating_add(1);
            }
        }
    }

    /// Makes the file with the earliest packet the active one, standing on it; false where all have ended.
    #[inline]
    fn advance(&mut self) -> Result<bool, CaptureError> {
        if let Some(Queued { time, argument, content: Content::Open(reader) }) = &mut self.active
            && reader.advance()?
        {
            let Some(Reverse(next)) = self.queue.peek() else { return Ok(true) };
            *time = reader.time().unwrap_or_default();
            if (*time, *argument) <= next.key() {
                return Ok(true);
            }
            self.queue.extend(self.active.take().map(Reverse));
        }
        self.switch()
    }

    /// Goes on with the first file of the queue.
    #[cold]
    fn switch(&mut self) -> Result<bool, CaptureError> {
        if let Some(Queued { content: Content::Open(reader), .. }) = self.active.take() {
            self.open_files = self.open_files.saturating_sub(1);
            self.finish(&reader);
        }
        for (argument, origin) in std::mem::take(&mut self.unstarted) {
            self.start(argument, &origin)?;
        }
        while let Some(Reverse(first)) = self.queue.pop() {
            match first.content {
                // Queued again, in case that its first packet is another one by now.
                Content::Closed(origin) => self.start(first.argument, &origin)?,
                Content::Open(_) => {
                    self.active = Some(first);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The open files.
    fn readers(&self) -> impl Iterator<Item = &Reader> {
        let queued = self.queue.iter().map(|Reverse(queued)| queued);
        self.active.iter().chain(queued).filter_map(|queued| match &queued.content {
            Content::Open(reader) => Some(&**reader),
            Content::Closed(_) => None,
        })
    }
}

impl Files {
    /// The next packet, or `None` at the end. Its bytes hold until the next call.
    ///
    /// # Errors
    ///
    /// As [`Source::burst`].
    #[inline]
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>, CaptureError> {
        if self.ended {
            return Ok(None);
        }
        match self.advance() {
            Ok(true) => {}
            Ok(false) => self.ended = true,
            Err(error) => {
                self.ended = true;
                return Err(error);
            }
        }
        Ok(match &self.active {
            Some(Queued { content: Content::Open(reader), .. }) => reader.packet(),
            _ => None,
        })
    }
}

impl Source for Files {
    #[inline]
    fn burst(&mut self, mut take: impl FnMut(&Packet<'_>)) -> Result<After, CaptureError> {
        Ok(self.next_packet()?.map_or(After::End, |packet| {
            take(&packet);
            After::Packets
        }))
    }

    fn progress(&self) -> Option<Progress> {
        Some(Progress { read_bytes: self.read_bytes.load(Ordering::Relaxed), total_bytes: self.total_bytes })
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        notes.extend(self.readers().flat_map(Reader::notes));
        if self.notes_left_out > 0 {
            notes.push(format!("{} more notes about files are not shown", self.notes_left_out));
        }
        notes
    }

    fn statistics(&self) -> SourceStats {
        let mut stats = self.finished;
        for reader in self.readers() {
            stats.add(&reader.statistics());
        }
        stats
    }
}
