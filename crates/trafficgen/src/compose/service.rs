//! The page service's side of a simulated session: what it has read, its batches, its answers.

use std::collections::VecDeque;

use record::Kind;

use crate::model::{Latency, Request, Workload};
use crate::rng::Rng;

/// The pageserver executes GetPage requests in batches of at most this many (`max_batch_size`).
const BATCH_REQUESTS: usize = 32;

/// The answers of a batch leave one by one, this far apart at least.
const ANSWER_APART_NS: u64 = 20_000;

/// And up to this much further.
const ANSWER_JITTER_NS: u64 = 20_000;

/// A request that was read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parsed {
    /// The request.
    pub(super) request: Request,
    /// When it had been read.
    pub(super) parsed_ns: u64,
}

/// The page service's state for one connection.
#[derive(Debug)]
pub(super) struct Service {
    rng: Rng,
    latency: Latency,
    pub(super) error_rate: f64,
    /// Sent by the client, not read yet: the request and the stream offset behind it.
    coming: VecDeque<(Request, u64)>,
    queue: VecDeque<Parsed>,
    batch: VecDeque<Parsed>,
    batch_len: u32,
    /// A batch is on its way.
    pub(super) busy: bool,
}

impl Service {
    /// Nothing asked yet.
    pub(super) fn new(workload: &Workload, number: u32) -> Self {
        Self {
            rng: Rng::new(workload.seed, 0x5E_0000_0000 | u64::from(number)),
            latency: workload.latency,
            error_rate: workload.error_rate,
            coming: VecDeque::new(),
            queue: VecDeque::new(),
            batch: VecDeque::new(),
            batch_len: 0,
            busy: false,
        }
    }

    /// A request is on its way.
    pub(super) fn expect(&mut self, request: Request, request_end: u64) {
        self.coming.push_back((request, request_end));
    }

    /// Reads the requests that lie before an offset of the client's stream.
    pub(super) fn read(&mut self, readable: u64, now: u64) {
        while let Some(&(request, end)) = self.coming.front() {
            if end > readable {
                break;
            }
            self.queue.push_back(Parsed { request, parsed_ns: now });
            self.coming.pop_front();
        }
    }

    /// Whether requests wait.
    pub(super) fn has_work(&self) -> bool {
        !self.queue.is_empty() || !self.batch.is_empty()
    }

    /// Begins a batch: neighbouring GetPage requests, or one request of another kind. Returns how long it takes until
    /// its first answer.
    pub(super) fn begin_batch(&mut self) -> u64 {
        while let Some(&next) = self.queue.front() {
            let alone = next.request.target.kind() != Kind::GetPage;
            if self.batch.len() == BATCH_REQUESTS || (alone && !self.batch.is_empty()) {
                break;
            }
            self.batch.push_back(next);
            self.queue.pop_front();
            if alone {
                break;
            }
        }
        self.batch_len = self.batch.len() as u32;
        self.latency.draw_ns(&mut self.rng)
    }

    /// The next request to answer, and the size of its batch.
    pub(super) fn next_answer(&mut self) -> Option<(Parsed, u32)> {
        self.batch.pop_front().map(|parsed| (parsed, self.batch_len))
    }

    /// How long until the next answer of the batch; `None` where there is no other one.
    pub(super) fn until_next_answer_ns(&mut self) -> Option<u64> {
        (!self.batch.is_empty()).then(|| ANSWER_APART_NS + self.rng.below(ANSWER_JITTER_NS))
    }

    /// The connection is over for the service: nothing more is answered.
    pub(super) fn abandon(&mut self) {
        self.coming.clear();
        self.queue.clear();
        self.batch.clear();
    }
}
