//! What repeats from record to record is written once in a block: connections, targets, shapes.

use std::hash::{BuildHasher, Hash};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use record::{Attribution, Endpoint, Pairing, Protocol, Record, RelTag, Status, Target, Timestamp};

use crate::format::bytes::{Input, put_varint};

/// The distinct values of a block in the order of their first appearance. Positions do not depend on the hash, so the
/// hash may be keyed at random: addresses and relations come from the wire.
#[derive(Debug)]
pub(crate) struct Dictionary<T> {
    entries: Vec<T>,
    positions: HashTable<u32>,
    hasher: RandomState,
    last: u32,
}

impl<T: Hash + Eq + Copy> Dictionary<T> {
    /// An empty dictionary.
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), positions: HashTable::new(), hasher: RandomState::default(), last: 0 }
    }

    /// The position of `value`, which is entered where it is new.
    #[inline]
    pub(crate) fn position(&mut self, value: T) -> u32 {
        if self.entries.get(self.last as usize) == Some(&value) {
            return self.last;
        }
        let Self { entries, positions, hasher, .. } = self;
        let next = entries.len() as u32;
        let is_same = |&at: &u32| entries.get(at as usize) == Some(&value);
        let rehash = |&at: &u32| entries.get(at as usize).map_or(0, |entry| hasher.hash_one(entry));
        let at = *positions.entry(hasher.hash_one(value), is_same, rehash).or_insert(next).get();
        if at == next {
            entries.push(value);
        }
        self.last = at;
        at
    }

    /// The values by position.
    pub(crate) fn entries(&self) -> &[T] {
        &self.entries
    }

    /// Forgets the values and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.positions.clear();
        self.last = 0;
    }
}

/// What stays the same from record to record of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Connection {
    /// As in [`Record`].
    pub(crate) client: Endpoint,
    /// As in [`Record`].
    pub(crate) server: Endpoint,
    /// As in [`Record`].
    pub(crate) protocol: Protocol,
    /// As in [`Record`].
    pub(crate) attribution: Option<Attribution>,
    /// As in [`Record`].
    pub(crate) backend_pid: Option<u32>,
    /// As in [`Record`].
    pub(crate) epoch: Option<Timestamp>,
}

/// In a connection's flag byte: bits 0 and 1 hold the protocol, 2 to 4 the attribution, then these.
const HAS_BACKEND_PID: u8 = 0x20;
const HAS_EPOCH: u8 = 0x40;

impl Connection {
    /// Of this record.
    #[inline]
    pub(crate) fn of(record: &Record) -> Self {
        Self {
            client: record.client,
            server: record.server,
            protocol: record.protocol,
            attribution: record.attribution,
            backend_pid: record.backend_pid,
            epoch: record.epoch,
        }
    }

    /// Appends its bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let pid_flag = if self.backend_pid.is_some() { HAS_BACKEND_PID } else { 0 };
        let epoch_flag = if self.epoch.is_some() { HAS_EPOCH } else { 0 };
        out.push(self.protocol.number() | attribution_code(self.attribution) << 2 | pid_flag | epoch_flag);
        put_endpoint(out, self.client);
        put_endpoint(out, self.server);
        if let Some(pid) = self.backend_pid {
            put_varint(out, u64::from(pid));
        }
        if let Some(epoch) = self.epoch {
            out.extend_from_slice(&epoch.0.to_le_bytes());
        }
    }

    /// Reads one.
    pub(crate) fn decode(input: &mut Input<'_>) -> Option<Self> {
        let flags = input.u8()?;
        let client = endpoint(input)?;
        let server = endpoint(input)?;
        let backend_pid = if flags & HAS_BACKEND_PID == 0 { None } else { Some(input.varint_u32()?) };
        let epoch = if flags & HAS_EPOCH == 0 { None } else { Some(Timestamp(input.u64()?)) };
        Some(Self {
            client,
            server,
            protocol: Protocol::from_number(flags & 3)?,
            attribution: attribution_of_code(flags >> 2 & 7)?,
            backend_pid,
            epoch,
        })
    }
}

/// An attribution's number in the file; 0 is none.
pub(crate) fn attribution_code(attribution: Option<Attribution>) -> u8 {
    match attribution {
        None => 0,
        Some(Attribution::Handshake) => 1,
        Some(Attribution::Hint) => 2,
        Some(Attribution::Address) => 3,
    }
}

/// The attribution of a number, `None` outside where the number stands for nothing.
pub(crate) fn attribution_of_code(code: u8) -> Option<Option<Attribution>> {
    match code {
        0 => Some(None),
        1 => Some(Some(Attribution::Handshake)),
        2 => Some(Some(Attribution::Hint)),
        3 => Some(Some(Attribution::Address)),
        _ => None,
    }
}

/// Appends an endpoint: 4 or 6, the address in network order, the port; 7 is IPv6 with flow label and scope behind.
pub(crate) fn put_endpoint(out: &mut Vec<u8>, endpoint: Endpoint) {
    match endpoint {
        SocketAddr::V4(v4) => {
            out.push(4);
            out.extend_from_slice(&v4.ip().octets());
        }
        SocketAddr::V6(v6) => {
            out.push(if v6.flowinfo() == 0 && v6.scope_id() == 0 { 6 } else { 7 });
            out.extend_from_slice(&v6.ip().octets());
        }
    }
    out.extend_from_slice(&endpoint.port().to_le_bytes());
    if let SocketAddr::V6(v6) = endpoint
        && (v6.flowinfo(), v6.scope_id()) != (0, 0)
    {
        out.extend_from_slice(&v6.flowinfo().to_le_bytes());
        out.extend_from_slice(&v6.scope_id().to_le_bytes());
    }
}

/// Reads an endpoint.
pub(crate) fn endpoint(input: &mut Input<'_>) -> Option<Endpoint> {
    let family = input.u8()?;
    let address = match family {
        4 => IpAddr::V4(Ipv4Addr::from(input.array::<4>()?)),
        6 | 7 => IpAddr::V6(Ipv6Addr::from(input.array::<16>()?)),
        _ => return None,
    };
    let port = input.u16()?;
    Some(match address {
        IpAddr::V4(ip) => SocketAddrV4::new(ip, port).into(),
        IpAddr::V6(ip) if family == 6 => SocketAddrV6::new(ip, port, 0, 0).into(),
        IpAddr::V6(ip) => SocketAddrV6::new(ip, port, input.u32()?, input.u32()?).into(),
    })
}

/// A [`Target`] without the number that changes from request to request (block or segment).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TargetHead {
    /// A page of this fork.
    GetPage(RelTag),
    /// As in [`Target`].
    Exists(RelTag),
    /// As in [`Target`].
    Nblocks(RelTag),
    /// The database's size.
    DbSize(u32),
    /// A segment of this kind.
    Slru(u8),
}

impl TargetHead {
    /// The head of a target, and its block or segment (0 where it has none).
    #[inline]
    pub(crate) fn split(target: Target) -> (Self, u32) {
        match target {
            Target::GetPage { rel, blkno } => (Self::GetPage(rel), blkno),
            Target::Exists { rel } => (Self::Exists(rel), 0),
            Target::Nblocks { rel } => (Self::Nblocks(rel), 0),
            Target::DbSize { dbnode } => (Self::DbSize(dbnode), 0),
            Target::Slru { kind, segno } => (Self::Slru(kind), segno),
        }
    }

    /// The target with this block or segment.
    #[inline]
    pub(crate) fn join(self, number: u32) -> Target {
        match self {
            Self::GetPage(rel) => Target::GetPage { rel, blkno: number },
            Self::Exists(rel) => Target::Exists { rel },
            Self::Nblocks(rel) => Target::Nblocks { rel },
            Self::DbSize(dbnode) => Target::DbSize { dbnode },
            Self::Slru(kind) => Target::Slru { kind, segno: number },
        }
    }

    /// Appends its bytes: the kind's number (Neon's request tag), then what it has.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut put_rel = |tag: u8, rel: &RelTag| {
            out.push(tag);
            put_varint(out, u64::from(rel.spcnode));
            put_varint(out, u64::from(rel.dbnode));
            put_varint(out, u64::from(rel.relnode));
            out.push(rel.forknum);
        };
        match self {
            Self::Exists(rel) => put_rel(0, rel),
            Self::Nblocks(rel) => put_rel(1, rel),
            Self::GetPage(rel) => put_rel(2, rel),
            Self::DbSize(dbnode) => {
                out.push(3);
                put_varint(out, u64::from(*dbnode));
            }
            Self::Slru(kind) => out.extend_from_slice(&[4, *kind]),
        }
    }

    /// Reads one.
    pub(crate) fn decode(input: &mut Input<'_>) -> Option<Self> {
        let rel = |input: &mut Input<'_>| {
            Some(RelTag {
                spcnode: input.varint_u32()?,
                dbnode: input.varint_u32()?,
                relnode: input.varint_u32()?,
                forknum: input.u8()?,
            })
        };
        Some(match input.u8()? {
            0 => Self::Exists(rel(input)?),
            1 => Self::Nblocks(rel(input)?),
            2 => Self::GetPage(rel(input)?),
            3 => Self::DbSize(input.varint_u32()?),
            4 => Self::Slru(input.u8()?),
            _ => return None,
        })
    }
}

/// The small choices of a record in 16 bits: status, pairing, `page_zero`, and which fields are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Shape(pub(crate) u16);

/// Bits 0 to 2: the status. Bits 3 to 5: the pairing. Bits 6 and 7: `page_zero`, 0 unknown, 1 false, 2 true.
const PAIRING_SHIFT: u16 = 3;
const PAGE_ZERO_SHIFT: u16 = 6;

impl Shape {
    /// `latency_ns` is known.
    pub(crate) const LATENCY: u16 = 1 << 8;
    /// `transfer_ns` is known.
    pub(crate) const TRANSFER: u16 = 1 << 9;
    /// `depth` is known.
    pub(crate) const DEPTH: u16 = 1 << 10;
    /// `request_lsn` is MAX and has no value in its column.
    pub(crate) const REQUEST_LSN_MAX: u16 = 1 << 11;
    /// `page_lsn` is known.
    pub(crate) const PAGE_LSN: u16 = 1 << 12;
    /// `page_hash` is known.
    pub(crate) const PAGE_HASH: u16 = 1 << 13;
    /// `reqid` is known.
    pub(crate) const REQID: u16 = 1 << 14;
    /// `seq` is known.
    pub(crate) const SEQ: u16 = 1 << 15;

    /// Of this record.
    #[inline]
    pub(crate) fn of(record: &Record) -> Self {
        let status = match record.status {
            Status::Ok => 0u16,
            Status::Error => 1,
            Status::Unanswered => 2,
            Status::Unknown => 3,
        };
        let pairing = match record.pairing {
            Pairing::Exact => 0u16,
            Pairing::Fifo => 1,
            Pairing::RequestOnly => 2,
            Pairing::ResponseOnly => 3,
            Pairing::Suspect => 4,
        };
        let page_zero = match record.page_zero {
            None => 0u16,
            Some(false) => 1,
            Some(true) => 2,
        };
        let flag = |is_set: bool, bit: u16| if is_set { bit } else { 0 };
        Self(
            status
                | pairing << PAIRING_SHIFT
                | page_zero << PAGE_ZERO_SHIFT
                | flag(record.latency_ns.is_some(), Self::LATENCY)
                | flag(record.transfer_ns.is_some(), Self::TRANSFER)
                | flag(record.depth.is_some(), Self::DEPTH)
                | flag(record.request_lsn == record::Lsn::MAX, Self::REQUEST_LSN_MAX)
                | flag(record.page_lsn.is_some(), Self::PAGE_LSN)
                | flag(record.page_hash.is_some(), Self::PAGE_HASH)
                | flag(record.reqid.is_some(), Self::REQID)
                | flag(record.seq.is_some(), Self::SEQ),
        )
    }

    /// Whether that bit is set.
    #[inline]
    pub(crate) fn has(self, bit: u16) -> bool {
        self.0 & bit != 0
    }

    /// The words of a shape read from a file, or `None` where a number stands for nothing.
    pub(crate) fn words(self) -> Option<(Status, Pairing, Option<bool>)> {
        let status = match self.0 & 7 {
            0 => Status::Ok,
            1 => Status::Error,
            2 => Status::Unanswered,
            3 => Status::Unknown,
            _ => return None,
        };
        let pairing = match self.0 >> PAIRING_SHIFT & 7 {
            0 => Pairing::Exact,
            1 => Pairing::Fifo,
            2 => Pairing::RequestOnly,
            3 => Pairing::ResponseOnly,
            4 => Pairing::Suspect,
            _ => return None,
        };
        let page_zero = match self.0 >> PAGE_ZERO_SHIFT & 3 {
            0 => None,
            1 => Some(false),
            2 => Some(true),
            _ => return None,
        };
        Some((status, pairing, page_zero))
    }
}
