//! The arithmetic: from a load and limits to bytes and times.

use std::time::Duration;

use serde_json::{Value, json};

use super::density::{FULL_BLOCK, bytes_a_record};
use super::memory::MemoryBounds;

/// A trace's files at their limit: as many as `trace` makes of the smaller limit, and none larger than 64 MiB.
const FILES_IN_A_LIMIT: u64 = 8;
const LARGEST_FILE_BYTES: u64 = 64 << 20;

/// What is to be captured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Tenants' timelines: each has a trace of its own.
    pub tenants: u64,
    /// Requests a second of all of them together.
    pub requests_per_s: f64,
    /// One key in how many is kept.
    pub sample_one_in: u64,
    /// Whether each record has the page's hash.
    pub page_hash: bool,
    /// How long is captured, where it ends.
    pub duration: Option<Duration>,
}

/// The limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Of one trace.
    pub max_bytes: u64,
    /// Of all traces.
    pub max_total_bytes: u64,
    /// How long records wait to be written.
    pub flush_interval: Duration,
    /// How far back traces are to reach.
    pub keep: Option<Duration>,
    /// What memory is bounded by.
    pub memory: MemoryBounds,
}

/// Which limit is reached first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitedBy {
    /// `--max-bytes`.
    Trace,
    /// `--max-total-bytes`.
    Total,
}

/// Limits that keep what is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needed {
    /// For `--max-bytes`.
    pub max_bytes: u64,
    /// For `--max-total-bytes`.
    pub max_total_bytes: u64,
}

/// What it comes to. Requests are taken to be spread evenly over the tenants.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// What is captured.
    pub load: Load,
    /// Within which limits.
    pub bounds: Bounds,
    /// Records a second that are written, of all tenants.
    pub records_per_s: f64,
    /// Records that share a block.
    pub records_in_block: f64,
    /// Bytes of the trace for each record.
    pub bytes_per_record: f64,
    /// Bytes a second that are written.
    pub bytes_per_s: f64,
    /// What the traces take at most.
    pub disk_bytes: u64,
    /// After how long the first limit is reached, in seconds.
    pub full_after_s: f64,
    /// Which it is.
    pub limited_by: LimitedBy,
    /// How far back the traces reach from then on, in seconds: at least, just after the oldest file went.
    pub kept_at_least_s: f64,
    /// What the limits have to be for what is to be kept.
    pub needed: Option<Needed>,
}

impl Plan {
    /// Computes it.
    pub fn of(load: &Load, bounds: &Bounds) -> Self {
        let tenants = load.tenants.max(1);
        let records_per_s = load.requests_per_s / load.sample_one_in.max(1) as f64;
        let of_tenant_per_s = records_per_s / tenants as f64;
        let records_in_block = (of_tenant_per_s * bounds.flush_interval.as_secs_f64()).clamp(1.0, FULL_BLOCK);
        let bytes_per_record = bytes_a_record(records_in_block, load.page_hash);
        let bytes_per_s = records_per_s * bytes_per_record;
        let trace_full_s = bounds.max_bytes as f64 / (of_tenant_per_s * bytes_per_record);
        let total_full_s = bounds.max_total_bytes as f64 / bytes_per_s;
        let (full_after_s, limited_by, limit_bytes) = match total_full_s < trace_full_s {
            true => (total_full_s, LimitedBy::Total, bounds.max_total_bytes),
            false => (trace_full_s, LimitedBy::Trace, bounds.max_bytes),
        };
        let file_bytes = file_bytes(bounds.max_bytes.min(bounds.max_total_bytes));
        let whole_files = 1.0 - file_bytes as f64 / limit_bytes.max(1) as f64;
        let all_bytes = load.duration.map(|duration| whole(bytes_per_s * duration.as_secs_f64()));
        let most_bytes = bounds.max_bytes.saturating_mul(tenants).min(bounds.max_total_bytes);
        Self {
            load: *load,
            bounds: *bounds,
            records_per_s,
            records_in_block,
            bytes_per_record,
            bytes_per_s,
            disk_bytes: all_bytes.map_or(most_bytes, |all| all.min(most_bytes)),
            full_after_s,
            limited_by,
            kept_at_least_s: full_after_s * whole_files.max(0.0),
            needed: bounds.keep.map(|keep| needed(keep, of_tenant_per_s * bytes_per_record, tenants)),
        }
    }

    /// Whether the capture ends before a limit is reached.
    pub fn ends_before_full(&self) -> bool {
        self.load.duration.is_some_and(|duration| duration.as_secs_f64() <= self.full_after_s)
    }

    /// Everything as JSON; the names are fixed.
    pub fn to_json(&self) -> Value {
        json!({
            "tenants": self.load.tenants,
            "requests_per_s": self.load.requests_per_s,
            "sample_one_in": self.load.sample_one_in,
            "page_hash": self.load.page_hash,
            "duration_s": self.load.duration.map(|duration| duration.as_secs_f64()),
            "max_bytes": self.bounds.max_bytes,
            "max_total_bytes": self.bounds.max_total_bytes,
            "records_per_s": self.records_per_s,
            "records_in_block": self.records_in_block,
            "bytes_per_record": self.bytes_per_record,
            "bytes_per_s": self.bytes_per_s,
            "disk_bytes": self.disk_bytes,
            "full_after_s": self.full_after_s,
            "ends_before_full": self.ends_before_full(),
            "limited_by": match self.limited_by { LimitedBy::Trace => "max_bytes", LimitedBy::Total => "max_total_bytes" },
            "hours_kept": self.full_after_s / 3600.0,
            "hours_kept_at_least": self.kept_at_least_s / 3600.0,
            "needed": self.needed.map(|needed| json!({
                "max_bytes": needed.max_bytes, "max_total_bytes": needed.max_total_bytes,
            })),
            "memory": self.bounds.memory.to_json(),
        })
    }
}

/// How large a file of a trace becomes.
fn file_bytes(limit_bytes: u64) -> u64 {
    (limit_bytes / FILES_IN_A_LIMIT).min(LARGEST_FILE_BYTES)
}

/// The limits whose traces still reach so far back when the oldest file has just gone.
fn needed(keep: Duration, trace_bytes_per_s: f64, tenants: u64) -> Needed {
    let bytes = whole(trace_bytes_per_s * keep.as_secs_f64());
    // One file more: an eighth of the limit is a seventh of what is to stay.
    let file_bytes = bytes.div_ceil(FILES_IN_A_LIMIT - 1).min(LARGEST_FILE_BYTES);
    let max_bytes = bytes.saturating_add(file_bytes).max(trace::MIN_LIMIT_BYTES);
    Needed { max_bytes, max_total_bytes: max_bytes.saturating_mul(tenants) }
}

/// The next whole number of bytes.
fn whole(bytes: f64) -> u64 {
    // A float beyond the range becomes the largest number.
    bytes.ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: MemoryBounds = MemoryBounds { decoder_bytes: 64 << 20, kernel_buffer_bytes: 32 << 20 };

    fn load(tenants: u64, requests_per_s: f64) -> Load {
        Load { tenants, requests_per_s, sample_one_in: 1, page_hash: false, duration: None }
    }

    fn bounds(max_bytes: u64, max_total_bytes: u64) -> Bounds {
        Bounds { max_bytes, max_total_bytes, flush_interval: Duration::from_secs(1), keep: None, memory: MEMORY }
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= b.abs() * 1e-9
    }

    #[test]
    fn one_busy_tenant_is_limited_by_its_trace() {
        let plan = Plan::of(&load(1, 155_000.0), &bounds(32 << 20, 1 << 30));
        assert_eq!((plan.bytes_per_record, plan.limited_by), (8.8, LimitedBy::Trace));
        assert!(near(plan.bytes_per_s, 1_364_000.0));
        assert!(near(plan.full_after_s, (32 << 20) as f64 / 1_364_000.0));
        assert!(near(plan.kept_at_least_s, plan.full_after_s * 7.0 / 8.0));
        assert_eq!(plan.disk_bytes, 32 << 20);
    }

    #[test]
    fn many_tenants_are_limited_together_and_their_records_are_larger() {
        let plan = Plan::of(&load(1000, 10_000.0), &bounds(32 << 20, 1 << 30));
        assert_eq!((plan.records_in_block, plan.bytes_per_record, plan.limited_by), (10.0, 33.4, LimitedBy::Total));
        assert_eq!(plan.disk_bytes, 1 << 30);
        assert!(near(plan.full_after_s, (1 << 30) as f64 / 334_000.0));
        // A file is an eighth of a trace's limit, 4 MiB of the GiB.
        assert!(near(plan.kept_at_least_s, plan.full_after_s * (1.0 - 4.0 / 1024.0)));
    }

    #[test]
    fn a_sample_and_an_end_take_less() {
        let half = Load { sample_one_in: 2, duration: Some(Duration::from_secs(10)), ..load(1, 100_000.0) };
        let plan = Plan::of(&half, &bounds(32 << 20, 1 << 30));
        assert!(near(plan.records_per_s, 50_000.0) && plan.ends_before_full());
        assert!((4_400_000..=4_400_001).contains(&plan.disk_bytes), "{plan:?}");
    }

    #[test]
    fn the_limits_that_are_said_to_be_needed_keep_as_much() {
        for (tenants, hours) in [(1, 1), (50, 24), (1, 24 * 30)] {
            let keep = Some(Duration::from_secs(hours * 3600));
            let first = Plan::of(&load(tenants, 60_000.0), &Bounds { keep, ..bounds(32 << 20, 1 << 30) });
            let needed = first.needed.unwrap();
            let with = Plan::of(&load(tenants, 60_000.0), &bounds(needed.max_bytes, needed.max_total_bytes));
            let wanted_s = hours as f64 * 3600.0;
            assert!(with.kept_at_least_s >= wanted_s * 0.999, "{} of {wanted_s}", with.kept_at_least_s);
            assert!(with.full_after_s < wanted_s * 1.15, "no more than a file is added");
        }
    }

    #[test]
    fn json_has_every_figure_under_its_fixed_name() {
        let json = Plan::of(&load(3, 3000.0), &bounds(32 << 20, 1 << 30)).to_json();
        for name in ["bytes_per_record", "bytes_per_s", "disk_bytes", "full_after_s", "hours_kept", "memory"] {
            assert!(!json[name].is_null(), "{name}");
        }
        assert_eq!((&json["limited_by"], &json["needed"]), (&json!("max_bytes"), &Value::Null));
    }
}
