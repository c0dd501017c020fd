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
