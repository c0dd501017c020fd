//! What is remembered of a connection: what it promised, and how far the page service is known to have been.

use std::collections::VecDeque;
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use record::{Endpoint, Lsn, Record, TenantTimeline, Timestamp};

use super::cache::CacheId;
use super::classify::is_fetch;
use super::fetch::answer_began;

/// Answers of one connection that wait for their time: as many as requests may be in flight there.
const MAX_PENDING_ANSWERS: usize = 4096;

/// Which connection. Ports are used again, so it is one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Ends {
    client: Endpoint,
    server: Endpoint,
    owner: Option<TenantTimeline>,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    ends: Ends,
    /// Unlike its place in the table, never used twice.
    pub(super) id: u32,
    /// When its first record was seen.
    pub(super) first: Timestamp,
    /// Records so far, the present one included.
    pub(super) ordinal: u32,
    last_seq: Option<u64>,
    backend_pid: Option<u32>,
    /// The highest nms that it has sent.
    promised: Option<Lsn>,
    /// The highest LSN that the page service had answered for by the present record's arrival.
    reached: Option<Lsn>,
    /// Answers that began later than that.
    pending: VecDeque<(Timestamp, Lsn)>,
    /// The caches it asks for: at concrete LSNs, and for the latest version.
    pub(super) caches: [Option<CacheId>; 2],
    /// Used since the table last looked for room.
    is_warm: bool,
}

/// What a connection had shown before the present record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Before {
    /// The highest nms sent.
    pub(super) promised: Option<Lsn>,
    /// W of R3, where the record's arrival is certain.
    pub(super) reached: Option<Lsn>,
}

impl Connection {
    fn new(ends: Ends, id: u32, record: &Record) -> Self {
        Self {
            ends,
            id,
            first: record.time,
            ordinal: 0,
            last_seq: None,
            backend_pid: None,
            promised: None,
            reached: None,
            pending: VecDeque::new(),
            caches: [None; 2],
            is_warm: true,
        }
    }

    /// Whether the record can belong to this connection, and not to a later one between the same ports.
    fn continues_with(&self, record: &Record) -> bool {
        let seq_goes_on = match (self.last_seq, record.seq) {
            (Some(last), Some(seq)) => seq > last,
            (None, Some(0)) => self.ordinal == 0,
            _ => true,
        };
        let same_backend = self.backend_pid.zip(record.backend_pid).is_none_or(|(before, now)| before == now);
        seq_goes_on && same_backend
    }

    /// Takes the next record; tells what had been shown before it.
    fn advance(&mut self, record: &Record) -> Before {
        self.ordinal = self.ordinal.saturating_add(1);
        self.last_seq = record.seq.or(self.last_seq);
        self.backend_pid = record.backend_pid.or(self.backend_pid);
        while let Some(&(began, lsn)) = self.pending.front() {
            if began >= record.time {
                break;
            }
            self.reached = self.reached.max(Some(lsn));
            self.pending.pop_front();
        }
        let began = answer_began(record);
        let before = Before { promised: self.promised, reached: self.reached.filter(|_| began.is_some()) };
        self.promised = self.promised.max(known(record.not_modified_since));
        if let (Some(began), Some(lsn), true) = (began, lsn_answered_for(record), self.has_room()) {
            self.pending.push_back((began, lsn));
        }
        before
    }

    fn has_room(&self) -> bool {
        self.pending.len() < MAX_PENDING_ANSWERS
    }
}

/// The LSN up to which the page service must have had the log to give this answer.
fn lsn_answered_for(record: &Record) -> Option<Lsn> {
    let promise = known(record.not_modified_since).filter(|_| is_fetch(record));
    promise.map(|promise| promise.max(record.page_lsn.unwrap_or_default()))
}

/// MAX is no position in the log.
fn known(lsn: Lsn) -> Option<Lsn> {
    (lsn != Lsn::MAX).then_some(lsn)
}

/// The connections, as many as there is room for; one that was not used for long makes room.
#[derive(Debug)]
pub(super) struct Connections {
    limit: usize,
    slots: Vec<Connection>,
    places: HashTable<u32>,
    hasher: RandomState,
    /// Where the search for room goes on.
    hand: usize,
    /// The last record's place: records come in runs.
    last: usize,
    next_id: u32,
    forgotten: u64,
}

impl Connections {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            slots: Vec::new(),
            places: HashTable::new(),
            hasher: RandomState::default(),
            hand: 0,
            last: 0,
            next_id: 1,
            forgotten: 0,
        }
    }

    /// How many were forgotten to make room.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Takes a record: its connection's place, and what the connection had shown before.
    pub(super) fn observe(&mut self, record: &Record) -> (usize, Before) {
        let Record { client, server, owner, .. } = *record;
        let place = self.place_of(Ends { client, server, owner }, record);
        self.last = place;
        let Some(connection) = self.slots.get_mut(place) else { return (place, Before::default()) };
        if !connection.continues_with(record) {
            *connection = Connection::new(connection.ends, self.next_id, record);
            self.next_id = self.next_id.wrapping_add(1);
        }
        connection.is_warm = true;
        (place, connection.advance(record))
    }

    /// The connection at a place.
    pub(super) fn at(&mut self, place: usize) -> Option<&mut Connection> {
        self.slots.get_mut(place)
    }

    /// The cache that a record's connection asks, where it has asked it before.
    pub(super) fn cache_asked(&self, record: &Record) -> Option<CacheId> {
        let Record { client, server, owner, .. } = *record;
        let connection = self.find(&Ends { client, server, owner }).and_then(|place| self.slots.get(place))?;
        *connection.caches.get(usize::from(record.request_lsn == Lsn::MAX))?
    }

    fn find(&self, ends: &Ends) -> Option<usize> {
        let is_it = |place: &u32| self.slots.get(*place as usize).is_some_and(|connection| connection.ends == *ends);
        self.places.find(self.hasher.hash_one(ends), is_it).map(|&place| place as usize)
    }

    fn place_of(&mut self, ends: Ends, record: &Record) -> usize {
        if self.slots.get(self.last).is_some_and(|connection| connection.ends == ends) {
            return self.last;
        }
        if let Some(place) = self.find(&ends) {
            return place;
        }
        let hash = self.hasher.hash_one(ends);
        let connection = Connection::new(ends, self.next_id, record);
        self.next_id = self.next_id.wrapping_add(1);
        let place = if self.slots.len() < self.limit {
            self.slots.push(connection);
            self.slots.len().saturating_sub(1)
        } else {
            self.replace_cold(connection)
        };
        let (slots, hasher) = (&self.slots, &self.hasher);
        let rehash = |place: &u32| slots.get(*place as usize).map_or(0, |other| hasher.hash_one(other.ends));
        self.places.insert_unique(hash, u32::try_from(place).unwrap_or(u32::MAX), rehash);
        place
    }

    /// Puts a connection where one was that has not been used since the hand last came by (the clock algorithm).
    fn replace_cold(&mut self, connection: Connection) -> usize {
        loop {
            let place = self.hand;
            self.hand = self.hand.wrapping_add(1).checked_rem(self.slots.len()).unwrap_or(0);
            let Some(slot) = self.slots.get_mut(place) else { continue };
            if std::mem::take(&mut slot.is_warm) {
                continue;
            }
            let old = std::mem::replace(slot, connection);
            let hash = self.hasher.hash_one(old.ends);
            if let Ok(entry) = self.places.find_entry(hash, |&other| other as usize == place) {
                entry.remove();
            }
            self.forgotten = self.forgotten.saturating_add(1);
            return place;
        }
    }
}

#[cfg(test)]
mod tests {
    use record::Status;

    use super::*;
    use crate::render::samples;

    fn record(time: u64, latency_ns: Option<u64>, nms: u64) -> Record {
        Record {
            time: Timestamp(time),
            latency_ns,
            not_modified_since: Lsn(nms),
            page_lsn: Some(Lsn(1)),
            seq: Some(time),
            ..samples::getpage()
        }
    }

    fn reached(before: Before) -> Option<u64> {
        before.reached.map(|lsn| lsn.0)
    }

    #[test]
    fn what_was_answered_counts_from_the_moment_after_its_answer_began() {
        let mut connections = Connections::new(4);
        assert_eq!(connections.observe(&record(100, Some(50), 7)).1, Before::default());
        assert_eq!(reached(connections.observe(&record(149, Some(9), 1)).1), None);
        assert_eq!(reached(connections.observe(&record(150, Some(9), 1)).1), None);
        assert_eq!(reached(connections.observe(&record(151, Some(9), 1)).1), Some(7));
        assert_eq!(reached(connections.observe(&record(300, None, 1)).1), None, "its arrival is not certain");
        assert_eq!(reached(connections.observe(&record(301, Some(1), 1)).1), Some(7));
    }

    #[test]
    fn a_page_lsn_counts_and_an_error_does_not() {
        let mut connections = Connections::new(4);
        connections.observe(&Record { page_lsn: Some(Lsn(90)), ..record(100, Some(1), 7) });
        connections.observe(&Record { status: Status::Error, ..record(110, Some(1), 1000) });
        connections.observe(&Record { not_modified_since: Lsn::MAX, ..record(112, Some(1), 0) });
        let (_, before) = connections.observe(&record(120, Some(1), 1));
        assert_eq!((reached(before), before.promised), (Some(90), Some(Lsn(1000))));
    }

    #[test]
    fn a_port_that_is_used_again_knows_nothing_of_before() {
        let mut connections = Connections::new(4);
        connections.observe(&record(100, Some(1), 7));
        let id = |connections: &mut Connections, place| connections.at(place).map(|connection| connection.id);
        let (place, before) = connections.observe(&Record { seq: Some(0), ..record(200, Some(1), 1) });
        assert_eq!((before, id(&mut connections, place)), (Before::default(), Some(2)));
        let other_backend = Record { backend_pid: Some(1), seq: None, ..record(300, Some(1), 1) };
        assert_eq!(connections.observe(&other_backend).1, Before::default());
        let other_owner = Record { owner: None, ..other_backend };
        assert_eq!(connections.observe(&other_owner).1, Before::default());
    }

    #[test]
    fn a_connection_not_used_for_long_makes_room() {
        let mut connections = Connections::new(2);
        let from = |port: u16, time| Record { client: ([10, 0, 0, 7], port).into(), ..record(time, Some(1), 7) };
        for (port, time) in [(1, 1), (2, 2), (3, 3), (3, 4), (1, 5), (2, 6), (4, 7)] {
            connections.observe(&from(port, time));
        }
        assert_eq!((connections.slots.len(), connections.places.len()), (2, 2));
        assert!(connections.forgotten() >= 3);
        assert_eq!(reached(connections.observe(&from(4, 100)).1), Some(7));
    }

    #[test]
    fn answers_that_wait_are_bounded() {
        let mut connections = Connections::new(1);
        for seq in 0..10_000 {
            connections.observe(&Record { seq: Some(seq), ..record(100, Some(1_000_000), 7) });
        }
        assert_eq!(connections.slots[0].pending.len(), MAX_PENDING_ANSWERS);
    }
}
