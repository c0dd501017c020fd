//! Live figures of what a subscription brings: who asks for what and how it is answered, with the losses of the capture.

use analysis::live::{CaptureFigures, Limits, Live, Snapshot, Wanted};
use analysis::refetch;
use record::{Record, Timestamp};

use super::control::words::WorkerStatus;

/// The length of a tick.
pub(crate) const TICK_NS: u64 = 1_000_000_000;

/// For each reader some 10 MiB: 448 MiB of different pages, a view of 128 rows.
const LIMITS: Limits = Limits {
    refetch: refetch::Limits { keys: 7 << 13, caches: 1_024, relations: 4_096, connections: 1_024 },
    rows: 128,
    waiting: 8_192,
};

/// The figures, and what had been lost a tick ago.
#[derive(Debug)]
pub(crate) struct Watched {
    live: Live,
    lost: Option<u64>,
}

impl Watched {
    /// Figures of nothing yet.
    pub(crate) fn new() -> Self {
        Self { live: Live::new(LIMITS), lost: None }
    }

    /// Takes records as they were completed.
    pub(crate) fn observe(&mut self, records: &[Record]) {
        records.iter().for_each(|record| self.live.observe(record));
    }

    /// A tick is over at `now`, with the capturing threads at this point, and so many records in all that a reader was too slow
    /// for.
    pub(crate) fn tick(&mut self, now: Timestamp, workers: &[WorkerStatus], too_slow: u64) {
        let lost = lost(workers).saturating_add(too_slow);
        if self.lost.is_some_and(|before| before != lost) {
            // It is known to the tick; a packet may have been lost before it, and its loss be counted in it.
            self.live.lost(Timestamp(now.0.saturating_sub(2 * TICK_NS)), now);
        }
        self.lost = Some(lost);
        self.live.tick(now, TICK_NS, figures(workers));
    }

    /// How it was in the window that ended with the last tick.
    pub(crate) fn snapshot(&self, wanted: Wanted<'_>) -> Snapshot {
        self.live.snapshot(wanted)
    }
}

fn sum(workers: &[WorkerStatus], of: fn(&WorkerStatus) -> u64) -> u64 {
    workers.iter().map(of).fold(0, u64::saturating_add)
}

/// Packets and requests that are missing, in whatever way.
fn lost(workers: &[WorkerStatus]) -> u64 {
    sum(workers, |worker| {
        let counts = [worker.kernel_dropped, worker.interface_dropped, worker.lost_requests, worker.lost_responses];
        counts.into_iter().fold(worker.evicted_connections, u64::saturating_add)
    })
}

fn figures(workers: &[WorkerStatus]) -> CaptureFigures {
    let mut figures = CaptureFigures {
        packets: sum(workers, |worker| worker.packets),
        wire_bytes: sum(workers, |worker| worker.wire_bytes),
        ..CaptureFigures::default()
    };
    figures.loss.kernel_dropped = sum(workers, |worker| worker.kernel_dropped);
    figures.loss.interface_dropped = sum(workers, |worker| worker.interface_dropped);
    figures.loss.gap_bytes = sum(workers, |worker| worker.gap_bytes);
    figures.loss.lost_requests = sum(workers, |worker| worker.lost_requests);
    figures.loss.lost_responses = sum(workers, |worker| worker.lost_responses);
    figures.loss.evicted_connections = sum(workers, |worker| worker.evicted_connections);
    figures
}
