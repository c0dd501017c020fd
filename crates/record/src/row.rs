//! The record: one request, and what is known of its answer.

use std::net::SocketAddr;

use crate::ids::TenantTimeline;
use crate::lsn::Lsn;
use crate::request::{Attribution, Pairing, Protocol, Status, Target};
use crate::time::Timestamp;

/// An address and a port, printed `10.0.0.7:51344` or `[::1]:6400`.
pub type Endpoint = SocketAddr;

/// One pagestream request and what is known of its answer. What is not known is `None`; nothing here is a guess.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// When the request's last byte became deliverable in order at the point of observation; where the request was not
    /// seen, the first arrival of the answer's first byte.
    pub time: Timestamp,
    /// From `time` to the first arrival of the answer's first byte.
    pub latency_ns: Option<u64>,
    /// From the answer's first byte to its last.
    pub transfer_ns: Option<u64>,
    /// Requests of this connection in flight when this one arrived, itself included.
    pub depth: Option<u32>,
    /// Whose pages, where that is known.
    pub owner: Option<TenantTimeline>,
    /// How `owner` is known; `None` exactly where it is `None`.
    pub attribution: Option<Attribution>,
    /// What was asked for.
    pub target: Target,
    /// The version asked for; [`Lsn::MAX`] is the latest.
    pub request_lsn: Lsn,
    /// The compute's promise: the page has not changed between this and `request_lsn`.
    pub not_modified_since: Lsn,
    /// What became of it.
    pub status: Status,
    /// `pd_lsn` of the page that came back.
    pub page_lsn: Option<Lsn>,
    /// Whether the page that came back was all zeros; false from the first other byte on, true only for 8,192 seen.
    pub page_zero: Option<bool>,
    /// xxh3-64 (seed 0) of the page that came back, where hashing was asked for and all of it was seen.
    pub page_hash: Option<u64>,
    /// The compute's end of the connection.
    pub client: Endpoint,
    /// The pageserver's end.
    pub server: Endpoint,
    /// Version of the protocol.
    pub protocol: Protocol,
    /// The request's id, version 3 only. Not unique.
    pub reqid: Option<u64>,
    /// The Postgres backend's process id, from the request id or the handshake.
    pub backend_pid: Option<u32>,
    /// The request's ordinal on its connection, from 0; `None` where the connection's start was missed.
    pub seq: Option<u64>,
    /// When the compute at that client address last fetched a base backup of that timeline: the start of its cache.
    pub epoch: Option<Timestamp>,
    /// How the answer was found.
    pub pairing: Pairing,
}

/// The order of records everywhere but in a capture and its files, where they stand as they were completed: by arrival, and
/// those of one moment by connection and ordinal.
pub type Order = (Timestamp, Endpoint, Endpoint, Option<u64>);

impl Record {
    /// Its place in that order.
    #[inline]
    pub fn order(&self) -> Order {
        (self.time, self.client, self.server, self.seq)
    }
}
