//! What a run ends with. Serialised, it is the file that `--summary` writes; its names are fixed.

use record::{Kind, Pairing, Status};
use serde::{Deserialize, Serialize};

use super::counts::{AttributionCounts, Counts};
use super::latency::LatencyQuantiles;
use crate::diagnosis::Finding;

/// What the capture and the decoder have to say, beside the records.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CaptureFacts {
    /// Packets read.
    pub packets: u64,
    /// Their bytes on the wire.
    pub wire_bytes: u64,
    /// Connections on the watched ports.
    pub connections: Connections,
    /// What was lost.
    pub loss: Loss,
    /// Where each request went.
    pub ledger: Ledger,
    /// Segments that the capture delivered twice.
    pub duplicates: u64,
    /// Segments that were sent again.
    pub retransmissions: u64,
    /// Bytes sent again with other content.
    pub conflicts: u64,
    /// Whether the two directions are stamped by clocks that disagree: then no latency is shown.
    pub clocks_disagree: bool,
    /// False where the input itself ended early: a cut file, a read error.
    pub input_whole: bool,
    /// What a reader must know, in plain sentences.
    pub notes: Vec<String>,
    /// The trace files, where some were to be written.
    pub traces: Option<Traces>,
}

/// The trace files that a run leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Traces {
    /// The directory of all of them.
    pub directory: String,
    /// How many there are, those of earlier runs under the same instance name included.
    pub files: u64,
    /// Their length together.
    pub bytes: u64,
}

/// Connections on the watched ports, by what they turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Connections {
    /// They spoke pagestream.
    pub pagestream: u64,
    /// Their content cannot be read.
    pub encrypted: u64,
    /// They spoke something else.
    pub other: u64,
    /// Too little of them was seen to tell.
    pub unidentified: u64,
    /// Of `other`, those that were HTTP.
    pub http: u64,
    /// Of `other`, those that were HTTP/2 without TLS, as gRPC is.
    pub http2: u64,
    /// Of `http2`, those on which a call of gRPC was seen.
    pub grpc: u64,
    /// Bytes of both streams of the `http2` connections.
    pub http2_bytes: u64,
}

/// What the capture lost, by reason. All 0 on a complete capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Loss {
    /// Packets that the kernel dropped as its buffer was full.
    pub kernel_dropped: u64,
    /// Packets that the interface dropped.
    pub interface_dropped: u64,
    /// Packets that the snap length cut.
    pub truncated_packets: u64,
    /// Stream bytes that the capture does not hold.
    pub gap_bytes: u64,
    /// Requests known to be missing.
    pub lost_requests: u64,
    /// Answers known to be missing.
    pub lost_responses: u64,
    /// Messages that the protocol does not allow at their place.
    pub malformed: u64,
    /// Connections forgotten to stay within the memory limit.
    pub evicted_connections: u64,
    /// Records that pagesniff made and could not keep.
    pub dropped_records: u64,
}

impl Loss {
    /// Whether nothing was lost.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// What was lost since `earlier`, when so much was.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            kernel_dropped: self.kernel_dropped.saturating_sub(earlier.kernel_dropped),
            interface_dropped: self.interface_dropped.saturating_sub(earlier.interface_dropped),
            truncated_packets: self.truncated_packets.saturating_sub(earlier.truncated_packets),
            gap_bytes: self.gap_bytes.saturating_sub(earlier.gap_bytes),
            lost_requests: self.lost_requests.saturating_sub(earlier.lost_requests),
            lost_responses: self.lost_responses.saturating_sub(earlier.lost_responses),
            malformed: self.malformed.saturating_sub(earlier.malformed),
            evicted_connections: self.evicted_connections.saturating_sub(earlier.evicted_connections),
            dropped_records: self.dropped_records.saturating_sub(earlier.dropped_records),
        }
    }
}

/// Where each request that was seen went. `seen` is the sum of the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ledger {
    /// Requests (and answers whose request was not seen) that the decoder made a record of.
    pub seen: u64,
    /// Left out by a filter.
    pub filtered: u64,
    /// Left out by `--sample`.
    pub sampled_out: u64,
    /// Left out as their tenant is not known.
    pub unattributed: u64,
    /// Dropped as the queue to the writer was full.
    pub queue_dropped: u64,
    /// Lost to a failed write.
    pub write_failed: u64,
    /// Written, and since deleted by retention.
    pub rotated: u64,
    /// In the output. The figures of the summary are of these and of `write_failed`.
    pub kept: u64,
}

impl Ledger {
    /// What was counted since `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            seen: self.seen.saturating_sub(earlier.seen),
            filtered: self.filtered.saturating_sub(earlier.filtered),
            sampled_out: self.sampled_out.saturating_sub(earlier.sampled_out),
            unattributed: self.unattributed.saturating_sub(earlier.unattributed),
            queue_dropped: self.queue_dropped.saturating_sub(earlier.queue_dropped),
            write_failed: self.write_failed.saturating_sub(earlier.write_failed),
            rotated: self.rotated.saturating_sub(earlier.rotated),
            kept: self.kept.saturating_sub(earlier.kept),
        }
    }
}

/// One row of the summary: a tenant's timeline, or several together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TenantReport {
    /// The tenant, 32 hex digits; null for requests whose tenant is not known.
    pub tenant: Option<String>,
    /// The timeline, 32 hex digits; null where `tenant` is.
    pub timeline: Option<String>,
    /// Requests of all kinds.
    pub requests: u64,
    /// By what was asked for.
    pub by_kind: Counts<Kind>,
    /// By what became of them.
    pub by_status: Counts<Status>,
    /// Different GetPage keys asked for.
    pub unique_keys: u64,
    /// Those of them asked for more than once.
    pub repeated_keys: u64,
    /// 1 where the two are exact; otherwise they are estimated from one key in so many.
    pub followed_one_in: u64,
    /// Latencies, in ns.
    pub latency_ns: LatencyQuantiles,
    /// 8,192 for each page that came back.
    pub page_bytes: u64,
    /// The earliest record's time, in unix ns.
    pub first_time_ns: Option<u64>,
    /// The latest record's time, in unix ns.
    pub last_time_ns: Option<u64>,
}

impl TenantReport {
    /// Of the unique keys, the share asked for more than once, 0 to 1; `None` where there are none.
    pub fn repeated_share(&self) -> Option<f64> {
        (self.unique_keys > 0).then(|| self.repeated_keys as f64 / self.unique_keys as f64)
    }

    /// What rows of equal weight are ordered by.
    pub(super) fn name(&self) -> (&Option<String>, &Option<String>) {
        (&self.tenant, &self.timeline)
    }
}

/// What a run ends with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Packets read.
    pub packets: u64,
    /// Their bytes on the wire.
    pub wire_bytes: u64,
    /// Records kept.
    pub records: u64,
    /// Those by kind.
    pub by_kind: Counts<Kind>,
    /// Those by status.
    pub by_status: Counts<Status>,
    /// Those by how the answer was found.
    pub by_pairing: Counts<Pairing>,
    /// Those by how the tenant was known.
    pub by_attribution: AttributionCounts,
    /// One row for each tenant and timeline, most requests first.
    pub tenants: Vec<TenantReport>,
    /// Connections on the watched ports.
    pub connections: Connections,
    /// What was lost.
    pub loss: Loss,
    /// Where each request went.
    pub ledger: Ledger,
    /// Segments that the capture delivered twice.
    pub duplicates: u64,
    /// Segments that were sent again.
    pub retransmissions: u64,
    /// Bytes sent again with other content.
    pub conflicts: u64,
    /// Whether nothing was lost.
    pub complete: bool,
    /// What a reader must know, in plain sentences.
    pub notes: Vec<String>,
    /// The requests of tenants beyond [`super::Limits::tenants`], null where there are none.
    pub others: Option<TenantReport>,
    /// All rows together.
    pub total: TenantReport,
    /// The trace files, null where none were to be written.
    pub traces: Option<Traces>,
    /// What the requests mean, the gravest first; null where that was not found out.
    pub findings: Option<Vec<Finding>>,
}

/// What a summary observed.
pub(super) struct Observed {
    pub(super) by_pairing: Counts<Pairing>,
    pub(super) by_attribution: AttributionCounts,
    pub(super) tenants: Vec<TenantReport>,
    pub(super) others: Option<TenantReport>,
    pub(super) total: TenantReport,
}

impl Report {
    pub(super) fn new(capture: CaptureFacts, observed: Observed) -> Self {
        let CaptureFacts { packets, wire_bytes, connections, loss, ledger, .. } = capture;
        let Observed { by_pairing, by_attribution, tenants, others, total } = observed;
        Self {
            packets,
            wire_bytes,
            records: total.requests,
            by_kind: total.by_kind.clone(),
            by_status: total.by_status.clone(),
            by_pairing,
            by_attribution,
            tenants,
            connections,
            loss,
            ledger,
            duplicates: capture.duplicates,
            retransmissions: capture.retransmissions,
            conflicts: capture.conflicts,
            complete: capture.input_whole && loss.is_none(),
            notes: capture.notes,
            others,
            total,
            traces: capture.traces,
            findings: None,
        }
    }
}
