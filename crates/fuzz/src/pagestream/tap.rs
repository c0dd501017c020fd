//! What passes the point of observation: packets, when, and which of them the capture has.
//!
//! A packet that is lost *before* the tap is sent again and passes late, as the network does it. One that the *capture* drops has
//! passed, is acknowledged, and is never seen.

use std::ops::Range;

use record::Timestamp;

use super::session::Session;
use super::view::View;
use crate::evidence::{Overtaken, Repeated};
use crate::segment::{ACK, FIN, Header, MAX_PAYLOAD_BYTES, Owned, RST, SYN};

/// When the connection begins.
pub const START: Timestamp = Timestamp(1_700_000_000_000_000_000);

/// Between two packets, unless more time is said to pass.
const STEP_NS: u64 = 10_000;

/// A hole is given up when what has come behind it has waited for longer than this; what fills it later comes in vain.
const GIVE_UP_HOLE_NS: u64 = 5_000_000_000;

/// Initial sequence numbers, so near the end of their range that they wrap.
const CLIENT_ISN: u32 = 0xffff_ff00;
const SERVER_ISN: u32 = 0xffff_c000;

/// What happens to a packet; the bits of [`Fate::of`]'s choice in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fate {
    /// 0: the capture drops it.
    is_dropped: bool,
    /// 1: a mirror delivers it twice.
    is_doubled: bool,
    /// 2 to 4: the snap length leaves off so many eighths of its payload.
    cut: u8,
    /// 5: it is lost before it gets here, to be sent again.
    is_lost: bool,
    /// 6: the capture puts it behind the next packet of the other direction.
    is_swapped: bool,
}

impl Fate {
    /// Reads a choice.
    pub fn of(choice: u8) -> Self {
        Self {
            is_dropped: choice & 1 != 0,
            is_doubled: choice & 2 != 0,
            cut: choice >> 2 & 7,
            is_lost: choice & 0x20 != 0,
            is_swapped: choice & 0x40 != 0,
        }
    }
}

/// A packet that passed.
#[derive(Debug, Clone, Copy)]
pub struct Passed {
    pub(super) is_from_client: bool,
    offset: usize,
    len: usize,
    flags: u8,
    /// Offset that it acknowledges.
    ack: usize,
    has_sack: bool,
    pub(super) time: Timestamp,
    ip_id: u16,
    fate: Fate,
}

impl Passed {
    /// Where its bytes lie in the stream.
    pub(super) fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.len
    }

    /// Whether the two have bytes in common, if they go the same way.
    fn overlaps(&self, other: &Passed) -> bool {
        other.range().start < self.range().end && self.range().start < other.range().end
    }
}

/// One direction.
#[derive(Debug, Default)]
struct Direction {
    sent: usize,
    /// What was lost on the way and has not been sent again.
    lost: Vec<(usize, usize)>,
    /// Whether any of it came again only after its hole was given up.
    is_overdue: bool,
    is_finished: bool,
}

impl Direction {
    /// Up to where the receiver has everything.
    fn received(&self) -> usize {
        self.lost.iter().map(|&(offset, _)| offset).min().unwrap_or(self.sent)
    }
}

/// The point of observation.
#[derive(Debug)]
pub struct Tap {
    client: Direction,
    server: Direction,
    passed: Vec<Passed>,
    now: Timestamp,
    has_stamps: bool,
    is_reset: bool,
}

impl Tap {
    /// A connection that shakes hands.
    pub fn new(has_stamps: bool) -> Self {
        let (client, server) = (Direction::default(), Direction::default());
        let mut tap = Self { client, server, passed: Vec::new(), now: START, has_stamps, is_reset: false };
        for (is_from_client, flags) in [(true, SYN), (false, SYN | ACK), (true, ACK)] {
            tap.pass(is_from_client, (0, 0), flags, Fate::default());
        }
        tap
    }

    fn direction(&mut self, is_client: bool) -> &mut Direction {
        if is_client { &mut self.client } else { &mut self.server }
    }

    /// How much of the client's bytes the server has, in order.
    pub fn heard_by_server(&self) -> usize {
        self.client.received()
    }

    /// Time passes.
    pub fn wait(&mut self, ns: u64) {
        self.now = self.now.plus(ns);
    }

    /// One side sends what it has said and not sent yet, at most so many bytes of it.
    pub fn send(&mut self, is_from_client: bool, session: &Session, at_most: usize, fate: Fate) {
        let said = if is_from_client { session.client.len() } else { session.server.len() };
        let direction = self.direction(is_from_client);
        let (offset, len) = (direction.sent, (said - direction.sent).min(at_most).min(MAX_PAYLOAD_BYTES));
        if len == 0 || direction.is_finished || self.is_reset {
            return;
        }
        let direction = self.direction(is_from_client);
        direction.sent += len;
        if fate.is_lost {
            direction.lost.push((offset, len));
            return;
        }
        self.pass(is_from_client, (offset, len), ACK, fate);
    }

    /// One side acknowledges what it has.
    pub fn acknowledge(&mut self, is_from_client: bool, fate: Fate) {
        if !self.is_reset {
            let offset = self.direction(is_from_client).sent;
            self.pass(is_from_client, (offset, 0), ACK, Fate { cut: 0, ..fate });
        }
    }

    /// One side sends again what was lost first.
    pub fn resend(&mut self, is_from_client: bool, fate: Fate) {
        if self.is_reset || self.direction(is_from_client).lost.is_empty() {
            return;
        }
        let (offset, len) = self.direction(is_from_client).lost.remove(0);
        let is_behind = |passed: &&Passed| passed.is_from_client == is_from_client && passed.range().start > offset;
        let since = self.passed.iter().filter(|passed| passed.len > 0).find(is_behind).map(|passed| passed.time);
        self.pass(is_from_client, (offset, len), ACK, fate);
        let is_overdue = since.is_some_and(|since| self.now.since(since) > Some(GIVE_UP_HOLE_NS));
        self.direction(is_from_client).is_overdue |= is_overdue;
    }

    /// The latest data that the capture has in full is sent again, for nothing.
    pub fn repeat(&mut self) {
        let whole = |passed: &&Passed| passed.len > 0 && !passed.fate.is_dropped && passed.fate.cut == 0;
        if let Some(&Passed { is_from_client, offset, len, .. }) = self.passed.iter().rev().find(whole)
            && !self.is_reset
        {
            self.pass(is_from_client, (offset, len), ACK, Fate::default());
        }
    }

    /// One side has nothing more to send.
    pub fn finish(&mut self, is_from_client: bool, fate: Fate) {
        let direction = self.direction(is_from_client);
        if !direction.is_finished && !self.is_reset {
            let direction = self.direction(is_from_client);
            direction.is_finished = true;
            let offset = direction.sent;
            self.pass(is_from_client, (offset, 0), FIN | ACK, Fate { cut: 0, ..fate });
        }
    }

    /// One side resets the connection.
    pub fn reset(&mut self, is_from_client: bool) {
        if !self.is_reset {
            let offset = self.direction(is_from_client).sent;
            self.pass(is_from_client, (offset, 0), RST | ACK, Fate::default());
            self.is_reset = true;
        }
    }

    fn pass(&mut self, is_from_client: bool, (offset, len): (usize, usize), flags: u8, fate: Fate) {
        self.now = self.now.plus(STEP_NS);
        let heard = self.direction(!is_from_client);
        let (ack, has_sack) = (heard.received(), heard.received() < heard.sent);
        let ip_id = self.passed.len() as u16 + 1;
        let mut next = Passed { is_from_client, offset, len, flags, ack, has_sack, time: self.now, ip_id, fate };
        if let Some(last) = self.passed.last_mut()
            && last.fate.is_swapped
            && last.is_from_client != is_from_client
            && !fate.is_swapped
        {
            std::mem::swap(&mut last.time, &mut next.time);
            std::mem::swap(last, &mut next);
        }
        self.passed.push(next);
    }

    /// Whether the capture has everything, in order, and in time.
    pub fn is_clean(&self) -> bool {
        let is_plain = |passed: &Passed| Fate { is_doubled: false, ..passed.fate } == Fate::default();
        let is_whole = |direction: &Direction| direction.lost.is_empty() && !direction.is_overdue;
        self.passed.iter().all(is_plain) && is_whole(&self.client) && is_whole(&self.server)
    }

    /// Whether the capture dropped any packet.
    pub fn has_drops(&self) -> bool {
        self.passed.iter().any(|passed| passed.fate.is_dropped)
    }

    /// When the last packet passed.
    pub fn end(&self) -> Timestamp {
        self.passed.iter().map(|passed| passed.time).max().unwrap_or(START)
    }

    /// What passed, as everybody at the tap knows it.
    pub fn truth(&self) -> View<'_> {
        View { passed: &self.passed, in_order: Vec::new(), unseen: Vec::new() }
    }

    /// What passed, but for the client's overtaken segments and for first copies of which nothing in the capture tells, which
    /// has missed the first `missed` packets.
    pub fn told(&self, missed: usize) -> View<'_> {
        View { passed: &self.passed, in_order: self.untold_overtaken(true, missed), unseen: self.untold_copies(missed) }
    }

    fn is_captured(&self, at: usize, missed: usize) -> bool {
        at >= missed && self.passed.get(at).is_some_and(|passed| !passed.fate.is_dropped)
    }

    /// The overtaken segments of which the capture has no copy and no acknowledgement that tells of them.
    fn untold_overtaken(&self, is_from_client: bool, missed: usize) -> Vec<Range<usize>> {
        let mut untold = Vec::new();
        for (at, piece) in self.passed.iter().enumerate() {
            let is_ahead = |other: &&Passed| other.is_from_client == is_from_client && other.offset > piece.offset;
            let first = self.passed[..at].iter().find(|other| other.len > 0 && is_ahead(other));
            let Some(first) = first.filter(|_| piece.is_from_client == is_from_client && piece.len > 0) else {
                continue;
            };
            let overtaken = Overtaken { seq: piece.offset as u32, since: first.time, until: piece.time };
            let tells = |other: &Passed| match other.is_from_client == is_from_client {
                true => other.overlaps(piece),
                false => overtaken.is_told_by(other.ack as u32, other.has_sack, other.time),
            };
            if !self.passed.iter().enumerate().any(|(at, other)| self.is_captured(at, missed) && tells(other)) {
                untold.push(piece.range());
            }
        }
        untold
    }

    /// Places of the packets that the capture does not have, and whose copy it has, without anything before that copy that
    /// tells of them: an acknowledgement, or that the copy is the first of its direction, where the capture began after the
    /// connection did.
    fn untold_copies(&self, missed: usize) -> Vec<usize> {
        let mut untold = Vec::new();
        for (at, piece) in self.passed.iter().enumerate().filter(|(at, _)| !self.is_captured(*at, missed)) {
            let is_own = |other: &Passed| other.is_from_client == piece.is_from_client;
            let is_copy = |copy: usize| {
                self.is_captured(copy, missed) && is_own(&self.passed[copy]) && piece.overlaps(&self.passed[copy])
            };
            let Some(copy) = (at + 1..self.passed.len()).find(|&copy| is_copy(copy)) else { continue };
            let repeated = Repeated { seq: piece.offset as u32 };
            let mut before =
                (0..copy).filter(|&other| self.is_captured(other, missed)).map(|other| &self.passed[other]);
            let is_told = before.clone().any(|other| !is_own(other) && repeated.is_told_by(other.ack as u32));
            let begins = |other: &Passed| !is_own(other) || other.len > 0 || other.flags & SYN != 0;
            let is_first = missed > 0 && !before.any(begins);
            if !is_told && !is_first {
                untold.push(at);
            }
        }
        untold
    }

    /// What the capture has, without the first `missed` packets that passed.
    pub fn captured(&self, session: &Session, missed: usize) -> Vec<Owned> {
        let mut packets = Vec::new();
        for passed in self.passed.iter().skip(missed).filter(|passed| !passed.fate.is_dropped) {
            let packet = self.packet(passed, session);
            if passed.fate.is_doubled {
                packets.push(packet.clone());
            }
            packets.push(packet);
        }
        packets
    }

    fn packet(&self, passed: &Passed, session: &Session) -> Owned {
        let Passed { is_from_client, offset, len, flags, time, ip_id, .. } = *passed;
        let (own, other, stream) = match is_from_client {
            true => (CLIENT_ISN, SERVER_ISN, &session.client),
            false => (SERVER_ISN, CLIENT_ISN, &session.server),
        };
        let is_syn = flags & SYN != 0;
        let number = |isn: u32, offset: usize| isn.wrapping_add(1).wrapping_add(offset as u32);
        let ack = if flags & ACK != 0 { number(other, passed.ack) } else { 0 };
        let ms = ((time.0 - START.0) / 1_000_000) as u32;
        let header = Header {
            client: 7,
            port: 40_007,
            is_from_client,
            seq: if is_syn { own } else { number(own, offset) },
            ack,
            flags,
            ip_id,
            stamps: self.has_stamps.then_some((ms + 1000, ms)),
            sack: passed.has_sack.then_some((ack.wrapping_add(1), ack.wrapping_add(2))),
        };
        let cut = len * usize::from(passed.fate.cut) / 8;
        header.packet(time, &stream[offset..offset + len], cut)
    }
}
