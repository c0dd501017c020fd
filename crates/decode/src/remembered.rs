//! Connections as they stand, to be told to whoever goes on after this decoder, and those that an earlier one told.
//!
//! A tenant is said once, when a connection opens. A decoder that joins later knows it where the one before has told it, and
//! where the sequence numbers show that it is still the same connection.

use std::collections::HashMap;

use record::{Attribution, Endpoint, Protocol, TenantTimeline, Timestamp};

use crate::flow::seq::SeqNum;

/// So many are remembered, 200 bytes each: four times the connections that a pageserver holds.
const MOST_REMEMBERED: usize = 16_384;

/// A connection that nothing was heard of for so long is forgotten.
const REMEMBER_NS: u64 = 24 * 3_600 * 1_000_000_000;

/// A client asks at most so fast: 60,000 requests a second on one connection, several times what one backend was seen to.
const REACH_BYTES_PER_MS: u64 = 4_000;

/// What a client may have sent since, however long that is: beyond, chance alone would make too many numbers fit.
const MOST_REACH_BYTES: i64 = 64 << 20;

/// What a client may have sent at once, and a packet that comes again may lie behind: a default send buffer.
const LEAST_REACH_BYTES: i64 = 128 << 10;

/// A pagestream connection as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenConnection {
    /// The compute's end.
    pub client: Endpoint,
    /// The pageserver's end.
    pub server: Endpoint,
    /// Whose it is; `None` where its command was not seen.
    pub owner: Option<TenantTimeline>,
    /// How that is known.
    pub attribution: Option<Attribution>,
    /// The version of the pagestream.
    pub protocol: Protocol,
    /// The process that asks, from the handshake.
    pub backend_pid: Option<u32>,
    /// The sequence number of what the client sends next.
    pub client_seq: u32,
    /// When all of this was so.
    pub known_at: Timestamp,
}

impl OpenConnection {
    /// Whether the connection can have come to this number by then.
    fn reaches(&self, client_seq: SeqNum, now: Timestamp) -> bool {
        let passed_ms = now.since(self.known_at).unwrap_or(0) / 1_000_000;
        let most = i64::try_from(passed_ms.saturating_mul(REACH_BYTES_PER_MS)).unwrap_or(i64::MAX);
        let most = most.clamp(LEAST_REACH_BYTES, MOST_REACH_BYTES);
        let ahead = i64::from(client_seq.ahead_of(SeqNum(self.client_seq)));
        (LEAST_REACH_BYTES.saturating_neg()..=most).contains(&ahead)
    }
}

/// What was told of connections that have not been heard of since.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    connections: HashMap<(Endpoint, Endpoint), OpenConnection>,
}

impl Remembered {
    /// Takes one in, where there is room.
    pub(crate) fn insert(&mut self, connection: OpenConnection) {
        let ends = (connection.client, connection.server);
        if self.connections.len() < MOST_REMEMBERED || self.connections.contains_key(&ends) {
            self.connections.insert(ends, connection);
        }
    }

    /// What is remembered of a connection between these ends, if this number of its client can be that one's. It is not
    /// remembered any more.
    pub(crate) fn take(
        &mut self,
        ends: (Endpoint, Endpoint),
        client_seq: Option<u32>,
        now: Timestamp,
    ) -> Option<OpenConnection> {
        let known = self.connections.remove(&ends)?;
        client_seq.filter(|&seq| known.reaches(SeqNum(seq), now)).map(|_| known)
    }

    /// The connection between these ends is over, or another.
    pub(crate) fn forget(&mut self, ends: (Endpoint, Endpoint)) {
        self.connections.remove(&ends);
    }

    /// Forgets what is too old.
    pub(crate) fn expire(&mut self, now: Timestamp) {
        self.connections.retain(|_, known| now.since(known.known_at).is_none_or(|silent_ns| silent_ns < REMEMBER_NS));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = OpenConnection> + '_ {
        self.connections.values().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> OpenConnection {
        OpenConnection {
            client: ([10, 0, 0, 7], 51344).into(),
            server: ([10, 0, 0, 1], 6400).into(),
            owner: None,
            attribution: None,
            protocol: Protocol::V3,
            backend_pid: None,
            client_seq: u32::MAX - 10,
            known_at: Timestamp(1_000_000_000),
        }
    }

    #[test]
    fn a_number_within_what_can_have_been_sent_is_the_same_connection_and_taken_once() {
        let ends = (known().client, known().server);
        for (ahead, after_s, expected) in [
            (0_i64, 0, true),
            (1 << 10, 0, true),
            (-(64 << 10), 0, true),
            (-(1 << 20), 60, false),
            (1 << 20, 0, false),
            (1 << 20, 1, true),
            (64 << 20, 3_600, true),
            ((64 << 20) + 1, 3_600, false),
            (1 << 31, 3_600, false),
        ] {
            let mut remembered = Remembered::default();
            remembered.insert(known());
            let seq = (i64::from(known().client_seq) + ahead) as u32;
            let now = Timestamp(1_000_000_000 * (1 + after_s));
            assert_eq!(remembered.take(ends, Some(seq), now).is_some(), expected, "{ahead} after {after_s} s");
            assert!(remembered.is_empty());
        }
    }

    #[test]
    fn what_is_remembered_is_bounded_in_number_and_time() {
        let mut remembered = Remembered::default();
        for port in 0..=u16::MAX {
            remembered.insert(OpenConnection { client: ([10, 0, 0, 7], port).into(), ..known() });
        }
        assert_eq!(remembered.iter().count(), MOST_REMEMBERED);
        remembered.expire(Timestamp(REMEMBER_NS));
        assert_eq!(remembered.iter().count(), MOST_REMEMBERED);
        remembered.expire(Timestamp(REMEMBER_NS + 1_000_000_000));
        assert!(remembered.is_empty());
    }
}
