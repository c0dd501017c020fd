//! One direction between two ends, as bytes and holes.

use std::collections::BTreeMap;
use std::net::SocketAddr;

/// From, to; connections that follow one another on the same addresses are one.
pub(crate) type Streams = BTreeMap<(SocketAddr, SocketAddr), Stream>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Bytes(Vec<u8>),
    /// Bytes that are known to be missing.
    Missing(u64),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) parts: Vec<Part>,
}

impl Stream {
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) {
        match self.parts.last_mut() {
            Some(Part::Bytes(last)) => last.extend_from_slice(bytes),
            _ => self.parts.push(Part::Bytes(bytes.to_vec())),
        }
    }

    pub(crate) fn push_missing(&mut self, count: u64) {
        match self.parts.last_mut() {
            Some(Part::Missing(last)) => *last += count,
            _ => self.parts.push(Part::Missing(count)),
        }
    }

    /// How many bytes it has.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |part: &Part| match part {
            Part::Bytes(bytes) => bytes.len(),
            Part::Missing(_) => 0,
        };
        self.parts.iter().map(bytes).sum()
    }
}
