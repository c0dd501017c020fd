//! What the decoder counts. Plain counters, read at any time.

/// Why a packet or an IP fragment yielded no TCP segment.
///
/// Each packet is counted once: packets = segments, `not_ip`, `not_tcp`, `truncated_header`, `malformed` and
/// (`fragments` − `datagrams_joined`) together. And `fragments` = `fragments_joined`, `fragment_copies`,
/// `fragments_dropped` and those that still wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WireStats {
    /// Not IP (ARP, LLDP, PPPoE control, unknown EtherTypes, …).
    pub not_ip: u64,
    /// IP, but not TCP.
    pub not_tcp: u64,
    /// Cut by the snap length within a header that was needed.
    pub truncated_header: u64,
    /// Headers that contradict themselves.
    pub malformed: u64,
    /// IP fragments taken in.
    pub fragments: u64,
    /// IP fragments that became part of a whole datagram.
    pub fragments_joined: u64,
    /// The datagrams put together from them, each counted once more as the packet that it was.
    pub datagrams_joined: u64,
    /// IP fragments that repeated bytes which were there already.
    pub fragment_copies: u64,
    /// IP fragments given up: a bound, a time-out, contradicting pieces, or one cut by the snap length.
    pub fragments_dropped: u64,
    /// Packets that were unwrapped from a tunnel or a mirror encapsulation (VXLAN, GENEVE, GRE, ERSPAN, IP in IP).
    pub tunnelled: u64,
}

/// Everything that the decoder counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Packets that came in.
    pub packets: u64,
    /// Their bytes on the wire.
    pub wire_bytes: u64,
    /// Packets that the snap length cut.
    pub truncated_packets: u64,
    /// What the wire layers passed over.
    pub wire: WireStats,
    /// TCP segments with neither end on a watched port.
    pub other_port: u64,
    /// TCP segments on a watched port.
    pub segments: u64,
    /// Of those, segments with data from client to server.
    pub client_data_segments: u64,
    /// Of those, segments with data from server to client.
    pub server_data_segments: u64,
    /// Segments delivered twice by the capture itself (mirror of both ports, `-i any`).
    pub duplicates: u64,
    /// Segments with data that had been seen before.
    pub retransmissions: u64,
    /// Bytes of retransmissions that differ from the first copy.
    pub conflicts: u64,
    /// Segments whose sequence number lies outside anything the connection can use.
    pub out_of_window: u64,
    /// Stream bytes that the capture does not hold.
    pub gap_bytes: u64,
    /// The holes that they make up.
    pub gaps: u64,
    /// Requests known to be missing from the capture.
    pub lost_requests: u64,
    /// Answers known to be missing from the capture.
    pub lost_responses: u64,
    /// Messages that are not what the protocol allows at their place.
    pub malformed: u64,
    /// Connections that became pagestream.
    pub pagestream_connections: u64,
    /// Connections that are encrypted.
    pub encrypted_connections: u64,
    /// Connections that are something else: plain queries, other commands, other protocols.
    pub other_connections: u64,
    /// Connections that were never identified, counted when they end.
    pub unidentified_connections: u64,
    /// Those of them of which only one direction was seen.
    pub one_way_unidentified: u64,
    /// Those of them that show answers of version 1 or 2, and no packet of the client: what was asked is not known.
    pub unasked_connections: u64,
    /// Their answers, each to a request that was lost.
    pub unasked_answers: u64,
    /// Connections that carried a base backup and no pagestream, among the others.
    pub basebackup_connections: u64,
    /// Pagestream connections whose opening was not seen.
    pub joined_connections: u64,
    /// Pagestream connections whose opening was seen, but not the whole command that names their owner.
    pub unnamed_connections: u64,
    /// Connections forgotten to stay within the memory limit.
    pub evicted_connections: u64,
    /// Pagestream connections of which only one direction was seen.
    pub one_way_connections: u64,
    /// Connections of any kind that show data of the client and no packet of the server.
    pub client_only_connections: u64,
    /// Connections of any kind that show data of the server and no packet of the client.
    pub server_only_connections: u64,
    /// Connections that are HTTP, among the others.
    pub http_connections: u64,
    /// Connections that begin as HTTP/2 with prior knowledge, as gRPC does, among the others.
    pub http2_connections: u64,
    /// Of those, connections on which a call of gRPC was seen.
    pub grpc_connections: u64,
    /// Bytes of the streams of HTTP/2 connections, both directions.
    pub http2_bytes: u64,
    /// Connections, of any kind, whose two directions are stamped by clocks that disagree.
    pub clock_conflicts: u64,
    /// Latencies withheld since the clocks of the two directions disagree.
    pub negative_latencies: u64,
    /// Records handed to the sink.
    pub records: u64,
    /// Of the joined connections, those whose tenant an earlier decoder told ([`crate::Decoder::remember`]).
    pub remembered_connections: u64,
}
