//! Which ports carry what, and whether their requests can be read, timed and given to a tenant.

use analysis::render::{bytes_text, count_text};
use decode::Stats;

use super::check::Check;
use super::survey::{Port, Survey};
use crate::notes::{Grounds, notes};

/// All ports, those where pagestream is expected first.
pub(super) fn checks(survey: &Survey, checks: &mut Vec<Check>) {
    let (expected, others): (Vec<&Port>, Vec<&Port>) = survey.ports().partition(|port| survey.expects(port.number));
    let elsewhere: Vec<String> = others
        .iter()
        .filter(|port| port.stats().pagestream_connections > 0)
        .map(|port| format!("--port {}", port.number))
        .collect();
    let is_anywhere = !elsewhere.is_empty();
    for port in expected {
        expected_port((port, survey), &elsewhere, checks);
    }
    for port in others.into_iter().filter(|port| port.stats().segments > 0) {
        let carried = carried(port.stats());
        checks.push(Check::info("port", format!("port {} carries {carried}", port.number), ""));
        if port.stats().pagestream_connections > 0 {
            requests(port, survey, checks);
        }
    }
    if survey.unexamined > 0 {
        let count = count_text(survey.unexamined);
        let advice = if is_anywhere { "" } else { "name the page service's port with --port" };
        checks.push(Check::info("ports", format!("{count} segments of further ports were not examined"), advice));
    }
}

/// What there is on a port, most telling first: `2 pagestream connections, 1 TLS connection`.
fn carried(stats: &Stats) -> String {
    let http = stats.http_connections.saturating_add(stats.http2_connections);
    let unsure_http2 = stats.http2_connections.saturating_sub(stats.grpc_connections);
    let kinds = [
        (stats.pagestream_connections, "pagestream"),
        (stats.encrypted_connections, "TLS"),
        (stats.grpc_connections, "gRPC"),
        (unsure_http2, "HTTP/2"),
        (stats.http_connections, "HTTP"),
        (stats.other_connections.saturating_sub(http), "other"),
        (stats.unidentified_connections, "unidentified"),
    ];
    let some = kinds.into_iter().filter(|(count, _)| *count > 0);
    let said = some.map(|(count, what)| {
        format!("{} {what} {}", count_text(count), if count == 1 { "connection" } else { "connections" })
    });
    let said = said.collect::<Vec<_>>().join(", ");
    match (said.is_empty(), stats.segments) {
        (true, 0) => "nothing".to_owned(),
        (true, segments) => format!("{} segments without data", count_text(segments)),
        (false, _) if stats.http2_bytes > 0 => format!("{said} ({} of HTTP/2)", bytes_text(stats.http2_bytes)),
        (false, _) => said,
    }
}

fn expected_port((port, survey): (&Port, &Survey), elsewhere: &[String], checks: &mut Vec<Check>) {
    let stats = port.stats();
    let text = format!("port {} carries {}", port.number, carried(stats));
    if stats.pagestream_connections > 0 {
        checks.push(Check::ok("port", text));
        requests(port, survey, checks);
        return;
    }
    let advice = if !elsewhere.is_empty() {
        format!("watch where pagestream is: {}", elsewhere.join(" "))
    } else if stats.encrypted_connections > 0 {
        "pagesniff reads plain connections only: capture where TLS ends (a proxy's inner side), or have computes connect \
         without it for the time of the capture"
            .to_owned()
    } else if stats.http2_connections > 0 {
        "gRPC is not decoded: capture the libpq port (page_service's listen_pg_addr, 6400 as deployed)".to_owned()
    } else if stats.segments > 0 {
        "wait for longer, or until computes connect: what is idle shows nothing".to_owned()
    } else {
        "is the pageserver here, and this its port and interface? `ss -tlnp` on the node tells; --iface any watches all \
         interfaces"
            .to_owned()
    };
    checks.push(Check::problem("port", text, &advice));
    said(port, checks);
}

/// Whether requests are whole, timed, and somebody's.
fn requests(port: &Port, survey: &Survey, checks: &mut Vec<Check>) {
    let number = port.number;
    let seen = port.requests;
    let of_all = |count: u64| format!("{} of {} requests on port {number}", count_text(count), count_text(seen.all));
    if seen.all == 0 {
        checks.push(Check::info("requests", format!("no request was seen on port {number}"), "watch for longer"));
    } else if seen.owned == seen.all {
        checks.push(Check::ok("tenants", format!("the tenants of all requests on port {number} are known")));
    } else {
        let text =
            format!("{} have no tenant: it is said once, when a connection is opened", of_all(seen.all - seen.owned));
        let advice = "keep them with --unattributed; name them with --hint ADDR=TENANT/TIMELINE, or with \
                      --one-tenant-per-address CIDR where each address is one compute; a capture that runs before computes \
                      connect knows them";
        checks.push(if seen.owned == 0 {
            Check::problem("tenants", text, advice)
        } else {
            Check::warning("tenants", text, advice)
        });
    }
    if seen.timed < seen.all {
        let text = format!("{} have no latency", of_all(seen.all - seen.timed));
        checks.push(Check::warning("latency", text, "what follows says why"));
    }
    let stats = port.stats();
    // Where a direction is not there at all, that is what there is to say.
    if stats.client_data_segments > 0 && stats.server_data_segments > 0 {
        checks.extend(loss(port, survey));
    }
    said(port, checks);
}

/// What is missing, where requests or answers are.
fn loss(port: &Port, survey: &Survey) -> Option<Check> {
    let (number, stats) = (port.number, port.stats());
    let lost = stats.lost_requests.saturating_add(stats.lost_responses);
    if lost == 0 {
        return None;
    }
    let text = format!(
        "port {number}: {} requests and answers are missing, {} of the streams were not captured",
        count_text(lost),
        bytes_text(stats.gap_bytes)
    );
    let advice = match (stats.truncated_packets, survey.dropped) {
        (1.., _) => "capture whole packets, or at least 512 bytes of each",
        (0, 1..) => "raise the capture's buffer (--buffer-size, tcpdump -B)",
        (0, 0) if stats.joined_connections > 0 => {
            "no drop was counted: they may be what was under way when the capture began; capture from before computes connect"
        }
        (0, 0) => {
            "no drop was counted here: a mirror or tap before it may drop, or tcpdump did (its last lines say so); raise its \
             buffer (-B), or capture on the node"
        }
    };
    Some(Check::warning("loss", text, advice))
}

/// The notes that a run would have, and what to do.
fn said(port: &Port, checks: &mut Vec<Check>) {
    let ports = [port.number];
    let grounds =
        Grounds { stats: *port.stats(), ledger: port.ledger(), ports: &ports, sample_one_in: 1, ..Grounds::default() };
    for note in notes(&grounds) {
        let advice = advice_for(&note);
        let text = format!("port {}: {note}", port.number);
        checks.push(match advice.1 {
            true => Check::problem("note", text, advice.0),
            false => Check::info("note", text, advice.0),
        });
    }
}

/// What to do about a note, and whether requests cannot be used until it is done.
fn advice_for(note: &str) -> (&'static str, bool) {
    let cases = [
        (
            "only one direction is visible",
            "a mirror or tap must deliver both directions; on the node itself both are",
            true,
        ),
        (
            "visible in one direction only",
            "a mirror or tap must deliver both directions; routes may differ by direction",
            false,
        ),
        (
            "captured twice",
            "capture one interface rather than any, and mirror one port of a path; nothing is counted twice",
            false,
        ),
        ("clocks that disagree", "capture both directions with one clock: one interface, host time stamps", false),
        ("stamped before", "capture both directions with one clock: one interface, host time stamps", false),
        ("IP fragment", "raise the tunnel's or path's MTU, so that nothing is fragmented", false),
    ];
    let found = cases.into_iter().find(|(words, _, _)| note.contains(words));
    found.map_or(("", false), |(_, advice, is_problem)| (advice, is_problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_that_can_be_helped_have_advice() {
        let seen =
            Stats { packets: 9, segments: 9, client_data_segments: 1, server_data_segments: 1, ..Stats::default() };
        let cases = [
            Stats { server_data_segments: 0, ..seen },
            Stats { duplicates: 1, ..seen },
            Stats { clock_conflicts: 1, ..seen },
            Stats { negative_latencies: 2, ..seen },
        ];
        for stats in cases {
            let notes = notes(&Grounds { stats, ports: &[6400], sample_one_in: 1, ..Grounds::default() });
            assert!(notes.iter().any(|note| !advice_for(note).0.is_empty()), "{notes:?}");
        }
    }
}
