//! All packets of an examination, given to a decoder for each port that something listens on.

use std::collections::BTreeMap;

use analysis::summary::Ledger;
use decode::wire::Wire;
use decode::{Config, DEFAULT_PORT, Decoder, Identified, Packet, Purpose, Sink, Stats, WireStats};
use record::{Pairing, Record, Timestamp};
use serde_json::{Value, json};

/// Where a page service may listen: libpq as deployed and as in Neon's code, gRPC, and the management API's HTTP, which tells
/// that this is a pageserver.
const KNOWN_PORTS: [u16; 4] = [DEFAULT_PORT, 64_000, 51_051, 9898];

/// Ports that are examined, each with a decoder of its own. A node has a dozen that are busy.
const MAX_PORTS: usize = 32;

/// What each of these decoders may keep: enough for a thousand connections.
const DECODER_BYTES: usize = 8 << 20;

/// Fragments that wait: as for a decoder.
const FRAGMENT_BYTES: usize = 1 << 20;

/// Linux takes the ports of clients from here on (`ip_local_port_range`).
const FIRST_CLIENT_PORT: u16 = 32_768;

/// What the records of a port come to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Requests {
    pub(super) all: u64,
    /// Their tenant is known.
    pub(super) owned: u64,
    /// They have a latency.
    pub(super) timed: u64,
    /// Which answer is theirs is not proven.
    pub(super) suspect: u64,
    /// Connections that fetched a base backup.
    pub(super) basebackups: u64,
}

impl Sink for Requests {
    fn record(&mut self, record: &Record) {
        self.all = self.all.saturating_add(1);
        self.owned = self.owned.saturating_add(u64::from(record.owner.is_some()));
        self.timed = self.timed.saturating_add(u64::from(record.latency_ns.is_some()));
        self.suspect = self.suspect.saturating_add(u64::from(record.pairing == Pairing::Suspect));
    }

    fn identified(&mut self, connection: &Identified) {
        let is_backup = connection.purpose == Purpose::Basebackup;
        self.basebackups = self.basebackups.saturating_add(u64::from(is_backup));
    }
}

/// One port that something listens on.
pub(super) struct Port {
    pub(super) number: u16,
    decoder: Decoder,
    pub(super) requests: Requests,
}

impl Port {
    fn new(number: u16) -> Self {
        let config = Config { ports: vec![number], page_hash: false, memory_limit_bytes: DECODER_BYTES };
        Self { number, decoder: Decoder::new(config), requests: Requests::default() }
    }

    pub(super) fn stats(&self) -> &Stats {
        self.decoder.stats()
    }

    /// Where its requests would go.
    pub(super) fn ledger(&self) -> Ledger {
        let Requests { all, owned, .. } = self.requests;
        Ledger { seen: all, kept: owned, unattributed: all.saturating_sub(owned), ..Ledger::default() }
    }

    pub(super) fn to_json(&self) -> Value {
        let stats = self.stats();
        json!({
            "port": self.number,
            "segments": stats.segments,
            "pagestream": stats.pagestream_connections,
            "encrypted": stats.encrypted_connections,
            "http": stats.http_connections,
            "http2": stats.http2_connections,
            "grpc": stats.grpc_connections,
            "http2_bytes": stats.http2_bytes,
            "other": stats.other_connections,
            "unidentified": stats.unidentified_connections,
            "basebackups": self.requests.basebackups,
            "requests": self.requests.all,
            "requests_with_tenant": self.requests.owned,
            "requests_with_latency": self.requests.timed,
            "requests_suspect": self.requests.suspect,
            "duplicates": stats.duplicates,
        })
    }
}

/// Everything that was seen.
pub(super) struct Survey {
    /// Asked for, or taken for granted.
    expected: Vec<u16>,
    wire: Wire,
    pub(super) wire_stats: WireStats,
    ports: BTreeMap<u16, Port>,
    pub(super) packets: u64,
    pub(super) truncated: u64,
    pub(super) largest_bytes: u32,
    /// Packets whose stamp is no whole microsecond.
    pub(super) fine_stamps: u64,
    /// Packets that the kernel or the interface is known to have dropped.
    pub(super) dropped: u64,
    /// TCP segments of ports beyond the bound.
    pub(super) unexamined: u64,
}

impl Survey {
    /// `asked` are the ports where pagestream is expected.
    pub(super) fn new(asked: &[u16]) -> Self {
        let expected = if asked.is_empty() { vec![DEFAULT_PORT] } else { asked.to_vec() };
        let ports = expected.iter().take(MAX_PORTS).map(|&number| (number, Port::new(number))).collect();
        Self {
            expected,
            wire: Wire::new(FRAGMENT_BYTES),
            wire_stats: WireStats::default(),
            ports,
            packets: 0,
            truncated: 0,
            largest_bytes: 0,
            fine_stamps: 0,
            dropped: 0,
            unexamined: 0,
        }
    }

    /// The ports that a live capture lets pass.
    #[cfg_attr(not(all(feature = "live", target_os = "linux")), allow(dead_code, reason = "for live captures"))]
    pub(super) fn asked_ports(&self) -> Vec<u16> {
        let mut ports = self.expected.clone();
        ports.extend(KNOWN_PORTS);
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// Whether pagestream is expected there.
    pub(super) fn expects(&self, port: u16) -> bool {
        self.expected.contains(&port)
    }

    /// The ports, in order.
    pub(super) fn ports(&self) -> impl Iterator<Item = &Port> {
        self.ports.values()
    }

    pub(super) fn packet(&mut self, packet: &Packet<'_>) {
        self.packets = self.packets.saturating_add(1);
        let is_cut = (packet.data.len() as u64) < u64::from(packet.wire_len);
        self.truncated = self.truncated.saturating_add(u64::from(is_cut));
        self.largest_bytes = self.largest_bytes.max(packet.wire_len);
        self.fine_stamps = self.fine_stamps.saturating_add(u64::from(!packet.time.0.is_multiple_of(1000)));
        let Some(segment) = self.wire.parse(packet, &mut self.wire_stats) else {
            // It may be a fragment that only the port's decoder can put together.
            self.ports.values_mut().for_each(|port| port.decoder.packet(packet, &mut port.requests));
            return;
        };
        let (source, destination) = (segment.source.port, segment.destination.port);
        let listening = match (segment.flags.syn(), segment.flags.ack()) {
            (true, false) => Some(destination),
            (true, true) => Some(source),
            (false, _) => None,
        };
        let known = [source, destination].into_iter().find(|port| self.ports.contains_key(port));
        let guessed = || Some(source.min(destination)).filter(|&port| port < FIRST_CLIENT_PORT);
        let Some(number) = known.or(listening).or_else(guessed) else { return };
        if !self.ports.contains_key(&number) && self.ports.len() >= MAX_PORTS {
            self.unexamined = self.unexamined.saturating_add(1);
            return;
        }
        let port = self.ports.entry(number).or_insert_with(|| Port::new(number));
        port.decoder.packet(packet, &mut port.requests);
    }

    pub(super) fn idle(&mut self, now: Timestamp) {
        self.ports.values_mut().for_each(|port| port.decoder.idle(now, &mut port.requests));
    }

    /// There are no more packets.
    pub(super) fn finish(&mut self) {
        self.wire.finish(&mut self.wire_stats);
        self.ports.values_mut().for_each(|port| port.decoder.finish(&mut port.requests));
    }
}
