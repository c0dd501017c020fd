//! What the stamps of the two directions contradict each other in, and what else comes of that.

use analysis::render::count_text;

use super::{Grounds, counted};

/// Appends the notes on clocks.
pub(super) fn notes(grounds: &Grounds<'_>, notes: &mut Vec<String>) {
    let stats = &grounds.stats;
    if stats.clock_conflicts > 0 {
        notes.push(conflicts(grounds));
        notes.extend(consequences(grounds));
    }
    let (client, server) = (stats.client_only_connections, stats.server_only_connections);
    if stats.clock_conflicts == 0 && client > 0 && server > 0 {
        notes.push(format!(
            "{} and {} only their server's: where these are the same ones, their directions are stamped by clocks that are \
             seconds apart, and a request and its answer may both be counted; shift one direction (editcap -t) before they \
             are merged",
            counted(client, "connection shows only its client's packets", "connections show only their clients' packets"),
            count_text(server)
        ));
    }
    if stats.negative_latencies > 0 {
        notes.push(counted(
            stats.negative_latencies,
            "latency is left out: the answer is stamped before its request",
            "latencies are left out: the answers are stamped before their requests",
        ));
    }
}

fn conflicts(grounds: &Grounds<'_>) -> String {
    let some = counted(
        grounds.stats.clock_conflicts,
        "connection is stamped by clocks that disagree about its two directions",
        "connections are stamped by clocks that disagree about their two directions",
    );
    let given = match grounds.timed {
        0 => String::new(),
        timed => format!(
            "; {} with a latency before that was noticed, which proves nothing, and no findings are drawn (a report on traces \
             draws them without latencies)",
            counted(timed, "record was made", "records were made")
        ),
    };
    format!(
        "{some} (an effect bears an earlier stamp than its cause): no latency of this capture is shown{given}; let one clock \
         stamp both directions, or shift one of them (editcap -t) before they are merged"
    )
}

/// What is likely to come of it beside wrong times.
fn consequences(grounds: &Grounds<'_>) -> Option<String> {
    let halves = counted(
        grounds.halves,
        "request without answer or answer without request",
        "requests without answer or answers without request",
    );
    let unidentified = counted(
        grounds.stats.unidentified_connections,
        "connection that could not be identified",
        "connections that could not be identified",
    );
    let both = [(grounds.halves, halves), (grounds.stats.unidentified_connections, unidentified)];
    let present: Vec<String> = both.into_iter().filter(|(count, _)| *count > 0).map(|(_, text)| text).collect();
    (!present.is_empty()).then(|| {
        format!(
            "the clocks are the likely cause of {}: what is stamped far apart is not brought together, so a request and its \
             answer may both be counted",
            present.join(" and of ")
        )
    })
}

#[cfg(test)]
mod tests {
    use decode::Stats;

    use super::super::{Grounds, notes};

    #[test]
    fn clocks_that_disagree_come_first_and_say_what_to_do() {
        let stats = Stats { packets: 9, segments: 9, clock_conflicts: 2, one_way_unidentified: 1, ..Stats::default() };
        let stats = Stats { client_data_segments: 4, server_data_segments: 4, unidentified_connections: 1, ..stats };
        let said = notes(&Grounds { stats, timed: 7, halves: 3, ports: &[6400], ..Grounds::default() });
        assert!(said[0].starts_with("2 connections are stamped by clocks that disagree"), "{said:?}");
        assert!(said[0].contains("no latency of this capture is shown; 7 records were made"), "{said:?}");
        assert!(said[0].contains("editcap -t"), "{said:?}");
        assert!(said[1].contains("3 requests without answer or answers without request"), "{said:?}");
        assert!(said[2].contains("of which one direction was captured, carried too little"), "{said:?}");
        assert!(said[1].contains("and of 1 connection that could not be identified"), "{said:?}");
        assert_eq!(said.len(), 3);
    }

    #[test]
    fn directions_that_never_meet_may_be_the_clocks_doing() {
        let stats = Stats { packets: 9, segments: 9, client_only_connections: 2, ..Stats::default() };
        let of = |stats| notes(&Grounds { stats, ports: &[6400], ..Grounds::default() }).join("\n");
        assert!(!of(stats).contains("clocks"), "one direction alone");
        let said = of(Stats { server_only_connections: 3, ..stats });
        assert!(said.contains("2 connections show only their clients' packets and 3 only their server's"), "{said}");
    }
}
