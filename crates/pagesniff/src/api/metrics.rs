//! The daemon's figures for Prometheus (text exposition format 0.0.4), with Neon's label names.

use std::fmt::Write;

use crate::daemon::words::{Status, TenantStatus, TraceState, WorkerStatus};

/// Series of single tenants: those of 8 running traces, with some timelines each.
const MOST_TENANT_SERIES: usize = 64;

/// One metric's name, kind and meaning.
struct Metric(&'static str, &'static str, &'static str);

/// A counter of each capturing thread: its metric, and where the figure is.
type WorkerMetric = (Metric, fn(&WorkerStatus) -> u64);

const OF_WORKERS: [WorkerMetric; 13] = [
    (Metric("pagesniff_packets_total", "counter", "Packets that were read."), |w| w.packets),
    (Metric("pagesniff_wire_bytes_total", "counter", "Their bytes on the wire."), |w| w.wire_bytes),
    (Metric("pagesniff_requests_total", "counter", "Requests that were seen."), |w| w.requests),
    (Metric("pagesniff_unattributed_requests_total", "counter", "Requests whose tenant is not known."), |w| {
        w.unattributed
    }),
    (Metric("pagesniff_kernel_dropped_packets_total", "counter", "Packets that found no room in the kernel."), |w| {
        w.kernel_dropped
    }),
    (Metric("pagesniff_interface_dropped_packets_total", "counter", "Packets that the interface dropped."), |w| {
        w.interface_dropped
    }),
    (Metric("pagesniff_gap_bytes_total", "counter", "Bytes that are missing in connections."), |w| w.gap_bytes),
    (Metric("pagesniff_lost_requests_total", "counter", "Requests that are missing."), |w| w.lost_requests),
    (Metric("pagesniff_lost_responses_total", "counter", "Answers that are missing."), |w| w.lost_responses),
    (Metric("pagesniff_evicted_connections_total", "counter", "Connections forgotten for want of memory."), |w| {
        w.evicted_connections
    }),
    (
        Metric("pagesniff_queue_dropped_requests_total", "counter", "Requests the flight recorder had no room for."),
        |w| w.queue_dropped,
    ),
    (Metric("pagesniff_interface_interruptions_total", "counter", "How often the interface went down or away."), |w| {
        w.interruptions
    }),
    (Metric("pagesniff_decoder_memory_bytes", "gauge", "Memory that the decoder takes."), |w| w.memory_bytes),
];

/// All figures. Single tenants' are there only while a trace of theirs runs.
pub(super) fn text(status: &Status, tenants: &[TenantStatus]) -> String {
    let mut out = String::new();
    for (metric, value) in &OF_WORKERS {
        head(&mut out, metric);
        for worker in &status.workers {
            sample(&mut out, metric.0, &[("interface", &worker.interface)], value(worker));
        }
    }
    let running = status.traces.iter().filter(|trace| trace.state == TraceState::Running);
    let recorder_fails = status.recorder.as_ref().is_some_and(|recorder| recorder.has_failed);
    let gauges = [
        (Metric("pagesniff_connections", "gauge", "Open pagestream connections."), status.connections),
        (
            Metric("pagesniff_unattributed_connections", "gauge", "Those of them whose tenant is not known."),
            status.unattributed_connections,
        ),
        (Metric("pagesniff_tenants", "gauge", "Tenants with an open connection."), status.tenants),
        (Metric("pagesniff_running_traces", "gauge", "Traces that run."), running.clone().count() as u64),
        (
            Metric("pagesniff_recorder_failing", "gauge", "1 while the flight recorder's disk takes nothing."),
            u64::from(recorder_fails),
        ),
        (
            Metric("pagesniff_sampling_factor", "gauge", "By how many times fewer keys are kept than are wanted."),
            status.load.factor,
        ),
        (
            Metric("pagesniff_memory_bytes", "gauge", "Memory of the process."),
            status.load.memory_bytes.unwrap_or_default(),
        ),
        (
            Metric("pagesniff_upload_waiting", "gauge", "Captures and snapshots that have not been uploaded yet."),
            status.upload.as_ref().map_or(0, |upload| upload.waiting),
        ),
        (
            Metric("pagesniff_upload_failed_tries_total", "counter", "Tries to upload one that failed."),
            status.upload.as_ref().map_or(0, |upload| upload.failed_tries),
        ),
        (
            Metric("pagesniff_start_time_seconds", "gauge", "When the daemon began, in unix time."),
            status.started_ns / 1_000_000_000,
        ),
    ];
    for (metric, value) in &gauges {
        head(&mut out, metric);
        sample(&mut out, metric.0, &[], *value);
    }
    let metric =
        Metric("pagesniff_trigger_acted_total", "counter", "How often a rule has taken a capture or snapshot.");
    head(&mut out, &metric);
    for trigger in &status.triggers {
        sample(&mut out, metric.0, &[("trigger", &trigger.name)], trigger.acted);
    }
    let traced: Vec<&String> = running.flat_map(|trace| &trace.tenants).collect();
    let metric = Metric("pagesniff_tenant_requests_total", "counter", "Requests of a tenant that is traced.");
    head(&mut out, &metric);
    for tenant in tenants.iter().filter(|tenant| traced.contains(&&tenant.tenant)).take(MOST_TENANT_SERIES) {
        let labels = [("tenant_id", tenant.tenant.as_str()), ("timeline_id", tenant.timeline.as_str())];
        sample(&mut out, metric.0, &labels, tenant.requests);
    }
    out
}

fn head(out: &mut String, Metric(name, kind, meaning): &Metric) {
    let _ = writeln!(out, "# HELP {name} {meaning}\n# TYPE {name} {kind}");
}

fn sample(out: &mut String, name: &str, labels: &[(&str, &str)], value: u64) {
    let label = |(name, value): &(&str, &str)| {
        // An interface can have any name that the kernel takes.
        format!("{name}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
    };
    let labels: Vec<String> = labels.iter().map(label).collect();
    let braces = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let _ = writeln!(out, "{name}{braces} {value}");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const ALERTS: &str = include_str!("../../../../deploy/prometheus/alerts.yaml");
    const DASHBOARD: &str = include_str!("../../../../deploy/grafana/pagesniff.json");

    fn names(text: &str) -> BTreeSet<&str> {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        words.filter(|word| word.starts_with("pagesniff_")).collect()
    }

    #[test]
    fn alerts_and_dashboard_ask_for_metrics_that_there_are() {
        let there_are = text(&Status::default(), &[]);
        let there_are = names(&there_are);
        for asked in [ALERTS, DASHBOARD] {
            let asked = names(asked);
            assert!(asked.len() > 5, "{asked:?}");
            assert!(asked.is_subset(&there_are), "{:?}", asked.difference(&there_are));
        }
        serde_json::from_str::<serde_json::Value>(DASHBOARD).unwrap();
    }
}
