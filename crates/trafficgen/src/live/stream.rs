//! The page service's side of a pagestream: batches in, answers out one by one.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};

use record::Kind;

use super::message::MessageReader;
use super::serve::ServeOptions;
use super::{SharedTruth, locked, now_ns, pause};
use crate::model::{Latency, Request, answer};
use crate::rng::Rng;
use crate::truth::{ConnectionFacts, Outcome, Served};
use crate::wire::pagestream::{encode_answer, parse_request};

/// The pageserver executes GetPage requests in batches of at most this many (`max_batch_size`).
const BATCH_REQUESTS: usize = 32;

/// Why a pagestream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// The client left, by Terminate or by FIN.
    Closed,
    /// CopyDone or CopyFail: back to queries.
    CopyEnded,
    /// A message that is no request.
    Malformed,
}

impl StreamEnd {
    /// What the client is told.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::Closed => "terminated",
            Self::CopyEnded => "unexpected message: the copy was ended",
            Self::Malformed => "malformed pagestream message",
        }
    }
}

/// One pagestream.
#[derive(Debug)]
pub(super) struct PageStream<'a> {
    facts: ConnectionFacts,
    truth: Option<&'a SharedTruth>,
    latency: Latency,
    error_rate: f64,
    rng: Rng,
    seq: u64,
    batch: Vec<(Request, u64)>,
    bytes: Vec<u8>,
}

impl<'a> PageStream<'a> {
    /// A stream on which nothing was asked yet.
    pub(super) fn new(facts: ConnectionFacts, options: &ServeOptions, truth: Option<&'a SharedTruth>) -> Self {
        let rng = Rng::new(options.seed, u64::from(facts.number));
        let ServeOptions { latency, error_rate, .. } = *options;
        Self { facts, truth, latency, error_rate, rng, seq: 0, batch: Vec::new(), bytes: Vec::new() }
    }

    /// Serves it to its end; what was read before the end is answered.
    ///
    /// # Errors
    /// The socket's, and the truth's.
    pub(super) fn run(
        &mut self,
        reader: &mut MessageReader,
        socket: &mut TcpStream,
        answered: &AtomicU64,
    ) -> io::Result<StreamEnd> {
        // A request that did not belong to the batch before it.
        let mut left_over = None;
        loop {
            let end = self.gather(reader, &mut left_over)?;
            let count = self.batch.len() as u64;
            if count > 0 {
                pause(self.latency.draw_ns(&mut self.rng));
                self.answer_batch(socket)?;
                answered.fetch_add(count, Ordering::Relaxed);
            }
            if let (Some(end), None) = (end, left_over) {
                return Ok(end);
            }
        }
    }

    /// Waits for a request, and takes those that are there already: neighbouring GetPage, or one of another kind.
    fn gather(
        &mut self,
        reader: &mut MessageReader,
        left_over: &mut Option<(Request, u64)>,
    ) -> io::Result<Option<StreamEnd>> {
        self.batch.clear();
        self.batch.extend(left_over.take());
        loop {
            let open = self.batch.iter().all(|(request, _)| request.target.kind() == Kind::GetPage);
            let full = !open || self.batch.len() == BATCH_REQUESTS;
            if full || (!self.batch.is_empty() && !reader.ready()?) {
                return Ok(None);
            }
            let Some(message) = reader.message()? else { return Ok(Some(StreamEnd::Closed)) };
            match message.tag {
                b'd' => {}
                b'X' => return Ok(Some(StreamEnd::Closed)),
                b'c' | b'f' => return Ok(Some(StreamEnd::CopyEnded)),
                _ => return Ok(Some(StreamEnd::Malformed)),
            }
            let Ok(request) = parse_request(message.body, self.facts.protocol, self.seq) else {
                return Ok(Some(StreamEnd::Malformed));
            };
            self.seq += 1;
            let parsed = (request, now_ns());
            if !self.batch.is_empty() && request.target.kind() != Kind::GetPage {
                *left_over = Some(parsed);
                return Ok(None);
            }
            self.batch.push(parsed);
        }
    }

    fn answer_batch(&mut self, socket: &mut TcpStream) -> io::Result<()> {
        let batch_len = self.batch.len() as u32;
        for &(request, parsed_ns) in &self.batch {
            let answer = answer(&request, self.error_rate);
            self.bytes.clear();
            let tag = encode_answer(&request, &answer, self.facts.protocol, &mut self.bytes);
            let write_ns = now_ns();
            socket.write_all(&self.bytes)?;
            let Some(truth) = self.truth else { continue };
            let flushed_ns = now_ns();
            let outcome = Outcome::of(&answer, &self.bytes, tag);
            let row = Served { request, parsed_ns, write_ns, flushed_ns, batch_len, outcome };
            locked(truth).served(&self.facts, &row)?;
        }
        Ok(())
    }
}
