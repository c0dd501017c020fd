//! What a capture takes of memory at most, by what bounds it.

use analysis::diagnosis::{Limits, REORDER_RECORDS};
use record::Record;
use serde_json::{Value, json};

use crate::{findings, recorder};

/// A page that the findings follow, in a hash table that is never more than half empty (docs/diagnosis.md, "Bounds").
const FOLLOWED_PAGE_BYTES: usize = 2 * 80;

/// A page that a miss-ratio curve follows, likewise.
const CURVE_PAGE_BYTES: usize = 2 * 20;

/// A curve beside its pages.
const CURVE_BYTES: usize = 160 << 10;

/// A row of a relation or a compute, with its latencies.
const ROW_BYTES: usize = 12 << 10;

/// The program itself, its buffers and what a capture without requests takes (docs/performance.md: peaks of 7 MiB).
const PROGRAM_BYTES: u64 = 7 << 20;

/// The bounds that are options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryBounds {
    /// `--memory`.
    pub decoder_bytes: u64,
    /// `--buffer-size`; the kernel's, counted as the process's.
    pub kernel_buffer_bytes: u64,
}

impl MemoryBounds {
    /// Records on their way to the traces, and in blocks that are not full: both queues are bounded by records.
    pub fn recorder_bytes(&self) -> u64 {
        let in_blocks = trace::WriterConfig::new(".", "plan").max_buffered_records;
        records_bytes(recorder::MOST_RECORDS).saturating_add(records_bytes(in_blocks))
    }

    /// What the findings at the end rest on.
    pub fn findings_bytes(&self) -> u64 {
        let Limits { refetch, relations, clients, reuse, .. } = Limits::CAPTURE;
        let curve_pages = reuse.caches.saturating_mul(reuse.pages_of_cache).saturating_add(reuse.pages);
        let parts = [
            refetch.keys.saturating_mul(FOLLOWED_PAGE_BYTES),
            relations.saturating_add(clients).saturating_mul(ROW_BYTES),
            curve_pages.saturating_mul(CURVE_PAGE_BYTES),
            reuse.caches.saturating_add(1).saturating_mul(CURVE_BYTES),
        ];
        let waiting = findings::MOST_RECORDS.saturating_add(REORDER_RECORDS);
        parts.iter().fold(records_bytes(waiting), |sum, &part| sum.saturating_add(part as u64))
    }

    /// All of it.
    pub fn total_bytes(&self) -> u64 {
        [self.decoder_bytes, self.kernel_buffer_bytes, self.recorder_bytes(), self.findings_bytes()]
            .iter()
            .fold(PROGRAM_BYTES, |sum, &part| sum.saturating_add(part))
    }

    pub(super) fn to_json(self) -> Value {
        json!({
            "total_bytes": self.total_bytes(),
            "decoder_bytes": self.decoder_bytes,
            "kernel_buffer_bytes": self.kernel_buffer_bytes,
            "recorder_bytes": self.recorder_bytes(),
            "findings_bytes": self.findings_bytes(),
        })
    }
}

fn records_bytes(records: usize) -> u64 {
    records.saturating_mul(size_of::<Record>()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_are_in_the_sum() {
        let bounds = MemoryBounds { decoder_bytes: 64 << 20, kernel_buffer_bytes: 32 << 20 };
        let json = bounds.to_json();
        let parts = ["decoder_bytes", "kernel_buffer_bytes", "recorder_bytes", "findings_bytes"];
        let sum: u64 = parts.iter().map(|&part| json[part].as_u64().unwrap()).sum();
        assert_eq!(json["total_bytes"].as_u64().unwrap(), sum + PROGRAM_BYTES);
        assert!((128 << 20..256 << 20).contains(&bounds.total_bytes()), "{json}");
    }
}
