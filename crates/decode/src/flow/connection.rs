//! One connection: both directions' reassembly and framing, and the session that they feed.

mod foreign;
mod resync;
mod tally;

use std::collections::VecDeque;

use record::{Endpoint, Protocol, Timestamp};

use super::copies::RecentSegments;
use super::half::{Accepted, Buffers, HalfStream, ORIGIN, QUEUE_NOISE_NS, Ready, Span};
use super::seq::SeqNum;
use super::{Pair, Side};
use crate::config::Config;
use crate::pagestream::emit::Identity;
use crate::pagestream::scan::{Piece, Scanner};
use crate::pgwire::frame::{Chunk, FrameReader, Framing, Step};
use crate::pgwire::startup::Foreign;
use crate::remembered::OpenConnection;
use crate::session::{Passed, Phase, Session, Turn, World};
use crate::sink::{StreamContent, StreamPiece};
use crate::wire::Segment;

pub(crate) use resync::begins;

/// Stamps of the two directions may be out of order by so much before their clocks count as different: queues and CPUs
/// reorder packets by microseconds.
const CLOCK_TOLERANCE_NS: u64 = 1_000_000;

/// So many segments in a row that come after their acknowledgement are no retransmissions of what the capture missed, which
/// are few and far between: one direction's stamps, or its packets, are behind the other's.
const LATE_IN_A_ROW: u8 = 4;

/// Keep-alive probes repeat the last byte, or none (RFC 9293, section 3.8.4).
const KEEP_ALIVE_BYTES: u32 = 1;

/// What a segment did to its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It passed by: the connection holds and waits for what it did before.
    Passing,
    /// Anything may have changed.
    Lasting,
}

/// One TCP connection.
#[derive(Debug)]
pub(crate) struct Connection {
    halves: Pair<HalfStream>,
    readers: Pair<FrameReader>,
    pub(crate) session: Session,
    scanners: Pair<Option<Box<Scanner>>>,
    recent: Pair<RecentSegments>,
    /// Running maximum of the arrivals of each direction's delivered bytes.
    in_order_at: Pair<Timestamp>,
    /// Latest stamp of each direction.
    stamped_at: Pair<Timestamp>,
    /// Segments of each direction that came after their acknowledgement, in a row.
    late_in_a_row: Pair<u8>,
    /// What is being read of the client's bytes goes on, cut off by the snap length.
    is_cut_ahead: bool,
    /// It is HTTP/2, and a call of gRPC was seen on it.
    is_grpc: bool,
    /// Whether a segment of this side was seen.
    pub(crate) seen: Pair<bool>,
    /// It is over; what still comes belongs to it and is passed over.
    pub(crate) is_closed: bool,
    pub(crate) left_out: LeftOut,
}

/// What the capture leaves out of a connection on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeftOut {
    Nothing,
    /// What is not needed to tell whether it becomes a pagestream.
    BeforePagestream,
    /// What came before it was followed.
    BeforeFirst,
}

impl Connection {
    /// A connection of which `first` is the first segment seen.
    pub(crate) fn new(client: Endpoint, server: Endpoint, first: &Segment<'_>, config: &Config) -> Self {
        let identity =
            Identity { client, server, owner: None, attribution: None, backend_pid: None, clocks_disagree: false };
        let is_joined = !first.flags.syn();
        let framings = if is_joined { [Framing::Lost; 2] } else { [Framing::Startup, Framing::Typed] };
        let [client_framing, server_framing] = framings;
        let halves = Pair { client: HalfStream::new(), server: HalfStream::new() };
        let at = halves.client.next();
        let scanner = |side| is_joined.then(|| Box::new(Scanner::new(side, None, at, at)));
        Self {
            halves,
            readers: Pair {
                client: FrameReader::new(client_framing, at),
                server: FrameReader::new(server_framing, at),
            },
            session: Session::new(identity, is_joined, config.page_hash),
            scanners: Pair { client: scanner(Side::Client), server: scanner(Side::Server) },
            recent: Pair { client: RecentSegments::default(), server: RecentSegments::default() },
            in_order_at: Pair { client: Timestamp(0), server: Timestamp(0) },
            stamped_at: Pair { client: Timestamp(0), server: Timestamp(0) },
            late_in_a_row: Pair { client: 0, server: 0 },
            is_cut_ahead: false,
            is_grpc: false,
            seen: Pair { client: false, server: false },
            is_closed: false,
            left_out: LeftOut::Nothing,
        }
    }

    /// Whether this segment belongs to another connection on the same addresses, a later one: by its SYN, or, where the capture
    /// missed that, by what it says.
    pub(crate) fn is_superseded_by(&self, side: Side, segment: &Segment<'_>) -> bool {
        let (half, seq) = (self.halves.of(side), SeqNum(segment.seq));
        if !half.is_known() {
            return false;
        }
        if segment.flags.syn() {
            // Whatever number a server gives, it answers the same SYN as long as it acknowledges that. (A reset that was only
            // seen here, and not heeded, has closed it: then this is how it goes on.)
            let answers_ours = side == Side::Server && self.halves.client.begins_at(SeqNum(segment.ack));
            return !half.begins_at(seq.plus(1)) && (self.is_closed || !answers_ours);
        }
        if side == Side::Server || segment.payload_len == 0 || !half.has_delivered() {
            return false;
        }
        let is_behind_a_hole = half.offset_of(seq).is_none_or(|offset| offset > half.next());
        is_behind_a_hole && (self.is_closed && half.is_finished() || self.says_it_begins(segment.payload))
    }

    /// The connection as it stands, where it carries a pagestream. What was remembered of it stays so until it is seen to.
    pub(crate) fn open_pagestream(&self, now: Timestamp) -> Option<OpenConnection> {
        if self.is_closed {
            return None;
        }
        let client_seq = self.halves.client.next_seq()?.0;
        let Session { identity, phase, version, remembered, .. } = &self.session;
        if let Some(known) = remembered {
            return Some(OpenConnection { client_seq, known_at: now, ..known.connection });
        }
        let Identity { client, server, owner, attribution, backend_pid, .. } = *identity;
        let protocol = (*version).filter(|_| *phase == Phase::Pagestream)?;
        Some(OpenConnection { client, server, owner, attribution, protocol, backend_pid, client_seq, known_at: now })
    }

    /// Whether both ends take part with data.
    pub(crate) fn is_two_sided(&self) -> bool {
        self.halves.client.has_delivered() && self.halves.server.has_delivered()
    }

    /// Whether time alone may bring something: holes that are to be settled, answers that wait.
    pub(crate) fn needs_time(&self) -> bool {
        let holes = self.halves.client.has_hole() || self.halves.server.has_hole();
        let waits = self.session.pairing.as_ref().is_some_and(|pairing| pairing.has_waiting());
        holes || waits || self.session.is_ending
    }

    /// Bytes of segments that wait for others.
    pub(crate) fn held_bytes(&self) -> usize {
        self.halves.client.held_bytes().saturating_add(self.halves.server.held_bytes())
    }

    /// Heap bytes held, without what [`Buffers`] counts.
    pub(crate) fn heap_bytes(&self) -> usize {
        let scanners = [&self.scanners.client, &self.scanners.server];
        let scanning = scanners.into_iter().flatten().map(|scanner| scanner.heap_bytes()).sum::<usize>();
        let reading = self.readers.client.heap_bytes().saturating_add(self.readers.server.heap_bytes());
        scanning
            .saturating_add(reading)
            .saturating_add(self.session.pairing.as_ref().map_or(0, |pairing| pairing.heap_bytes()))
    }

    /// Takes one segment that `side` sent. Says whether it may have changed what the connection holds, or waits for.
    pub(crate) fn segment(
        &mut self,
        side: Side,
        segment: &Segment<'_>,
        buffers: &mut Buffers,
        world: &mut World<'_>,
    ) -> Effect {
        if self.recent.of_mut(side).is_copy(segment) {
            world.stats.duplicates = world.stats.duplicates.saturating_add(1);
            return Effect::Passing;
        }
        *self.seen.of_mut(side) = true;
        self.session.is_client_seen = self.seen.client;
        if segment.flags.syn() && self.halves.of_mut(side).opens_out_of_order(world.now) {
            self.distrust_clocks(world);
        }
        if self.is_closed {
            return Effect::Passing;
        }
        self.compare_clocks(side, world);
        self.synchronise(side, segment, world);
        let seq = SeqNum(segment.seq).plus(u64::from(segment.flags.syn()));
        let Some(offset) = self.halves.of(side).offset_of(seq) else {
            world.stats.out_of_window = world.stats.out_of_window.saturating_add(1);
            return Effect::Lasting;
        };
        let len = u64::from(segment.payload_len);
        let is_timed = self.is_timed(side);
        let span = Span { offset, len, bytes: segment.payload, at: world.now, is_timed };
        if self.is_passing(side, segment, offset) {
            self.pass(span, world);
            return Effect::Passing;
        }
        if len > 0 {
            self.payload(side, span, buffers, world);
        }
        if segment.flags.fin() {
            self.halves.of_mut(side).finish_at(offset.saturating_add(segment.payload_len.into()));
        }
        self.advance(buffers, world);
        let is_over = self.halves.client.is_finished() && self.halves.server.is_finished();
        if is_over || segment.flags.rst() {
            self.close(buffers, world);
        }
        Effect::Lasting
    }

    /// Whether a segment is one of those that most of the traffic consists of: nothing is missing in either direction, and it
    /// only acknowledges, or continues an answer's body without ending it. What is done with others comes to the same for
    /// these, at several times the cost.
    fn is_passing(&self, side: Side, segment: &Segment<'_>, offset: u64) -> bool {
        let is_ordinary = !(segment.flags.syn() || segment.flags.fin() || segment.flags.rst());
        let nobody_ends = !(self.halves.client.knows_end() || self.halves.server.knows_end());
        let continues = || {
            let is_whole = segment.payload.len() as u64 == u64::from(segment.payload_len);
            let is_next = offset == self.halves.server.next();
            is_whole && is_next && side == Side::Server && self.readers.server.is_within_body(segment.payload.len())
        };
        is_ordinary && nobody_ends && !self.needs_time() && (segment.payload_len == 0 || continues())
    }

    /// Takes a segment that [`Self::is_passing`].
    fn pass(&mut self, span: Span<'_>, world: &mut World<'_>) {
        if span.len == 0 {
            return;
        }
        self.halves.server.advance(span.len);
        self.late_in_a_row.server = 0;
        self.in_order_at.server = self.in_order_at.server.max(span.at);
        self.show(Side::Server, span.offset, StreamContent::Bytes(span.bytes), world);
        let at = self.readers.server.at();
        self.readers.server.pass(span.bytes.len(), span.at, self.in_order_at.server);
        self.session.body(Side::Server, at, span.bytes);
    }

    /// Sets up what the sequence and acknowledgement numbers tell of the streams' places.
    fn synchronise(&mut self, side: Side, segment: &Segment<'_>, world: &mut World<'_>) {
        let now = world.now;
        let latest = (*self.in_order_at.of(side.other())).max(self.halves.of(side.other()).opened_at());
        let mut is_too_early = false;
        let (sender, receiver) = self.halves.both_mut(side);
        // A reset that answers a closed port has no sequence number of its own.
        if !segment.flags.rst() {
            sender.begin_at(SeqNum(segment.seq).plus(u64::from(segment.flags.syn())));
            if segment.flags.syn() {
                sender.begin_anew_at(SeqNum(segment.seq).plus(1));
                sender.anchor();
            }
        }
        if segment.flags.ack() {
            let ack = SeqNum(segment.ack);
            receiver.begin_at(ack);
            if let Some(offset) = receiver.offset_of(ack) {
                let is_repeated = receiver.acked() == offset && segment.payload_len == 0;
                is_too_early = offset >= receiver.next() && latest.since(now) > Some(QUEUE_NOISE_NS);
                receiver.acknowledge(offset, now);
                if segment.sacks || is_repeated {
                    receiver.report_hole(offset);
                }
            }
        }
        // An acknowledgement that is stamped before what it acknowledges.
        if is_too_early {
            self.distrust_clocks(world);
        }
    }

    /// Notices when a packet bears an earlier stamp than one of the other direction that was captured before it.
    fn compare_clocks(&mut self, side: Side, world: &mut World<'_>) {
        *self.stamped_at.of_mut(side) = world.now;
        let other = *self.stamped_at.of(side.other());
        if other.since(world.now) > Some(CLOCK_TOLERANCE_NS) {
            self.distrust_clocks(world);
        }
    }

    /// No latency of this connection is believed any more.
    fn distrust_clocks(&mut self, world: &mut World<'_>) {
        if !self.session.identity.clocks_disagree {
            self.session.identity.clocks_disagree = true;
            world.stats.clock_conflicts = world.stats.clock_conflicts.saturating_add(1);
        }
    }

    fn payload(&mut self, side: Side, span: Span<'_>, buffers: &mut Buffers, world: &mut World<'_>) {
        let has_to_wait = side == Side::Server && self.is_server_ahead();
        let half = self.halves.of_mut(side);
        let accepted = if has_to_wait { half.set_aside(span, buffers) } else { half.accept(span, buffers) };
        match accepted {
            Accepted::Held => {}
            Accepted::Old => {
                let is_probe = span.len <= KEEP_ALIVE_BYTES.into() && span.offset.saturating_add(1) == half.next();
                if !is_probe {
                    world.stats.retransmissions = world.stats.retransmissions.saturating_add(1);
                }
            }
            Accepted::GivenUp => {
                world.stats.retransmissions = world.stats.retransmissions.saturating_add(1);
                self.note_lateness(side, true, world);
            }
            Accepted::InOrder { skip, late } => {
                half.advance(span.len.saturating_sub(skip));
                let is_stalled = side == Side::Client && half.may_be_stalled();
                self.note_lateness(side, late, world);
                let at = (span.is_timed && !late && !is_stalled).then_some(span.at);
                self.deliver_span(side, span, (skip, at), world);
            }
        }
    }

    /// Whether a segment that comes now tells when its bytes first came. While a connection was joined in the middle and the
    /// receiver has said nothing yet, a request may have to wait for others that it has overtaken, and what is seen first may
    /// have come before.
    fn is_timed(&self, side: Side) -> bool {
        let half = self.halves.of(side);
        half.is_anchored() || side == Side::Server && half.has_delivered()
    }

    /// Counts a segment that came after its acknowledgement, or one that did not.
    fn note_lateness(&mut self, side: Side, is_late: bool, world: &mut World<'_>) {
        let in_a_row = self.late_in_a_row.of_mut(side);
        *in_a_row = if is_late { in_a_row.saturating_add(1) } else { 0 };
        if *in_a_row >= LATE_IN_A_ROW {
            self.distrust_clocks(world);
        }
    }

    /// Whether what the server says cannot be understood before a hole in what the client said is settled: until the
    /// client has asked for a pagestream, the server's bytes mean nothing, and answers must not pass by unread.
    fn is_server_ahead(&self) -> bool {
        let is_understood = matches!(
            self.session.phase,
            Phase::Asked { .. } | Phase::Pagestream | Phase::Ended | Phase::Encrypted | Phase::Foreign(_)
        );
        !is_understood && self.halves.client.has_hole() && !self.halves.server.is_full()
    }

    /// Delivers a piece of the stream, of which the snap length may have cut off the end.
    fn deliver_span(&mut self, side: Side, span: Span<'_>, skip_at: (u64, Option<Timestamp>), world: &mut World<'_>) {
        let (skip, arrived) = skip_at;
        if let Some(at) = arrived {
            let latest = self.in_order_at.of_mut(side);
            *latest = (*latest).max(at);
        }
        let deliverable = (*self.in_order_at.of(side)).max(span.at);
        let start = span.offset.saturating_add(skip);
        let bytes = usize::try_from(skip).ok().and_then(|skip| span.bytes.get(skip..)).unwrap_or_default();
        let captured = (span.bytes.len() as u64).max(skip);
        let cut = span.len.saturating_sub(captured);
        if !bytes.is_empty() {
            self.is_cut_ahead = side == Side::Client && cut > 0;
            self.show(side, start, StreamContent::Bytes(bytes), world);
            self.deliver(side, Chunk::Data { bytes, arrived, deliverable }, world);
            self.is_cut_ahead = false;
        }
        if cut > 0 {
            world.stats.gap_bytes = world.stats.gap_bytes.saturating_add(cut);
            self.show(side, start.saturating_add(bytes.len() as u64), StreamContent::Cut(cut), world);
            // Requests that were cut off count from when they could be delivered, as those that were not.
            let arrived = if side == Side::Client { arrived.map(|_| deliverable) } else { arrived };
            self.deliver(side, Chunk::Gap { len: cut, arrived }, world);
        }
    }

    /// Whether a hole that begins at this offset was left out rather than lost.
    fn leaves_out(&self, start: u64) -> bool {
        match self.left_out {
            LeftOut::Nothing => false,
            LeftOut::BeforePagestream => self.session.phase != Phase::Pagestream,
            LeftOut::BeforeFirst => start <= ORIGIN,
        }
    }

    /// Shows a piece of the stream to whoever looks at the bytes themselves.
    fn show(&self, side: Side, at: u64, content: StreamContent<'_>, world: &mut World<'_>) {
        let Identity { client, server, .. } = self.session.identity;
        let (is_from_client, offset) = (side == Side::Client, at.saturating_sub(ORIGIN));
        world.sink.stream(&StreamPiece { client, server, is_from_client, offset, content });
    }

    /// Delivers all that has become deliverable, by data or by time, in both directions.
    pub(crate) fn advance(&mut self, buffers: &mut Buffers, world: &mut World<'_>) {
        if !self.needs_time() {
            return;
        }
        self.drain(Side::Client, false, buffers, world);
        self.retry(world);
        if self.is_server_ahead() {
            return;
        }
        self.drain(Side::Server, false, buffers, world);
        if self.session.pairing.as_ref().is_some_and(|pairing| pairing.is_waiting_full()) {
            self.halves.client.settle_now();
            self.drain(Side::Client, false, buffers, world);
            self.retry(world);
            if self.session.pairing.as_ref().is_some_and(|pairing| pairing.is_waiting_full()) {
                self.session.with_pairing(world, |pairing, out| pairing.stop_waiting(out));
            }
        }
    }

    fn drain(&mut self, side: Side, over: bool, buffers: &mut Buffers, world: &mut World<'_>) {
        while let Some(ready) = self.halves.of_mut(side).pop(world.now, over) {
            match ready {
                Ready::Gap { len } => {
                    let start = self.halves.of(side).next().saturating_sub(len);
                    if !self.leaves_out(start) {
                        world.stats.gaps = world.stats.gaps.saturating_add(1);
                        world.stats.gap_bytes = world.stats.gap_bytes.saturating_add(len);
                    }
                    self.show(side, start, StreamContent::Missing(len), world);
                    if side == Side::Server {
                        self.session.with_pairing(world, |pairing, _| pairing.forget_depths());
                    }
                    self.deliver(side, Chunk::Gap { len, arrived: None }, world);
                }
                Ready::Data(held) => {
                    // A request counts from when it could be delivered, an answer from when it came.
                    let is_timed = held.is_timed && !(side == Side::Client && held.stalled);
                    let span = Span { offset: held.offset, len: held.len, bytes: &held.bytes, at: held.at, is_timed };
                    self.deliver_span(side, span, (0, is_timed.then_some(held.at)), world);
                    buffers.release(held.bytes);
                }
            }
        }
    }

    /// Looks again at answers that wait for requests, and at an end that does.
    fn retry(&mut self, world: &mut World<'_>) {
        let unsettled = self.is_unsettled();
        if self.session.is_ending && !unsettled {
            self.session.finish_ending(world);
        }
        if self.session.pairing.as_ref().is_some_and(|pairing| pairing.has_waiting()) {
            self.session.with_pairing(world, |pairing, out| pairing.retry(unsettled, out));
        }
    }

    /// Whether requests may still turn up that came before what has been seen.
    fn is_unsettled(&self) -> bool {
        let is_lost = self.readers.client.framing() == Framing::Lost;
        let may_be_found = match self.session.version {
            Some(Protocol::V3) => self.scanners.client.as_ref().is_some_and(|scanner| scanner.has_candidates()),
            _ => true,
        };
        self.halves.client.has_hole() || self.is_cut_ahead || is_lost && may_be_found
    }

    /// Hands a piece of the stream, or a gap, to whoever reads this direction.
    ///
    /// What a search for lost framing gives back is read here in turn. It may lose the framing again, as often as a packet has
    /// room for: a recursion would go as deep.
    fn deliver(&mut self, side: Side, chunk: Chunk<'_>, world: &mut World<'_>) {
        let found = self.read(side, chunk, world);
        self.watch_foreign(side, &chunk);
        let Some(found) = found else { return };
        let mut ahead = found;
        while let Some(piece) = ahead.pop_front() {
            if let Some(mut found) = self.read(side, piece.chunk(), world) {
                found.append(&mut ahead);
                ahead = found;
            }
        }
        self.retry(world);
    }

    /// Reads a piece of the stream to its end. Gives what lies behind the place where the framing was found again, if it was.
    fn read(&mut self, side: Side, mut chunk: Chunk<'_>, world: &mut World<'_>) -> Option<VecDeque<Piece>> {
        loop {
            let is_lost = self.readers.of(side).framing() == Framing::Lost && !self.readers.of(side).is_in_message();
            if is_lost && !self.is_opening(side, &chunk) && !self.is_grant(side, &chunk) {
                return self.scan(side, chunk, world);
            }
            self.note_foreign(side, &chunk);
            let unsettled = self.is_unsettled();
            self.session.is_answering_whole =
                !self.halves.server.has_hole() && self.readers.server.framing() != Framing::Lost;
            let (reader, other) = self.readers.both_mut(side);
            let framing = reader.framing();
            let step = reader.step(&mut chunk)?;
            let turn = match step {
                Step::Head(head) => self.session.head(side, framing, &head, world),
                Step::Body { at, bytes } => {
                    self.session.body(side, at, bytes);
                    Turn::On
                }
                Step::End { last_at, is_timed, deliverable } => {
                    let passed = Passed { last_at, is_timed, deliverable, unsettled };
                    self.session.end(side, passed, world);
                    Turn::On
                }
                Step::Lost => Turn::Lose,
            };
            match turn {
                Turn::On => {}
                Turn::Frame(framing) => reader.set_framing(framing),
                Turn::FrameOther(framing) => other.set_framing(framing),
                Turn::Ignore => {
                    self.ignore();
                    return None;
                }
                Turn::Lose => {
                    let from = reader.lose();
                    self.begin_scan(side, from, &chunk, world);
                }
            }
        }
    }

    /// Nothing more of this connection is of interest.
    fn ignore(&mut self) {
        self.readers.client.ignore();
        self.readers.server.ignore();
        self.scanners = Pair { client: None, server: None };
    }

    /// Before the start-up is done, keeps in mind what a connection looks like that is no Postgres.
    fn note_foreign(&mut self, side: Side, chunk: &Chunk<'_>) {
        if let (Phase::Startup, Side::Client, Chunk::Data { bytes, .. }) = (self.session.phase, side, chunk)
            && !self.readers.client.is_in_message()
        {
            self.session.looks_like = Foreign::of(bytes);
        }
    }

    /// Gives up what has waited for too long.
    pub(crate) fn expire(&mut self, now: Timestamp, world: &mut World<'_>) {
        self.session.expire(now, world);
    }

    /// It is not followed any more: nothing comes of what is open.
    pub(crate) fn abandon(&mut self, buffers: &mut Buffers) {
        self.halves.client.clear(buffers);
        self.halves.server.clear(buffers);
    }

    /// The connection is over: what is held comes out, what is missing will stay so, what is pending stays unanswered.
    pub(crate) fn close(&mut self, buffers: &mut Buffers, world: &mut World<'_>) {
        if self.is_closed {
            return;
        }
        self.is_closed = true;
        self.drain(Side::Client, true, buffers, world);
        self.retry(world);
        self.drain(Side::Server, true, buffers, world);
        self.session.close(world);
        self.ignore();
        self.halves.client.clear(buffers);
        self.halves.server.clear(buffers);
        self.count(world);
    }
}
