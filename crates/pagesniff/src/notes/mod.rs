//! What a reader of the figures must know, in plain sentences without their full stop.

mod clocks;
mod tenants;

use analysis::render::{bytes_text, count_text};
use analysis::summary::Ledger;
use decode::Stats;

/// What notes rest on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Grounds<'a> {
    pub(crate) stats: Stats,
    pub(crate) ledger: Ledger,
    /// The watched ports.
    pub(crate) ports: &'a [u16],
    pub(crate) sample_one_in: u64,
    /// Records kept of which it is not proven which answer was theirs.
    pub(crate) suspect: u64,
    /// Records kept that are half of an exchange: a request without its answer, or an answer without its request.
    pub(crate) halves: u64,
    /// Records kept whose tenant is not known.
    pub(crate) without_owner: u64,
    /// Records kept that have a latency.
    pub(crate) timed: u64,
    /// Whether the operator has said anything about whose connections are whose.
    pub(crate) has_hints: bool,
}

/// The notes that the counters give rise to, what matters most first.
pub(crate) fn notes(grounds: &Grounds<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    nothing_there(&grounds.stats, grounds.ports, &mut notes);
    clocks::notes(grounds, &mut notes);
    connections(&grounds.stats, &mut notes);
    tenants::notes(grounds, &mut notes);
    packets(&grounds.stats, &mut notes);
    losses(grounds, &mut notes);
    if grounds.sample_one_in > 1 {
        let one_in = grounds.sample_one_in;
        notes.push(format!("requests and unique keys are those of a sample of one key in {one_in}"));
    }
    notes
}

/// `1 connection is`, `2 connections are`.
fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", count_text(count), if count == 1 { one } else { many })
}

/// `port 6400`, `ports 6400 and 6401`.
fn ports_text(ports: &[u16]) -> String {
    let numbers: Vec<String> = ports.iter().map(u16::to_string).collect();
    format!("{} {}", if ports.len() == 1 { "port" } else { "ports" }, numbers.join(" and "))
}

fn nothing_there(stats: &Stats, ports: &[u16], notes: &mut Vec<String>) {
    let ports = ports_text(ports);
    if stats.packets == 0 {
        notes.push("the capture holds no packet".to_owned());
    } else if stats.segments == 0 && stats.other_port > 0 {
        let elsewhere = counted(stats.other_port, "TCP segment is", "TCP segments are");
        notes.push(format!(
            "nothing was sent from or to {ports}, while {elsewhere} on other ports; the port is chosen with --port"
        ));
    } else if stats.segments == 0 {
        notes.push(format!("nothing was sent from or to {ports}, nor is there other TCP that could be read"));
    }
}

/// What losses cost, and what helps.
fn losses(grounds: &Grounds<'_>, notes: &mut Vec<String>) {
    let Grounds { stats, suspect, .. } = grounds;
    let is_two_sided = stats.client_data_segments > 0 && stats.server_data_segments > 0;
    let is_unexplained = stats.gaps > 0 && stats.truncated_packets == 0 && stats.clock_conflicts == 0;
    if is_two_sided && is_unexplained {
        notes.push(format!(
            "{} in the streams, of packets that the capture has dropped: give it a larger buffer (--buffer-size, tcpdump -B), or \
             let less pass its filter (--bpf)",
            counted(stats.gaps, "hole is", "holes are")
        ));
    }
    if *suspect > 0 {
        notes.push(format!(
            "{} suspect, without status and latency: which answer is whose is not proven behind a loss, or where a connection was \
             open before; a capture that begins earlier and loses nothing has none",
            counted(*suspect, "request is", "requests are")
        ));
    }
    if stats.evicted_connections > 0 {
        notes.push(format!(
            "{} forgotten to stay within --memory: raise it",
            counted(stats.evicted_connections, "connection was", "connections were")
        ));
    }
}

/// Says what there is at least one of.
fn say_counted(notes: &mut Vec<String>, count: u64, (one, many): (&str, &str)) {
    if count > 0 {
        notes.push(counted(count, one, many));
    }
}

fn connections(stats: &Stats, notes: &mut Vec<String>) {
    let mut say = |count: u64, one: &str, many: &str| say_counted(notes, count, (one, many));
    say(
        stats.encrypted_connections,
        "connection is TLS: its content cannot be read",
        "connections are TLS: their content cannot be read",
    );
    say(stats.http_connections, "connection is HTTP", "connections are HTTP");
    http2(stats, notes);
    let mut say = |count: u64, one: &str, many: &str| say_counted(notes, count, (one, many));
    say(
        stats.basebackup_connections,
        "connection carried a base backup, and no page requests",
        "connections carried base backups, and no page requests",
    );
    let named =
        stats.http_connections.saturating_add(stats.http2_connections).saturating_add(stats.basebackup_connections);
    say(
        stats.other_connections.saturating_sub(named),
        "connection speaks something else than pagestream",
        "connections speak something else than pagestream",
    );
    unidentified(stats, &mut say);
    say(
        stats.joined_connections,
        "connection was open before the capture began",
        "connections were open before the capture began",
    );
    match (stats.client_data_segments, stats.server_data_segments) {
        (1.., 0) => notes.push("only one direction is visible: there are requests but no answers".to_owned()),
        (0, 1..) => notes.push("only one direction is visible: there are answers but no requests".to_owned()),
        _ if stats.one_way_connections > 0 => {
            let some = counted(stats.one_way_connections, "connection is", "connections are");
            notes.push(format!("{some} visible in one direction only: they have no latencies"));
        }
        _ => {}
    }
}

/// What is gRPC, or may be, and how much it carried.
fn http2(stats: &Stats, notes: &mut Vec<String>) {
    let Some(others) = stats.http2_connections.checked_sub(stats.grpc_connections) else { return };
    let mut what = Vec::new();
    if stats.grpc_connections > 0 {
        what.push(counted(stats.grpc_connections, "connection is gRPC", "connections are gRPC"));
    }
    if others > 0 {
        what.push(counted(others, "connection is HTTP/2, probably gRPC", "connections are HTTP/2, probably gRPC"));
    }
    if !what.is_empty() {
        let carried = bytes_text(stats.http2_bytes);
        notes.push(format!("{}, without TLS ({carried}): it is measured and not decoded", what.join(", ")));
    }
}

/// Connections of which it is not known what they were.
fn unidentified(stats: &Stats, say: &mut impl FnMut(u64, &str, &str)) {
    let answers = count_text(stats.unasked_answers);
    let why = format!(
        "answers of protocol version 1 or 2 and none of the requests ({answers} answers): such answers do not say what was asked, so \
         they make no record; capture the computes' packets, too, or read both captures at once (--read A B)"
    );
    say(stats.unasked_connections, &format!("connection shows {why}"), &format!("connections show {why}"));
    let one_way = stats.one_way_unidentified.saturating_sub(stats.unasked_connections);
    say(
        one_way,
        "connection, of which one direction was captured, carried too little to tell what it was",
        "connections, of which one direction was captured, carried too little to tell what they were",
    );
    say(
        stats.unidentified_connections.saturating_sub(stats.one_way_unidentified.max(stats.unasked_connections)),
        "connection carried too little to tell what it was",
        "connections carried too little to tell what they were",
    );
}

fn packets(stats: &Stats, notes: &mut Vec<String>) {
    let mut say = |count: u64, one: &str, many: &str| say_counted(notes, count, (one, many));
    say(
        stats.duplicates,
        "segment was captured twice (a mirror of both ports, or -i any): each is counted once",
        "segments were captured twice (a mirror of both ports, or -i any): each is counted once",
    );
    say(
        stats.wire.tunnelled,
        "packet was unwrapped from a tunnel or mirror header",
        "packets were unwrapped from tunnel or mirror headers",
    );
    say(
        stats.wire.truncated_header,
        "packet was cut within its headers: capture with a snap length of 256 or more",
        "packets were cut within their headers: capture with a snap length of 256 or more",
    );
    let missing = stats.lost_requests.saturating_add(stats.lost_responses);
    say(
        if missing > 0 { stats.truncated_packets } else { 0 },
        "packet was cut by the snap length, and messages with it: capture whole packets, or at least 512 bytes of each",
        "packets were cut by the snap length, and messages with them: capture whole packets, or at least 512 bytes of each",
    );
    say(
        stats.wire.fragments_dropped,
        "IP fragment could not be put together",
        "IP fragments could not be put together",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(stats: Stats) -> Vec<String> {
        notes(&Grounds { stats, ports: &[6400], sample_one_in: 1, ..Grounds::default() })
    }

    #[test]
    fn a_capture_of_the_expected_has_no_notes() {
        let stats = Stats {
            packets: 10,
            segments: 10,
            client_data_segments: 4,
            server_data_segments: 4,
            pagestream_connections: 1,
            ..Stats::default()
        };
        assert_eq!(of(stats), [""; 0]);
    }

    #[test]
    fn what_stands_in_the_way_is_said() {
        let seen =
            Stats { packets: 9, segments: 9, client_data_segments: 1, server_data_segments: 1, ..Stats::default() };
        let tls = Stats { encrypted_connections: 2, ..seen };
        assert_eq!(of(tls), ["2 connections are TLS: their content cannot be read"]);
        let one_way = Stats { server_data_segments: 0, ..seen };
        assert_eq!(of(one_way), ["only one direction is visible: there are requests but no answers"]);
        let cut = Stats { truncated_packets: 7, ..seen };
        assert_eq!(of(cut), [""; 0], "page bytes alone are no loss");
        let cut = Stats { lost_requests: 1, ..cut };
        assert!(of(cut)[0].starts_with("7 packets were cut by the snap length"));
        let joined = Stats { joined_connections: 5, ..seen };
        assert_eq!(of(joined), ["5 connections were open before the capture began"]);
    }

    #[test]
    fn http2_is_named_and_measured() {
        let seen = Stats { packets: 9, segments: 9, other_connections: 3, ..Stats::default() };
        let grpc = Stats { http2_connections: 3, grpc_connections: 1, http2_bytes: 3 << 20, ..seen };
        assert_eq!(
            of(grpc),
            [
                "1 connection is gRPC, 2 connections are HTTP/2, probably gRPC, without TLS (3.0 MiB): it is measured and not decoded"
            ]
        );
        let probable = Stats { http2_connections: 3, http2_bytes: 90, ..seen };
        assert_eq!(
            of(probable),
            ["3 connections are HTTP/2, probably gRPC, without TLS (90 B): it is measured and not decoded"]
        );
    }

    #[test]
    fn what_is_not_known_comes_with_advice() {
        let stats =
            Stats { packets: 9, segments: 9, client_data_segments: 1, server_data_segments: 1, ..Stats::default() };
        let of = |grounds: Grounds<'_>| notes(&Grounds { ports: &[6400], sample_one_in: 1, ..grounds }).join("\n");
        let dropped = of(Grounds { stats: Stats { gaps: 3, ..stats }, suspect: 5, ..Grounds::default() });
        assert!(dropped.contains("3 holes are in the streams") && dropped.contains("--buffer-size"), "{dropped}");
        assert!(dropped.contains("5 requests are suspect"), "{dropped}");
        let stats = Stats { joined_connections: 2, unnamed_connections: 1, truncated_packets: 4, ..stats };
        let unnamed = of(Grounds { stats, without_owner: 8, ..Grounds::default() });
        for part in [
            "the tenant of 8 requests is not known",
            "open before",
            "snap length",
            "--hint",
            "--one-tenant-per-address",
        ] {
            assert!(unnamed.contains(part), "{part}: {unnamed}");
        }
        let hinted = of(Grounds { stats, without_owner: 8, has_hints: true, ..Grounds::default() });
        assert!(!hinted.contains("--hint"), "{hinted}");
        let stats = Stats { unasked_connections: 4, unasked_answers: 500, unidentified_connections: 4, ..stats };
        let unasked = of(Grounds { stats: Stats { one_way_unidentified: 4, ..stats }, ..Grounds::default() });
        assert!(unasked.contains("4 connections show answers of protocol version 1 or 2"), "{unasked}");
        assert!(unasked.contains("(500 answers)") && !unasked.contains("too little"), "{unasked}");
    }

    #[test]
    fn a_capture_of_nothing_says_where_to_look() {
        assert_eq!(of(Stats::default()), ["the capture holds no packet"]);
        let elsewhere = Stats { packets: 10, other_port: 1, ..Stats::default() };
        assert_eq!(
            of(elsewhere),
            [
                "nothing was sent from or to port 6400, while 1 TCP segment is on other ports; the port is chosen with --port"
            ]
        );
    }
}
