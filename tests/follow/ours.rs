//! What the decoder makes of a capture.

use std::path::Path;

use decode::{Config, Decoder, Sink, StreamContent, StreamPiece};
use pagesniff::capture::Files;
use record::Record;

use crate::stream::Streams;

/// Keeps every direction's bytes.
#[derive(Default)]
struct Keeper(Streams);

impl Sink for Keeper {
    fn record(&mut self, _: &Record) {}

    fn stream(&mut self, piece: &StreamPiece<'_>) {
        let (from, to) = match piece.is_from_client {
            true => (piece.client, piece.server),
            false => (piece.server, piece.client),
        };
        let stream = self.0.entry((from, to)).or_default();
        match piece.content {
            StreamContent::Bytes(bytes) => stream.push_bytes(bytes),
            StreamContent::Cut(_) => {}
            StreamContent::Missing(count) => stream.push_missing(count),
        }
    }
}

/// The streams of every TCP connection; `None` where nothing can be read.
pub(crate) fn read(capture: &Path) -> Option<Streams> {
    let mut files = Files::open(&[capture.to_path_buf()]).ok()?;
    // Whatever the port: each connection goes the same way until its messages are looked at.
    let mut decoder = Decoder::new(Config { ports: (0..=u16::MAX).collect(), ..Config::default() });
    let mut keeper = Keeper::default();
    while let Ok(Some(packet)) = files.next_packet() {
        decoder.packet(&packet, &mut keeper);
    }
    decoder.finish(&mut keeper);
    Some(keeper.0)
}
