//! Tests of the whole way from bytes to packets, on files that are built here by hand.

mod damage;
mod files;
mod formats;
mod messages;
mod samples;

use std::io::Cursor;

use super::reader::Reader;
use super::{CaptureError, SourceStats};

/// What a test sees of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    time_ns: u64,
    link: decode::LinkType,
    wire_len: u32,
    data: Vec<u8>,
}

impl From<decode::Packet<'_>> for Seen {
    fn from(packet: decode::Packet<'_>) -> Self {
        Self { time_ns: packet.time.0, link: packet.link, wire_len: packet.wire_len, data: packet.data.to_vec() }
    }
}

/// Everything that came out of one file.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    packets: Vec<Seen>,
    notes: Vec<String>,
    stats: SourceStats,
}

/// Reads a whole file that lies in memory, through a window of `window_bytes`.
fn read_through(bytes: &[u8], window_bytes: usize) -> Result<Read, CaptureError> {
    let raw = Box::new(Cursor::new(bytes.to_vec()));
    let mut reader = Reader::over("F".to_owned(), raw, window_bytes)?;
    let mut packets = Vec::new();
    while reader.advance()? {
        packets.push(Seen::from(reader.packet().unwrap()));
    }
    Ok(Read { packets, notes: reader.notes(), stats: reader.statistics() })
}

fn read(bytes: &[u8]) -> Result<Read, CaptureError> {
    read_through(bytes, 4096)
}
