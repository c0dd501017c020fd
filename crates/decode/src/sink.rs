//! What comes out of the decoder.

use record::{Endpoint, Record, TenantTimeline, Timestamp};

/// Takes the records as they are completed, in the order of the packets that completed them.
pub trait Sink {
    /// One record. It is complete: nothing about it will be revised.
    fn record(&mut self, record: &Record);

    /// What a connection is used for from now on. Comes before the first record of it.
    fn identified(&mut self, connection: &Identified) {
        let _ = connection;
    }

    /// What comes next in one direction of a connection, whatever the connection is used for. For tests and diagnosis: page
    /// bytes are customer data, which nobody is to store, log or send.
    fn stream(&mut self, piece: &StreamPiece<'_>) {
        let _ = piece;
    }
}

/// A piece of one direction's stream. The pieces of a direction follow one another without overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamPiece<'a> {
    /// The end that opened the connection.
    pub client: Endpoint,
    /// The other end.
    pub server: Endpoint,
    /// Whether the client sent it.
    pub is_from_client: bool,
    /// Bytes of this direction before it, from the first one that was seen. A connection that follows on the same addresses
    /// begins at 0 again.
    pub offset: u64,
    /// What it is.
    pub content: StreamContent<'a>,
}

/// What is known of a piece of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamContent<'a> {
    /// Its bytes.
    Bytes(&'a [u8]),
    /// So many bytes that the snap length cut off their packet.
    Cut(u64),
    /// So many bytes of packets that were not captured.
    Missing(u64),
}

/// A connection said, or showed, what it is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identified {
    /// Packet time at which it became known.
    pub at: Timestamp,
    /// The compute's end.
    pub client: Endpoint,
    /// The pageserver's end.
    pub server: Endpoint,
    /// For what.
    pub purpose: Purpose,
    /// Whose it is; `None` where its command was not seen.
    pub owner: Option<TenantTimeline>,
}

/// What a connection is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Page requests, in any version of the protocol.
    Pagestream,
    /// A base backup: a compute that starts.
    Basebackup,
}

impl<F: FnMut(&Record)> Sink for F {
    fn record(&mut self, record: &Record) {
        self(record);
    }
}

impl Sink for Vec<Record> {
    fn record(&mut self, record: &Record) {
        self.push(record.clone());
    }
}
