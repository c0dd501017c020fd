//! Puts IP fragments together (RFC 791, RFC 8200 section 4.5), within bounds.
//!
//! Pieces that repeat each other are copies (a mirror of two ports delivers them); pieces that contradict each other
//! condemn their datagram, with those of its pieces that are yet to come (RFC 5722). Nothing is ever guessed: a
//! datagram comes out when all its bytes are there.

use std::net::IpAddr;

use record::Timestamp;

use super::ip::{Datagram, Fragment};
use super::span::Span;
use super::{Skip, count};
use crate::stats::WireStats;

/// Datagrams that wait at a time. Pageservers and computes do not fragment; a tunnel between them with too small an MTU
/// interleaves a handful.
const MAX_DATAGRAMS: usize = 128;

/// Linux's `ipfrag_time`: a receiver that has waited so long gives up too.
const TIMEOUT_NS: u64 = 30_000_000_000;

/// How long a finished datagram is remembered, for the second copies of its fragments. Mirrored copies come within
/// milliseconds, and a 16-bit identification is not used again so soon.
const COPIES_NS: u64 = 1_000_000_000;

/// Islands of bytes in one datagram. 65,535 bytes at the least common MTU, 576, make 119 pieces, of which 60 can lie
/// apart from each other.
const MAX_ISLANDS: usize = 64;

/// No datagram is longer (the IPv4 total length is 16 bits).
const MAX_DATAGRAM_LEN: usize = 65_535;

/// The least buffer, so that one grows a few times only.
const MIN_BUFFER_LEN: usize = 4096;

/// What fragments of one datagram have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    source: IpAddr,
    destination: IpAddr,
    id: u32,
    /// The protocol, which IPv4 makes part of the identity and IPv6 (0 here) does not.
    protocol: u8,
}

impl Key {
    fn of(piece: &Datagram<'_>, fragment: Fragment) -> Self {
        let protocol = if piece.addresses.is_v6() { 0 } else { piece.protocol };
        let (source, destination) = (piece.addresses.source(), piece.addresses.destination());
        Self { source, destination, id: fragment.id, protocol }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// For any datagram to take.
    Free,
    /// Bytes are missing.
    Waiting,
    /// Given up; what still comes of it is dropped.
    Condemned,
    /// Put together at this time.
    Done(Timestamp),
}

/// One datagram in the making. Its buffers outlive it, for the next one in its place.
#[derive(Debug)]
struct Slot {
    key: Key,
    state: State,
    first_seen: Timestamp,
    /// Fragments held, copies not among them.
    pieces: u64,
    /// The protocol as the first fragment has it.
    protocol: u8,
    /// The datagram's length, once the last fragment is there.
    len: Option<usize>,
    /// The bytes that are there, as ranges in order that do not touch.
    islands: Vec<(usize, usize)>,
    buffer: Vec<u8>,
}

/// What a fragment did to its datagram.
enum Placed {
    New,
    Copy,
    Contradiction,
}

impl Slot {
    fn free(key: Key) -> Self {
        Self {
            key,
            state: State::Free,
            first_seen: Timestamp::default(),
            pieces: 0,
            protocol: 0,
            len: None,
            islands: Vec::new(),
            buffer: Vec::new(),
        }
    }

    fn begin(&mut self, key: Key, now: Timestamp) {
        self.key = key;
        self.state = State::Waiting;
        self.first_seen = now;
        self.len = None;
        self.pieces = 0;
        self.islands.clear();
    }

    /// Leaves `state` behind; pieces that had been waiting are lost.
    fn give_up(&mut self, state: State, stats: &mut WireStats) {
        if self.state == State::Waiting {
            count(&mut stats.fragments_dropped, self.pieces);
        }
        self.state = state;
        self.pieces = 0;
    }

    fn expire(&mut self, now: Timestamp, stats: &mut WireStats) {
        let (since, timeout_ns) = match self.state {
            State::Free => return,
            State::Waiting | State::Condemned => (self.first_seen, TIMEOUT_NS),
            State::Done(at) => (at, COPIES_NS),
        };
        if now.since(since).is_some_and(|age_ns| age_ns > timeout_ns) {
            self.give_up(State::Free, stats);
        }
    }

    /// Places a fragment, in a new datagram if it does not repeat the one that is finished: then its identification
    /// stands for another by now.
    fn take(&mut self, bytes: &[u8], fragment: Fragment, now: Timestamp) -> Placed {
        let placed = self.place(bytes, fragment.offset, fragment.more);
        match (self.state, placed) {
            (State::Done(_), Placed::New | Placed::Contradiction) => {
                self.begin(self.key, now);
                self.place(bytes, fragment.offset, fragment.more)
            }
            (_, placed) => placed,
        }
    }

    /// Puts `bytes` at `start`; the buffer reaches to `end` at least. `end` is `start` plus their length.
    fn place(&mut self, bytes: &[u8], start: usize, more: bool) -> Placed {
        let end = start.saturating_add(bytes.len());
        let furthest = self.islands.last().map_or(end, |&(_, furthest)| furthest.max(end));
        let len = if more { self.len } else { Some(self.len.unwrap_or(end)) };
        // All bytes lie before the end that the last fragment gives, and all last fragments give the same one.
        if len.is_some_and(|len| furthest > len || (!more && end != len)) {
            return Placed::Contradiction;
        }
        let mut all_there = false;
        for &(from, to) in self.islands.iter().filter(|&&(from, to)| from < end && start < to) {
            let (from_there, to_there) = (from.max(start), to.min(end));
            let there = self.buffer.get(from_there..to_there);
            if there != bytes.get(from_there.saturating_sub(start)..to_there.saturating_sub(start)) {
                return Placed::Contradiction;
            }
            all_there |= from <= start && end <= to;
        }
        if all_there {
            return Placed::Copy;
        }
        self.len = len;
        match self.buffer.get_mut(start..end) {
            Some(place) => place.copy_from_slice(bytes),
            None => return Placed::Contradiction,
        }
        if self.join_islands(start, end) { Placed::New } else { Placed::Contradiction }
    }

    /// Adds `start..end` to the islands and joins those that it touches. False where there would be too many.
    fn join_islands(&mut self, start: usize, end: usize) -> bool {
        let before = self.islands.partition_point(|&(_, to)| to < start);
        let touched = self.islands.iter().skip(before).take_while(|&&(from, _)| from <= end);
        let (joined, count) = touched.fold(((start, end), 0usize), |((first, last), count), &(from, to)| {
            ((first.min(from), last.max(to)), count.saturating_add(1))
        });
        if count == 0 && self.islands.len() >= MAX_ISLANDS {
            return false;
        }
        self.islands.splice(before..before.saturating_add(count), [joined]);
        true
    }

    fn is_whole(&self) -> bool {
        matches!((self.len, self.islands.as_slice()), (Some(len), [(0, end)]) if *end == len)
    }
}

/// Holds the fragments of datagrams that are not whole yet.
#[derive(Debug)]
pub(super) struct Reassembler {
    slots: Vec<Slot>,
    /// Sum of the buffers' lengths, which only grow until they are taken away.
    buffered_bytes: usize,
    max_bytes: usize,
}

impl Reassembler {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { slots: Vec::new(), buffered_bytes: 0, max_bytes }
    }

    /// Takes one fragment, and gives the datagram that it completes, if it does.
    ///
    /// # Errors
    ///
    /// [`Skip::Malformed`] for what no sender makes: no bytes, a piece in the middle that is not a multiple of eight, one
    /// beyond the longest datagram, or a length beyond the packet's.
    pub(super) fn accept<'a>(
        &'a mut self,
        piece: &Datagram<'a>,
        fragment: Fragment,
        now: Timestamp,
        stats: &mut WireStats,
    ) -> Result<Option<Datagram<'a>>, Skip> {
        let len = piece.body.wire_len();
        let end = fragment.offset.saturating_add(len);
        if len == 0 || !piece.exact_len || end > MAX_DATAGRAM_LEN || (fragment.more && len & 7 != 0) {
            return Err(Skip::Malformed);
        }
        count(&mut stats.fragments, 1);
        self.slots.iter_mut().for_each(|slot| slot.expire(now, stats));
        let at = self.slot_for(Key::of(piece, fragment), now, stats);
        let wanted = !piece.body.is_cut() && self.slots.get(at).is_some_and(|slot| slot.state != State::Condemned);
        let has_room = wanted && self.make_room(at, end, stats);
        let Some(slot) = self.slots.get_mut(at) else { return Ok(None) };
        if !has_room {
            slot.give_up(State::Condemned, stats);
            count(&mut stats.fragments_dropped, 1);
            return Ok(None);
        }
        match slot.take(piece.body.captured(), fragment, now) {
            Placed::New => slot.pieces = slot.pieces.saturating_add(1),
            Placed::Copy => count(&mut stats.fragment_copies, 1),
            Placed::Contradiction => {
                slot.give_up(State::Condemned, stats);
                count(&mut stats.fragments_dropped, 1);
            }
        }
        if fragment.offset == 0 {
            slot.protocol = piece.protocol;
        }
        if slot.state != State::Waiting || !slot.is_whole() {
            return Ok(None);
        }
        count(&mut stats.fragments_joined, slot.pieces);
        count(&mut stats.datagrams_joined, 1);
        slot.state = State::Done(now);
        let whole = slot.len.and_then(|len| slot.buffer.get(..len)).unwrap_or(&[]);
        Ok(Some(Datagram {
            protocol: slot.protocol,
            fragment: None,
            exact_len: true,
            body: Span::whole(whole),
            ..*piece
        }))
    }

    /// Gives up whatever waits.
    pub(super) fn finish(&mut self, stats: &mut WireStats) {
        for slot in &mut self.slots {
            slot.give_up(State::Free, stats);
        }
    }

    /// The place of the datagram's slot: its own, a free one, or that of the oldest, which is given up.
    fn slot_for(&mut self, key: Key, now: Timestamp, stats: &mut WireStats) -> usize {
        if let Some(at) = self.slots.iter().position(|slot| slot.state != State::Free && slot.key == key) {
            return at;
        }
        let at = match self.slots.iter().position(|slot| slot.state == State::Free) {
            Some(at) => at,
            None if self.slots.len() < MAX_DATAGRAMS => {
                self.slots.push(Slot::free(key));
                self.slots.len().saturating_sub(1)
            }
            None => self.oldest(|_, _| true).unwrap_or(0),
        };
        if let Some(slot) = self.slots.get_mut(at) {
            slot.give_up(State::Free, stats);
            slot.begin(key, now);
        }
        at
    }

    /// The slot whose datagram began first, of those wanted.
    fn oldest(&self, wanted: impl Fn(usize, &Slot) -> bool) -> Option<usize> {
        let wanted = self.slots.iter().enumerate().filter(|&(at, slot)| wanted(at, slot));
        wanted.min_by_key(|(_, slot)| slot.first_seen).map(|(at, _)| at)
    }

    /// Lengthens the buffer of the slot at `at` to hold `len` bytes, at the cost of older slots if need be. False where
    /// the bound does not allow it.
    fn make_room(&mut self, at: usize, len: usize, stats: &mut WireStats) -> bool {
        let Some(had) = self.slots.get(at).map(|slot| slot.buffer.len()) else { return false };
        if len <= had {
            return true;
        }
        let wanted = len.max(MIN_BUFFER_LEN).next_power_of_two().min(self.max_bytes.max(len));
        if wanted > self.max_bytes {
            return false;
        }
        while self.buffered_bytes.saturating_sub(had).saturating_add(wanted) > self.max_bytes {
            let other = self.oldest(|other, slot| other != at && !slot.buffer.is_empty());
            let Some(other) = other.and_then(|other| self.slots.get_mut(other)) else { return false };
            other.give_up(State::Free, stats);
            self.buffered_bytes = self.buffered_bytes.saturating_sub(other.buffer.len());
            other.buffer = Vec::new();
        }
        if let Some(slot) = self.slots.get_mut(at) {
            slot.buffer.reserve_exact(wanted.saturating_sub(had));
            slot.buffer.resize(wanted, 0);
            self.buffered_bytes = self.buffered_bytes.saturating_sub(had).saturating_add(wanted);
        }
        true
    }
}
