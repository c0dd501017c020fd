//! The decoder, run over packets, with what must hold at every moment and at the end.

use decode::{Config, Decoder, Stats};
use record::Record;

use crate::segment::Owned;

/// Below this limit the table's own first places may take more than is allowed; nobody can set so small a limit.
pub const LEAST_LIMIT_BYTES: usize = 256 << 10;

/// What came out.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The records in their order.
    pub records: Vec<Record>,
    /// The counters at the end.
    pub stats: Stats,
}

/// Decodes all of it.
pub fn decode(packets: &[Owned], config: &Config) -> Outcome {
    let mut decoder = Decoder::new(config.clone());
    let mut records = Vec::new();
    for packet in packets {
        decoder.packet(&packet.packet(), &mut records);
        assert!(
            decoder.memory_bytes() <= config.memory_limit_bytes,
            "{} bytes of state, {} allowed",
            decoder.memory_bytes(),
            config.memory_limit_bytes
        );
    }
    decoder.finish(&mut records);
    let stats = *decoder.stats();
    check_counters(&stats, packets, &records);
    Outcome { records, stats }
}

/// Every packet, segment and record is counted once.
fn check_counters(stats: &Stats, packets: &[Owned], records: &[Record]) {
    let wire = &stats.wire;
    assert_eq!(stats.packets, packets.len() as u64);
    assert_eq!(stats.wire_bytes, packets.iter().map(|packet| u64::from(packet.wire_len)).sum::<u64>());
    let skipped = wire.not_ip + wire.not_tcp + wire.truncated_header + wire.malformed;
    let fragments = wire.fragments - wire.datagrams_joined;
    assert_eq!(stats.packets, stats.segments + stats.other_port + skipped + fragments, "{stats:?}");
    assert_eq!(wire.fragments, wire.fragments_joined + wire.fragment_copies + wire.fragments_dropped, "{wire:?}");
    assert_eq!(stats.records, records.len() as u64);
    let data_segments = stats.client_data_segments + stats.server_data_segments;
    assert!(data_segments <= stats.segments && stats.duplicates + stats.out_of_window <= stats.segments, "{stats:?}");
    let ended = stats.pagestream_connections
        + stats.encrypted_connections
        + stats.other_connections
        + stats.unidentified_connections;
    assert!(ended <= stats.segments, "more connections than segments: {stats:?}");
    assert!(stats.joined_connections <= stats.pagestream_connections, "{stats:?}");
    assert!(stats.http_connections + stats.http2_connections <= stats.other_connections, "{stats:?}");
}
