//! Framing: from contiguous bytes and gaps to messages. Bodies are skipped by arithmetic.
//!
//! A message is announced once the beginning of its body that anybody needs is there ([`Step::Head`]), its body passes by
//! in pieces ([`Step::Body`]), and it ends ([`Step::End`]). A gap inside a body changes nothing but what is known of it;
//! a gap over a header loses the framing ([`Step::Lost`], after which the caller gives it up with [`FrameReader::lose`]).

use record::Timestamp;

use crate::pagestream::layout::HEAD_BYTES;

/// A contiguous piece of the stream, or a hole in it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Chunk<'a> {
    /// Bytes.
    Data {
        bytes: &'a [u8],
        /// Their first arrival; `None` where only a late copy was seen.
        arrived: Option<Timestamp>,
        /// When they became deliverable in order, as far as the capture tells.
        deliverable: Timestamp,
    },
    /// Missing bytes; `arrived` where they lay in one packet that the snap length cut.
    Gap { len: u64, arrived: Option<Timestamp> },
}

/// How the next message is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Length and body, without tag: before the start-up is done.
    Startup,
    /// A single byte: the answer to a request for encryption.
    OneByte,
    /// Tag, length, body.
    Typed,
    /// The framing is lost.
    Lost,
    /// Nothing more of this direction is of interest.
    Ignored,
}

/// The beginning of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head<'a> {
    /// 0 for start-up messages and for single bytes.
    pub(crate) tag: u8,
    /// The body's length on the wire.
    pub(crate) body_bytes: u32,
    /// The body's first bytes: as many as [`wanted_bytes`], fewer where a gap cut them off.
    pub(crate) body: &'a [u8],
    /// Offset of the message's first byte.
    pub(crate) start: u64,
    /// Bytes in front of the body.
    pub(crate) header: usize,
    /// First arrival of the message's first byte.
    pub(crate) first_at: Option<Timestamp>,
}

/// What a chunk brought.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    /// A message begins.
    Head(Head<'a>),
    /// Bytes of its body behind those that were announced, from this stream offset on.
    Body { at: u64, bytes: &'a [u8] },
    /// The message is over.
    End {
        /// First arrival of its last byte; `None` where that fell into a gap.
        last_at: Option<Timestamp>,
        /// Whether the first arrival of every byte is known.
        is_timed: bool,
        /// When it became deliverable as a whole.
        deliverable: Timestamp,
    },
    /// The framing is lost: a gap covers a header, or a header cannot be one.
    Lost,
}

/// Start-up messages are at most so long (`MAX_STARTUP_PACKET_LENGTH` in Postgres).
const MAX_STARTUP_BYTES: u32 = 10_000;

/// No message is longer: Postgres refuses to allocate more (`MaxAllocSize`). Skipping what a forged or misread length
/// claims would pass over all that follows.
const MAX_MESSAGE_BYTES: u32 = 0x3FFF_FFFF;

/// As much of a start-up message as is looked at: parameters that come later are not needed.
const STARTUP_HEAD_BYTES: usize = 1024;

/// As much of a command as is looked at: a pagestream command has 80 characters, a `basebackup` with options some more.
const COMMAND_HEAD_BYTES: usize = 512;

/// Reads one direction.
#[derive(Debug)]
pub(crate) struct FrameReader {
    framing: Framing,
    /// Offset of the next byte.
    at: u64,
    /// Offset of the current message's first byte.
    start: u64,
    /// Offset behind the current message, once it has been announced.
    end: u64,
    is_announced: bool,
    /// First arrival of the current message's first byte.
    first_at: Option<Timestamp>,
    /// First arrival of the latest byte.
    last_at: Option<Timestamp>,
    /// Whether every byte of the current message has a known first arrival.
    is_timed: bool,
    /// The latest time at which bytes became deliverable.
    deliverable: Timestamp,
    /// The current message's beginning, where it comes in pieces.
    collected: Vec<u8>,
    /// The same once it has been announced: it lends the body's first bytes.
    lent: Vec<u8>,
}

impl FrameReader {
    pub(crate) fn new(framing: Framing, at: u64) -> Self {
        Self {
            framing,
            at,
            start: at,
            end: at,
            is_announced: false,
            first_at: None,
            last_at: None,
            is_timed: true,
            deliverable: Timestamp(0),
            collected: Vec::new(),
            lent: Vec::new(),
        }
    }

    pub(crate) fn framing(&self) -> Framing {
        self.framing
    }

    /// Heap bytes held.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.collected.capacity().saturating_add(self.lent.capacity())
    }

    /// Offset of the next byte.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Takes effect at the next message.
    pub(crate) fn set_framing(&mut self, framing: Framing) {
        self.framing = framing;
    }

    /// Nothing more of this direction will be looked at.
    pub(crate) fn ignore(&mut self) {
        (self.framing, self.is_announced) = (Framing::Ignored, false);
        (self.collected, self.lent) = (Vec::new(), Vec::new());
    }

    /// Reads on from `at`, where a message begins.
    pub(crate) fn resume(&mut self, at: u64) {
        (self.framing, self.at, self.is_announced) = (Framing::Typed, at, false);
        self.collected.clear();
    }

    /// Gives up the framing, from the current message's beginning on.
    pub(crate) fn lose(&mut self) -> u64 {
        (self.framing, self.is_announced) = (Framing::Lost, false);
        self.collected.clear();
        self.start
    }

    /// Whether a message has begun and is not over.
    pub(crate) fn is_in_message(&self) -> bool {
        self.is_announced || !self.collected.is_empty()
    }

    /// Whether `len` more bytes lie within the body that is passing by, and do not end it.
    pub(crate) fn is_within_body(&self, len: usize) -> bool {
        self.is_announced && self.at.saturating_add(len as u64) < self.end
    }

    /// Passes over `len` bytes that are [within the body](Self::is_within_body), as [`Self::step`] would.
    pub(crate) fn pass(&mut self, len: usize, arrived: Timestamp, deliverable: Timestamp) {
        self.deliverable = self.deliverable.max(deliverable);
        self.at = self.at.saturating_add(len as u64);
        self.last_at = Some(arrived);
    }

    /// Takes what the chunk brings next; `None` once it is used up.
    pub(crate) fn step<'s, 'a: 's>(&'s mut self, chunk: &mut Chunk<'a>) -> Option<Step<'s>> {
        if self.is_announced && self.at >= self.end {
            self.is_announced = false;
            let Self { last_at, is_timed, deliverable, .. } = *self;
            return Some(Step::End { last_at, is_timed, deliverable });
        }
        match chunk {
            Chunk::Data { bytes, arrived, deliverable } => {
                if bytes.is_empty() {
                    return None;
                }
                self.pass_time(*deliverable);
                self.data(bytes, *arrived)
            }
            Chunk::Gap { len: 0, .. } => None,
            Chunk::Gap { len, arrived } => {
                self.pass_time(arrived.unwrap_or_default());
                self.gap(len, *arrived)
            }
        }
    }

    /// What is passed over without being read will be read later, with its own times.
    fn pass_time(&mut self, deliverable: Timestamp) {
        if self.framing != Framing::Lost || self.is_in_message() {
            self.deliverable = self.deliverable.max(deliverable);
        }
    }

    fn data<'s, 'a: 's>(&'s mut self, bytes: &mut &'a [u8], arrived: Option<Timestamp>) -> Option<Step<'s>> {
        if self.is_announced {
            let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
            let at = self.at;
            let body = self.take(bytes, left, arrived);
            return Some(Step::Body { at, bytes: body });
        }
        match self.framing {
            Framing::Ignored | Framing::Lost => {
                self.take(bytes, usize::MAX, arrived);
                None
            }
            Framing::OneByte | Framing::Startup | Framing::Typed if self.collected.is_empty() => {
                self.begin(bytes, arrived)
            }
            Framing::OneByte | Framing::Startup | Framing::Typed => self.collect(bytes, arrived),
        }
    }

    /// A message begins here. In the ordinary case all that is wanted of it lies in this chunk.
    fn begin<'s, 'a: 's>(&'s mut self, bytes: &mut &'a [u8], arrived: Option<Timestamp>) -> Option<Step<'s>> {
        (self.start, self.first_at, self.is_timed) = (self.at, arrived, true);
        match Shape::of(self.framing, bytes) {
            Shape::Impossible => Some(Step::Lost),
            Shape::Unknown { .. } => self.collect(bytes, arrived),
            Shape::Message { missing, .. } if missing > 0 => self.collect(bytes, arrived),
            Shape::Message { tag, header, body_bytes, wanted, .. } => {
                let head = self.take(bytes, header.saturating_add(wanted), arrived);
                let body = head.get(header..).unwrap_or_default();
                Some(Step::Head(self.announce(tag, header, body_bytes, body)))
            }
        }
    }

    /// The message's beginning comes in pieces.
    fn collect<'s, 'a: 's>(&'s mut self, bytes: &mut &'a [u8], arrived: Option<Timestamp>) -> Option<Step<'s>> {
        loop {
            let missing = match Shape::of(self.framing, &self.collected) {
                Shape::Impossible => return Some(Step::Lost),
                Shape::Message { missing: 0, .. } => return self.announce_collected(),
                Shape::Unknown { missing } | Shape::Message { missing, .. } => missing,
            };
            if bytes.is_empty() {
                return None;
            }
            let piece = self.take(bytes, missing, arrived);
            self.collected.extend_from_slice(piece);
        }
    }

    /// Announces what was collected: all that is wanted, or what a gap left of it.
    fn announce_collected(&mut self) -> Option<Step<'_>> {
        let Shape::Message { tag, header, body_bytes, .. } = Shape::of(self.framing, &self.collected) else {
            return None;
        };
        self.is_announced = true;
        self.end = self.start.saturating_add(header as u64).saturating_add(body_bytes.into());
        let first_at = self.first_at;
        let start = self.start;
        self.lent.clear();
        std::mem::swap(&mut self.lent, &mut self.collected);
        let body = self.lent.get(header..).unwrap_or_default();
        Some(Step::Head(Head { tag, body_bytes, body, start, header, first_at }))
    }

    fn announce<'s>(&mut self, tag: u8, header: usize, body_bytes: u32, body: &'s [u8]) -> Head<'s> {
        self.is_announced = true;
        self.end = self.start.saturating_add(header as u64).saturating_add(body_bytes.into());
        Head { tag, body_bytes, body, start: self.start, header, first_at: self.first_at }
    }

    fn gap<'s>(&'s mut self, len: &mut u64, arrived: Option<Timestamp>) -> Option<Step<'s>> {
        if self.is_announced {
            let inside = self.end.saturating_sub(self.at).min(*len);
            self.skip(len, inside, arrived);
            return self.step(&mut Chunk::Gap { len: 0, arrived });
        }
        match self.framing {
            Framing::Ignored | Framing::Lost => {
                let all = *len;
                self.skip(len, all, arrived);
                None
            }
            Framing::OneByte | Framing::Startup | Framing::Typed => {
                if self.collected.is_empty() {
                    (self.start, self.first_at) = (self.at, None);
                    return Some(Step::Lost);
                }
                match Shape::of(self.framing, &self.collected) {
                    Shape::Message { .. } => self.announce_collected(),
                    Shape::Unknown { .. } | Shape::Impossible => Some(Step::Lost),
                }
            }
        }
    }

    fn take<'a>(&mut self, bytes: &mut &'a [u8], at_most: usize, arrived: Option<Timestamp>) -> &'a [u8] {
        let (now, later) = bytes.split_at_checked(at_most).unwrap_or((bytes, &[]));
        self.at = self.at.saturating_add(now.len() as u64);
        self.last_at = arrived;
        self.is_timed &= arrived.is_some();
        *bytes = later;
        now
    }

    fn skip(&mut self, len: &mut u64, count: u64, arrived: Option<Timestamp>) {
        self.at = self.at.saturating_add(count);
        self.last_at = arrived;
        self.is_timed &= arrived.is_some();
        *len = len.saturating_sub(count);
    }
}

/// Whether these bytes begin with a message's whole header.
pub(crate) fn is_message(framing: Framing, bytes: &[u8]) -> bool {
    matches!(Shape::of(framing, bytes), Shape::Message { .. })
}

/// What a message's first bytes say of it.
enum Shape {
    /// Its header is not whole: so many bytes are missing.
    Unknown { missing: usize },
    /// Its header is whole.
    Message {
        tag: u8,
        /// Bytes of the header.
        header: usize,
        body_bytes: u32,
        /// Bytes of the body that somebody wants.
        wanted: usize,
        /// So many of them are not there yet.
        missing: usize,
    },
    /// This is no message.
    Impossible,
}

/// Bytes of the length field, which counts itself.
const LENGTH_BYTES: u32 = 4;

impl Shape {
    fn of(framing: Framing, input: &[u8]) -> Self {
        let (tag, rest) = match (framing, input) {
            (_, []) => return Self::Unknown { missing: if framing == Framing::OneByte { 1 } else { 4 } },
            (Framing::Startup, _) => (0, input),
            (Framing::OneByte, [byte, ..]) => {
                return Self::Message { tag: *byte, header: 1, body_bytes: 0, wanted: 0, missing: 0 };
            }
            (_, [tag, rest @ ..]) if is_tag(*tag) => (*tag, rest),
            _ => return Self::Impossible,
        };
        let Some((&length, body)) = rest.split_first_chunk() else {
            return Self::Unknown { missing: (LENGTH_BYTES as usize).saturating_sub(rest.len()) };
        };
        let Some(body_bytes) = u32::from_be_bytes(length).checked_sub(LENGTH_BYTES) else { return Self::Impossible };
        let most = if framing == Framing::Startup { MAX_STARTUP_BYTES } else { MAX_MESSAGE_BYTES };
        if body_bytes > most {
            return Self::Impossible;
        }
        let wanted = wanted_bytes(framing, tag).min(body_bytes as usize);
        let header = input.len().saturating_sub(body.len());
        Self::Message { tag, header, body_bytes, wanted, missing: wanted.saturating_sub(body.len()) }
    }
}

/// Whether a typed message can begin so: ParseComplete, BindComplete and CloseComplete have digits.
fn is_tag(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'1'..=b'3')
}

/// How much of a message's body somebody wants to see. Of passwords (`p`) nothing.
fn wanted_bytes(framing: Framing, tag: u8) -> usize {
    match (framing, tag) {
        (Framing::Startup, _) => STARTUP_HEAD_BYTES,
        (Framing::Typed, b'd') => HEAD_BYTES,
        (Framing::Typed, b'Q' | b'P') => COMMAND_HEAD_BYTES,
        _ => 0,
    }
}
