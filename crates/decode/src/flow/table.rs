//! The connections, found by their addresses, within a bound.
//!
//! Three lists keep the order in which connections were last heard of: those of which only one end has spoken, those that
//! both ends take part in, and of these the ones that carry a pagestream. When memory runs out they go in this order, the
//! longest silent first: a flood forges the first kind with ease, the last hardly.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use hashbrown::HashTable;
use record::Timestamp;

use super::Side;
use super::connection::Connection;
use crate::pagestream::pairing::Pairing;
use crate::wire::WireEnd;

/// One end of a connection: IPv4 addresses in their IPv6-mapped form, then the port.
type End = (u128, u16);

/// The two ends of a connection in an order that does not depend on a packet's direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FlowKey {
    low: End,
    high: End,
}

impl FlowKey {
    fn of(source: WireEnd, destination: WireEnd) -> Self {
        let (a, b) = (end_of(source), end_of(destination));
        if a <= b { Self { low: a, high: b } } else { Self { low: b, high: a } }
    }
}

fn end_of(end: WireEnd) -> End {
    let addr = match end.addr {
        IpAddr::V4(addr) => u128::from(u32::from(addr)) | 0xFFFF << 32,
        IpAddr::V6(addr) => u128::from(addr),
    };
    (addr, end.port)
}

/// A connection's place in the table. Places are used again after a connection is gone.
pub(crate) type Place = u32;

/// Places that are kept at hand by their ports, a power of two: comparing addresses costs a fraction of hashing them. Some
/// dozens of connections carry most of a node's traffic at a time, and 6 KiB of it stay in the cache.
const AT_HAND: usize = 128;

/// A connection that is kept at hand, by the ends as they stood in its latest packet that had to be looked for.
#[derive(Debug, Clone, Copy)]
struct AtHand {
    source: WireEnd,
    destination: WireEnd,
    place: Place,
    /// Which side `source` is.
    side: Side,
}

/// Which of the places at hand a connection has, by its ports, in either direction.
#[inline]
fn hand_of(port: u16, other_port: u16) -> usize {
    usize::from(port ^ other_port) % AT_HAND
}

/// A pagestream's place in its list is only moved when this much time has passed: that list needs no finer order. The
/// others do: in a flood, what has just been heard of again is more likely to be real.
const TOUCH_NS: u64 = 1_000_000_000;

/// What a connection costs besides what it is charged with: its entry, its session's pairing and what the allocator adds.
const CONNECTION_BYTES: usize = size_of::<Entry>() + size_of::<Pairing>() + 64;

/// What one place in the table costs: in the index with its control byte, at 7/8 of full at most, in the list of entries, and
/// in the list of free places. Doubled, since a table that grows exists twice for a moment.
const PLACE_BYTES: usize =
    2 * ((size_of::<(FlowKey, Place)>() + 1) * 8 / 7 + size_of::<Option<Box<Entry>>>() + size_of::<Place>());

/// A connection that holds so much out of order is given up before others: more than a round trip's worth of most.
const HOARD_BYTES: usize = 64 << 10;

/// So many connections are looked at for one that hoards.
const EVICTION_CHOICES: usize = 64;

#[derive(Debug)]
pub(crate) struct Entry {
    key: FlowKey,
    pub(crate) connection: Connection,
    /// The client is the lower one of the two ends.
    client_is_low: bool,
    /// It is in the list of those that time may bring on.
    pub(crate) is_armed: bool,
    /// Bytes of heap that it has been charged with.
    charged_bytes: usize,
    list: List,
    before: Option<Place>,
    after: Option<Place>,
    heard_at: Timestamp,
}

impl Entry {
    /// Whether the connection stands in its list where it should.
    pub(crate) fn is_fresh(&self, now: Timestamp) -> bool {
        self.list == List::Pagestream && now.since(self.heard_at) <= Some(TOUCH_NS)
    }

    /// Which side `source` is.
    pub(crate) fn side_of(&self, source: WireEnd) -> Side {
        let client = if self.client_is_low { self.key.low } else { self.key.high };
        if client == end_of(source) { Side::Client } else { Side::Server }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    OneSided,
    TwoSided,
    Pagestream,
}

#[derive(Debug, Default, Clone, Copy)]
struct Ends {
    first: Option<Place>,
    last: Option<Place>,
}

/// The table.
#[derive(Debug)]
pub(crate) struct FlowTable {
    index: HashTable<(FlowKey, Place)>,
    at_hand: [Option<AtHand>; AT_HAND],
    entries: Vec<Option<Box<Entry>>>,
    free: Vec<Place>,
    one_sided: Ends,
    two_sided: Ends,
    pagestreams: Ends,
    /// Odd numbers that nobody outside knows: addresses cannot be chosen to collide. No output depends on them.
    seeds: [u64; 2],
    heap_bytes: usize,
}

impl FlowTable {
    pub(crate) fn new() -> Self {
        let random = RandomState::new();
        Self {
            index: HashTable::new(),
            at_hand: [None; AT_HAND],
            entries: Vec::new(),
            free: Vec::new(),
            one_sided: Ends::default(),
            two_sided: Ends::default(),
            pagestreams: Ends::default(),
            seeds: [random.hash_one(1) | 1, random.hash_one(2) | 1],
            heap_bytes: 0,
        }
    }

    /// Bytes that all connections take.
    pub(crate) fn used_bytes(&self) -> usize {
        let connections = self.index.len().saturating_mul(CONNECTION_BYTES);
        // A table that is full counts as grown: there has to be room before it grows.
        let grown = |capacity: usize, is_full: bool| if is_full { capacity.saturating_mul(2) } else { capacity };
        let index = grown(self.index.capacity(), self.index.len() >= self.index.capacity());
        let entries = grown(self.entries.capacity(), self.index.len() >= self.entries.capacity());
        let places = index.max(entries).saturating_mul(PLACE_BYTES);
        connections.saturating_add(places).saturating_add(self.heap_bytes)
    }

    /// The connection of a packet with these ends, and which side sent it, if it is one of those at hand.
    #[inline]
    pub(crate) fn find_at_hand(&self, source: WireEnd, destination: WireEnd) -> Option<(Place, Side)> {
        let known = self.at_hand.get(hand_of(source.port, destination.port))?.as_ref()?;
        if known.source == source && known.destination == destination {
            Some((known.place, known.side))
        } else if known.source == destination && known.destination == source {
            Some((known.place, known.side.other()))
        } else {
            None
        }
    }

    /// The connection of a packet with these ends, and which side sent it. It is at hand from then on.
    pub(crate) fn find(&mut self, source: WireEnd, destination: WireEnd) -> Option<(Place, Side)> {
        let key = FlowKey::of(source, destination);
        let &(_, place) = self.index.find(self.hash(&key), |(known, _)| *known == key)?;
        let side = self.entry(place)?.side_of(source);
        if let Some(hand) = self.at_hand.get_mut(hand_of(source.port, destination.port)) {
            *hand = Some(AtHand { source, destination, place, side });
        }
        Some((place, side))
    }

    pub(crate) fn entry_mut(&mut self, place: Place) -> Option<&mut Entry> {
        self.entries.get_mut(place as usize)?.as_deref_mut()
    }

    /// Takes a connection in, between these ends.
    pub(crate) fn insert(
        &mut self,
        (client, server): (WireEnd, WireEnd),
        connection: Connection,
        now: Timestamp,
    ) -> Option<Place> {
        let key = FlowKey::of(client, server);
        let entry = Entry {
            key,
            connection,
            client_is_low: key.low == end_of(client),
            is_armed: false,
            charged_bytes: 0,
            list: List::OneSided,
            before: None,
            after: None,
            heard_at: now,
        };
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                let place = Place::try_from(self.entries.len()).ok()?;
                self.entries.push(None);
                place
            }
        };
        *self.entries.get_mut(place as usize)? = Some(Box::new(entry));
        let (hash, seeds) = (self.hash(&key), self.seeds);
        self.index.insert_unique(hash, (key, place), |(key, _)| hash_of(key, seeds));
        self.link_last(place, List::OneSided);
        Some(place)
    }

    /// Takes a connection out.
    pub(crate) fn remove(&mut self, place: Place) -> Option<Connection> {
        self.unlink(place);
        let entry = self.entries.get_mut(place as usize)?.take()?;
        if let Ok(found) = self.index.find_entry(self.hash(&entry.key), |(_, known)| *known == place) {
            found.remove();
        }
        if let Some(hand) = self.at_hand.get_mut(hand_of(entry.key.low.1, entry.key.high.1))
            && hand.is_some_and(|known| known.place == place)
        {
            *hand = None;
        }
        self.free.push(place);
        self.heap_bytes = self.heap_bytes.saturating_sub(entry.charged_bytes);
        Some(entry.connection)
    }

    /// Notes that the connection was heard of, and what it holds now. Not needed for one that [is fresh](Entry::is_fresh) and
    /// holds what it did.
    pub(crate) fn touch(&mut self, place: Place, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(place as usize).and_then(Option::as_deref_mut) else { return };
        let bytes = entry.connection.heap_bytes();
        self.heap_bytes = self.heap_bytes.saturating_sub(entry.charged_bytes).saturating_add(bytes);
        entry.charged_bytes = bytes;
        let list = match &entry.connection {
            connection if connection.is_closed || !connection.is_two_sided() => List::OneSided,
            connection if connection.session.was_pagestream => List::Pagestream,
            _ => List::TwoSided,
        };
        if list != entry.list || list != List::Pagestream || now.since(entry.heard_at) > Some(TOUCH_NS) {
            entry.heard_at = now;
            self.unlink(place);
            self.link_last(place, list);
        }
    }

    /// The connection that is given up first when memory runs out: the longest silent one, unless one of the next holds far
    /// more than its share. A flood of segments behind holes is never silent.
    pub(crate) fn least_needed(&self) -> Option<Place> {
        let first = self.one_sided.first.or(self.two_sided.first).or(self.pagestreams.first)?;
        let next = |place: &Place| self.entry(*place)?.after;
        let hoards =
            |place: &Place| self.entry(*place).is_some_and(|entry| entry.connection.held_bytes() > HOARD_BYTES);
        std::iter::successors(Some(first), next).take(EVICTION_CHOICES).find(hoards).or(Some(first))
    }

    /// The longest silent connection that carries no pagestream, if it has been silent for so long.
    pub(crate) fn silent_other(&self, now: Timestamp, silence_ns: u64) -> Option<Place> {
        let is_silent =
            |place: &Place| self.entry(*place).is_some_and(|entry| now.since(entry.heard_at) > Some(silence_ns));
        [self.one_sided, self.two_sided].into_iter().filter_map(|ends| ends.first).find(is_silent)
    }

    /// Every connection.
    pub(crate) fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.entries.iter().flatten().map(|entry| &entry.connection)
    }

    /// Every place in use, lowest first.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> + use<> {
        let used: Vec<Place> =
            (0..).zip(&self.entries).filter(|(_, entry)| entry.is_some()).map(|(place, _)| place).collect();
        used.into_iter()
    }

    fn entry(&self, place: Place) -> Option<&Entry> {
        self.entries.get(place as usize)?.as_deref()
    }

    fn hash(&self, key: &FlowKey) -> u64 {
        hash_of(key, self.seeds)
    }

    fn ends_mut(&mut self, list: List) -> &mut Ends {
        match list {
            List::OneSided => &mut self.one_sided,
            List::TwoSided => &mut self.two_sided,
            List::Pagestream => &mut self.pagestreams,
        }
    }

    fn unlink(&mut self, place: Place) {
        let Some(entry) = self.entry_mut(place) else { return };
        let (list, before, after) = (entry.list, entry.before.take(), entry.after.take());
        match before.and_then(|before| self.entry_mut(before)) {
            Some(neighbour) => neighbour.after = after,
            None => self.ends_mut(list).first = after,
        }
        match after.and_then(|after| self.entry_mut(after)) {
            Some(neighbour) => neighbour.before = before,
            None => self.ends_mut(list).last = before,
        }
    }

    fn link_last(&mut self, place: Place, list: List) {
        let last = self.ends_mut(list).last;
        if let Some(entry) = self.entry_mut(place) {
            (entry.list, entry.before, entry.after) = (list, last, None);
        }
        match last.and_then(|last| self.entry_mut(last)) {
            Some(neighbour) => neighbour.after = Some(place),
            None => self.ends_mut(list).first = Some(place),
        }
        self.ends_mut(list).last = Some(place);
    }
}

/// Multiplies to 128 bits and folds the halves: every bit of the input reaches every bit of the result.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a).wrapping_mul(u128::from(b));
    (product as u64) ^ (product >> 64) as u64
}

fn hash_of(key: &FlowKey, [s1, s2]: [u64; 2]) -> u64 {
    let ports = u64::from(key.low.1) << 16 | u64::from(key.high.1);
    let near = fold(key.low.0 as u64 ^ s1, key.high.0 as u64 ^ s2 ^ ports.rotate_left(32));
    let far = fold((key.low.0 >> 64) as u64 ^ s2, (key.high.0 >> 64) as u64 ^ s1);
    fold(near ^ far, s1 ^ ports)
}
