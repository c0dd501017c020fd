//! A plan in words.

use std::fmt::Write;
use std::time::Duration;

use analysis::render::{bytes_text, count_text};

use super::estimate::{LimitedBy, Plan};

/// The plan, a line for each thing that somebody who plans asks for.
pub(super) fn plan_text(plan: &Plan) -> String {
    let mut text = String::new();
    let mut line = |name: &str, said: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<15}  {said}");
    };
    line("requests", requests(plan));
    line("bytes a record", density(plan));
    line("disk", disk(plan));
    line("limit reached", limit_reached(plan));
    if !plan.ends_before_full() {
        let (least, most) = (time_text(plan.kept_at_least_s), time_text(plan.full_after_s));
        line("kept then", format!("the latest {least} to {most}; the oldest file goes as a whole"));
    }
    if let (Some(needed), Some(keep)) = (plan.needed, plan.bounds.keep) {
        let options = format!(
            "--max-bytes {} --max-total-bytes {}",
            size_option(needed.max_bytes),
            size_option(needed.max_total_bytes)
        );
        line("to keep", format!("{} it takes {options}", time_text(keep.as_secs_f64())));
    }
    line("memory", memory(plan));
    let most_traces = trace::WriterConfig::new(".", "plan").max_traces as u64;
    if plan.load.tenants > most_traces {
        let most = count_text(most_traces);
        line("traces", format!("at most {most} at a time: records of further tenants are not kept (write_failed)"));
    }
    text
}

fn requests(plan: &Plan) -> String {
    let load = &plan.load;
    let each = if load.tenants > 1 { ", evenly: a busier one reaches its limit earlier" } else { "" };
    let tenants = if load.tenants == 1 { "tenant" } else { "tenants" };
    let mut said = format!("{}/s of {} {tenants}{each}", rate_text(load.requests_per_s), count_text(load.tenants));
    if load.sample_one_in > 1 {
        said +=
            &format!("; one key in {} is kept, {}/s", count_text(load.sample_one_in), rate_text(plan.records_per_s));
    }
    said
}

fn density(plan: &Plan) -> String {
    let hash = if plan.load.page_hash { " with the page's hash" } else { "" };
    format!(
        "{:.1}{hash}, as measured (docs/performance.md) for blocks of {} records",
        plan.bytes_per_record,
        count_text(plan.records_in_block.round() as u64)
    )
}

fn disk(plan: &Plan) -> String {
    let per_second = bytes_text(plan.bytes_per_s.round() as u64);
    let most = bytes_text(plan.disk_bytes);
    match plan.load.duration.filter(|_| plan.ends_before_full()) {
        Some(duration) => format!("{per_second}/s, {most} in {}", time_text(duration.as_secs_f64())),
        None => format!("{per_second}/s, {most} at most"),
    }
}

fn limit_reached(plan: &Plan) -> String {
    let (option, limit) = match plan.limited_by {
        LimitedBy::Trace => ("--max-bytes", plan.bounds.max_bytes),
        LimitedBy::Total => ("--max-total-bytes", plan.bounds.max_total_bytes),
    };
    let after = time_text(plan.full_after_s);
    let ends = if plan.ends_before_full() { "not before its end; it would be " } else { "" };
    format!("{ends}after {after}, {option} {}", bytes_text(limit))
}

fn memory(plan: &Plan) -> String {
    let memory = &plan.bounds.memory;
    format!(
        "{} at most: {} connections (--memory), {} kernel buffer (--buffer-size), {} records on their way, {} findings",
        bytes_text(memory.total_bytes()),
        bytes_text(memory.decoder_bytes),
        bytes_text(memory.kernel_buffer_bytes),
        bytes_text(memory.recorder_bytes()),
        bytes_text(memory.findings_bytes()),
    )
}

/// Whole MiB, as the options take them.
fn size_option(bytes: u64) -> String {
    format!("{}MiB", bytes.div_ceil(1 << 20))
}

fn rate_text(per_second: f64) -> String {
    if per_second >= 10.0 { count_text(per_second.round() as u64) } else { format!("{per_second:.1}") }
}

/// The two largest units, which is as exact as an estimate is.
fn time_text(seconds: f64) -> String {
    let whole = Duration::from_secs(seconds.round() as u64);
    if whole.is_zero() {
        return format!("{seconds:.1}s");
    }
    let text = humantime::format_duration(whole).to_string();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_their_two_largest_units() {
        for (seconds, expected) in [(0.2, "0.2s"), (24.6, "25s"), (3700.0, "1h 1m"), (90_061.0, "1day 1h")] {
            assert_eq!(time_text(seconds), expected);
        }
    }
}
