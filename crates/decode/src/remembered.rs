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

/// What comes behind the end of a connection that is not followed is passed over for so long: the rest of its answers, and
/// acknowledgements (RFC 9293, section 3.6).
const LINGER_NS: u64 = 60_000_000_000;

/// A connection that is not read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) connection: OpenConnection,
    /// Up to when its packets are passed over, since not all of them are captured.
    passed_over_until: Option<Timestamp>,
    /// When one of its ends said that it has nothing more to say, while it was passed over.
    ended_at: Option<Timestamp>,
}

impl Known {
    /// Whether what is missing of it was left out rather than lost.
    pub(crate) fn was_passed_over(&self) -> bool {
        self.passed_over_until.is_some()
    }

    fn is_passed_over(&self, now: Timestamp) -> bool {
        self.passed_over_until.is_some_and(|until| now < until)
    }
}

/// What was told of connections that have not been heard of since, or are not followed.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    connections: HashMap<(Endpoint, Endpoint), Known>,
}

impl Remembered {
    /// Takes one in, where there is room.
    pub(crate) fn insert(&mut self, connection: OpenConnection) {
        let ends = (connection.client, connection.server);
        if self.connections.len() < MOST_REMEMBERED || self.connections.contains_key(&ends) {
            self.connections.insert(ends, Known { connection, passed_over_until: None, ended_at: None });
        }
    }

    /// Takes one in whose packets are passed over from now on; false where there is no room.
    pub(crate) fn set_aside(&mut self, connection: OpenConnection) -> bool {
        self.insert(connection);
        let known = self.connections.get_mut(&(connection.client, connection.server));
        known.map(|known| known.passed_over_until = Some(Timestamp(u64::MAX))).is_some()
    }

    /// Those for which `follows` says so are read again from the packets of `from` on, if they are not already; all others
    /// are passed over.
    pub(crate) fn follow(&mut self, from: Timestamp, mut follows: impl FnMut(&OpenConnection) -> bool) {
        for known in self.connections.values_mut() {
            let is_followed = known.ended_at.is_none() && follows(&known.connection);
            known.passed_over_until = match (is_followed, known.passed_over_until) {
                (false, _) => Some(Timestamp(u64::MAX)),
                (true, Some(until)) => Some(until.min(from)),
                (true, None) => None,
            };
        }
    }

    /// Whether a packet of this connection is passed over. It tells where the client's numbers are: one out of reach belongs
    /// to another connection, whose tenant is not known.
    pub(crate) fn passes_over(&mut self, ends: (Endpoint, Endpoint), client_seq: Option<u32>, now: Timestamp) -> bool {
        let Some(known) = self.connections.get_mut(&ends) else { return false };
        if !known.is_passed_over(now) {
            return false;
        }
        let connection = &mut known.connection;
        if let Some(seq) = client_seq {
            if !connection.reaches(SeqNum(seq), now) {
                (connection.owner, connection.attribution, connection.backend_pid) = (None, None, None);
            }
            let is_ahead = SeqNum(seq).ahead_of(SeqNum(connection.client_seq)) > 0;
            if is_ahead || connection.owner.is_none() {
                (connection.client_seq, connection.known_at) = (seq, now);
            }
        }
        true
    }

    /// What is remembered of a connection between these ends, if this number of its client can be that one's. It is not
    /// remembered any more.
    pub(crate) fn take(
        &mut self,
        ends: (Endpoint, Endpoint),
        client_seq: Option<u32>,
        now: Timestamp,
    ) -> Option<Known> {
        let known = self.connections.remove(&ends)?;
        client_seq.filter(|&seq| known.connection.reaches(SeqNum(seq), now)).map(|_| known)
    }

    /// The connection between these ends is over, or another.
    pub(crate) fn forget(&mut self, ends: (Endpoint, Endpoint)) {
        self.connections.remove(&ends);
    }

    /// One of these ends has nothing more to say. The rest of a connection that is passed over is passed over, too.
    pub(crate) fn end(&mut self, ends: (Endpoint, Endpoint), now: Timestamp) {
        match self.connections.get_mut(&ends) {
            Some(known) if known.is_passed_over(now) => {
                known.passed_over_until = Some(Timestamp(u64::MAX));
                known.ended_at.get_or_insert(now);
            }
            _ => self.forget(ends),
        }
    }

    /// Forgets what is too old.
    pub(crate) fn expire(&mut self, now: Timestamp) {
        self.connections.retain(|_, known| {
            let (since, keep_ns) = match known.ended_at {
                Some(ended_at) => (ended_at, LINGER_NS),
                None => (known.connection.known_at, REMEMBER_NS),
            };
            now.since(since).is_none_or(|silent_ns| silent_ns < keep_ns)
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = OpenConnection> + '_ {
        self.connections.values().filter(|known| known.ended_at.is_none()).map(|known| known.connection)
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
