//! Finding the framing again after a gap over a header, or on a connection that was joined in the middle.
//!
//! A place is taken for a message's beginning only where its tag, its length and its kind fit the version exactly *and*
//! something independent confirms it: the next message's header right behind it, or, among answers of version 3, an echo
//! that names a pending request. A page's bytes belong to a customer and may hold anything, messages included; a chain of
//! answers therefore counts only once it is longer than a page. Places inside a message that may still be confirmed wait
//! for it.

use std::collections::VecDeque;

use record::{Protocol, Timestamp};

use super::answer::AnswerHead;
use super::layout::{self, HEAD_BYTES, PAGE_BYTES};
use crate::flow::Side;
use crate::pgwire::frame::Chunk;

/// Bytes kept while a candidate waits for its confirmation: several page answers.
const MAX_WINDOW_BYTES: u64 = 64 * 1024;

/// Candidates that may wait inside one another.
const MAX_CANDIDATES: usize = 8;

/// Bytes of CopyData's tag and length.
const COPY_HEADER_BYTES: u64 = 5;

/// Bytes of a message that are looked at.
const PEEK_BYTES: usize = HEAD_BYTES + COPY_HEADER_BYTES as usize;

/// What lies in one place of the window.
#[derive(Debug)]
pub(crate) struct Piece {
    at: u64,
    len: u64,
    /// Empty for a gap.
    bytes: Vec<u8>,
    arrived: Option<Timestamp>,
    deliverable: Timestamp,
}

impl Piece {
    /// The piece as it came.
    pub(crate) fn chunk(&self) -> Chunk<'_> {
        match self.bytes.as_slice() {
            [] => Chunk::Gap { len: self.len, arrived: self.arrived },
            bytes => Chunk::Data { bytes, arrived: self.arrived, deliverable: self.deliverable },
        }
    }
}

/// A place where a message may begin.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    version: Protocol,
    start: u64,
    /// Where the next message must begin.
    next: u64,
    /// Messages behind it that were there.
    confirmed: u32,
}

/// The framing, found again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// The version that the messages have. Answers of version 1 and 2 look alike.
    pub(crate) version: Protocol,
    /// Where a message begins.
    pub(crate) at: u64,
    /// All that was lost before it is proven to be one page answer of version 1 or 2.
    pub(crate) one_page: bool,
}

/// Looks for the framing in one direction.
#[derive(Debug)]
pub(crate) struct Scanner {
    side: Side,
    /// The connection's version, where it is known.
    version: Option<Protocol>,
    /// Where the framing was lost.
    lost_from: u64,
    pieces: VecDeque<Piece>,
    end: u64,
    /// Every place before this one has been looked at.
    looked_to: u64,
    candidates: Vec<Candidate>,
    has_overflowed: bool,
    /// Bytes seen in all.
    pub(crate) seen_bytes: u64,
    gaps: u32,
    last_gap_end: u64,
    /// The first zero byte since the last gap.
    zero_at: Option<u64>,
}

/// What a place looks like.
enum Look {
    Message {
        version: Protocol,
        bytes: u64,
    },
    /// Another message of the libpq protocol that may stand between CopyData.
    Control,
    /// More bytes are needed to tell.
    Short,
    Nothing,
}

impl Scanner {
    pub(crate) fn new(side: Side, version: Option<Protocol>, lost_from: u64, at: u64) -> Self {
        Self {
            side,
            version,
            lost_from,
            pieces: VecDeque::new(),
            end: at,
            looked_to: at,
            candidates: Vec::new(),
            has_overflowed: false,
            seen_bytes: 0,
            gaps: 0,
            last_gap_end: 0,
            zero_at: None,
        }
    }

    /// Where the framing was lost.
    pub(crate) fn lost_from(&self) -> u64 {
        self.lost_from
    }

    /// Whether all that lies between the loss and this place is one gap.
    pub(crate) fn is_one_gap_before(&self, at: u64) -> bool {
        self.gaps == 1 && self.last_gap_end == at
    }

    /// The version became known.
    pub(crate) fn set_version(&mut self, version: Protocol) {
        self.version = Some(version);
        self.candidates.retain(|candidate| candidate.version == version);
    }

    /// Whether some place may still turn out to be a message.
    pub(crate) fn has_candidates(&self) -> bool {
        !self.candidates.is_empty()
    }

    /// Heap bytes held.
    pub(crate) fn heap_bytes(&self) -> usize {
        let bytes =
            self.pieces.iter().map(|piece| piece.bytes.capacity().saturating_add(size_of::<Piece>())).sum::<usize>();
        let unused = self.pieces.capacity().saturating_sub(self.pieces.len()).saturating_mul(size_of::<Piece>());
        let candidates = self.candidates.capacity().saturating_mul(size_of::<Candidate>());
        bytes.saturating_add(unused).saturating_add(candidates).saturating_add(size_of::<Self>())
    }

    /// A gap follows: what waits for a header inside it cannot be confirmed any more. Where the snap length cuts every packet, what
    /// is there of a header has to do: there will be no more of it.
    pub(crate) fn gap(&mut self, len: u64, arrived: Option<Timestamp>) -> Option<Found> {
        let (start, end) = (self.end, self.end.saturating_add(len));
        self.pieces.push_back(Piece {
            at: start,
            len,
            bytes: Vec::new(),
            arrived,
            deliverable: arrived.unwrap_or_default(),
        });
        self.end = end;
        self.look();
        self.follow();
        let found = self.decide(|_| false);
        self.candidates.retain(|candidate| candidate.next >= end || found.is_some());
        self.looked_to = end;
        if found.is_some() {
            return found;
        }
        (self.gaps, self.last_gap_end, self.zero_at) = (self.gaps.saturating_add(1), end, None);
        self.trim();
        None
    }

    /// Bytes follow. `recognises` tells whether a pending request has what an answer echoes.
    pub(crate) fn data(
        &mut self,
        bytes: &[u8],
        stamps: (Option<Timestamp>, Timestamp),
        recognises: impl Fn(&AnswerHead) -> bool,
    ) -> Option<Found> {
        let (arrived, deliverable) = stamps;
        let len = bytes.len() as u64;
        if self.side == Side::Server && self.zero_at.is_none() {
            self.zero_at = memchr::memchr(0, bytes).map(|at| self.end.saturating_add(at as u64));
        }
        self.pieces.push_back(Piece { at: self.end, len, bytes: bytes.to_vec(), arrived, deliverable });
        self.end = self.end.saturating_add(len);
        self.seen_bytes = self.seen_bytes.saturating_add(len);
        self.follow();
        self.look();
        let found = self.decide(recognises);
        if found.is_none() {
            self.trim();
        }
        found
    }

    /// What the window holds from `at` on, in order.
    pub(crate) fn into_pieces_from(mut self, at: u64) -> VecDeque<Piece> {
        self.pieces.retain(|piece| piece.at.saturating_add(piece.len) > at);
        if let Some(first) = self.pieces.front_mut() {
            let skip = at.saturating_sub(first.at);
            first.bytes.drain(..usize::try_from(skip).unwrap_or(usize::MAX).min(first.bytes.len()));
            (first.at, first.len) = (first.at.saturating_add(skip), first.len.saturating_sub(skip));
        }
        self.pieces
    }

    /// Follows each candidate's chain as far as the bytes reach; a broken chain ends it.
    fn follow(&mut self) {
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.retain_mut(|candidate| {
            while candidate.next < self.end {
                match self.look_at(candidate.next, Some(candidate.version)) {
                    Look::Message { bytes, .. } => {
                        candidate.next = candidate.next.saturating_add(bytes);
                        candidate.confirmed = candidate.confirmed.saturating_add(1);
                    }
                    Look::Control => {
                        candidate.confirmed = candidate.confirmed.saturating_add(1);
                        break;
                    }
                    Look::Short => break,
                    Look::Nothing => return false,
                }
            }
            true
        });
        self.candidates = candidates;
    }

    /// Looks for new candidates, as long as they may matter: of requests the first one does that is confirmed.
    fn look(&mut self) {
        while let Some(at) = self.next_d() {
            if self.side == Side::Client && self.candidates.first().is_some_and(|first| first.confirmed > 0) {
                return;
            }
            match self.look_at(at, self.version) {
                Look::Message { version, bytes } => {
                    self.add(Candidate { version, start: at, next: at.saturating_add(bytes), confirmed: 0 });
                }
                Look::Short => {
                    self.looked_to = at;
                    return;
                }
                Look::Control | Look::Nothing => {}
            }
            self.looked_to = at.saturating_add(1);
        }
        self.looked_to = self.end;
    }

    /// Adds a candidate, unless it lies on the chain of one that is there.
    fn add(&mut self, candidate: Candidate) {
        if self.candidates.len() >= MAX_CANDIDATES {
            self.has_overflowed = true;
            return;
        }
        self.candidates.push(candidate);
        self.follow();
        let is_new = |added: &Candidate| added.start == candidate.start;
        let Some(added) = self.candidates.last().copied().filter(is_new) else { return };
        if self.candidates.iter().any(|known| known.start != added.start && known.next == added.next) {
            self.candidates.pop();
        }
    }

    /// The next place from `looked_to` on that holds CopyData's tag.
    fn next_d(&self) -> Option<u64> {
        self.pieces.iter().find_map(|piece| {
            let skip = usize::try_from(self.looked_to.saturating_sub(piece.at)).ok()?;
            let at = memchr::memchr(b'd', piece.bytes.get(skip..)?)?;
            Some(piece.at.saturating_add(skip as u64).saturating_add(at as u64))
        })
    }

    /// Whether a message begins at this place.
    fn look_at(&self, at: u64, version: Option<Protocol>) -> Look {
        let (peeked, len) = self.peek(at);
        let peeked = peeked.get(..len).unwrap_or_default();
        let Some((&[tag, l0, l1, l2, l3], body)) = peeked.split_first_chunk() else {
            return self.look_at_cut(at, peeked);
        };
        let Some(body_bytes) = u32::from_be_bytes([l0, l1, l2, l3]).checked_sub(4) else { return Look::Nothing };
        if tag != b'd' {
            return if self.is_control(tag, body_bytes) { Look::Control } else { Look::Nothing };
        }
        let Some(&kind) = body.first() else { return Look::Short };
        let candidates: &[Protocol] = match (version, self.side) {
            (Some(Protocol::V1), _) => &[Protocol::V1],
            (Some(Protocol::V2), _) => &[Protocol::V2],
            (Some(Protocol::V3), _) => &[Protocol::V3],
            (None, Side::Client) => &[Protocol::V3, Protocol::V2, Protocol::V1],
            (None, Side::Server) => &[Protocol::V3, Protocol::V2],
        };
        let fits = |&&version: &&Protocol| match self.side {
            Side::Client => layout::is_request(version, kind, body_bytes) && kind != layout::TAG_TEST_REQUEST,
            Side::Server => layout::is_answer(version, kind, body_bytes) && kind != layout::TAG_TEST_ANSWER,
        };
        match candidates.iter().find(fits) {
            None => Look::Nothing,
            // Everything that will be looked at has to be there, or to be cut off by a gap for good.
            Some(_)
                if body.len() < HEAD_BYTES.min(body_bytes as usize) && at.saturating_add(len as u64) >= self.end =>
            {
                Look::Short
            }
            Some(&version) => Look::Message { version, bytes: COPY_HEADER_BYTES.saturating_add(body_bytes.into()) },
        }
    }

    /// What a header looks like of which at most four bytes are there.
    fn look_at_cut(&self, at: u64, header: &[u8]) -> Look {
        let is_cut_for_good = at.saturating_add(header.len() as u64) < self.end;
        match header {
            // No request is longer than two of the length's four bytes tell.
            [b'd', 0, rest @ ..] if is_cut_for_good && rest.first().is_none_or(|&byte| byte == 0) => Look::Control,
            [b'd', 0, ..] | [] => Look::Short,
            _ if is_cut_for_good => Look::Nothing,
            _ => Look::Short,
        }
    }

    /// Messages that end a CopyBoth stream, with the lengths that they have.
    fn is_control(&self, tag: u8, body_bytes: u32) -> bool {
        match (self.side, tag) {
            (Side::Client, b'X' | b'c' | b'S') | (Side::Server, b'c') => body_bytes == 0,
            (Side::Client, b'f') => body_bytes <= 1024,
            (Side::Server, b'Z') => body_bytes == 1,
            (Side::Server, b'E') => (8..=64 * 1024).contains(&body_bytes),
            _ => false,
        }
    }

    /// The bytes from `at` on, as far as they are contiguous.
    fn peek(&self, at: u64) -> ([u8; PEEK_BYTES], usize) {
        let mut peeked = [0; PEEK_BYTES];
        let mut len = 0usize;
        for piece in &self.pieces {
            let cursor = at.saturating_add(len as u64);
            if cursor >= piece.at.saturating_add(piece.len) || cursor < piece.at {
                continue;
            }
            let skip = usize::try_from(cursor.saturating_sub(piece.at)).unwrap_or(usize::MAX);
            let from = piece.bytes.get(skip..).unwrap_or_default();
            if from.is_empty() {
                break;
            }
            let room = peeked.get_mut(len..).unwrap_or_default();
            for (to, byte) in room.iter_mut().zip(from) {
                *to = *byte;
                len = len.saturating_add(1);
            }
            if len >= PEEK_BYTES {
                break;
            }
        }
        (peeked, len)
    }

    /// Takes a candidate that is confirmed.
    fn decide(&self, recognises: impl Fn(&AnswerHead) -> bool) -> Option<Found> {
        let first = self.candidates.first()?;
        let confirmed = match self.side {
            // Requests hold no customer's bytes: the next header, or an end that is also the segment's, suffices.
            Side::Client => (first.confirmed > 0 || first.next == self.end).then_some(first),
            Side::Server => self
                .candidates
                .iter()
                .find(|candidate| self.is_echo_known(candidate, &recognises))
                .or_else(|| Some(first).filter(|first| self.is_longer_than_a_page(first) && self.is_alone())),
        };
        confirmed.map(|found| Found { version: found.version, at: found.start, one_page: self.is_one_page(found) })
    }

    /// Whether there is no other chain. A customer may store pages that look like messages, one in each
    /// page at the same place: then two chains go on side by side, and nothing tells which is the real one.
    fn is_alone(&self) -> bool {
        !self.has_overflowed && self.candidates.len() == 1
    }

    fn is_echo_known(&self, candidate: &Candidate, recognises: &impl Fn(&AnswerHead) -> bool) -> bool {
        let (peeked, len) = self.peek(candidate.start);
        let body_bytes = self.body_bytes_at(candidate.start);
        let body = peeked.get(COPY_HEADER_BYTES as usize..len).unwrap_or_default();
        candidate.version == Protocol::V3
            && AnswerHead::parse(candidate.version, body, body_bytes).is_ok_and(|head| recognises(&head))
    }

    fn body_bytes_at(&self, at: u64) -> u32 {
        let (peeked, _) = self.peek(at);
        let [_, l0, l1, l2, l3] = *peeked.first_chunk().unwrap_or(&[0; 5]);
        u32::from_be_bytes([l0, l1, l2, l3]).saturating_sub(4)
    }

    /// Whether the chain is confirmed and cannot lie inside one page.
    fn is_longer_than_a_page(&self, candidate: &Candidate) -> bool {
        candidate.confirmed > 0 && candidate.next.saturating_sub(candidate.start) > u64::from(PAGE_BYTES)
    }

    /// Whether the lost bytes are one page answer. Its length is right; were they several messages, the last of them would
    /// reach over the visible bytes, which hold a zero, so it would be no error's text, and it would be too short for a page.
    fn is_one_page(&self, found: &Candidate) -> bool {
        /// Longer than any answer that is neither a page, a segment nor an error.
        const LONGEST_SMALL_ANSWER_BYTES: u64 = 64;
        let page = COPY_HEADER_BYTES.saturating_add(1).saturating_add(PAGE_BYTES.into());
        self.side == Side::Server
            && self.gaps == 1
            && found.start.saturating_sub(self.lost_from) == page
            && found.start.saturating_sub(self.last_gap_end) > LONGEST_SMALL_ANSWER_BYTES
            && self.zero_at.is_some_and(|zero| zero < found.start.saturating_sub(1))
    }

    /// Lets go of what no candidate needs, and of candidates that need too much.
    fn trim(&mut self) {
        let oldest = self.end.saturating_sub(MAX_WINDOW_BYTES);
        self.candidates.retain(|candidate| candidate.start >= oldest);
        let needed = self.candidates.iter().map(|candidate| candidate.start).chain([self.looked_to]).min();
        let needed = needed.unwrap_or(self.end);
        while self.pieces.front().is_some_and(|piece| piece.at.saturating_add(piece.len) <= needed) {
            self.pieces.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
