//! What the capture and the decoder counted, in the words of the report.

use analysis::summary::{CaptureFacts, Connections, Ledger, Loss};
use decode::Stats;
use trace::Counter;

use crate::capture::SourceStats;
use crate::flags::MaxLoss;

/// Puts the counters of a run together. `read_whole` is false where the input failed or was given up before its end.
pub fn facts(decoded: &Stats, source: &SourceStats, ledger: Ledger, read_whole: bool) -> CaptureFacts {
    CaptureFacts {
        packets: decoded.packets,
        wire_bytes: decoded.wire_bytes,
        connections: Connections {
            pagestream: decoded.pagestream_connections,
            encrypted: decoded.encrypted_connections,
            other: decoded.other_connections,
            unidentified: decoded.unidentified_connections,
            http: decoded.http_connections,
            http2: decoded.http2_connections,
            grpc: decoded.grpc_connections,
            http2_bytes: decoded.http2_bytes,
        },
        loss: Loss {
            kernel_dropped: source.kernel_dropped,
            interface_dropped: source.interface_dropped,
            truncated_packets: decoded.truncated_packets,
            gap_bytes: decoded.gap_bytes,
            lost_requests: decoded.lost_requests,
            lost_responses: decoded.lost_responses,
            malformed: decoded.malformed,
            evicted_connections: decoded.evicted_connections,
            dropped_records: ledger.queue_dropped.saturating_add(ledger.write_failed),
        },
        ledger,
        duplicates: decoded.duplicates,
        retransmissions: decoded.retransmissions,
        conflicts: decoded.conflicts,
        clocks_disagree: decoded.clock_conflicts > 0,
        input_whole: read_whole && source.cut_files == 0 && source.damaged_files == 0 && source.untimed == 0,
        notes: Vec::new(),
        traces: None,
    }
}

/// What the whole capture has lost up to now, in the words of the traces.
pub fn losses(decoded: &Stats, source: &SourceStats) -> trace::Ledger {
    let counters = [
        (Counter::KernelDropped, source.kernel_dropped),
        (Counter::InterfaceDropped, source.interface_dropped),
        (Counter::TruncatedPackets, decoded.truncated_packets),
        (Counter::GapBytes, decoded.gap_bytes),
        (Counter::LostRequests, decoded.lost_requests),
        (Counter::LostResponses, decoded.lost_responses),
        (Counter::Malformed, decoded.malformed),
        (Counter::EvictedConnections, decoded.evicted_connections),
        (Counter::ClockConflicts, decoded.clock_conflicts),
    ];
    let mut losses = trace::Ledger::default();
    for (counter, value) in counters {
        losses.add(counter, value);
    }
    losses
}

/// Whether more was lost than is borne.
pub fn exceeds(max_loss: MaxLoss, facts: &CaptureFacts) -> bool {
    let Loss { kernel_dropped, interface_dropped, lost_requests, lost_responses, dropped_records, .. } = facts.loss;
    let packets = kernel_dropped.saturating_add(interface_dropped);
    let requests = lost_requests.saturating_add(lost_responses).saturating_add(dropped_records);
    let any = !facts.input_whole || !facts.loss.is_none();
    match max_loss {
        MaxLoss::Count(0) => any,
        MaxLoss::Count(most) => {
            let others = facts.loss.malformed.saturating_add(facts.loss.evicted_connections);
            packets.saturating_add(requests).saturating_add(others) > most
        }
        MaxLoss::Share(most) if most <= 0.0 => any,
        MaxLoss::Share(most) => {
            let of_packets = share(packets, facts.packets.saturating_add(packets));
            let of_requests = share(requests, facts.ledger.seen.saturating_add(lost_requests));
            of_packets.max(of_requests) > most
        }
    }
}

/// `part` of `whole`, 0 where there is nothing.
fn share(part: u64, whole: u64) -> f64 {
    if part == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(loss: Loss) -> CaptureFacts {
        let ledger = Ledger { seen: 900, kept: 900, ..Ledger::default() };
        CaptureFacts { packets: 9_900, loss, ledger, input_whole: true, ..CaptureFacts::default() }
    }

    #[test]
    fn nothing_lost_is_never_too_much() {
        for most in [MaxLoss::Count(0), MaxLoss::Share(0.0)] {
            assert!(!exceeds(most, &with(Loss::default())));
        }
    }

    #[test]
    fn no_loss_allowed_means_of_any_kind() {
        let gap = with(Loss { gap_bytes: 1, ..Loss::default() });
        let cut = CaptureFacts { input_whole: false, ..with(Loss::default()) };
        for most in [MaxLoss::Count(0), MaxLoss::Share(0.0)] {
            assert!(exceeds(most, &gap) && exceeds(most, &cut));
        }
        assert!(!exceeds(MaxLoss::Count(1), &gap));
    }

    #[test]
    fn a_count_adds_up_what_was_lost() {
        let loss =
            Loss { kernel_dropped: 1, lost_requests: 2, malformed: 3, evicted_connections: 4, ..Loss::default() };
        assert!(exceeds(MaxLoss::Count(9), &with(loss)));
        assert!(!exceeds(MaxLoss::Count(10), &with(loss)));
    }

    #[test]
    fn a_share_is_of_packets_or_of_requests_whichever_is_larger() {
        let packets = with(Loss { interface_dropped: 100, ..Loss::default() });
        let requests = with(Loss { lost_requests: 100, ..Loss::default() });
        assert!(exceeds(MaxLoss::Share(0.009), &packets) && !exceeds(MaxLoss::Share(0.01), &packets));
        assert!(exceeds(MaxLoss::Share(0.09), &requests) && !exceeds(MaxLoss::Share(0.1), &requests));
    }
}
