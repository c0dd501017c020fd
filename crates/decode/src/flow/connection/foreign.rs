//! Connections that are no Postgres: told apart by what they begin with, measured, and not decoded.
//!
//! This is the door for a second protocol. A connection that turns out to be another protocol's comes by here with every
//! piece of both streams, in order and with its gaps, as long as it is open. A decoder of the page service's gRPC would take
//! them here in place of [`Connection::watch_foreign`], and hand its requests and answers to the pairing, as the session does.

use super::Connection;
use crate::flow::Side;
use crate::flow::half::ORIGIN;
use crate::pgwire::frame::Chunk;
use crate::pgwire::startup::Foreign;
use crate::session::Phase;
use crate::stats::Stats;

/// Requests of gRPC have this content type (gRPC over HTTP/2, "Requests"), which HPACK gives with the Huffman code of RFC
/// 7541, appendix B, or as it is. A connection gives it with its first call, and refers to it later.
const GRPC_HUFFMAN: &[u8] = b"\x1d\x75\xd0\x62\x0d\x26\x3d\x4c\x4d\x65\x64";
const GRPC_LITERAL: &[u8] = b"application/grpc";

/// The first call comes at once, behind a client's settings.
const MAX_LOOKED_AT_BYTES: u64 = 64 << 10;

impl Connection {
    /// Looks at a piece of a stream that nobody reads.
    pub(super) fn watch_foreign(&mut self, side: Side, chunk: &Chunk<'_>) {
        let is_http2 = match self.session.phase {
            Phase::Foreign(what) => what == Foreign::Http2,
            Phase::Startup => self.session.looks_like == Foreign::Http2,
            _ => false,
        };
        let (true, Side::Client, Chunk::Data { bytes, .. }) = (is_http2 && !self.is_grpc, side, chunk) else { return };
        if self.halves.client.next().saturating_sub(ORIGIN) <= MAX_LOOKED_AT_BYTES.saturating_add(bytes.len() as u64) {
            self.is_grpc = [GRPC_HUFFMAN, GRPC_LITERAL].iter().any(|word| holds(bytes, word));
        }
    }

    /// Counts a connection that was HTTP/2, and what it carried in both directions.
    pub(super) fn count_http2(&self, stats: &mut Stats) {
        let carried = [&self.halves.client, &self.halves.server].map(|half| half.next().saturating_sub(ORIGIN));
        stats.http2_connections = stats.http2_connections.saturating_add(1);
        stats.grpc_connections = stats.grpc_connections.saturating_add(u64::from(self.is_grpc));
        stats.http2_bytes = carried.iter().fold(stats.http2_bytes, |sum, &bytes| sum.saturating_add(bytes));
    }
}

fn holds(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|window| window == word)
}
