//! A page trace as it comes: Neon's own route, its 36-byte events, our JSON Lines, or our trace format.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use analysis::export::page_trace;
use analysis::render::{Format, Renderer};
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue};
use http_body::{Body as HttpBody, Frame};
use record::{Record, TenantTimeline};
use serde::Deserialize;
use trace::{Circumstances, Counter, Ledger, TraceStream};

use super::audit::{LOST_REQUESTS, SAMPLED_OUT_REQUESTS};
use super::quota::Stream;
use super::reply::Refusal;
use crate::clock::wall_clock;
use crate::daemon::Subscription;

/// Neon's default (`pageserver/src/http/routes.rs`).
const DEFAULT_BYTES: u64 = 1 << 20;

/// Neon's default.
const DEFAULT_SECONDS: u64 = 5;

/// In what form records go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub(super) enum Form {
    /// Neon's page trace.
    #[default]
    #[serde(rename = "page-trace")]
    PageTrace,
    /// A JSON object a line.
    #[serde(rename = "jsonl")]
    Jsonl,
    /// A trace file.
    #[serde(rename = "pgtrace")]
    Pgtrace,
}

impl Form {
    pub(super) fn media_type(self) -> &'static str {
        match self {
            Self::PageTrace | Self::Pgtrace => "application/octet-stream",
            Self::Jsonl => "application/jsonl",
        }
    }
}

/// The route's parameters, with Neon's names and defaults.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// The most bytes of the answer.
    #[serde(default = "default_bytes")]
    pub(super) size_limit_bytes: u64,
    /// The longest time of it.
    #[serde(default = "default_seconds")]
    pub(super) time_limit_secs: u64,
    /// Its form.
    #[serde(default)]
    pub(super) format: Form,
}

fn default_bytes() -> u64 {
    DEFAULT_BYTES
}

fn default_seconds() -> u64 {
    DEFAULT_SECONDS
}

/// Of a trace file's size so much is kept for its last block, which says what is missing.
const LAST_BLOCK_BYTES: u64 = 1 << 10;

/// How records become bytes.
enum Encoder {
    Neon,
    Lines(Box<Renderer>),
    Trace(Box<TraceStream>),
}

/// The answer's body. It ends with its time or its size, and with how many requests found no room.
pub(super) struct PageTrace {
    subscription: Subscription,
    /// None once its end is on its way.
    encoder: Option<Encoder>,
    /// What is sent before anything comes.
    start: Vec<u8>,
    left_bytes: u64,
    is_trailed: bool,
    _place: Stream,
}

impl PageTrace {
    /// What the subscription gives, in that form and up to so many bytes.
    ///
    /// # Errors
    ///
    /// The system has no memory to give.
    pub(super) fn body(
        subscription: Subscription,
        place: Stream,
        (form, most_bytes): (Form, u64),
        (owner, instance): (TenantTimeline, &str),
    ) -> Result<Body, Refusal> {
        let (encoder, start) = match form {
            Form::PageTrace => (Encoder::Neon, Vec::new()),
            Form::Jsonl => (Encoder::Lines(Box::new(Renderer::new(Format::Jsonl))), Vec::new()),
            Form::Pgtrace => {
                let circumstances = Circumstances {
                    program: concat!("pagesniff ", env!("CARGO_PKG_VERSION")).to_owned(),
                    link: "the daemon's page_trace".to_owned(),
                    clock: "host".to_owned(),
                    max_total_bytes: Some(most_bytes),
                    ..Circumstances::default()
                };
                let begun = TraceStream::begin(owner, instance, circumstances, wall_clock());
                let (stream, start) = begun.map_err(|error| Refusal::failed(error.to_string()))?;
                (Encoder::Trace(Box::new(stream)), start)
            }
        };
        let reserved = if start.is_empty() { 0 } else { LAST_BLOCK_BYTES.saturating_add(start.len() as u64) };
        let left_bytes = most_bytes.saturating_sub(reserved);
        Ok(Body::new(Self {
            subscription,
            encoder: Some(encoder),
            start,
            left_bytes,
            is_trailed: false,
            _place: place,
        }))
    }

    /// Whole records only: the first that does not fit ends the trace.
    fn text_of(&mut self, records: &[Record]) -> Vec<u8> {
        let mut text = Vec::new();
        let piece = if matches!(self.encoder, Some(Encoder::Trace(_))) { records.len() } else { 1 };
        for records in records.chunks(piece.max(1)) {
            let before = text.len();
            match &mut self.encoder {
                Some(Encoder::Trace(stream)) => text.extend(stream.records(records)),
                Some(Encoder::Lines(renderer)) => records.iter().for_each(|one| renderer.record(one, &mut text)),
                // Of other requests than GetPage Neon's trace has none.
                Some(Encoder::Neon) => {
                    records.iter().filter_map(page_trace).for_each(|event| text.extend_from_slice(&event));
                }
                None => {}
            }
            let Some(left) = self.left_bytes.checked_sub(text.len().saturating_sub(before) as u64) else {
                text.truncate(before);
                self.left_bytes = 0;
                break;
            };
            self.left_bytes = left;
        }
        text
    }

    /// The last bytes: what of a trace file says what is missing.
    fn end(&mut self) -> Vec<u8> {
        let Some(Encoder::Trace(stream)) = self.encoder.take() else { return Vec::new() };
        let (too_slow, sampled_out) = (self.subscription.too_slow(), self.subscription.sampled_out());
        let mut ledger = Ledger::default();
        ledger.add(Counter::Seen, too_slow.saturating_add(sampled_out));
        ledger.add(Counter::QueueDropped, too_slow);
        ledger.add(Counter::SampledOut, sampled_out);
        stream.end(&ledger)
    }
}

impl HttpBody for PageTrace {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if !self.start.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.start).into()))));
        }
        while self.encoder.is_some() && self.left_bytes > 0 {
            let Some(records) = ready!(self.subscription.poll_next(cx)) else { break };
            let text = self.text_of(&records);
            if !text.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(text.into()))));
            }
        }
        if self.encoder.is_some() {
            let end = self.end();
            if !end.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(end.into()))));
            }
        }
        if self.is_trailed {
            return Poll::Ready(None);
        }
        self.is_trailed = true;
        let mut trailers = HeaderMap::new();
        trailers.insert(LOST_REQUESTS, HeaderValue::from(self.subscription.too_slow()));
        trailers.insert(SAMPLED_OUT_REQUESTS, HeaderValue::from(self.subscription.sampled_out()));
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }
}
