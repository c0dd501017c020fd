//! What a trace's directory says of it, beside its files: how it was asked for, and how it came to its end.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::checkpoint::replace_file;
use super::control::words::{TraceState, TraceStatus};

/// The file's name.
const NAME: &str = "trace.json";

/// A filter may name a thousand relations; longer is none of ours.
const MOST_BYTES: u64 = 256 << 10;

/// What it says; `None` where there is nothing, or nothing that is understood.
pub(super) fn read(directory: &Path) -> Option<TraceStatus> {
    let mut bytes = Vec::new();
    File::open(directory.join(NAME)).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    let status: TraceStatus = serde_json::from_slice(&bytes).ok()?;
    // Whoever has copied or moved the directory means this one.
    Some(TraceStatus { directory: directory.to_owned(), ..status })
}

/// What a reader of the trace in this directory must know, where it did not come to its end.
pub fn unfinished(directory: &Path) -> Option<String> {
    let status = read(directory)?;
    let at = directory.display();
    match status.state {
        TraceState::Done => None,
        TraceState::Running => {
            Some(format!("the trace in {at} still runs, or its daemon was killed in the middle of it"))
        }
        TraceState::Failed | TraceState::Interrupted => {
            Some(format!("the trace in {at} has no end: {}", status.problem.unwrap_or_default()))
        }
    }
}

/// Says it. Where the disk does not take it, the trace's files say by themselves what is in them.
pub(super) fn write(status: &TraceStatus) {
    if let Ok(mut bytes) = serde_json::to_vec_pretty(status) {
        bytes.push(b'\n');
        let _ = replace_file(&status.directory.join(NAME), &bytes);
    }
}
