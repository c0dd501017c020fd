//! Counting on a thread of its own, while the diagnosis goes on.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::caches::Caches;
use super::{BATCH, Reference};

/// So many batches may wait, 200 KiB: enough that neither thread waits for the other at each.
const MOST_BATCHES: usize = 16;

/// The thread, and the queue to it.
#[derive(Debug)]
pub(super) struct Apart {
    queue: SyncSender<Vec<Reference>>,
    emptied: Receiver<Vec<Reference>>,
    thread: JoinHandle<Caches>,
}

impl Apart {
    /// Starts the thread, which goes on from what is counted already.
    pub(super) fn start(caches: Caches) -> io::Result<Self> {
        let (queue, batches) = sync_channel(MOST_BATCHES);
        let (done, emptied) = sync_channel(MOST_BATCHES);
        let count = move || count_all(caches, &batches, &done);
        let thread = std::thread::Builder::new().name("curves".into()).spawn(count)?;
        Ok(Self { queue, emptied, thread })
    }

    /// Has a batch counted, and gives an empty one for it. Waits where too many are.
    pub(super) fn count(&self, batch: Vec<Reference>) -> Vec<Reference> {
        // The thread ends before the queue only where it panicked: then joining it tells.
        let _ = self.queue.send(batch);
        self.emptied.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH))
    }

    /// What was counted, when all of it is.
    pub(super) fn join(self) -> Caches {
        let Self { queue, emptied, thread } = self;
        drop((queue, emptied));
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn count_all(mut caches: Caches, batches: &Receiver<Vec<Reference>>, done: &SyncSender<Vec<Reference>>) -> Caches {
    for mut batch in batches {
        caches.count(&batch);
        batch.clear();
        // At the end there is nobody to take it back.
        let _ = done.try_send(batch);
    }
    caches
}
