//! From a request and its answer to a record.

use record::{Attribution, Endpoint, Pairing as How, Protocol, Record, Status, TenantTimeline, Timestamp};

use super::answer::{Answer, Outcome};
use super::page::PageFacts;
use super::request::Request;
use crate::sink::Sink;
use crate::stats::Stats;

/// What every record of a connection has in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) client: Endpoint,
    pub(crate) server: Endpoint,
    pub(crate) owner: Option<TenantTimeline>,
    pub(crate) attribution: Option<Attribution>,
    /// From the handshake's `application_name`.
    pub(crate) backend_pid: Option<u32>,
    /// Whether the two directions are stamped by clocks that disagree: then no latency is believed.
    pub(crate) clocks_disagree: bool,
}

/// Where records go, and whose they are.
pub(crate) struct Emitter<'a> {
    pub(crate) identity: &'a Identity,
    pub(crate) version: Protocol,
    pub(crate) stats: &'a mut Stats,
    pub(crate) sink: &'a mut dyn Sink,
}

/// A request that waits for its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) request: Request,
    /// When its last byte became deliverable in order.
    pub(crate) arrived: Timestamp,
    /// Whether `arrived` is its first copy's arrival; without it there is no latency.
    pub(crate) arrival_known: bool,
    pub(crate) depth: Option<u32>,
    /// It is void: lost requests from the same time may differ from it in the LSN only, and neither an id nor an ordinal
    /// would tell whoever reads the records which one this is.
    pub(crate) is_void: bool,
    pub(crate) seq: Option<u64>,
    pub(crate) epoch: Option<Timestamp>,
}

impl Emitter<'_> {
    /// A request with the answer that is proven to be its own.
    pub(crate) fn answered(&mut self, asked: &Asked, answer: &Answer, pairing: How) {
        if self.is_void(asked) {
            return;
        }
        let mut record = self.asked(asked, status_of(answer), pairing);
        let arrived = asked.arrival_known.then_some(asked.arrived);
        self.add_answer(&mut record, answer, arrived);
        self.send(&record);
    }

    /// A request whose answer was not seen. How many were in flight with it is not known either: others' answers may have
    /// been missed, too.
    pub(crate) fn unanswered(&mut self, asked: &Asked) {
        if !self.is_void(asked) {
            self.send(&self.asked(&Asked { depth: None, ..*asked }, Status::Unanswered, How::RequestOnly));
        }
    }

    /// A request of which it is not proven which answer was its own.
    pub(crate) fn suspect(&mut self, asked: &Asked) {
        if !self.is_void(asked) {
            self.send(&self.asked(&Asked { depth: None, ..*asked }, Status::Unknown, How::Suspect));
        }
    }

    /// Whether the request gets no record; it counts as lost then.
    fn is_void(&mut self, asked: &Asked) -> bool {
        self.stats.lost_requests = self.stats.lost_requests.saturating_add(u64::from(asked.is_void));
        asked.is_void
    }

    /// A version 3 answer whose request was not seen; `arrived` where it is known all the same.
    pub(crate) fn answer_alone(&mut self, answer: &Answer, seen_at: Timestamp, arrived: Option<Timestamp>) {
        let Some((echo, target)) = answer.head.echo.and_then(|echo| Some((echo, echo.target?))) else {
            // An error names the request's header only: there is no key to record.
            return;
        };
        let request = Request {
            reqid: Some(echo.reqid),
            request_lsn: echo.request_lsn,
            not_modified_since: echo.not_modified_since,
            target,
        };
        let time = arrived.or(answer.first_at).unwrap_or(seen_at);
        let asked =
            Asked { request, arrived: time, arrival_known: false, depth: None, is_void: false, seq: None, epoch: None };
        let mut record = self.asked(&asked, status_of(answer), How::ResponseOnly);
        self.add_answer(&mut record, answer, arrived);
        self.send(&record);
    }

    fn asked(&self, asked: &Asked, status: Status, pairing: How) -> Record {
        let Identity { client, server, owner, attribution, backend_pid, clocks_disagree } = *self.identity;
        let Request { reqid, request_lsn, not_modified_since, target } = asked.request;
        Record {
            time: asked.arrived,
            latency_ns: None,
            transfer_ns: None,
            // Which requests had been answered by then is as uncertain as the latency.
            depth: asked.depth.filter(|_| !clocks_disagree),
            owner,
            attribution,
            target,
            request_lsn,
            not_modified_since,
            status,
            page_lsn: None,
            page_zero: None,
            page_hash: None,
            client,
            server,
            protocol: self.version,
            reqid,
            backend_pid: reqid.and_then(backend_of).or(backend_pid),
            seq: asked.seq,
            epoch: asked.epoch,
            pairing,
        }
    }

    fn add_answer(&mut self, record: &mut Record, answer: &Answer, arrived: Option<Timestamp>) {
        let PageFacts { lsn, zero, hash } = answer.page;
        (record.page_lsn, record.page_zero, record.page_hash) = (lsn, zero, hash);
        record.transfer_ns = answer.last_at.zip(answer.first_at).and_then(|(last, first)| last.since(first));
        let Some((first, arrived)) = answer.first_at.zip(arrived) else { return };
        match first.since(arrived) {
            // Before it was asked for: the directions' stamps contradict each other here.
            None => self.stats.negative_latencies = self.stats.negative_latencies.saturating_add(1),
            Some(_) if self.identity.clocks_disagree => {}
            latency => record.latency_ns = latency,
        }
    }

    fn send(&mut self, record: &Record) {
        self.stats.records = self.stats.records.saturating_add(1);
        self.sink.record(record);
    }
}

fn status_of(answer: &Answer) -> Status {
    match answer.head.outcome {
        Outcome::Error => Status::Error,
        Outcome::Ok(_) | Outcome::Test | Outcome::Unread => Status::Ok,
    }
}

/// The upper half of a compute's request ids is its backend's process id; other clients leave it zero.
fn backend_of(reqid: u64) -> Option<u32> {
    u32::try_from(reqid >> 32).ok().filter(|&pid| pid != 0)
}
