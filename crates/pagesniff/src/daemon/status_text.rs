//! What the daemon says, for people.

use std::fmt::Write;

use analysis::render::{bytes_text, count_text};

use super::control::words::{ConnectionStatus, Status, TenantStatus, TraceState, WorkerStatus};

/// How the daemon is.
pub(super) fn status_text(status: &Status) -> String {
    let Status { instance, version, connections, unattributed_connections, tenants, .. } = status;
    let mut text = format!("instance {instance}, pagesniff {version}\n");
    let unknown = match unattributed_connections {
        0 => String::new(),
        count => format!(", {count} of unknown tenant"),
    };
    let _ = writeln!(text, "connections: {} of {tenants} tenants{unknown}", count_text(*connections));
    for worker in &status.workers {
        text.push_str(&worker_text(worker));
    }
    match &status.recorder {
        None => text.push_str("flight recorder: off\n"),
        Some(recorder) if recorder.has_failed => {
            let _ = writeln!(
                text,
                "flight recorder: FAILED, nothing more can be written to {}",
                recorder.directory.display()
            );
        }
        Some(recorder) => {
            let _ = writeln!(text, "flight recorder: {}", recorder.directory.display());
        }
    }
    for trace in &status.traces {
        let state = match trace.state {
            TraceState::Running => "runs".to_owned(),
            TraceState::Done => {
                format!("done, {} requests in {}", count_text(trace.requests), trace.directory.display())
            }
            TraceState::Failed => "failed".to_owned(),
        };
        let problem = trace.problem.as_ref().map_or(String::new(), |problem| format!("; {problem}"));
        let filter = if trace.filter.is_empty() { "everything" } else { &trace.filter };
        let _ = writeln!(text, "trace {}: {filter}: {state}{problem}", trace.id);
    }
    text
}

/// How a capturing thread is, with what it has lost.
fn worker_text(worker: &WorkerStatus) -> String {
    let (packets, requests) = (count_text(worker.packets), count_text(worker.requests));
    let memory = bytes_text(worker.memory_bytes);
    format!("{}: {packets} packets, {requests} requests, {memory} of memory\n{}", worker.interface, losses(worker))
}

/// What a capturing thread has lost, for the daemon's end; `None` where it has lost nothing.
pub(super) fn losses_text(worker: &WorkerStatus) -> Option<String> {
    let losses = losses(worker);
    (!losses.is_empty()).then(|| format!("{}:\n{losses}", worker.interface))
}

fn losses(worker: &WorkerStatus) -> String {
    let losses = [
        (worker.kernel_dropped, "packets dropped by the kernel"),
        (worker.interface_dropped, "packets dropped by the interface"),
        (worker.lost_requests, "requests missing"),
        (worker.lost_responses, "answers missing"),
        (worker.evicted_connections, "connections forgotten for want of memory"),
        (worker.queue_dropped, "requests that the recorder had no room for"),
        (worker.unattributed, "requests of unknown tenant"),
    ];
    let mut text = String::new();
    for (count, what) in losses.into_iter().filter(|&(count, _)| count > 0) {
        let _ = writeln!(text, "  {} {what}", count_text(count));
    }
    text
}

/// The tenants, one a line.
pub(super) fn tenants_text(tenants: &[TenantStatus]) -> String {
    let mut text =
        String::from("tenant                            timeline                          connections  requests\n");
    for TenantStatus { tenant, timeline, connections, requests } in tenants {
        let _ = writeln!(text, "{tenant}  {timeline}  {connections:>11}  {requests:>8}");
    }
    text
}

/// The connections, one a line.
pub(super) fn connections_text(connections: &[ConnectionStatus]) -> String {
    let mut text = String::from("tenant                            timeline                          client, server\n");
    for ConnectionStatus { client, server, tenant, timeline, .. } in connections {
        let said = |id: &Option<String>| id.clone().unwrap_or_else(|| "?".to_owned());
        let _ = writeln!(text, "{:<32}  {:<32}  {client} {server}", said(tenant), said(timeline));
    }
    text
}
