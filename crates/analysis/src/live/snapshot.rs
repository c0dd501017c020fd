//! How it was in the last seconds: what is shown, and sent as JSON. Its names are fixed; new fields are added at the end.

use serde::{Deserialize, Serialize};

use super::key::By;
use super::latencies::LatencyFigures;
use crate::diagnosis::RefetchCounts;
use crate::summary::{Ledger, Loss};

/// What the capture has counted since its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CaptureFigures {
    /// Packets read.
    pub packets: u64,
    /// Their bytes on the wire.
    pub wire_bytes: u64,
    /// Connections that were found to speak pagestream.
    pub connections: u64,
    /// Those that are open now.
    pub open_connections: u64,
    /// What was lost, by reason.
    pub loss: Loss,
    /// Where each request went; `kept` are those that the figures are of.
    pub ledger: Ledger,
}

impl CaptureFigures {
    /// What was counted since `earlier`. Connections that are open are those that are open now.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(earlier.packets),
            wire_bytes: self.wire_bytes.saturating_sub(earlier.wire_bytes),
            connections: self.connections.saturating_sub(earlier.connections),
            open_connections: self.open_connections,
            loss: self.loss.since(&earlier.loss),
            ledger: self.ledger.since(&earlier.ledger),
        }
    }
}

/// How it was in the last seconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// The end of the time that the figures are of, unix ns, in the clock of the packets.
    pub time_ns: u64,
    /// How long that time is. A request counts in it when its answer has been waited for: one or two seconds late.
    pub window_ns: u64,
    /// Seconds since the beginning.
    pub ticks: u64,
    /// Of the capture, since its beginning.
    pub capture: CaptureFigures,
    /// Of the capture, within the window: packets, bytes, losses and requests.
    pub capture_in_window: CaptureFigures,
    /// One page in how many is compared with its earlier fetches; 1 is all.
    pub followed_one_in: u64,
    /// Of all requests.
    pub total: Figures,
    /// Requests a second, for each of the last seconds, the latest at the end.
    pub history: Vec<f64>,
    /// The rows, by what was asked for.
    pub views: Vec<View>,
    /// What a reader must know, in plain sentences without their full stop.
    pub notes: Vec<String>,
}

/// Requests put together by one quality.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// By what.
    pub by: By,
    /// The rows with the most requests, these first.
    pub rows: Vec<Row>,
    /// How many rows more there are, each followed by itself.
    pub more_rows: u64,
    /// The requests of `more_rows`, and of all that found no row of their own.
    pub others: Figures,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What it stands for.
    #[serde(flatten)]
    pub name: RowName,
    /// Its requests.
    #[serde(flatten)]
    pub figures: Figures,
}

/// What a row stands for; null is what does not tell it from others, or is not known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct RowName {
    /// The tenant, 32 hex digits.
    pub tenant: Option<String>,
    /// The timeline, 32 hex digits.
    pub timeline: Option<String>,
    /// The relation's fork, `1663/16384/16402_vm`.
    pub rel: Option<String>,
    /// The kind of request, where it has no relation or no key.
    pub kind: Option<String>,
    /// The compute's end of the connection.
    pub client: Option<String>,
    /// The pageserver's end.
    pub server: Option<String>,
    /// The first block of the key range.
    pub first_blkno: Option<u32>,
    /// Its last.
    pub last_blkno: Option<u32>,
}

/// Requests within the window.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Figures {
    /// How many.
    pub requests: u64,
    /// The same a second.
    pub requests_per_s: f64,
    /// Those for a page.
    pub getpage: u64,
    /// 8,192 for each page that came back, a second.
    pub page_bytes_per_s: f64,
    /// Answered with an error.
    pub errors: u64,
    /// Without answer.
    pub unanswered: u64,
    /// Those of which it is not proven which answer was theirs.
    pub suspect: u64,
    /// GetPage for pages that are not compared with earlier fetches, since there are too many of them.
    pub not_followed: u64,
    /// The other GetPage by class. One that took so long that its place in the order was past is `unproven`.
    #[serde(flatten)]
    pub classes: RefetchCounts,
    /// Their latencies, in ns.
    pub latency_ns: LatencyFigures,
    /// Requests of the same connection in flight when one arrived, itself included: the mean.
    pub depth_mean: Option<f64>,
    /// The most.
    pub depth_max: Option<u32>,
}
