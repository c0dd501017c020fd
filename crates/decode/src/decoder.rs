//! The spine: one packet's walk from the capture to the records that it completes.

use std::net::SocketAddr;

use record::Timestamp;

use crate::config::Config;
use crate::epochs::Epochs;
use crate::flow::Side;
use crate::flow::connection::{self, Connection, Effect, LeftOut};
use crate::flow::half::Buffers;
use crate::flow::table::{FlowTable, Place};
use crate::packet::Packet;
use crate::remembered::{OpenConnection, Remembered};
use crate::session::World;
use crate::sink::Sink;
use crate::stats::Stats;
use crate::wire::{Segment, Wire, WireEnd};

/// How often connections are looked at that only time can bring on: a quarter of the shortest wait there is.
const ARMED_INTERVAL_NS: u64 = 5_000_000;

/// How often all connections are looked at for requests that nobody will answer, and for those that are long over.
const SWEEP_INTERVAL_NS: u64 = 10_000_000_000;

/// A connection that carries no pagestream, or is over, is forgotten after so much silence: the longest that a segment
/// may live in the network (RFC 9293, section 3.4.2: the maximum segment lifetime is 2 minutes).
const FORGET_NS: u64 = 120_000_000_000;

/// A clock that goes back by more than this has been set: time-outs begin anew from there.
const CLOCK_STEP_NS: u64 = 1_000_000_000;

/// The share of the memory limit that fragments of IP datagrams may take: one in this many. The rest is for connections.
const FRAGMENT_SHARE: usize = 8;

/// Turns packets into records. Sans-IO: the only clock is the packets' own.
#[derive(Debug)]
pub struct Decoder {
    config: Config,
    wire: Wire,
    table: FlowTable,
    buffers: Buffers,
    epochs: Epochs,
    remembered: Remembered,
    /// Whether pagestream connections that come are followed.
    follows_new: bool,
    stats: Stats,
    /// Connections that only time can bring on.
    armed: Vec<Place>,
    latest: Timestamp,
    armed_due: Timestamp,
    sweep_due: Timestamp,
}

impl Decoder {
    /// A decoder that has seen nothing.
    pub fn new(config: Config) -> Self {
        Self {
            wire: Wire::new(config.memory_limit_bytes.checked_div(FRAGMENT_SHARE).unwrap_or(0)),
            config,
            table: FlowTable::new(),
            buffers: Buffers::default(),
            epochs: Epochs::default(),
            remembered: Remembered::default(),
            follows_new: true,
            stats: Stats::default(),
            armed: Vec::new(),
            latest: Timestamp(0),
            armed_due: Timestamp(0),
            sweep_due: Timestamp(0),
        }
    }

    /// Takes one packet and hands every record that it completes to `sink`.
    pub fn packet(&mut self, packet: &Packet<'_>, sink: &mut impl Sink) {
        let stats = &mut self.stats;
        stats.packets = stats.packets.saturating_add(1);
        stats.wire_bytes = stats.wire_bytes.saturating_add(packet.wire_len.into());
        if packet.data.len() < packet.wire_len as usize {
            stats.truncated_packets = stats.truncated_packets.saturating_add(1);
        }
        self.pass_time(packet.time, sink);
        let Some(segment) = self.wire.parse(packet, &mut self.stats.wire) else { return };
        let known = match self.table.find_at_hand(segment.source, segment.destination) {
            None if server_side(&segment, &self.config.ports).is_none() => {
                self.stats.other_port = self.stats.other_port.saturating_add(1);
                return;
            }
            None => self.table.find(segment.source, segment.destination),
            known => known,
        };
        self.stats.segments = self.stats.segments.saturating_add(1);
        let flow = Flow {
            config: &self.config,
            table: &mut self.table,
            buffers: &mut self.buffers,
            remembered: &mut self.remembered,
            armed: &mut self.armed,
            follows_new: self.follows_new,
        };
        let world = World { stats: &mut self.stats, epochs: &mut self.epochs, sink, now: packet.time };
        if flow.segment(known, &segment, world) == Some(Effect::Lasting) {
            self.keep_within_limit(packet.time, sink);
        }
    }

    /// No packet came, and it is `now`: what was waiting for time to pass goes on. For live captures, whose silence is the
    /// wire's; a file's next packet says itself how much time has passed.
    ///
    /// `now` is in the packets' own clock, and no packet stamped before it may follow.
    pub fn idle(&mut self, now: Timestamp, sink: &mut impl Sink) {
        self.pass_time(now, sink);
    }

    /// The capture is over: whatever is still open ends here, unanswered requests among it.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        for place in self.table.places() {
            self.close(place, self.latest, sink);
        }
        self.armed.clear();
        self.wire.finish(&mut self.stats.wire);
        self.stats.conflicts = self.buffers.conflicts;
    }

    /// What has been counted so far; the connections still open are in it after [`Self::finish`] only.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The pagestream connections as they stand, and those that [were told](Self::remember) and not heard of since.
    pub fn connections(&self) -> impl Iterator<Item = OpenConnection> + '_ {
        self.table.connections().filter_map(|open| open.open_pagestream(self.latest)).chain(self.remembered.iter())
    }

    /// Takes what an earlier decoder said of a connection. Its tenant is known when it is heard of again, where its sequence
    /// numbers show that it is still the same one. For those that no packet was seen of.
    pub fn remember(&mut self, connection: OpenConnection) {
        self.remembered.insert(connection);
    }

    /// Follows the pagestream connections for which `follows` says so, from the packets of `from` on where it did not before, and
    /// passes over the others' packets: for captures that leave these out. What is known of them stays known, as after
    /// [`Self::remember`], as long as enough is seen of them to tell that they are still the same: their openings and ends,
    /// commands, and some of what the client sends. Nothing of a connection that is passed over counts as lost, and requests
    /// that are open on it give no record. Connections that come later are followed.
    pub fn follow(&mut self, from: Timestamp, mut follows: impl FnMut(&OpenConnection) -> bool) {
        self.follows_new = true;
        self.remembered.follow(from, &mut follows);
        self.set_aside(|open| !follows(open));
    }

    /// Follows no pagestream connection, be it open or come later: they are known from their handshakes, as after [`Self::follow`].
    pub fn follow_none(&mut self) {
        self.follows_new = false;
        self.remembered.follow(Timestamp(u64::MAX), |_| false);
        self.set_aside(|_| true);
        for place in self.table.places() {
            if let Some(entry) = self.table.entry_mut(place) {
                entry.connection.left_out = LeftOut::BeforePagestream;
            }
        }
    }

    fn set_aside(&mut self, mut is_to_be: impl FnMut(&OpenConnection) -> bool) {
        for place in self.table.places() {
            let entry = self.table.entry_mut(place);
            let open = entry.and_then(|entry| entry.connection.open_pagestream(self.latest));
            if let Some(open) = open.filter(|open| is_to_be(open))
                && self.remembered.set_aside(open)
                && let Some(mut connection) = self.table.remove(place)
            {
                connection.abandon(&mut self.buffers);
            }
        }
    }

    /// Bytes that the decoder's state takes at the moment, without IP fragments that wait for the rest of their datagrams.
    pub fn memory_bytes(&self) -> usize {
        self.table.used_bytes().saturating_add(self.buffers.used_bytes())
    }

    /// Does what is due by now.
    #[inline]
    fn pass_time(&mut self, now: Timestamp, sink: &mut impl Sink) {
        let is_armed_due = !self.armed.is_empty() && now >= self.armed_due;
        if now >= self.latest && now < self.sweep_due && !is_armed_due {
            self.latest = now;
        } else {
            self.catch_up(now, sink);
        }
    }

    /// Time has brought something on, or has gone back.
    #[inline(never)]
    fn catch_up(&mut self, now: Timestamp, sink: &mut impl Sink) {
        if self.latest.since(now) > Some(CLOCK_STEP_NS) {
            (self.armed_due, self.sweep_due) = (now, now);
            self.latest = now;
        }
        self.latest = self.latest.max(now);
        if !self.armed.is_empty() && self.latest >= self.armed_due {
            self.armed_due = self.latest.plus(ARMED_INTERVAL_NS);
            self.advance_armed(sink);
        }
        if self.latest >= self.sweep_due {
            self.sweep_due = self.latest.plus(SWEEP_INTERVAL_NS);
            self.sweep(sink);
        }
    }

    fn advance_armed(&mut self, sink: &mut impl Sink) {
        let Self { table, buffers, epochs, stats, armed, latest, .. } = self;
        armed.retain(|&place| {
            let Some(entry) = table.entry_mut(place) else { return false };
            let mut world = World { stats, epochs, sink, now: *latest };
            entry.connection.advance(buffers, &mut world);
            entry.is_armed = entry.connection.needs_time() && !entry.connection.is_closed;
            entry.is_armed
        });
    }

    fn sweep(&mut self, sink: &mut impl Sink) {
        for place in self.table.places() {
            if let Some(entry) = self.table.entry_mut(place) {
                let mut world = World { stats: &mut self.stats, epochs: &mut self.epochs, sink, now: self.latest };
                entry.connection.expire(self.latest, &mut world);
            }
        }
        self.remembered.expire(self.latest);
        while let Some(place) = self.table.silent_other(self.latest, FORGET_NS) {
            self.close(place, self.latest, sink);
        }
    }

    /// Forgets connections until the state fits its limit again.
    fn keep_within_limit(&mut self, now: Timestamp, sink: &mut impl Sink) {
        let limit_bytes = self.config.memory_limit_bytes;
        let fragments_bytes = limit_bytes.checked_div(FRAGMENT_SHARE).unwrap_or(0);
        while self.memory_bytes() > limit_bytes.saturating_sub(fragments_bytes) {
            let Some(place) = self.table.least_needed() else { return };
            self.stats.evicted_connections = self.stats.evicted_connections.saturating_add(1);
            self.close(place, now, sink);
        }
    }

    fn close(&mut self, place: Place, now: Timestamp, sink: &mut impl Sink) {
        let Some(mut connection) = self.table.remove(place) else { return };
        let mut world = World { stats: &mut self.stats, epochs: &mut self.epochs, sink, now };
        connection.close(&mut self.buffers, &mut world);
    }
}

/// What a segment meets on its way: the parts of the decoder that connections live in.
struct Flow<'a> {
    config: &'a Config,
    table: &'a mut FlowTable,
    buffers: &'a mut Buffers,
    remembered: &'a mut Remembered,
    armed: &'a mut Vec<Place>,
    follows_new: bool,
}

impl Flow<'_> {
    /// Hands the segment to its connection, which it may open.
    fn segment(mut self, known: Option<(Place, Side)>, segment: &Segment<'_>, mut world: World<'_>) -> Option<Effect> {
        let mut found = known;
        if let Some((place, side)) = known
            && self.table.entry_mut(place)?.connection.is_superseded_by(side, segment)
        {
            let mut connection = self.table.remove(place)?;
            connection.close(self.buffers, &mut world);
            found = None;
        }
        if found.is_none() && !self.remembered.is_empty() {
            self.forget_where_over(segment, world.now);
        }
        let (place, side) = match found {
            Some(found) => found,
            None if self.passes_over(segment, world.now) => return None,
            None if segment.flags.rst() || (segment.payload_len == 0 && !segment.flags.syn()) => return None,
            None => self.open(segment, world.now)?,
        };
        let entry = self.table.entry_mut(place)?;
        count_data(segment, side, &mut world);
        let effect = entry.connection.segment(side, segment, self.buffers, &mut world);
        if !self.follows_new
            && let Some(open) = entry.connection.open_pagestream(world.now)
            && self.remembered.set_aside(open)
        {
            self.table.remove(place)?.abandon(self.buffers);
            return Some(effect);
        }
        if effect == Effect::Passing && entry.is_fresh(world.now) {
            return Some(effect);
        }
        if !entry.is_armed && entry.connection.needs_time() && !entry.connection.is_closed {
            entry.is_armed = true;
            self.armed.push(place);
        }
        self.table.touch(place, world.now);
        Some(effect)
    }

    /// Forgets what was remembered of a connection that this segment ends, or begins anew.
    fn forget_where_over(&mut self, segment: &Segment<'_>, now: Timestamp) {
        let flags = segment.flags;
        if !(flags.syn() || flags.fin() || flags.rst()) {
            return;
        }
        let Some(ends) = self.ends(segment) else { return };
        if flags.syn() || flags.rst() { self.remembered.forget(ends) } else { self.remembered.end(ends, now) }
    }

    /// Whether the segment belongs to a connection that is not followed. One by which the client begins something else is
    /// read: it may say another tenant.
    fn passes_over(&mut self, segment: &Segment<'_>, now: Timestamp) -> bool {
        if self.remembered.is_empty() || connection::begins(segment.payload) {
            return false;
        }
        let is_clients = server_side(segment, &self.config.ports) == Some(Side::Server);
        let client_seq = if is_clients { Some(segment.seq) } else { segment.flags.ack().then_some(segment.ack) };
        self.ends(segment).is_some_and(|ends| self.remembered.passes_over(ends, client_seq, now))
    }

    /// The client's end and the server's.
    fn ends(&self, segment: &Segment<'_>) -> Option<(SocketAddr, SocketAddr)> {
        let (source, destination) = (address(segment.source), address(segment.destination));
        match server_side(segment, &self.config.ports)? {
            Side::Client => Some((destination, source)),
            Side::Server => Some((source, destination)),
        }
    }

    /// Takes in a connection of which `first` is the first segment seen; gives the side that sent it.
    fn open(&mut self, first: &Segment<'_>, now: Timestamp) -> Option<(Place, Side)> {
        let (client, server) = match server_side(first, &self.config.ports)? {
            Side::Client => (first.destination, first.source),
            Side::Server => (first.source, first.destination),
        };
        let mut connection = Connection::new(address(client), address(server), first, self.config);
        if !self.remembered.is_empty() {
            let is_from_client = first.source == client;
            let client_seq = if is_from_client { Some(first.seq) } else { first.flags.ack().then_some(first.ack) };
            connection.session.remembered = self.remembered.take((address(client), address(server)), client_seq, now);
        }
        connection.left_out = match connection.session.remembered {
            _ if !self.follows_new => LeftOut::BeforePagestream,
            Some(known) if known.was_passed_over() => LeftOut::BeforeFirst,
            _ => LeftOut::Nothing,
        };
        let place = self.table.insert((client, server), connection, now)?;
        Some((place, self.table.entry_mut(place)?.side_of(first.source)))
    }
}

fn count_data(segment: &Segment<'_>, side: Side, world: &mut World<'_>) {
    if segment.payload_len > 0 {
        let counter = match side {
            Side::Client => &mut world.stats.client_data_segments,
            Side::Server => &mut world.stats.server_data_segments,
        };
        *counter = counter.saturating_add(1);
    }
}

/// Which end of a segment is the server: `Server` for its destination, `Client` for its source. `None` where neither end
/// is on a watched port. Where both are, the opening tells; without one the destination is taken for the server.
fn server_side(segment: &Segment<'_>, ports: &[u16]) -> Option<Side> {
    let (to, from) = (ports.contains(&segment.destination.port), ports.contains(&segment.source.port));
    match (to, from) {
        (false, false) => None,
        (false, true) => Some(Side::Client),
        (true, true) if segment.flags.syn() && segment.flags.ack() => Some(Side::Client),
        (true, _) => Some(Side::Server),
    }
}

fn address(end: WireEnd) -> SocketAddr {
    SocketAddr::new(end.addr, end.port)
}
