//! What the daemon says, for people.

use std::fmt::Write;

use analysis::render::{bytes_text, count_text};

use super::control::words::{
    CheckpointStatus, ConnectionStatus, LoadStatus, RecorderStatus, ReloadStatus, Status, TenantStatus, TraceState,
    TriggerStatus, UploadStatus, WorkerStatus,
};
use super::load::MOST_FACTOR;

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
    let recorder = status.recorder.as_ref();
    text.push_str(&recorder.map_or_else(|| "flight recorder: off\n".to_owned(), recorder_text));
    text.push_str(&checkpoint_text(&status.checkpoint));
    text.push_str(&load_text(&status.load));
    text.push_str(&reload_text(&status.reload));
    status.triggers.iter().for_each(|trigger| text.push_str(&trigger_text(trigger)));
    status.upload.iter().for_each(|upload| text.push_str(&upload_text(upload)));
    for trace in &status.traces {
        let state = match trace.state {
            TraceState::Running => "runs".to_owned(),
            TraceState::Done => {
                format!("done, {} requests in {}", count_text(trace.requests), trace.directory.display())
            }
            TraceState::Failed => "failed".to_owned(),
            TraceState::Interrupted => format!("{} in {}", bytes_text(trace.bytes), trace.directory.display()),
        };
        let problem = trace.problem.as_ref().map_or(String::new(), |problem| format!("; {problem}"));
        let sample = match trace.sample_one_in {
            0 | 1 => String::new(),
            one_in => format!(", one key in {one_in}"),
        };
        let filter = if trace.filter.is_empty() { "everything" } else { &trace.filter };
        let _ = writeln!(text, "trace {}: {filter}{sample}: {state}{problem}", trace.id);
    }
    text
}

/// How a rule stands.
fn trigger_text(trigger: &TriggerStatus) -> String {
    let TriggerStatus { name, acted, cooled_down, over_budget, last, problem } = trigger;
    let held_back = match (cooled_down, over_budget) {
        (0, 0) => String::new(),
        _ => format!(", held back {cooled_down} times while cooling down and {over_budget} times by the day's budget"),
    };
    let mut text = format!("trigger {name}: acted {acted} times{held_back}\n");
    if let Some(last) = last {
        let _ = writeln!(text, "  last: {last}");
    }
    if let Some(problem) = problem {
        let _ = writeln!(text, "  NOT LOOKED AT: {problem}");
    }
    text
}

/// How uploading stands.
fn upload_text(upload: &UploadStatus) -> String {
    let UploadStatus { waiting, arrived, bytes, failed_tries, problem } = upload;
    let bytes = bytes_text(*bytes);
    let mut text = format!("upload: {arrived} arrived ({bytes}), {waiting} waiting, {failed_tries} tries failed\n");
    if let Some(problem) = problem {
        let _ = writeln!(text, "  last: {problem}");
    }
    text
}

/// How a capturing thread is, with what it has lost.
fn worker_text(worker: &WorkerStatus) -> String {
    let (packets, requests) = (count_text(worker.packets), count_text(worker.requests));
    let memory = bytes_text(worker.memory_bytes);
    let WorkerStatus { interface, passing, .. } = worker;
    let losses = losses(worker);
    format!("{interface}: {packets} packets, {requests} requests, {memory} of memory; watching {passing}\n{losses}")
}

/// What it takes of the machine, and what it sheds.
fn load_text(load: &LoadStatus) -> String {
    let LoadStatus { cpu_budget_percent, cpu_used_percent, factor, tightened, memory_bytes, memory_cap_bytes } = load;
    let budget = cpu_budget_percent.map_or(String::new(), |budget| format!(" of a budget of {budget} %"));
    let memory = memory_bytes.map_or_else(|| "unknown memory".to_owned(), |bytes| bytes_text(bytes) + " of memory");
    let mut text = format!(
        "load: {cpu_used_percent:.1} % of a core{budget}, {memory} (no new traces above {})\n",
        bytes_text(*memory_cap_bytes)
    );
    if *factor > 1 {
        let _ = writeln!(text, "  SHEDS LOAD: keeps one key in {factor} of those that are wanted");
    }
    if *factor >= MOST_FACTOR && cpu_budget_percent.is_some_and(|budget| *cpu_used_percent > budget) {
        text.push_str(
            "  OVER THE BUDGET: what is left is the cost of the packets themselves, which fewer keys do not spare\n",
        );
    }
    if *tightened > 0 {
        let _ = writeln!(text, "  {} times that fewer keys were kept than before", count_text(*tightened));
    }
    text
}

/// What of the configuration file does not hold.
fn reload_text(reload: &ReloadStatus) -> String {
    let mut text = String::new();
    if let Some(refused) = &reload.refused {
        let _ = writeln!(text, "configuration: NOT RELOADED, the one before holds: {refused}");
    }
    if !reload.at_the_next_start.is_empty() {
        let _ =
            writeln!(text, "configuration: this changes at the next start: {}", reload.at_the_next_start.join(", "));
    }
    text
}

/// How the flight recorder is, with what it could not write.
pub(super) fn recorder_text(recorder: &RecorderStatus) -> String {
    let RecorderStatus { directory, has_failed, faults, write_failed, problem, limit } = recorder;
    let state = if *has_failed { ": WRITES NOTHING at present, and tries again" } else { "" };
    let mut text = format!("flight recorder: {}{state}\n", directory.display());
    if *write_failed > 0 {
        let _ = writeln!(text, "  {} requests could not be written", count_text(*write_failed));
    }
    if let Some(problem) = problem {
        let times = if *faults == 1 { "once".to_owned() } else { format!("{} times", count_text(*faults)) };
        let _ = writeln!(text, "  writing failed {times}, last: {problem}");
    }
    if let Some(limit) = limit {
        let _ = writeln!(text, "  {limit}");
    }
    text
}

/// How the table of connections on the disk is.
fn checkpoint_text(checkpoint: &CheckpointStatus) -> String {
    let CheckpointStatus { path, restored, refused, connections, failures, problem, .. } = checkpoint;
    let (connections, restored) = (count_text(*connections), count_text(*restored));
    let mut text = format!("table of connections: {connections} in {}, {restored} at the start\n", path.display());
    if let Some(refused) = refused {
        let _ = writeln!(text, "  not used at the start: {refused}");
    }
    if let Some(problem) = problem {
        let _ = writeln!(text, "  CANNOT BE WRITTEN: {problem}");
    }
    if *failures > 0 {
        let _ = writeln!(text, "  {} times that it could not be written", count_text(*failures));
    }
    text
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
        (worker.interruptions, "times that the interface went down or away"),
    ];
    let mut text = String::new();
    if let Some(problem) = &worker.problem {
        let _ = writeln!(text, "  NOTHING IS CAPTURED: {problem}");
    }
    for (count, what) in losses.into_iter().filter(|&(count, _)| count > 0) {
        let _ = writeln!(text, "  {} {what}", count_text(count));
    }
    text
}

/// The tenants, one a line.
pub(crate) fn tenants_text(tenants: &[TenantStatus]) -> String {
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
