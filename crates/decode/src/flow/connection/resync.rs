//! What becomes of a connection when the framing of one direction is lost: the search for it, and what is done once it is
//! found, or once the client turns out to begin anew.

use std::collections::VecDeque;

use super::{Connection, Side};
use crate::pagestream::pairing::Cut;
use crate::pagestream::scan::{Found, Piece, Scanner};
use crate::pgwire::command::Command;
use crate::pgwire::frame::{self, Chunk, Framing};
use crate::pgwire::startup::{Foreign, Opening};
use crate::session::{Phase, Turn, World};

/// An unidentified connection that shows nothing of a pagestream in so many bytes is none: a hundred page answers.
const MAX_UNIDENTIFIED_BYTES: u64 = 1 << 20;

impl Connection {
    /// The framing of one direction is lost at `from`.
    pub(super) fn begin_scan(&mut self, side: Side, from: u64, chunk: &Chunk<'_>, world: &mut World<'_>) {
        match self.session.phase {
            Phase::Startup if matches!(chunk, Chunk::Data { .. }) => {
                let turn = match self.session.looks_like {
                    Foreign::Tls => self.session.become_encrypted(world),
                    other => self.session.become_foreign(other),
                };
                debug_assert_eq!(turn, Turn::Ignore);
                return self.ignore();
            }
            Phase::Encrypted | Phase::Foreign(_) => return self.ignore(),
            Phase::Startup | Phase::Query | Phase::Command => self.session.phase = Phase::Unidentified,
            Phase::Asked { .. } | Phase::Pagestream | Phase::Ended | Phase::Unidentified => {}
        }
        let at = self.readers.of(side).at();
        let version = match self.session.phase {
            Phase::Asked { version, .. } => Some(version),
            _ => self.session.version,
        };
        *self.scanners.of_mut(side) = Some(Box::new(Scanner::new(side, version, from, at)));
        let cut = match *chunk {
            Chunk::Gap { len, arrived: Some(packet_at) } => {
                Some(Cut { at: packet_at, bytes: at.saturating_add(len).saturating_sub(from) })
            }
            Chunk::Gap { .. } | Chunk::Data { .. } => None,
        };
        self.session.lost(side, cut, world);
    }

    /// Looks for the framing in a direction that has lost it. Gives what lies behind the place where it was found.
    pub(super) fn scan(&mut self, side: Side, chunk: Chunk<'_>, world: &mut World<'_>) -> Option<VecDeque<Piece>> {
        let Some(mut scanner) = self.scanners.of_mut(side).take() else {
            self.ignore();
            return None;
        };
        // The reader keeps count of the place.
        let mut passed = chunk;
        while self.readers.of_mut(side).step(&mut passed).is_some() {}
        let found = match chunk {
            Chunk::Gap { len, arrived } => scanner.gap(len, arrived),
            Chunk::Data { bytes, arrived, deliverable } => {
                let pairing = self.session.pairing.as_deref();
                let recognises = |head: &_| pairing.is_some_and(|pairing| pairing.recognises(head));
                scanner.data(bytes, (arrived, deliverable), recognises)
            }
        };
        match found {
            Some(found) => {
                self.found(side, &scanner, found, world);
                return Some(scanner.into_pieces_from(found.at));
            }
            None if scanner.seen_bytes > MAX_UNIDENTIFIED_BYTES && self.session.phase == Phase::Unidentified => {
                self.session.become_foreign(Foreign::Unknown);
                self.ignore();
            }
            None => {
                if let (Side::Client, Chunk::Data { .. }, Some(pairing)) = (side, &chunk, &mut self.session.pairing) {
                    pairing.requests_lost_time_unknown();
                }
                *self.scanners.of_mut(side) = Some(scanner);
            }
        }
        None
    }

    /// On a connection whose SYN was not seen: whether the client's first bytes are a start-up or a command all the same.
    pub(super) fn is_opening(&mut self, side: Side, chunk: &Chunk<'_>) -> bool {
        let (Phase::Unidentified, Side::Client, Chunk::Data { bytes, .. }) = (self.session.phase, side, chunk) else {
            return false;
        };
        let is_first = self.scanners.client.as_ref().is_some_and(|scanner| scanner.seen_bytes == 0);
        let Some(framing) = opening_framing(bytes).filter(|_| is_first) else { return false };
        self.session.phase = if framing == Framing::Startup { Phase::Startup } else { Phase::Query };
        if framing == Framing::Startup {
            self.session.start_was_seen();
        }
        for side in [Side::Client, Side::Server] {
            let at = self.readers.of(side).at();
            self.readers.of_mut(side).resume(at);
            *self.scanners.of_mut(side) = None;
        }
        self.readers.client.set_framing(framing);
        true
    }

    /// Whether the server's bytes are a grant. As long as no request has been sent there are no answers, and no pages whose
    /// bytes could look like one; what was lost before it belongs to the start-up.
    pub(super) fn is_grant(&mut self, side: Side, chunk: &Chunk<'_>) -> bool {
        /// CopyBothResponse: tag, length, format and a count of no columns.
        const COPY_BOTH: &[u8] = b"W\0\0\0\x07\0\0\0";
        let is_asked = matches!(self.session.phase, Phase::Asked { .. }) && !self.halves.client.has_hole();
        let is_grant = matches!(chunk, Chunk::Data { bytes: COPY_BOTH, .. });
        if side == Side::Client || !is_asked || !is_grant {
            return false;
        }
        let at = self.readers.server.at();
        self.readers.server.resume(at);
        self.scanners.server = None;
        true
    }

    /// The framing was found again: accounts for what was lost, and makes the reader go on from there.
    fn found(&mut self, side: Side, scanner: &Scanner, found: Found, world: &mut World<'_>) {
        // A connection that is identified only now owes nobody knows how many answers; one that has asked owes those lost.
        let was_pagestream = self.session.pairing.is_some() || matches!(self.session.phase, Phase::Asked { .. });
        self.session.identify(side, found.version, world);
        if let (Some(version), Some(other)) = (self.session.version, self.scanners.of_mut(side.other())) {
            other.set_version(version);
        }
        let bytes = found.at.saturating_sub(scanner.lost_from());
        if was_pagestream {
            match side {
                Side::Client => self.session.with_pairing(world, |pairing, out| {
                    pairing.requests_lost_end(bytes, scanner.is_one_gap_before(found.at), out);
                }),
                Side::Server => self.session.answers_lost(bytes, found.one_page, self.is_unsettled(), world),
            }
        }
        self.readers.of_mut(side).resume(found.at);
    }

    /// Whether the client's payload is what a connection begins with, and this one is past that.
    pub(super) fn says_it_begins(&self, payload: &[u8]) -> bool {
        match opening_framing(payload) {
            Some(Framing::Startup) => true,
            Some(_) => self.session.was_pagestream,
            None => false,
        }
    }
}

/// Whether these are the client's bytes with which a connection begins, or a pagestream.
pub(crate) fn begins(payload: &[u8]) -> bool {
    opening_framing(payload).is_some()
}

/// How a connection begins that these are the client's first bytes of, if they are a whole opening message, and one that the
/// reader takes: what it refuses would be looked at here for ever.
fn opening_framing(bytes: &[u8]) -> Option<Framing> {
    let (&length, body) = bytes.split_first_chunk()?;
    let body_bytes = u32::from_be_bytes(length).checked_sub(4)?;
    if body_bytes as usize == body.len() {
        let is_startup =
            matches!(Opening::parse(body, body_bytes), Opening::Startup { .. } | Opening::EncryptionRequest);
        return Some(Framing::Startup).filter(|&framing| is_startup && frame::is_message(framing, bytes));
    }
    let (&[tag, l0, l1, l2, l3], text) = bytes.split_first_chunk()?;
    let text_bytes = u32::from_be_bytes([l0, l1, l2, l3]).checked_sub(4)?;
    let is_query = tag == b'Q' && matches!(Command::parse_query(text, text_bytes), Command::Pagestream { .. });
    Some(Framing::Typed).filter(|&framing| is_query && frame::is_message(framing, bytes))
}
