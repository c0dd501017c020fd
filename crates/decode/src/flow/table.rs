//! The connections, found by their addresses, within a bound.
//!
//! Two lists keep the order in which connections were last heard of: those that carry a pagestream, and all others. When
//! memory runs out, the others go first, the longest silent of them before the rest.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use hashbrown::HashTable;
use record::Timestamp;

use super::connection::Connection;
use crate::wire::WireEnd;

/// One end of a connection: IPv4 addresses in their IPv6-mapped form, then the port.
type End = (u128, u16);

/// The two ends of a connection in an order that does not depend on a packet's direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlowKey {
    low: End,
    high: End,
}

impl FlowKey {
    pub(crate) fn of(source: WireEnd, destination: WireEnd) -> Self {
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

/// Order of places is only moved when this much time has passed: the lists need no finer one.
const TOUCH_NS: u64 = 1_000_000_000;

/// What a connection costs besides what it holds on the heap: its entry, its keys, the readers' buffers.
pub(crate) const CONNECTION_BYTES: usize = size_of::<Entry>() + size_of::<(FlowKey, Place)>() + 256;

#[derive(Debug)]
pub(crate) struct Entry {
    key: FlowKey,
    pub(crate) connection: Connection,
    /// The client is the lower one of the two ends.
    pub(crate) client_is_low: bool,
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
    /// Whether `source` is the client.
    pub(crate) fn is_client(&self, source: WireEnd) -> bool {
        let end = if self.client_is_low { self.key.low } else { self.key.high };
        end == end_of(source)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    Pagestream,
    Other,
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
    entries: Vec<Option<Box<Entry>>>,
    free: Vec<Place>,
    pagestreams: Ends,
    others: Ends,
    /// Odd numbers that nobody outside knows: addresses cannot be chosen to collide. No output depends on them.
    seeds: [u64; 2],
    heap_bytes: usize,
}

impl FlowTable {
    pub(crate) fn new() -> Self {
        let random = RandomState::new();
        Self {
            index: HashTable::new(),
            entries: Vec::new(),
            free: Vec::new(),
            pagestreams: Ends::default(),
            others: Ends::default(),
            seeds: [random.hash_one(1) | 1, random.hash_one(2) | 1],
            heap_bytes: 0,
        }
    }

    /// Bytes that all connections take.
    pub(crate) fn used_bytes(&self) -> usize {
        self.index.len().saturating_mul(CONNECTION_BYTES).saturating_add(self.heap_bytes)
    }

    pub(crate) fn find(&self, key: &FlowKey) -> Option<Place> {
        self.index.find(self.hash(key), |(known, _)| known == key).map(|&(_, place)| place)
    }

    pub(crate) fn entry_mut(&mut self, place: Place) -> Option<&mut Entry> {
        self.entries.get_mut(place as usize)?.as_deref_mut()
    }

    pub(crate) fn insert(
        &mut self,
        key: FlowKey,
        client: WireEnd,
        connection: Connection,
        now: Timestamp,
    ) -> Option<Place> {
        let entry = Entry {
            key,
            connection,
            client_is_low: key.low == end_of(client),
            is_armed: false,
            charged_bytes: 0,
            list: List::Other,
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
        self.link_last(place, List::Other);
        Some(place)
    }

    /// Takes a connection out.
    pub(crate) fn remove(&mut self, place: Place) -> Option<Connection> {
        self.unlink(place);
        let entry = self.entries.get_mut(place as usize)?.take()?;
        if let Ok(found) = self.index.find_entry(self.hash(&entry.key), |(_, known)| *known == place) {
            found.remove();
        }
        self.free.push(place);
        self.heap_bytes = self.heap_bytes.saturating_sub(entry.charged_bytes);
        Some(entry.connection)
    }

    /// Notes that the connection was heard of, and what it holds now.
    pub(crate) fn touch(&mut self, place: Place, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(place as usize).and_then(Option::as_deref_mut) else { return };
        let bytes = entry.connection.heap_bytes();
        self.heap_bytes = self.heap_bytes.saturating_sub(entry.charged_bytes).saturating_add(bytes);
        entry.charged_bytes = bytes;
        let is_live = entry.connection.session.was_pagestream && !entry.connection.is_closed;
        let list = if is_live { List::Pagestream } else { List::Other };
        if list != entry.list || now.since(entry.heard_at) > Some(TOUCH_NS) {
            entry.heard_at = now;
            self.unlink(place);
            self.link_last(place, list);
        }
    }

    /// The connection that is given up first when memory runs out, other than `except`.
    pub(crate) fn least_needed(&self, except: Option<Place>) -> Option<Place> {
        let first_but = |ends: Ends| match ends.first {
            first if first == except => first.and_then(|place| self.entry(place)?.after),
            first => first,
        };
        first_but(self.others).or_else(|| first_but(self.pagestreams))
    }

    /// The longest silent connection that carries no pagestream, if it has been silent for so long.
    pub(crate) fn silent_other(&self, now: Timestamp, silence_ns: u64) -> Option<Place> {
        let place = self.others.first?;
        (now.since(self.entry(place)?.heard_at) > Some(silence_ns)).then_some(place)
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
            List::Pagestream => &mut self.pagestreams,
            List::Other => &mut self.others,
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
