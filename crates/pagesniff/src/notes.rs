//! What a reader of the figures must know, in plain sentences without their full stop.

use analysis::render::{bytes_text, count_text};
use analysis::summary::Ledger;
use decode::Stats;

/// The notes that the counters give rise to, what matters most first.
pub(crate) fn notes(stats: &Stats, ledger: &Ledger, ports: &[u16], sample_one_in: u64) -> Vec<String> {
    let mut notes = Vec::new();
    nothing_there(stats, ports, &mut notes);
    connections(stats, &mut notes);
    if stats.joined_connections > 0 && ledger.unattributed > 0 {
        notes.push("tenants are named when a connection is opened; what was open before has none".to_owned());
    }
    packets(stats, &mut notes);
    if sample_one_in > 1 {
        notes.push(format!("requests and unique keys are those of a sample of one key in {sample_one_in}"));
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

fn connections(stats: &Stats, notes: &mut Vec<String>) {
    let mut say = |count: u64, one: &str, many: &str| {
        if count > 0 {
            notes.push(counted(count, one, many));
        }
    };
    say(
        stats.encrypted_connections,
        "connection is TLS: its content cannot be read",
        "connections are TLS: their content cannot be read",
    );
    say(stats.http_connections, "connection is HTTP", "connections are HTTP");
    http2(stats, notes);
    let mut say = |count: u64, one: &str, many: &str| {
        if count > 0 {
            notes.push(counted(count, one, many));
        }
    };
    let http = stats.http_connections.saturating_add(stats.http2_connections);
    say(
        stats.other_connections.saturating_sub(http),
        "connection speaks something else than pagestream",
        "connections speak something else than pagestream",
    );
    say(
        stats.unidentified_connections,
        "connection carried too little to tell what it was",
        "connections carried too little to tell what they were",
    );
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

fn packets(stats: &Stats, notes: &mut Vec<String>) {
    let mut say = |count: u64, one: &str, many: &str| {
        if count > 0 {
            notes.push(counted(count, one, many));
        }
    };
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
    say(
        stats.clock_conflicts,
        "connection is stamped by clocks that disagree about its two directions: its latencies are left out",
        "connections are stamped by clocks that disagree about their two directions: their latencies are left out",
    );
    say(
        stats.negative_latencies,
        "latency is left out: the answer is stamped before its request",
        "latencies are left out: the answers are stamped before their requests",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(stats: Stats) -> Vec<String> {
        notes(&stats, &Ledger::default(), &[6400], 1)
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
