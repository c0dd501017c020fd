//! The pagestream phase of a simulated session, and its end.

use std::rc::Rc;

use super::compute::{Move, Outstanding, Pause};
use super::conversation::{Conversation, Event};
use super::options::{End, Other};
use super::plan::Purpose;
use super::script::Step;
use super::segment::Side;
use super::service::Parsed;
use crate::model;
use crate::truth::{Asked, Outcome, Served};
use crate::wire::libpq;
use crate::wire::pagestream::{encode_answer, encode_request};

/// Requests of one flush are made this far apart.
const MAKE_NS: u64 = 200;

/// From writing an answer to having handed it to TCP.
const FLUSH_NS: u64 = 8_000;

/// From the end of one batch to the next one's beginning.
const NEXT_BATCH_NS: u64 = 3_000;

impl Conversation {
    /// The compute does what is next, unless that is on its way already.
    pub(super) fn step_compute(&mut self) {
        let Some(compute) = &mut self.compute else { return };
        if compute.busy || compute.pause.is_some() || self.ends.client.gone {
            return;
        }
        let options = Rc::clone(&self.options);
        match compute.decide() {
            Move::Wait => {}
            Move::Flush => {
                compute.busy = true;
                let think_ns = 1_000 + self.rng.below(options.session.think);
                self.after(think_ns, Event::Flush);
            }
            Move::Pause(pause) => {
                compute.pause = Some(pause);
                let pause_ns = match pause {
                    Pause::Idle => options.session.idle_time,
                    Pause::Stalled => options.session.stall_time,
                };
                if let (Pause::Idle, Some(period_ns)) = (pause, options.session.keep_alive) {
                    self.after(period_ns, Event::KeepAlive);
                }
                self.after(pause_ns, Event::Resume);
            }
            Move::Done => self.begin_end(),
        }
    }

    /// The compute flushes its next requests.
    pub(super) fn flush(&mut self) {
        let Some(compute) = &mut self.compute else { return };
        compute.busy = false;
        if self.ends.client.gone || self.ends.client.left {
            return;
        }
        let group = compute.next_group();
        compute.asker.begin_group();
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        let written = self.ends.client.sender.written();
        for (place, &kind) in group.iter().enumerate() {
            let request = compute.asker.request(kind);
            encode_request(&request, self.plan.facts.protocol, &mut bytes);
            let request_end = written + bytes.len() as u64;
            let send_ns = self.now - (group.len() - place) as u64 * MAKE_NS;
            let asked = Asked { request, send_ns, flush_ns: self.now, answered: None };
            compute.outstanding.push_back(Outstanding { asked, answer: None });
            self.service.expect(request, request_end);
        }
        self.issued += group.len() as u64;
        self.ends.client.sender.write(&bytes);
        self.scratch = bytes;
        self.pump(Side::Client);
        self.step_compute();
    }

    /// The compute's pause is over.
    pub(super) fn resume(&mut self) {
        if let Some(compute) = &mut self.compute {
            compute.pause = None;
        }
        self.deliver(Side::Client);
        self.step_compute();
        self.pump(Side::Client);
    }

    /// An idle client's kernel asks whether the other end is still there.
    pub(super) fn keep_alive(&mut self) {
        let idle = self.compute.as_ref().is_some_and(|compute| compute.pause == Some(Pause::Idle));
        if let (true, Some(period_ns)) = (idle, self.options.session.keep_alive) {
            self.probe(Side::Client);
            self.after(period_ns, Event::KeepAlive);
        }
    }

    /// The page service begins a batch.
    pub(super) fn batch(&mut self) {
        if self.service.has_work() {
            let latency_ns = self.service.begin_batch();
            self.after(latency_ns, Event::Answer);
        } else {
            self.service.busy = false;
        }
    }

    /// The page service writes the next answer of its batch.
    pub(super) fn answer(&mut self) {
        if let Some((parsed, batch_len)) = self.service.next_answer() {
            let answer = model::answer(&parsed.request, self.service.error_rate);
            let mut bytes = std::mem::take(&mut self.scratch);
            bytes.clear();
            let tag = encode_answer(&parsed.request, &answer, self.plan.facts.protocol, &mut bytes);
            let sender = &mut self.ends.server.sender;
            sender.write(&bytes);
            let answer_end = sender.written();
            let outcome = Outcome::of(&answer, &bytes, tag);
            self.remember(answer_end, outcome);
            let Parsed { request, parsed_ns } = parsed;
            let (write_ns, flushed_ns) = (self.now, self.now + FLUSH_NS);
            self.served.push(Served { request, parsed_ns, write_ns, flushed_ns, batch_len, outcome });
            self.scratch = bytes;
            self.pump(Side::Server);
        }
        if let Some(delay_ns) = self.service.until_next_answer_ns() {
            self.after(delay_ns, Event::Answer);
        } else if self.service.has_work() {
            self.after(NEXT_BATCH_NS, Event::Batch);
        } else {
            self.service.busy = false;
            if self.ends.server.receiver.finished() {
                self.server_sees_fin();
                self.pump(Side::Server);
            }
        }
    }

    fn remember(&mut self, answer_end: u64, outcome: Outcome) {
        let Some(compute) = &mut self.compute else { return };
        if let Some(oldest) = compute.outstanding.iter_mut().find(|row| row.answer.is_none()) {
            oldest.answer = Some((answer_end, outcome));
        }
    }

    /// The script is over: the pagestream begins, or the connection ends.
    pub(super) fn script_is_over(&mut self) {
        let server_leaves =
            matches!(self.plan.purpose, Purpose::Other(Other::TlsRequired | Other::Http | Other::Cancel));
        match &self.compute {
            Some(compute) if compute.is_ending() => self.close_client(),
            Some(_) => self.step_compute(),
            None if server_leaves => {
                self.ends.server.sender.close();
                self.pump(Side::Server);
            }
            None => self.close_client(),
        }
    }

    fn close_client(&mut self) {
        let client = &mut self.ends.client;
        client.sender.close();
        client.left = true;
        self.pump(Side::Client);
    }

    /// All was asked: what this session's end waits for comes first.
    fn begin_end(&mut self) {
        let Some(compute) = &mut self.compute else { return };
        let (rtt_ns, typical_ns) = (self.options.network.rtt, self.options.workload.latency.typical_ns());
        let delay_ns = match self.plan.end {
            End::Terminate | End::Fin | End::CopyDone if !compute.outstanding.is_empty() => return,
            End::Open => return,
            End::Terminate | End::Fin | End::CopyDone => 30_000,
            End::HalfClose | End::CopyFail => 5_000,
            // In the middle of the answers.
            End::Rst => rtt_ns + typical_ns + 30_000,
            End::ServerError => rtt_ns / 2 + typical_ns + 30_000,
        };
        compute.busy = true;
        compute.begin_end();
        let by_server = self.plan.end == End::ServerError;
        self.after(delay_ns, if by_server { Event::ServerEnds } else { Event::ClientEnds });
    }

    /// The client ends the session.
    pub(super) fn client_ends(&mut self) {
        if self.ends.client.gone {
            return;
        }
        match self.plan.end {
            End::Terminate => {
                self.ends.client.sender.write(&libpq::TERMINATE);
                self.pump(Side::Client);
                self.close_client();
            }
            End::Fin => self.close_client(),
            End::Rst => self.reset(Side::Client),
            End::HalfClose => {
                self.ends.client.sender.close();
                self.pump(Side::Client);
            }
            End::CopyFail => {
                let mut bytes = libpq::copy_fail("canceled");
                bytes.extend(libpq::SYNC);
                self.ends.client.sender.write(&bytes);
                self.pump(Side::Client);
                self.close_client();
            }
            End::CopyDone => {
                let mut answer = libpq::error("ERROR", "XX000", "unexpected message: CopyDone");
                answer.extend(libpq::READY);
                self.script.extend([
                    Step { side: Side::Client, bytes: libpq::COPY_DONE.to_vec() },
                    Step { side: Side::Server, bytes: answer },
                    Step { side: Side::Client, bytes: libpq::TERMINATE.to_vec() },
                ]);
                self.say();
            }
            End::ServerError | End::Open => {}
        }
    }

    /// The server shuts down with requests outstanding.
    pub(super) fn server_ends(&mut self) {
        if self.ends.server.gone {
            return;
        }
        self.service.abandon();
        let bytes = libpq::error("FATAL", "57P01", "terminating connection due to administrator command");
        self.ends.server.sender.write(&bytes);
        self.ends.server.sender.close();
        self.pump(Side::Server);
    }

    /// The client's FIN was read: what is outstanding is answered first.
    pub(super) fn server_sees_fin(&mut self) {
        let waits = self.plan.end != End::CopyFail && (self.service.has_work() || self.service.busy);
        if waits || std::mem::replace(&mut self.farewell_said, true) {
            return;
        }
        let pagestream = self.compute.is_some();
        match self.plan.end {
            _ if !pagestream => self.ends.server.sender.close(),
            End::CopyFail => {
                self.service.abandon();
                let mut bytes = libpq::error("ERROR", "XX000", "unexpected message: CopyFail");
                bytes.extend(libpq::READY);
                self.ends.server.sender.write(&bytes);
            }
            End::HalfClose => {
                self.ends.server.sender.write(&libpq::READY);
                self.ends.server.sender.close();
            }
            End::ServerError => {}
            End::Terminate | End::Fin | End::CopyDone | End::Rst | End::Open => {
                self.ends.server.sender.write(&libpq::READY);
            }
        }
    }

    /// The connection is over: what was not answered never is.
    pub(super) fn leave_unanswered(&mut self) {
        let Some(compute) = &mut self.compute else { return };
        self.asked.extend(compute.outstanding.drain(..).map(|row| row.asked));
    }
}
