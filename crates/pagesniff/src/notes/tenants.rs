//! Whose requests are not known, why, and what helps.

use super::{Grounds, counted};

/// Appends the notes on tenants.
pub(super) fn notes(grounds: &Grounds<'_>, notes: &mut Vec<String>) {
    let Grounds { stats, ledger, without_owner, .. } = grounds;
    let requests = ledger.unattributed.saturating_add(*without_owner);
    if requests == 0 {
        return;
    }
    let unnamed = match (stats.client_data_segments, stats.truncated_packets, stats.clock_conflicts) {
        (0, _, _) => "it is named in the computes' packets, which are not here",
        (_, 0, 0) => "the capture has lost the message that names it",
        (_, 0, _) => "the message that names it is stamped too far from its connection's others",
        (_, _, _) => {
            "the snap length cut the message that names it, or it was lost: capture at least 256 bytes of each packet"
        }
    };
    let reasons = [
        (
            stats.joined_connections,
            "it is named when a connection is opened, and these were open before the capture began",
        ),
        (stats.unnamed_connections, unnamed),
    ];
    let reasons: Vec<&str> = reasons.iter().filter(|(count, _)| *count > 0).map(|(_, why)| *why).collect();
    let why = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; or ")) };
    notes.push(format!("the tenant of {} is not known{why}", counted(requests, "request", "requests")));
    if !grounds.has_hints {
        notes.push(
            "where you know whose such connections are, say it with --hint ADDRESS=TENANT/TIMELINE, or, where each client \
             address is one compute, with --one-tenant-per-address NETWORK"
                .to_owned(),
        );
    }
}
