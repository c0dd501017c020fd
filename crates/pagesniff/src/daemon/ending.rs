//! Where traces are brought to their end: what waits for a disk is not done by a capturing thread.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use super::traces::Traces;
use crate::recorder::Feed;

/// What a capturing thread is done with.
pub(super) enum Ended {
    /// Its way into the trace of that name.
    Trace(String, Feed),
    /// Its way into the flight recorder: the thread ends.
    Ring(Feed),
}

/// Ends what comes, until no capturing thread is left.
pub(super) fn run(ended: &Receiver<Ended>, traces: &Arc<Traces>) {
    while let Ok(what) = ended.recv() {
        match what {
            Ended::Ring(feed) => feed.finish(),
            Ended::Trace(id, feed) => {
                feed.finish();
                traces.one_feed_less(&id);
            }
        }
    }
}
